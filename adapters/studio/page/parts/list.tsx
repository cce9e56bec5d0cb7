/** A list of any length: only the rows in sight exist. `j` and `k` move, Enter opens. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKey } from "../frame/keyboard.ts";
import { go } from "../frame/router.ts";

interface ListProps<T> {
  readonly label: string;
  readonly items: readonly T[];
  readonly rowHeight: number;
  readonly keyOf: (item: T) => string;
  readonly hrefOf: (item: T) => string;
  /** The key of the row that is open. */
  readonly current?: string | undefined;
  readonly row: (item: T) => ComponentChildren;
  /** Called when the end comes into sight. */
  readonly more?: (() => void) | undefined;
  readonly head?: ComponentChildren;
}

/** Rows above and below what is in sight. */
const SPARE = 8;

export function List<T>(props: ListProps<T>): VNode {
  const { items, rowHeight, keyOf, hrefOf, current, row, more, label, head } = props;
  const box = useRef<HTMLDivElement>(null);
  const [[from, to], setRange] = useState<readonly [number, number]>([0, 40]);
  const [chosenKey, setChosen] = useState(current);
  const found = items.findIndex((item) => keyOf(item) === chosenKey);
  // What was chosen is gone: the next one is where it was.
  const last = useRef(-1);
  if (found >= 0) last.current = found;

  const measure = (): void => {
    const { scrollTop = 0, clientHeight = 800 } = box.current ?? {};
    const first = Math.max(0, Math.floor(scrollTop / rowHeight) - SPARE);
    const last = Math.ceil((scrollTop + clientHeight) / rowHeight) + SPARE;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  useLayoutEffect(measure, [items.length, rowHeight]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, [rowHeight]);
  useEffect(() => {
    if (more && to >= items.length) more();
  }, [to, items.length, more]);
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
    reveal(items.findIndex((item) => keyOf(item) === current));
  }, [current]);

  const move = (by: number): void => {
    const from = found >= 0 ? found : last.current - (by > 0 ? 1 : 0);
    const next = Math.min(items.length - 1, Math.max(0, from + by));
    const item = items[next];
    if (item === undefined) return;
    setChosen(keyOf(item));
    reveal(next);
  };
  useKey("j", "Next", () => move(1));
  useKey("k", "Previous", () => move(-1));
  const chosen = items[found];
  useKey("Enter", "Open", () => chosen && go(hrefOf(chosen)), { when: chosen !== undefined });

  return (
    <div
      class="rows"
      ref={box}
      onScroll={measure}
      tabIndex={items.length > 0 ? 0 : undefined}
      role="group"
      aria-label={label}
    >
      {head}
      <ul style={{ height: `${items.length * rowHeight}px` }}>
        {items.slice(from, to).map((item, offset) => {
          const key = keyOf(item);
          const index = from + offset;
          return (
            <li key={key} style={{ top: `${index * rowHeight}px`, height: `${rowHeight}px` }}>
              <a
                href={hrefOf(item)}
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
