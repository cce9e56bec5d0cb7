import { type RawBuilder, sql } from "kysely";
import type { NewFrame, Progress, Scope, StoredFrame } from "../../../lib/storage/mod.ts";
import { type LeaseFence, whileLeased } from "../checkpoints.ts";
import { scalar } from "../dialect.ts";
import { andOfPermitted, scoped } from "../filter.ts";
import type { Tables } from "../schema/tables.ts";
import { type Database, prepared, type Statement } from "../statement.ts";

/** A row of frames is closed once it is this long, so that what is read or deleted at once stays small. */
const CHUNK_SIZE = 64 * 1024;
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
  if (!frames) return [];
  const statements: Statement[] = [];
  const { list } = frames;
  for (let from = 0; from < list.length; ) {
    let [to, size] = [from, 0];
    while (to < list.length && size < CHUNK_SIZE) size += (list[to++] as NewFrame).data.length;
    const part = list.slice(from, to).map(({ event, data }) => [event, data]);
    const [first_id, last_id] = [frames.first_id + from, frames.first_id + to - 1];
    statements.push(putChunk({ ...fence, first_id, last_id, size, frames: JSON.stringify(part) }));
    from = to;
  }
  return statements;
}

type After = { deployment: string; run_id: string; after: number };

/** The rows of a run with ids above `after`, from the one that may hold both. */
const from = (p: After): RawBuilder<unknown> =>
  sql`run_id = ${scalar(p.run_id)} and last_id > ${scalar(p.after)} and first_id >= coalesce((select max(first_id)
    from run_frames where run_id = ${scalar(p.run_id)} and first_id <= ${scalar(p.after)}), 0)`;

// At most 64 rows at once, and none after a million characters.
const chunksAfter = scoped<After>(
  (p, bound) =>
    sql`select first_id, frames from run_frames where ${from(p)}
      and first_id <= (select max(first_id) from (
        select first_id, sum(size) over (order by first_id) - size as before from (
          select first_id, size from run_frames where ${from(p)} order by first_id limit 64
        ) as sizes
      ) as sums where before < 1000000)
      and exists (select 1 from runs where run_id = ${scalar(p.run_id)} and deployment = ${scalar(p.deployment)}
        ${andOfPermitted("runs", bound)})
    order by first_id`,
);

/** See `Storage.readFrames`. */
export async function readFrames(
  driver: Database,
  { deployment, filter }: Scope,
  run_id: string,
  after: number,
): Promise<StoredFrame[]> {
  const query = chunksAfter({ deployment, run_id, after }, filter);
  const rows = (await driver.read(query)) as unknown as readonly Tables["run_frames"][];
  return rows.flatMap(({ first_id, frames }) =>
    (JSON.parse(frames) as [event: string, data: string][])
      .map(([event, data], i) => ({ id: first_id + i, event, data }))
      .filter(({ id }) => id > after),
  );
}
