/** What can be done with a thread, wherever it is shown. */
import { signal } from "@preact/signals";
import { call, client } from "../../api/client.ts";
import type { Listing, ThreadSummary } from "../../api/types.ts";
import { attempt, notify, withUndo } from "../../frame/notices.tsx";
import { go, listHref } from "../../frame/router.ts";
import { put, refresh } from "../../store/resource.ts";

/** Deleted threads that can still come back: hidden until their time is over. */
export const hidden = signal<ReadonlySet<string>>(new Set());

export function remove(thread_id: string): void {
  hidden.value = new Set([...hidden.value, thread_id]);
  go(listHref(["threads"]));
  const show = (): void => {
    hidden.value = new Set([...hidden.value].filter((id) => id !== thread_id));
  };
  withUndo(
    "Thread deleted",
    async () => {
      try {
        await call("DELETE", `/threads/${encodeURIComponent(thread_id)}`);
      } catch (error) {
        show();
        throw error;
      }
      refresh("threads/");
      refresh("inbox");
    },
    show,
  );
}

export function rename(thread_id: string, title: string): void {
  attempt("Rename", async () => {
    await client.threads.update(thread_id, { metadata: { title } });
    put<Listing<ThreadSummary>>("threads/", (page) => page);
    refresh("threads/");
  });
}

export function duplicate(thread_id: string): void {
  attempt("Copy", async () => {
    const copied = (await client.threads.copy(thread_id)) as unknown as { readonly thread_id: string };
    notify("Thread copied");
    refresh("threads/");
    go(listHref(["threads", copied.thread_id]));
  });
}
