/** Keyboard shortcuts. The newest binding of a key wins, so that a dialog takes `Escape` before the view below it. */
import { signal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Binding {
  /** The key or sequence, such as `j`, `g t`, `mod+Enter` or `Escape`. */
  readonly keys: string;
  readonly label: string;
  /** True for a key that also works while a field has the focus. */
  readonly inFields: boolean;
  run(event: KeyboardEvent): void;
}

export const bindings = signal<readonly Binding[]>([]);

const isField = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

let firstKey = "";
let firstKeyAt = 0;
/** The second key of a sequence comes within this time. */
const SEQUENCE_MS = 1200;

function toKeyName(event: KeyboardEvent): string {
  return event.metaKey || event.ctrlKey ? `mod+${event.key}` : event.key;
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  const name = toKeyName(event);
  const typing = isField(event.target);
  const form = name === "mod+Enter" ? (event.target as Element).closest?.("form") : null;
  if (form) return form.requestSubmit();
  // The focus may be on the page below a dialog.
  if (document.querySelector("dialog[open]")) return;
  const sequence = firstKey && Date.now() - firstKeyAt < SEQUENCE_MS ? `${firstKey} ${name}` : "";
  const match =
    (!typing && sequence && bindings.value.findLast(({ keys }) => keys === sequence)) ||
    bindings.value.findLast(({ keys, inFields }) => keys === name && (inFields || !typing));
  firstKey = typing ? "" : name;
  firstKeyAt = Date.now();
  // Enter on a link or button is a click.
  if (!match || (name === "Enter" && (event.target as Element).closest?.("a, button, summary, input"))) return;
  firstKey = "";
  event.preventDefault();
  match.run(event);
});

/**
 * Binds a key while the component is shown and `when` is not false; in text fields only with `inFields`. The label is
 * shown in the help. The `run` of the newest rendering is called.
 */
export function useKey(
  keys: string,
  label: string,
  run: (event: KeyboardEvent) => void,
  { inFields = false, when = true }: { readonly inFields?: boolean; readonly when?: boolean } = {},
): void {
  const latest = useRef(run);
  latest.current = run;
  // Before the next picture: what a person sees listens.
  useLayoutEffect(() => {
    if (!when) return;
    const binding: Binding = { keys, label, inFields, run: (event) => latest.current(event) };
    bindings.value = [...bindings.value, binding];
    return () => {
      bindings.value = bindings.value.filter((active) => active !== binding);
    };
  }, [keys, label, inFields, when]);
}

/** While `isOpen`, calls `close` on Escape and after a click anywhere, also inside of what is open. */
export function useDismiss(isOpen: boolean, close: () => void): void {
  useKey("Escape", "Close", close, { when: isOpen, inFields: true });
  useLayoutEffect(() => {
    if (!isOpen) return;
    // After what was clicked: a button that opens and closes would open again.
    const later = (): unknown => setTimeout(close);
    addEventListener("click", later, true);
    return () => removeEventListener("click", later, true);
  }, [isOpen]);
}
