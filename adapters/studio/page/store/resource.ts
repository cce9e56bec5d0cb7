/** Caches server state by key, shared by all parts of the page that show it. */
import { type Signal, signal } from "@preact/signals";
import { useCallback, useEffect } from "preact/hooks";
import { onReturn } from "../api/client.ts";
import { credential, declined } from "../api/key.ts";

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly loading: boolean;
}

type Load<T> = (signal: AbortSignal) => Promise<T>;

interface CacheEntry<T> {
  readonly state: Signal<Loaded<T>>;
  load: Load<T>;
  users: number;
  pollIntervalMs: number;
  read_at: number;
  timer: ReturnType<typeof setTimeout> | undefined;
  reading: AbortController | undefined;
}

const EMPTY: Loaded<never> = { data: undefined, error: undefined, loading: true };
/** The number of entries without a user that stay cached, so that going back shows them at once. */
const MAX_UNUSED_ENTRIES = 100;
/** The age up to which cached state is shown without another read, in milliseconds. */
const FRESH_MS = 800;
const entries = new Map<string, CacheEntry<unknown>>();

/** Returns the cached entry of a key, which loads with `load` from now on. Adds an empty one if there is none; reads nothing. */
function getOrCreateEntry<T>(key: string, load: Load<T>): CacheEntry<T> {
  const existing = entries.get(key) as CacheEntry<T> | undefined;
  if (existing) {
    existing.load = load;
    return existing;
  }
  const created: CacheEntry<T> = {
    state: signal<Loaded<T>>(EMPTY),
    load,
    users: 0,
    pollIntervalMs: 0,
    read_at: 0,
    timer: undefined,
    reading: undefined,
  };
  entries.set(key, created as CacheEntry<unknown>);
  return created;
}

/**
 * Loads an entry. Aborts a load that is running, and schedules the next one. A failure is put into the state and keeps
 * the previous data. Never rejects.
 */
async function read<T>(entry: CacheEntry<T>): Promise<void> {
  entry.reading?.abort();
  clearTimeout(entry.timer);
  const reading = new AbortController();
  entry.reading = reading;
  entry.read_at = Date.now();
  if (!entry.state.value.loading) entry.state.value = { ...entry.state.value, loading: true };
  try {
    const data = await entry.load(reading.signal);
    if (entry.reading === reading) entry.state.value = { data, error: undefined, loading: false };
  } catch (error) {
    if (reading.signal.aborted) return;
    if (entry.reading === reading) entry.state.value = { data: entry.state.value.data, error, loading: false };
  } finally {
    if (entry.reading === reading) {
      entry.reading = undefined;
      scheduleNextRead(entry);
    }
  }
}

/** Schedules the next read of an entry that polls. Does nothing if nobody uses it or the page is hidden. */
function scheduleNextRead<T>(entry: CacheEntry<T>): void {
  clearTimeout(entry.timer);
  if (entry.pollIntervalMs === 0 || entry.users === 0 || document.hidden) return;
  entry.timer = setTimeout(() => {
    if (!declined.value) void read(entry);
  }, entry.pollIntervalMs);
}

/** Removes the oldest entries that nobody uses, if there are too many. */
function evictUnusedEntries(): void {
  const unused = [...entries].filter(([, entry]) => entry.users === 0);
  for (const [key] of unused.slice(0, Math.max(0, unused.length - MAX_UNUSED_ENTRIES))) entries.delete(key);
}

/** Reads the shown entries again whose key starts with `prefix`, and removes the others of them. Resolves after the reads. */
export async function refresh(prefix = ""): Promise<void> {
  const reads: Promise<void>[] = [];
  for (const [key, entry] of entries) {
    if (!key.startsWith(prefix)) continue;
    if (entry.users > 0) reads.push(read(entry));
    else entries.delete(key);
  }
  await Promise.all(reads);
}

onReturn(() => void refresh());
credential.subscribe(() => void refresh());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const entry of entries.values()) if (entry.users > 0 && entry.pollIntervalMs > 0) void read(entry);
});

export interface Resource<T> extends Loaded<T> {
  reload(): Promise<void>;
}

const NO_RESOURCE = signal<Loaded<never>>({ data: undefined, error: undefined, loading: false });

/**
 * Returns the result of `load`, cached under `key` and shared by all that use it. Reads it when it is first shown,
 * unless it is fresh, and then every `pollIntervalMs` (0: never). A null key reads nothing and has no data.
 */
export function useResource<T>(key: string | null, load: Load<T>, pollIntervalMs = 0): Resource<T> {
  const entry = key === null ? null : getOrCreateEntry(key, load);
  useEffect(() => {
    if (!entry || key === null) return;
    entry.users += 1;
    entry.pollIntervalMs = pollIntervalMs;
    // Another key with the same entry: it may have been forgotten meanwhile.
    if (!entries.has(key)) entries.set(key, entry as CacheEntry<unknown>);
    if (Date.now() - entry.read_at > FRESH_MS) void read(entry);
    else if (!entry.reading) scheduleNextRead(entry);
    return () => {
      entry.users -= 1;
      if (entry.users > 0) return;
      clearTimeout(entry.timer);
      evictUnusedEntries();
    };
  }, [key, pollIntervalMs]);
  const reload = useCallback(async () => {
    if (entry) await read(entry);
  }, [entry]);
  const state: Signal<Loaded<T>> = entry?.state ?? (NO_RESOURCE as Signal<Loaded<T>>);
  return { ...state.value, reload };
}
