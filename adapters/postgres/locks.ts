/** The start of a write transaction: locks that order the batches of all processes. */

import type { BoundStatement } from "./values.ts";

/** The time that a transaction may wait for its own process before the server ends it and releases its locks. */
const IDLE_TIMEOUT_MS = 5_000;
/** Each lock takes shared memory of the server, so a batch with more names locks the whole database. */
export const MAX_LOCK_NAMES = 64;

const MASK = (1n << 64n) - 1n;
const encoder = new TextEncoder();

/** Returns the 64-bit FNV-1a hash of the UTF-8 bytes, as a signed integer. */
export function toLockKey(name: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of encoder.encode(name)) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & MASK;
  return BigInt.asIntN(64, hash);
}

const DATABASE_LOCK_KEY = `'${toLockKey("greenroom")}'::bigint`;

/**
 * Marks a transaction, so that a process that got no answer to COMMIT can find out whether it committed. One transaction at a
 * time uses a slot.
 */
export interface CommitMarker {
  /** Letters, digits and dots. */
  readonly slot: string;
  /** Above all earlier ones of the slot by two. */
  readonly token: number;
}

/**
 * The text that begins a transaction. Later statements see the commits of earlier holders of the locks, because in READ COMMITTED
 * each statement takes a new snapshot.
 */
export function createBeginSql(lock_keys: readonly string[] | undefined): string {
  return `${BEGIN}; ${createLockSql(lock_keys)}`;
}

/**
 * Returns the statements that begin a transaction and take its locks, in a form that can be prepared. Without keys, the whole
 * database is locked.
 */
export function createBeginStatements(lock_keys: readonly string[] | undefined): BoundStatement[] {
  const keys = toSortedKeys(lock_keys);
  const lock = keys === null ? createLockSql(lock_keys) : createLockNamesSql("$1");
  return [
    { text: BEGIN, values: [] },
    { text: lock, values: keys === null ? [] : [`{${keys.join(",")}}`] },
  ];
}

const BEGIN = "begin isolation level read committed";
const SET_IDLE_TIMEOUT = `set_config('idle_in_transaction_session_timeout', '${IDLE_TIMEOUT_MS}', true)`;

/** One statement for all locks: its names are locked in their order. */
const createLockNamesSql = (names: string): string =>
  `select ${SET_IDLE_TIMEOUT}, pg_advisory_xact_lock_shared(${DATABASE_LOCK_KEY}), count(pg_advisory_xact_lock(name)) from unnest(${names}::bigint[]) as name`;

/**
 * Returns the statement that takes the locks of these keys until the end of the transaction, or, without keys, that of the whole
 * database.
 */
function createLockSql(lock_keys: readonly string[] | undefined): string {
  const keys = toSortedKeys(lock_keys);
  return keys === null
    ? `select ${SET_IDLE_TIMEOUT}, pg_advisory_xact_lock(${DATABASE_LOCK_KEY})`
    : createLockNamesSql(`'{${keys.join(",")}}'`);
}

/**
 * Returns the lock keys of the names without duplicates, always in the same order, so that two batches cannot deadlock.
 * Null without names and for more than `MAX_LOCK_NAMES`: then the whole database is locked.
 */
function toSortedKeys(lock_keys: readonly string[] | undefined): bigint[] | null {
  const keys = [...new Set(lock_keys?.map((name) => toLockKey(`greenroom:${name}`)))];
  if (lock_keys === undefined || keys.length > MAX_LOCK_NAMES) return null;
  return keys.sort((a, b) => (a < b ? -1 : 1));
}

/**
 * Writes the mark if the transaction wrote anything. Fails if `outcomeStatement` was faster. A transaction id would not do: after
 * a crash the server reuses the ids of lost transactions.
 */
export function createMarkerStatement({ slot, token }: CommitMarker): BoundStatement {
  return { text: createMarkerSql("$1::text", "$2::bigint"), values: [slot, String(token)] };
}

/** The text that writes the mark and ends the transaction. */
export function createCommitSql({ slot, token }: CommitMarker): string {
  return `${createMarkerSql(`'${slot}'`, String(token))}; commit`;
}

/**
 * Returns the statement that writes the mark of a transaction, if it has written anything. It fails, by a division by zero, if
 * the slot has a later mark: then the transaction must not commit.
 */
function createMarkerSql(slot: string, token: string): string {
  return `insert into greenroom_commits (slot, token, at) select ${slot}, ${token}, now()
    where pg_current_xact_id_if_assigned() is not null
    on conflict (slot) do update set at = excluded.at,
      token = excluded.token / case when greenroom_commits.token < excluded.token then 1 else 0 end`;
}

/**
 * Returns a statement that waits for a transaction that has written its mark. It returns the token of the transaction if it
 * committed, and another one if it did not and cannot any more: it writes that one in its place.
 */
export function createCommitResultSql({ slot, token }: CommitMarker): string {
  return `insert into greenroom_commits (slot, token, at) values ('${slot}', ${token + 1}, now())
    on conflict (slot) do update set
      token = case when greenroom_commits.token = ${token} then ${token} else ${token + 1} end
    returning token`;
}

/** Creates the table of marks, and deletes old marks. */
export const CREATE_COMMIT_TABLE: string = `begin isolation level read committed; select pg_advisory_xact_lock('${toLockKey("marks")}'::bigint);
  create table if not exists greenroom_commits
    (slot text not null primary key, token bigint not null, at timestamptz not null) with (fillfactor = 50);
  delete from greenroom_commits where at < now() - interval '1 day'; commit`;
