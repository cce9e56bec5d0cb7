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

/** Runs what a button starts, and says so if it fails. */
export function attempt(what: string, action: () => Promise<unknown>): void {
  action().catch((error: unknown) => {
    if ((error as Error).name !== "AbortError") notify(`${what}: ${textOf(error)}`, "failed", 8000);
  });
}

/** Does something in 5 s, unless the person takes it back. Leaving the page does it at once. */
export function withUndo(text: string, action: () => Promise<unknown>, undo: () => void): void {
  const id = ++last;
  const finish = (): void => {
    clearTimeout(timer);
    removeEventListener("pagehide", finish);
    remove(id);
    attempt(text, action);
  };
  const timer = setTimeout(finish, 5000);
  addEventListener("pagehide", finish);
  const back = (): void => {
    clearTimeout(timer);
    removeEventListener("pagehide", finish);
    remove(id);
    undo();
  };
  notices.value = [...notices.value.slice(-3), { id, text, kind: "done", undo: back }];
}

export function Notices(): VNode {
  return (
    <div class="notices" role="status" aria-live="polite">
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
