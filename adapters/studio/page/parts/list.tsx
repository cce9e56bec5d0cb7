/** Shows a list of any length. Only the rows in sight exist. `j` and `k` move, Enter opens. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKey } from "../frame/keyboard.ts";
import { go } from "../frame/router.ts";

interface ListProps<T> {
  readonly label: string;
  readonly items: readonly T[];
  readonly rowHeight: number;
  readonly getKey: (item: T) => string;
  readonly toHref: (item: T) => string;
  /** The key of the row that is open. */
  readonly current?: string | undefined;
  readonly row: (item: T) => ComponentChildren;
  /** Called whenever the last row is in or near the view: at once, and again after each change of the number of items. */
  readonly loadMore?: (() => void) | undefined;
  readonly head?: ComponentChildren;
}

/** The number of rows that are rendered above and below those in sight. */
const OVERSCAN_ROWS = 8;

/**
 * Shows a long list, of which only the rows in and near the view exist. The keys j and k choose a row without opening it, Enter
 * opens it, and a press on a row follows its link. A new `current` is chosen and scrolled into view. Calls `loadMore` whenever
 * the last row is at most 8 rows below the view, for a short list at once. Shows only `head` without items.
 */
export function List<T>(props: ListProps<T>): VNode {
  const { items, rowHeight, getKey, toHref, current, row, loadMore, label, head } = props;
  const box = useRef<HTMLDivElement>(null);
  const [[from, to], setRange] = useState<readonly [number, number]>([0, 40]);
  const [chosenKey, setChosen] = useState(current);
  const chosenIndex = items.findIndex((item) => getKey(item) === chosenKey);
  // What was chosen is gone: the next one is where it was.
  const lastChosenIndex = useRef(-1);
  if (chosenIndex >= 0) lastChosenIndex.current = chosenIndex;

  /** Sets which rows exist from what is in view. */
  const updateVisibleRange = (): void => {
    const { scrollTop = 0, clientHeight = 800 } = box.current ?? {};
    const first = Math.max(0, Math.floor(scrollTop / rowHeight) - OVERSCAN_ROWS);
    const last = Math.ceil((scrollTop + clientHeight) / rowHeight) + OVERSCAN_ROWS;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  useLayoutEffect(updateVisibleRange, [items.length, rowHeight]);
  useEffect(() => {
    const observer = new ResizeObserver(updateVisibleRange);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, [rowHeight]);
  useEffect(() => {
    if (loadMore && to >= items.length) loadMore();
  }, [to, items.length, loadMore]);
  /** Scrolls as little as needed to show a row. Does nothing for -1. */
  const reveal = (index: number): void => {
    const { current: list } = box;
    if (!list || index < 0) return;
    const top = index * rowHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
  };
  useEffect(() => {
    if (current === undefined) return;
    setChosen(current);
    reveal(items.findIndex((item) => getKey(item) === current));
  }, [current]);

  /** Chooses the row that is `step` further, within the list, and shows it. Does not open it. */
  const move = (step: number): void => {
    const from = chosenIndex >= 0 ? chosenIndex : lastChosenIndex.current - (step > 0 ? 1 : 0);
    const next = Math.min(items.length - 1, Math.max(0, from + step));
    const item = items[next];
    if (item === undefined) return;
    setChosen(getKey(item));
    reveal(next);
  };
  useKey("j", "Next", () => move(1));
  useKey("k", "Previous", () => move(-1));
  const chosen = items[chosenIndex];
  useKey("Enter", "Open", () => chosen && go(toHref(chosen)), { when: chosen !== undefined });

  return (
    <div
      class="rows"
      ref={box}
      onScroll={updateVisibleRange}
      tabIndex={items.length > 0 ? 0 : undefined}
      role="group"
      aria-label={label}
    >
      {head}
      <ul style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(from, to).map((item, offset) => {
          const key = getKey(item);
          const index = from + offset;
          return (
            <li key={key} style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}>
              <a
                href={toHref(item)}
                aria-current={key === current ? "true" : undefined}
                class={key === chosenKey ? "at" : ""}
                onClick={() => setChosen(key)}
              >
                {row(item)}
              </a>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
