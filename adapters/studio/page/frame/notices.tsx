/** Short notices at the bottom: what was done, with a way back, and what failed. */
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { textOf } from "../api/failure.ts";

interface Notice {
  readonly id: number;
  readonly text: string;
  readonly kind: "done" | "failed";
  readonly undo?: () => void;
}

const notices = signal<readonly Notice[]>([]);
let last = 0;

function remove(id: number): void {
  notices.value = notices.value.filter((one) => one.id !== id);
}

export function notify(text: string, kind: Notice["kind"] = "done", ms = 4000): void {
  const id = ++last;
  notices.value = [...notices.value.slice(-3), { id, text, kind }];
  setTimeout(() => remove(id), ms);
}

/** What is under way, by what it does. */
const underWay = signal<readonly string[]>([]);

/** Does something, and says so if it fails. */
export async function perform(what: string, action: () => Promise<unknown>): Promise<void> {
  underWay.value = [...underWay.value, what];
  try {
    await action();
  } catch (error) {
    if ((error as Error).name !== "AbortError") notify(`${what}: ${textOf(error)}`, "failed", 8000);
  } finally {
    underWay.value = underWay.value.toSpliced(underWay.value.indexOf(what), 1);
  }
}

/** Does what a button says. A second press while it is under way does nothing. */
export function attempt(what: string, action: () => Promise<unknown>): void {
  if (!underWay.value.includes(what)) void perform(what, action);
}

/** The ids of what is deleted while that can be taken back: no list shows it. */
export const gone = signal<ReadonlySet<string>>(new Set());

/** Deletes something in 5 s, unless the person takes it back. Leaving the page does it at once. */
export function removeWithUndo(text: string, key: string, action: () => Promise<unknown>, undo?: () => void): void {
  const id = ++last;
  gone.value = new Set([...gone.value, key]);
  const show = (): void => {
    gone.value = new Set([...gone.value].filter((one) => one !== key));
  };
  const finish = (): void => {
    clearTimeout(timer);
    removeEventListener("pagehide", finish);
    remove(id);
    void perform("Delete", action).finally(show);
  };
  const timer = setTimeout(finish, 5000);
  addEventListener("pagehide", finish);
  const back = (): void => {
    clearTimeout(timer);
    removeEventListener("pagehide", finish);
    remove(id);
    show();
    undo?.();
  };
  notices.value = [...notices.value.slice(-3), { id, text, kind: "done", undo: back }];
}

export function Notices(): VNode {
  return (
    <div class="notices" role="status" aria-live="polite">
      {underWay.value.length > 0 ? <div class="under-way" /> : null}
      {notices.value.map(({ id, text, kind, undo }) => (
        <div key={id} class={`notice ${kind}`}>
          <span>{text}</span>
          {undo ? (
            <button type="button" onClick={undo}>
              Undo
            </button>
          ) : (
            <button type="button" class="quiet" aria-label="Close" onClick={() => remove(id)}>
              ✕
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
