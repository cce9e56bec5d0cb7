/** Short notices at the bottom: what was done, with a way back, and what failed. */
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { formatError } from "../api/failure.ts";

interface Notice {
  readonly id: number;
  readonly text: string;
  readonly kind: "done" | "failed";
  readonly undo?: () => void;
}

const notices = signal<readonly Notice[]>([]);
let lastNoticeId = 0;

function removeNotice(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}

const MAX_NOTICES = 4;

/** Adds a notice. If there are too many, removes the oldest one that undoes nothing, because an undo has no other place. */
function addNotice(notice: Notice): void {
  const earlier = notices.value;
  const removed = earlier.length < MAX_NOTICES ? undefined : earlier.find(({ undo }) => !undo);
  notices.value = [...earlier.filter((kept) => kept !== removed), notice];
}

/** Shows a notice and removes it after `ms`, or earlier if there are too many. */
export function notify(text: string, kind: Notice["kind"] = "done", ms = 4000): void {
  const id = ++lastNoticeId;
  addNotice({ id, text, kind });
  setTimeout(() => removeNotice(id), ms);
}

/** The labels of the actions that are running. */
const runningActions = signal<readonly string[]>([]);

/**
 * Runs an action, which counts as running until it ends. Never rejects: a failure shows a notice with the label for 8
 * s, unless the action was aborted.
 */
export async function perform(label: string, action: () => Promise<unknown>): Promise<void> {
  runningActions.value = [...runningActions.value, label];
  try {
    await action();
  } catch (error) {
    if ((error as Error).name !== "AbortError") notify(`${label}: ${formatError(error)}`, "failed", 8000);
  } finally {
    runningActions.value = runningActions.value.toSpliced(runningActions.value.indexOf(label), 1);
  }
}

/** Runs the action of a button. Does nothing while an action with the same label is running. */
export function attempt(label: string, action: () => Promise<unknown>): void {
  if (!runningActions.value.includes(label)) void perform(label, action);
}

/** The ids of deleted rows, which lists hide while the deletion can be undone. */
export const deletedIds = signal<ReadonlySet<string>>(new Set());

/**
 * Hides the thing with this key and shows a notice with an undo button. Calls `action` after 5 s, or when the page closes; then the key is shown again. Undoing shows it again at once
 * and calls `undo` instead.
 */
export function removeWithUndo(text: string, key: string, action: () => Promise<unknown>, undo?: () => void): void {
  const id = ++lastNoticeId;
  deletedIds.value = new Set([...deletedIds.value, key]);
  const show = (): void => {
    deletedIds.value = new Set([...deletedIds.value].filter((id) => id !== key));
  };
  /**
   * Deletes for good, at once, also when the page closes. Shows the thing again afterwards, which matters only if that failed.
   */
  const finish = (): void => {
    clearTimeout(timer);
    removeEventListener("pagehide", finish);
    removeNotice(id);
    void perform("Delete", action).finally(show);
  };
  const timer = setTimeout(finish, 5000);
  addEventListener("pagehide", finish);
  /** Keeps the thing: cancels the deletion and shows it again. */
  const undoDeletion = (): void => {
    clearTimeout(timer);
    removeEventListener("pagehide", finish);
    removeNotice(id);
    show();
    undo?.();
  };
  addNotice({ id, text, kind: "done", undo: undoDeletion });
}

/**
 * Shows a progress indicator while actions run, and the notices, oldest first. A notice of a deletion has a button that
 * undoes it; every other notice has a button that closes it instead.
 */
export function Notices(): VNode {
  return (
    <div class="notices" role="status" aria-live="polite">
      {runningActions.value.length > 0 ? <div class="under-way" /> : null}
      {notices.value.map(({ id, text, kind, undo }) => (
        <div key={id} class={`notice ${kind}`}>
          <span>{text}</span>
          {undo ? (
            <button type="button" onClick={undo}>
              Undo
            </button>
          ) : (
            <button type="button" class="quiet" aria-label="Close" onClick={() => removeNotice(id)}>
              ✕
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
