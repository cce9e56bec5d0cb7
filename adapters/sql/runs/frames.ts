import { surrogateSafeEnd } from "../../../lib/json.ts";
import type { NewFrame, Progress, Scope, StoredFrame } from "../../../lib/storage/mod.ts";
import type { Database } from "../database.ts";
import type { Statement } from "../query.ts";
import type { LeaseFence } from "../statements/checkpoints.ts";
import { selectFrames, upsertFrames } from "../statements/runs-frames.ts";
import { splitIntoChunks } from "./chunks.ts";

/**
 * Returns the statements that store frames while the lease is held, one for each chunk; none without frames. Their ids count up
 * from `first_id`.
 */
export function storeFrameStatements(fence: LeaseFence, frames: Progress["frames"]): Statement[] {
  return splitIntoChunks(frames?.list ?? []).map(({ part, from, size }) => {
    const first_id = (frames?.first_id ?? 0) + from;
    return upsertFrames({ ...fence, first_id, last_id: first_id + part.length - 1, size, frames: packFrames(part) });
  });
}

/** A frame in its row: its event, how many characters of its text are stored, and how many it shares with the one before. */
type PackedFrame = [event: string, stored: number, shared: number];

/**
 * Returns the stored text of frames: a JSON list of entries, a line feed, and the texts. If a text ends like the one before,
 * that end is left out and only counted. `unpackFrames` restores it.
 */
function packFrames(frames: readonly NewFrame[]): string {
  const entries: PackedFrame[] = [];
  let [texts, previous, sharedEnd] = ["", "", ""];
  for (const { event, data } of frames) {
    if (2 * sharedEnd.length < data.length || data.slice(-sharedEnd.length) !== sharedEnd)
      sharedEnd = findCommonEnd(data, previous);
    const stored = data.length - sharedEnd.length;
    entries.push([event, stored, sharedEnd.length]);
    texts += data.slice(0, stored);
    previous = data;
  }
  return `${JSON.stringify(entries)}\n${texts}`;
}

/** Returns the common end of both texts. It never starts within a surrogate pair. */
function findCommonEnd(text: string, otherText: string): string {
  let [low, high] = [0, Math.min(text.length, otherText.length)];
  while (low < high) {
    const length = (low + high + 1) >> 1;
    if (text.slice(-length) === otherText.slice(-length)) low = length;
    else high = length - 1;
  }
  return text.slice(surrogateSafeEnd(text, text.length - low));
}

/** Unpacks the frames of a row. Each shares the end of its text with the one before. Throws a SyntaxError for a damaged row. */
function unpackFrames(row: string): NewFrame[] {
  let position = row.indexOf("\n");
  const entries = JSON.parse(row.slice(0, position++)) as PackedFrame[];
  let previous = "";
  return entries.map(([event, stored, shared]) => {
    previous = row.slice(position, position + stored) + previous.slice(previous.length - shared);
    position += stored;
    return { event, data: previous };
  });
}

/**
 * Returns a page of the frames with an id above `after`, in order; empty if there are none, or if the filter excludes the
 * thread. See `Storage.readFrames`.
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
    unpackFrames(frames)
      .map((frame, i) => ({ id: first_id + i, ...frame }))
      .filter(({ id }) => id > after),
  );
}
