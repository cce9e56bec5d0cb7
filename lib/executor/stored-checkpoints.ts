/** Reads the stored checkpoints of a thread. */
import type { JsonObject } from "../json.ts";
import type { Scope, Storage } from "../storage/mod.ts";
import type { CheckpointReader, StoredCheckpoint } from "./contract.ts";

/** The rows of the first page, while the size of checkpoints is unknown, and the size of later pages. */
const FIRST_PAGE_ROWS = 2;
const MAX_PAGE_CHARS = 4 * 1024 * 1024;

interface StoredThread {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly thread_id: string;
  /** Calls the storage. */
  retry<Result>(call: () => Promise<Result>): Promise<Result>;
}

/** Yields stored checkpoints, newest first. Reads them in pages, which are smaller the larger the states are. */
export async function* listStoredCheckpoints(
  { storage, scope, thread_id, retry }: StoredThread,
  at: { ns?: string; before?: string; limit?: number; metadata?: JsonObject },
): AsyncGenerator<StoredCheckpoint> {
  let remaining = at.limit ?? Number.POSITIVE_INFINITY;
  let before = at.before;
  let pageRows = FIRST_PAGE_ROWS;
  while (remaining > 0) {
    const limit = Math.min(remaining, pageRows);
    const query = { ...at, before, limit };
    const page = [...(await retry(() => storage.listCheckpoints(scope, thread_id, query)))].reverse();
    const { length, 0: last } = page;
    // Large states need small pages, because a page stays in memory. A value with a base shares the text of that base.
    const baseValues = page.flatMap(({ values }) => values).filter(({ base }) => base === undefined);
    const size = baseValues.reduce((sum, { data }) => sum + data.length, 1);
    for (let next = page.pop(); next; next = page.pop()) yield next;
    if (!last || length < limit) return;
    remaining -= length;
    before = last.checkpoint_id;
    pageRows = Math.max(1, Math.min(100, Math.floor((MAX_PAGE_CHARS * length) / size)));
  }
}

const createCacheKey = (ns: string, checkpoint_id: string): string => `${ns}\u0000${checkpoint_id}`;

/**
 * Creates a reader of stored checkpoints for one request. `get` caches what it reads and returns null if there is none; `list`
 * caches only the element that it has yielded last. The root namespace without an id is `head`.
 */
export function createStoredCheckpointReader(
  storage: Storage,
  scope: Scope,
  thread_id: string,
  head: string | null,
): CheckpointReader {
  const cached = new Map<string, StoredCheckpoint>();
  return {
    async get({ ns, checkpoint_id }) {
      const id = checkpoint_id ?? (ns === "" ? head : undefined);
      if (id === null) return null;
      const match = id === undefined ? undefined : cached.get(createCacheKey(ns, id));
      if (match) return match;
      const stored = await storage.getCheckpoint(
        scope,
        thread_id,
        id === undefined ? { ns } : { ns, checkpoint_id: id },
      );
      if (stored) cached.set(createCacheKey(stored.ns, stored.checkpoint_id), stored);
      return stored;
    },
    async *list(at) {
      for await (const stored of listStoredCheckpoints({ storage, scope, thread_id, retry: (call) => call() }, at)) {
        const key = createCacheKey(stored.ns, stored.checkpoint_id);
        cached.set(key, stored);
        yield stored;
        // Each checkpoint has a text of the whole conversation.
        cached.delete(key);
      }
    },
  };
}
