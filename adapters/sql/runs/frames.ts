import { surrogateSafeEnd } from "../../../lib/json.ts";
import type { NewFrame, Progress, Scope, StoredFrame } from "../../../lib/storage/mod.ts";
import type { Database } from "../database.ts";
import type { Statement } from "../query.ts";
import type { LeaseFence } from "../statements/checkpoints.ts";
import { selectFrames, upsertFrames } from "../statements/runs-frames.ts";
import { chunksOf } from "./chunks.ts";

/** Returns the statements that store frames while the lease is held. */
export function putFrames(fence: LeaseFence, frames: Progress["frames"]): Statement[] {
  return chunksOf(frames?.list ?? []).map(({ part, from, size }) => {
    const first_id = (frames?.first_id ?? 0) + from;
    return upsertFrames({ ...fence, first_id, last_id: first_id + part.length - 1, size, frames: packed(part) });
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
  return text.slice(surrogateSafeEnd(text, text.length - low));
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

/**
 * See `Storage.readFrames`.
 *
 * @statements selectFrames
 * @guards At most 64 rows or a million characters.
 */
export async function readFrames(
  driver: Database,
  { deployment, filter }: Scope,
  run_id: string,
  after: number,
): Promise<StoredFrame[]> {
  const rows = await driver.read(selectFrames({ deployment, run_id, after }, filter));
  return rows.flatMap(({ first_id, frames }) =>
    unpacked(frames)
      .map((frame, i) => ({ id: first_id + i, ...frame }))
      .filter(({ id }) => id > after),
  );
}
