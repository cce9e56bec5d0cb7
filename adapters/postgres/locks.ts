/** The start of a write transaction: locks that order the batches of all processes. */

import type { Bound } from "./values.ts";

/** How long a transaction may wait for its own process before the server ends it, and with it its locks. */
const IDLE_MS = 5_000;
/** Each lock takes shared memory of the server, so a batch with more names locks the whole database. */
const MAX_NAMES = 64;

const MASK = (1n << 64n) - 1n;
const encoder = new TextEncoder();

/** 64-bit FNV-1a of the UTF-8 bytes, as a signed integer. */
export function lockKey(name: string): bigint {
  let hash = 0xcbf29ce484222325n;
  for (const byte of encoder.encode(name)) hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & MASK;
  return BigInt.asIntN(64, hash);
}

const WHOLE = `'${lockKey("greenroom")}'::bigint`;

/**
 * Marks a transaction, so that a process that got no answer to COMMIT can find out whether it committed. One transaction at a
 * time uses a slot.
 */
export interface Mark {
  /** Letters, digits and dots. */
  readonly slot: string;
  readonly token: number;
}

/**
 * The text that begins a transaction. Later statements see the commits of earlier holders of the locks, because in READ COMMITTED
 * each statement takes a new snapshot.
 */
export function beginText(lock_keys: readonly string[] | undefined, { slot }: Mark): string {
  return [
    "begin isolation level read committed",
    `set local idle_in_transaction_session_timeout = ${IDLE_MS}`,
    ...locks(lock_keys),
    slotLock(slot),
  ].join("; ");
}

/**
 * Writes the mark if the transaction wrote anything. A transaction id would not do: after a crash the server reuses the ids of
 * lost transactions.
 */
export function markStatement({ slot, token }: Mark): Bound {
  return { text: markText("$1::text", "$2::bigint"), values: [slot, String(token)] };
}

/** The text that writes the mark and ends the transaction. */
export function commitText({ slot, token }: Mark): string {
  return `${markText(`'${slot}'`, String(token))}; commit`;
}

function markText(slot: string, token: string): string {
  return `insert into greenroom_commits (slot, token, at) select ${slot}, ${token}, now()
    where pg_current_xact_id_if_assigned() is not null
    on conflict (slot) do update set token = excluded.token, at = excluded.at`;
}

/** Begins a transaction that waits for the end of the slot's last transaction. Then `tokenText` shows whether that was `token`. */
export function outcomeText({ slot }: Mark): string {
  return `begin isolation level read committed; set local idle_in_transaction_session_timeout = ${IDLE_MS}; ${slotLock(slot)}`;
}

export function tokenText({ slot }: Mark): string {
  return `select token from greenroom_commits where slot = '${slot}'`;
}

/** Creates the table of marks, and deletes old marks. */
export const marksText: string = `begin isolation level read committed; ${nameLock("marks")};
  create table if not exists greenroom_commits
    (slot text not null primary key, token bigint not null, at timestamptz not null) with (fillfactor = 50);
  delete from greenroom_commits where at < now() - interval '1 day'; commit`;

function nameLock(name: string): string {
  return `select pg_advisory_xact_lock('${lockKey(name)}'::bigint)`;
}

const slotLock = (slot: string): string => nameLock(`slot:${slot}`);

/** Always in the same order, so that two batches cannot deadlock. */
function locks(lock_keys: readonly string[] | undefined): string[] {
  const keys = [...new Set(lock_keys?.map((name) => lockKey(`greenroom:${name}`)))];
  if (lock_keys === undefined || keys.length > MAX_NAMES) return [`select pg_advisory_xact_lock(${WHOLE})`];
  keys.sort((a, b) => (a < b ? -1 : 1));
  const named = `select pg_advisory_xact_lock(name) from unnest('{${keys.join(",")}}'::bigint[]) as name`;
  return [`select pg_advisory_xact_lock_shared(${WHOLE})`, ...(keys.length > 0 ? [named] : [])];
}
