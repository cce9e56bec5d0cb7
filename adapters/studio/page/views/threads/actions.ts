/** Actions on a thread. */
import { call, client } from "../../api/client.ts";
import { attempt, notify, removeWithUndo } from "../../frame/notices.tsx";
import { go, toListHref } from "../../frame/router.ts";
import { refresh } from "../../store/resource.ts";

/**
 * Opens the list of threads, hides this one in it, and deletes it after 5 s, unless that is undone. Undoing shows it in the list
 * again and does not open it.
 */
export function removeThread(thread_id: string): void {
  go(toListHref(["threads"]));
  removeWithUndo("Thread deleted", thread_id, async () => {
    await call("DELETE", `/threads/${encodeURIComponent(thread_id)}`);
    await Promise.all([refresh("threads/"), refresh("inbox")]);
  });
}

/**
 * Stores the title in the metadata of a thread, reads the lists again and calls `onRenamed`, which reads the open thread. A
 * failure shows a notice.
 */
export function renameThread(thread_id: string, title: string, onRenamed: () => Promise<void>): void {
  attempt("Rename", async () => {
    await client.threads.update(thread_id, { metadata: { title } });
    await Promise.all([refresh("threads/"), onRenamed()]);
  });
}

/** Copies the thread with its state and opens the copy. A failure shows a notice. */
export function copyThread(thread_id: string): void {
  attempt("Copy", async () => {
    const copied = (await client.threads.copy(thread_id)) as unknown as { readonly thread_id: string };
    notify("Thread copied");
    void refresh("threads/");
    go(toListHref(["threads", copied.thread_id]));
  });
}
