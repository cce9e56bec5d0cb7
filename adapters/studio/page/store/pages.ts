/** Lists that come page by page: the first page stays fresh, the rest is read when it comes into sight. */
import { useCallback, useRef, useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { formatError } from "../api/failure.ts";
import type { Listing } from "../api/types.ts";
import { notify } from "../frame/notices.tsx";
import { type Resource, useResource } from "./resource.ts";

type LoadPage<T> = (cursor: string | null, signal?: AbortSignal) => Promise<Listing<T>>;

interface ListOptions<T> {
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly getId: (item: T) => string;
  /** The interval at which the first page is read again, in milliseconds; 0 for never. */
  readonly pollIntervalMs?: number;
}

export interface Pages<T> extends Resource<Listing<T>> {
  readonly items: readonly T[];
  /** Reads the next page; undefined at the end of the list. */
  readonly loadMore: (() => void) | undefined;
}

/**
 * Reads up to 21 pages, until one has items or is the last, because a page may be empty although the list continues.
 * Resolves with that page.
 */
async function readNonEmptyPage<T>(load: LoadPage<T>, from: string | null, signal?: AbortSignal): Promise<Listing<T>> {
  let page = await load(from, signal);
  for (let tries = 0; page.items.length === 0 && page.next !== null && tries < 20; tries += 1) {
    page = await load(page.next, signal);
  }
  return page;
}

/**
 * Returns a list below `/greenroom`. The first page is polled; `loadMore` adds the next one and is undefined at the
 * end. Items of later pages that are on the first one are left out. A failed read of a later page shows a notice.
 */
export function usePages<T>({ path, query = {}, getId, pollIntervalMs = 0 }: ListOptions<T>): Pages<T> {
  const key = `${path}/${JSON.stringify(query)}`;
  const load: LoadPage<T> = (cursor, signal) =>
    call("GET", `/greenroom/${path}`, { query: { ...query, limit: 100, cursor }, ...(signal ? { signal } : {}) });
  const first = useResource(key, (signal) => readNonEmptyPage(load, null, signal), pollIntervalMs);
  const [laterPages, setLaterPages] = useState<Listing<T> & { readonly key: string }>({ key, items: [], next: null });
  const isReading = useRef(false);
  const currentPages = laterPages.key === key ? laterPages : { key, items: [] as readonly T[], next: null };
  const cursor = currentPages.items.length > 0 ? currentPages.next : (first.data?.next ?? null);
  const loadMore = useCallback(() => {
    if (isReading.current || cursor === null) return;
    isReading.current = true;
    readNonEmptyPage(load, cursor)
      .then(({ items, next }) => setLaterPages({ key, items: [...currentPages.items, ...items], next }))
      .catch((error: unknown) => notify(`More: ${formatError(error)}`, "failed"))
      .finally(() => {
        isReading.current = false;
      });
  }, [key, cursor]);
  const firstPageIds = new Set(first.data?.items.map(getId));
  const items = [...(first.data?.items ?? []), ...currentPages.items.filter((item) => !firstPageIds.has(getId(item)))];
  return { ...first, items, loadMore: cursor === null ? undefined : loadMore };
}
