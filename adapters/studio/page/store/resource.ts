/** The store of server state: what was read, by key, shared by all parts of the page that show it. */
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

interface Entry<T> {
  readonly state: Signal<Loaded<T>>;
  load: Load<T>;
  users: number;
  every: number;
  read_at: number;
  timer: ReturnType<typeof setTimeout> | undefined;
  reading: AbortController | undefined;
}

const EMPTY: Loaded<never> = { data: undefined, error: undefined, loading: true };
/** Entries without a user that stay, so that going back shows at once what was there. */
const MOST_UNUSED = 100;
/** A second part of the page that shows the same reads nothing again within this time. */
const FRESH_MS = 800;
const entries = new Map<string, Entry<unknown>>();

function entryOf<T>(key: string, load: Load<T>): Entry<T> {
  const known = entries.get(key) as Entry<T> | undefined;
  if (known) {
    known.load = load;
    return known;
  }
  const created: Entry<T> = {
    state: signal<Loaded<T>>(EMPTY),
    load,
    users: 0,
    every: 0,
    read_at: 0,
    timer: undefined,
    reading: undefined,
  };
  entries.set(key, created as Entry<unknown>);
  return created;
}

async function read<T>(entry: Entry<T>): Promise<void> {
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
      schedule(entry);
    }
  }
}

function schedule<T>(entry: Entry<T>): void {
  clearTimeout(entry.timer);
  if (entry.every === 0 || entry.users === 0 || document.hidden) return;
  entry.timer = setTimeout(() => {
    if (!declined.value) void read(entry);
  }, entry.every);
}

function forgetSome(): void {
  const unused = [...entries].filter(([, entry]) => entry.users === 0);
  for (const [key] of unused.slice(0, Math.max(0, unused.length - MOST_UNUSED))) entries.delete(key);
}

/** Reads again what is shown and starts with `prefix`; forgets the rest of it. Resolves when it was read. */
export async function refresh(prefix = ""): Promise<void> {
  const reading: Promise<void>[] = [];
  for (const [key, entry] of entries) {
    if (!key.startsWith(prefix)) continue;
    if (entry.users > 0) reading.push(read(entry));
    else entries.delete(key);
  }
  await Promise.all(reading);
}

onReturn(() => void refresh());
credential.subscribe(() => void refresh());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const entry of entries.values()) if (entry.users > 0 && entry.every > 0) void read(entry);
});

export interface Resource<T> extends Loaded<T> {
  reload(): Promise<void>;
}

const NOTHING = signal<Loaded<never>>({ data: undefined, error: undefined, loading: false });

/** What `load` gives, kept under `key`; read again every `every` milliseconds while it is shown. A null key reads nothing. */
export function useResource<T>(key: string | null, load: Load<T>, every = 0): Resource<T> {
  const entry = key === null ? null : entryOf(key, load);
  useEffect(() => {
    if (!entry || key === null) return;
    entry.users += 1;
    entry.every = every;
    // Another key with the same entry: it may have been forgotten meanwhile.
    if (!entries.has(key)) entries.set(key, entry as Entry<unknown>);
    if (Date.now() - entry.read_at > FRESH_MS) void read(entry);
    else if (!entry.reading) schedule(entry);
    return () => {
      entry.users -= 1;
      if (entry.users > 0) return;
      clearTimeout(entry.timer);
      forgetSome();
    };
  }, [key, every]);
  const reload = useCallback(async () => {
    if (entry) await read(entry);
  }, [entry]);
  const state: Signal<Loaded<T>> = entry?.state ?? (NOTHING as Signal<Loaded<T>>);
  return { ...state.value, reload };
}
