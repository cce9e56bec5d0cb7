/** The two panes beside the navigation: a list and its detail. On narrow screens one of them, with a way back. */
import type { ComponentChildren, VNode } from "preact";
import { useKey } from "../frame/keyboard.ts";
import { go, toListHref, view } from "../frame/router.ts";

interface PanesProps {
  readonly name: string;
  readonly list: ComponentChildren;
  /** Null: nothing is chosen. */
  readonly detail: ComponentChildren | null;
  /** Wide: a table that takes all the room until something is chosen. */
  readonly wide?: boolean;
  /** Shown in the place of the detail while nothing is chosen. */
  readonly hint?: ComponentChildren;
}

/**
 * Shows a list and beside it a detail. Without a detail, shows `hint` in its place, or only the list if `wide` is set.
 */
export function Panes({ name, list, detail, wide = false, hint }: PanesProps): VNode {
  return (
    <div class={`panes ${wide ? "wide" : ""} ${detail ? "open" : ""} view-${name}`}>
      <section class="pane list-pane" aria-label="List">
        {list}
      </section>
      {detail || !wide ? (
        <section class="pane detail-pane" aria-label="Detail">
          {detail ?? <div class="hint">{hint}</div>}
        </section>
      ) : null}
    </div>
  );
}

/** Shows the title of a list and its actions. */
export function Head({ title, children }: { readonly title: string; readonly children?: ComponentChildren }): VNode {
  return (
    <header class="head">
      <h1>{title}</h1>
      <div class="actions">{children}</div>
    </header>
  );
}

interface DetailHeadProps {
  readonly title: ComponentChildren;
  readonly children?: ComponentChildren;
}

/** Shows the title of a detail and its actions. The arrow leads to the list where only one pane fits; Escape does it everywhere. */
export function DetailHead({ title, children }: DetailHeadProps): VNode {
  const back = toListHref([view.value]);
  useKey("Escape", "Close", () => go(back));
  return (
    <header class="head">
      <a class="back" href={back} aria-label="Back to the list">
        ←
      </a>
      <h2>{title}</h2>
      <div class="actions">{children}</div>
    </header>
  );
}

interface TabsProps {
  readonly items: readonly (readonly [id: string, label: string])[];
  readonly current: string;
  readonly toHref: (id: string) => string;
}

/** Shows links to the tabs, with the current one marked. */
export function Tabs({ items, current, toHref: address }: TabsProps): VNode {
  return (
    <nav class="tabs" aria-label="Parts">
      {items.map(([id, label]) => (
        <a key={id} href={address(id)} aria-current={id === current ? "page" : undefined}>
          {label}
        </a>
      ))}
    </nav>
  );
}
