import { pieceEnd } from "../../../lib/json.ts";
import type { NewFrame, Progress, Scope, StoredFrame } from "../../../lib/storage/mod.ts";
import { type LeaseFence, whileLeased } from "../checkpoints.ts";
import { scalar } from "../dialect.ts";
import { andOfPermitted, scoped } from "../filter.ts";
import type { Tables } from "../schema/tables.ts";
import { type Database, prepared, type Statement } from "../statement.ts";
import { sql } from "../template.ts";
import { chunksOf, pageAfter } from "./chunks.ts";

type Chunk = { first_id: number; last_id: number; size: number; frames: string };

// A repeated save may have more frames than the save before, whose outcome is unknown.
const putChunk = prepared<LeaseFence & Chunk>(
  (p) =>
    sql`insert into run_frames (run_id, first_id, last_id, size, frames)
    select ${p.run_id}, ${p.first_id}, ${p.last_id}, ${p.size}, ${p.frames} where ${whileLeased(p)}
    on conflict (run_id, first_id) do update set last_id = excluded.last_id, size = excluded.size, frames = excluded.frames
      where excluded.last_id > run_frames.last_id`,
);

/** Statements that store frames while the run is still the lease's. */
export function putFrames(fence: LeaseFence, frames: Progress["frames"]): Statement[] {
  return chunksOf(frames?.list ?? []).map(({ part, from, size }) => {
    const first_id = (frames?.first_id ?? 0) + from;
    return putChunk({ ...fence, first_id, last_id: first_id + part.length - 1, size, frames: packed(part) });
  });
}

/** A frame in its row: its event, how many characters of its text are stored, and how many it shares with the one before. */
type Entry = [event: string, stored: number, shared: number];

/**
 * A JSON list of entries, a line feed, and what is stored of the texts. Frames of tokens differ in few characters: the end that
 * one shares with the frame before is left out, and no text is quoted a second time.
 */
function packed(frames: readonly NewFrame[]): string {
  const entries: Entry[] = [];
  let [texts, before, end] = ["", "", ""];
  for (const { event, data } of frames) {
    if (2 * end.length < data.length || data.slice(-end.length) !== end) end = commonEnd(data, before);
    const stored = data.length - end.length;
    entries.push([event, stored, end.length]);
    texts += data.slice(0, stored);
    before = data;
  }
  return `${JSON.stringify(entries)}\n${texts}`;
}

/** What both texts end with, never with half of a surrogate pair. */
function commonEnd(text: string, other: string): string {
  let [low, high] = [0, Math.min(text.length, other.length)];
  while (low < high) {
    const length = (low + high + 1) >> 1;
    if (text.slice(-length) === other.slice(-length)) low = length;
    else high = length - 1;
  }
  return text.slice(pieceEnd(text, text.length - low));
}

function unpacked(row: string): NewFrame[] {
  let at = row.indexOf("\n");
  const entries = JSON.parse(row.slice(0, at++)) as Entry[];
  let before = "";
  return entries.map(([event, stored, shared]) => {
    before = row.slice(at, at + stored) + before.slice(before.length - shared);
    at += stored;
    return { event, data: before };
  });
}

type After = { deployment: string; run_id: string; after: number };

const chunksAfter = scoped<After>(
  (p, bound) =>
    sql`select first_id, frames from run_frames where ${pageAfter(["run_frames", "first_id", "last_id"], p.after, sql`run_id = ${scalar(p.run_id)}`)}
      and exists (select 1 from runs where run_id = ${scalar(p.run_id)} and deployment = ${scalar(p.deployment)}
        ${andOfPermitted("runs", bound)})
    order by first_id`,
);

/**
 * See `Storage.readFrames`.
 *
 * @statements chunksAfter
 * @guards At most 64 rows or a million characters.
 */
export async function readFrames(
  driver: Database,
  { deployment, filter }: Scope,
  run_id: string,
  after: number,
): Promise<StoredFrame[]> {
  const query = chunksAfter({ deployment, run_id, after }, filter);
  const rows = (await driver.read(query)) as unknown as readonly Tables["run_frames"][];
  return rows.flatMap(({ first_id, frames }) =>
    unpacked(frames)
      .map((frame, i) => ({ id: first_id + i, ...frame }))
      .filter(({ id }) => id > after),
  );
}
