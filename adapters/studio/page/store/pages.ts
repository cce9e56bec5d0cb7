/** Lists that come page by page: the first page stays fresh, the rest is read when it comes into sight. */
import { useCallback, useRef, useState } from "preact/hooks";
import { call } from "../api/client.ts";
import { textOf } from "../api/failure.ts";
import type { Listing } from "../api/types.ts";
import { notify } from "../frame/notices.tsx";
import { type Resource, useResource } from "./resource.ts";

type LoadPage<T> = (cursor: string | null, signal?: AbortSignal) => Promise<Listing<T>>;

interface ListOptions<T> {
  readonly path: string;
  readonly query?: Readonly<Record<string, string | undefined>>;
  readonly idOf: (item: T) => string;
  /** How often the first page is read again, in milliseconds. */
  readonly every?: number;
}

export interface Pages<T> extends Resource<Listing<T>> {
  readonly items: readonly T[];
  /** Undefined at the end of the list. */
  readonly more: (() => void) | undefined;
}

/** Pages may be empty although the list goes on. */
async function readOn<T>(load: LoadPage<T>, from: string | null, signal?: AbortSignal): Promise<Listing<T>> {
  let page = await load(from, signal);
  for (let tries = 0; page.items.length === 0 && page.next !== null && tries < 20; tries += 1) {
    page = await load(page.next, signal);
  }
  return page;
}

/** A list below `/greenroom`; its key in the store begins with its path. */
export function usePages<T>({ path, query = {}, idOf, every = 0 }: ListOptions<T>): Pages<T> {
  const key = `${path}/${JSON.stringify(query)}`;
  const load: LoadPage<T> = (cursor, signal) =>
    call("GET", `/greenroom/${path}`, { query: { ...query, limit: 100, cursor }, ...(signal ? { signal } : {}) });
  const first = useResource(key, (signal) => readOn(load, null, signal), every);
  const [rest, setRest] = useState<Listing<T> & { readonly key: string }>({ key, items: [], next: null });
  const isReading = useRef(false);
  const known = rest.key === key ? rest : { key, items: [] as readonly T[], next: null };
  const cursor = known.items.length > 0 ? known.next : (first.data?.next ?? null);
  const more = useCallback(() => {
    if (isReading.current || cursor === null) return;
    isReading.current = true;
    readOn(load, cursor)
      .then(({ items, next }) => setRest({ key, items: [...known.items, ...items], next }))
      .catch((error: unknown) => notify(`More: ${textOf(error)}`, "failed"))
      .finally(() => {
        isReading.current = false;
      });
  }, [key, cursor]);
  const seen = new Set(first.data?.items.map(idOf));
  const items = [...(first.data?.items ?? []), ...known.items.filter((item) => !seen.has(idOf(item)))];
  return { ...first, items, more: cursor === null ? undefined : more };
}
