import { type RawBuilder, sql } from "kysely";
import type { ChannelValue, Payload, StoredCheckpoint, StoredWrite } from "../../lib/executor.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Lease, Progress, SavedCheckpoint, Storage } from "../../lib/storage.ts";
import { db, raw, settled } from "./dialect.ts";
import type { SqlDriver, SqlRow, SqlStatement } from "./driver.ts";
import { isEmpty, matches } from "./labels.ts";
import { shape, statement } from "./statement.ts";

/** How many rows a filtered listing looks at before it asks for more. */
const FILTER_STEP = 200;

// ------------------------------------------------------------------ writing

type Fence = { deployment: string; run_id: string; token: string };
type PayloadArgs = { type: string; data: string | null; bytes: Uint8Array | null };

// Every row comes from the run that the lease still holds: a lost lease selects nothing, so it writes nothing.
const fenced = (p: Fence): RawBuilder<unknown> =>
  sql`from runs r where r.run_id = ${p.run_id} and r.deployment = ${p.deployment} and r.lease_token = ${p.token}
    and r.status = 'running'`;

const putCheckpoint = shape<
  Fence &
    PayloadArgs & {
      ns: string;
      checkpoint_id: string;
      parent_id: string | null;
      metadata: string;
      versions: string;
      created_at: number;
    }
>((p) =>
  raw(sql`insert into checkpoints (deployment, thread_id, ns, checkpoint_id, seq, run_id, parent_id, type, data, bytes,
      metadata, versions, created_at)
    select r.deployment, r.thread_id, ${p.ns}, ${p.checkpoint_id},
      coalesce((select max(c.seq) from checkpoints c
        where c.deployment = r.deployment and c.thread_id = r.thread_id), 0) + 1,
      r.run_id, ${p.parent_id}, ${p.type}, ${p.data}, ${p.bytes}, ${p.metadata}, ${p.versions}, ${p.created_at}
    ${fenced(p)}
    on conflict (deployment, thread_id, ns, checkpoint_id) do update set run_id = excluded.run_id,
      parent_id = excluded.parent_id, type = excluded.type, data = excluded.data, bytes = excluded.bytes,
      metadata = excluded.metadata, versions = excluded.versions, created_at = excluded.created_at`),
);

const putValue = shape<
  Fence & PayloadArgs & { ns: string; channel: string; version: string; extends_version: string | null }
>((p) =>
  raw(sql`insert into channel_values (deployment, thread_id, ns, channel, version, run_id, type, data, bytes, extends_version)
    select r.deployment, r.thread_id, ${p.ns}, ${p.channel}, ${p.version}, r.run_id, ${p.type}, ${p.data}, ${p.bytes},
      ${p.extends_version}
    ${fenced(p)}
    on conflict (deployment, thread_id, ns, channel, version) do update set run_id = excluded.run_id, type = excluded.type,
      data = excluded.data, bytes = excluded.bytes, extends_version = excluded.extends_version`),
);

const putWrite = shape<
  Fence & PayloadArgs & { ns: string; checkpoint_id: string; task_id: string; idx: number; channel: string }
>((p) =>
  raw(sql`insert into checkpoint_writes (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id, run_seq, channel,
      type, data, bytes)
    select r.deployment, r.thread_id, ${p.ns}, ${p.checkpoint_id}, ${p.task_id}, ${p.idx}, r.run_id, r.seq, ${p.channel},
      ${p.type}, ${p.data}, ${p.bytes}
    ${fenced(p)}
    on conflict (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id) do update set
      channel = excluded.channel, type = excluded.type, data = excluded.data, bytes = excluded.bytes`),
);

/** Statements that store progress while the run is still the lease's, and nothing else. */
export function putProgress(deployment: string, lease: Lease, progress: Progress): SqlStatement[] {
  const fence: Fence = { deployment, run_id: lease.run_id, token: lease.token };
  const statements: SqlStatement[] = [];
  for (const checkpoint of progress.checkpoints) {
    statements.push(...putOne(fence, checkpoint));
  }
  for (const { ns, checkpoint_id, task_id, writes } of progress.writes) {
    for (const write of writes) {
      const { channel, idx } = write;
      statements.push(putWrite({ ...fence, ...columns(write), ns, checkpoint_id, task_id, idx, channel }));
    }
  }
  return statements;
}

function putOne(fence: Fence, checkpoint: SavedCheckpoint): SqlStatement[] {
  const { ns, checkpoint_id, parent_id, created_at } = checkpoint;
  return [
    ...checkpoint.values.map((value) =>
      putValue({
        ...fence,
        ...columns(value),
        ns,
        channel: value.channel,
        version: value.version,
        extends_version: value.extends_version ?? null,
      }),
    ),
    putCheckpoint({
      ...fence,
      ...columns(checkpoint.payload),
      ns,
      checkpoint_id,
      parent_id,
      metadata: JSON.stringify(checkpoint.metadata),
      versions: JSON.stringify(checkpoint.versions),
      created_at,
    }),
  ];
}

const discards = (["checkpoints", "checkpoint_writes", "channel_values"] as const).map((table) =>
  shape<Fence & { thread_id: string }>((p) =>
    raw(sql`delete from ${sql.table(table)} where deployment = ${p.deployment} and thread_id = ${p.thread_id}
      and exists (select 1 ${fenced(p)})`),
  ),
);

/** Statements that drop all checkpoints of the lease's thread. */
export function discardProgress(deployment: string, lease: Lease): SqlStatement[] {
  return discards.map((discard) => discard({ deployment, ...lease }));
}

function columns({ type, data }: Payload): PayloadArgs {
  return typeof data === "string" ? { type, data, bytes: null } : { type, data: null, bytes: data };
}

// ------------------------------------------------------------------ reading

type ThreadKey = { deployment: string; thread_id: string };

/**
 * The picked checkpoints with all they need, as one read and so as of one moment: kind 0 are checkpoints, kind 1 the values
 * they name and what those extend, kind 2 pending writes. The joins are written `cross join` because SQLite keeps their
 * order then: it would read the whole thread's values and look for each among the few that are wanted.
 */
function load(key: ThreadKey, picked: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`with recursive picked as materialized (select * from checkpoints where deployment = ${settled(key.deployment)}
      and thread_id = ${settled(key.thread_id)} and ${picked}),
    parts (ns, channel, version) as (
      select p.ns, v.key, v.value from picked p, json_each(p.versions) v
      union
      select c.ns, c.channel, c.extends_version from parts cross join channel_values c
      where ${partIs(key)} and c.extends_version is not null)
    select 0 as kind, seq, ns, checkpoint_id, type, data, bytes, parent_id, run_id, metadata, versions, created_at,
      null as channel, null as version, null as extends_version, null as task_id, null as idx from picked
    union all
    select 1, null, c.ns, null, c.type, c.data, c.bytes, null, null, null, null, null,
      c.channel, c.version, c.extends_version, null, null
    from parts cross join channel_values c where ${partIs(key)}
    union all
    select 2, w.run_seq, w.ns, w.checkpoint_id, w.type, w.data, w.bytes, null, null, null, null, null,
      w.channel, null, null, w.task_id, w.idx
    from picked p cross join checkpoint_writes w where w.deployment = ${key.deployment}
      and w.thread_id = ${key.thread_id} and w.ns = p.ns and w.checkpoint_id = p.checkpoint_id`;
}

function partIs(key: ThreadKey): RawBuilder<unknown> {
  return sql`c.deployment = ${key.deployment} and c.thread_id = ${key.thread_id} and c.ns = parts.ns
    and c.channel = parts.channel and c.version = parts.version`;
}

const loadOne = shape<ThreadKey & { ns: string; checkpoint_id: string }>((p) =>
  raw(load(p, sql`ns = ${p.ns} and checkpoint_id = ${p.checkpoint_id}`)),
);

const loadNewest = shape<ThreadKey & { ns: string }>((p) =>
  raw(load(p, sql`ns = ${settled(p.ns)} order by seq desc limit 1`)),
);

const loadNewestOfRun = shape<ThreadKey & { ns: string; run_id: string }>((p) =>
  raw(load(p, sql`ns = ${settled(p.ns)} and run_id = ${settled(p.run_id)} order by seq desc limit 1`)),
);

/** The verbs that read checkpoints; runs write them. */
export function checkpointVerbs(driver: SqlDriver): Pick<Storage, "getCheckpoint" | "listCheckpoints"> {
  return {
    async getCheckpoint({ deployment }, thread_id, { ns, checkpoint_id, run_id }) {
      const key = { deployment, thread_id, ns };
      let query: SqlStatement;
      if (checkpoint_id !== undefined) query = loadOne({ ...key, checkpoint_id });
      else if (run_id !== undefined) query = loadNewestOfRun({ ...key, run_id });
      else query = loadNewest(key);
      return assemble(await driver.read(query))[0] ?? null;
    },

    async listCheckpoints({ deployment }, thread_id, { ns, before, metadata, limit }) {
      const key = { deployment, thread_id };
      const conditions = [
        ...(ns === undefined ? [] : [sql`ns = ${ns}`]),
        ...(before === undefined ? [] : [sql`seq < ${seqOf(key, before)}`]),
      ];
      const newest = (count: number, more: readonly RawBuilder<unknown>[]): RawBuilder<unknown> =>
        sql`${sql.join([sql`true`, ...conditions, ...more], sql` and `)} order by seq desc limit ${count}`;
      const picked = async (choice: RawBuilder<unknown>): Promise<StoredCheckpoint[]> =>
        assemble(await driver.read(statement(raw(load(key, choice)))));
      if (isEmpty(metadata)) return picked(newest(limit, []));

      const seqs: number[] = [];
      let below = Number.MAX_SAFE_INTEGER;
      while (seqs.length < limit) {
        const step = await driver.read(
          statement(
            raw(sql`select seq, metadata from checkpoints where deployment = ${deployment} and thread_id = ${thread_id}
              and ${newest(FILTER_STEP, [sql`seq < ${below}`])}`),
          ),
        );
        for (const row of step) if (matches(row, metadata)) seqs.push(row.seq as number);
        if (step.length < FILTER_STEP) break;
        below = step.at(-1)?.seq as number;
      }
      return picked(sql`seq in (select value from json_each(${JSON.stringify(seqs.slice(0, limit))}))`);
    },
  };
}

/** When a checkpoint was stored; of any namespace, because a subgraph's are asked for before one of the graph above. */
function seqOf(key: ThreadKey, checkpoint_id: string): RawBuilder<number> {
  const select = db
    .selectFrom("checkpoints")
    .select((eb) => eb.fn.min("seq").as("seq"))
    .where("deployment", "=", key.deployment)
    .where("thread_id", "=", key.thread_id)
    .where("checkpoint_id", "=", checkpoint_id);
  return sql<number>`(${select})`;
}

interface LoadedRow {
  readonly kind: number;
  readonly seq: number;
  readonly ns: string;
  readonly checkpoint_id: string;
  readonly type: string;
  readonly data: string | null;
  readonly bytes: Uint8Array | null;
  readonly parent_id: string | null;
  readonly run_id: string | null;
  readonly metadata: string;
  readonly versions: string;
  readonly created_at: number;
  readonly channel: string;
  readonly version: string;
  readonly extends_version: string | null;
  readonly task_id: string;
  readonly idx: number;
}

/** Newest first. */
function assemble(rows: readonly SqlRow[]): StoredCheckpoint[] {
  const loaded = rows as unknown as readonly LoadedRow[];
  const parts = new Map<string, LoadedRow>();
  const writes = new Map<string, Map<string, LoadedRow>>();
  for (const row of loaded) {
    if (row.kind === 1) parts.set(keyOf(row.ns, row.channel, row.version), row);
    if (row.kind === 2) {
      const at = keyOf(row.ns, row.checkpoint_id);
      const place = keyOf(row.task_id, row.idx);
      const there = writes.get(at) ?? new Map<string, LoadedRow>();
      writes.set(at, there);
      if ((there.get(place)?.seq ?? 0) < row.seq) there.set(place, row);
    }
  }
  return loaded
    .filter((row) => row.kind === 0)
    .sort((a, b) => b.seq - a.seq)
    .map((row) => {
      const versions = JSON.parse(row.versions) as Record<string, string>;
      return {
        ns: row.ns,
        checkpoint_id: row.checkpoint_id,
        parent_id: row.parent_id,
        run_id: row.run_id,
        payload: payloadOf(row),
        metadata: JSON.parse(row.metadata) as JsonObject,
        versions,
        values: Object.keys(versions).flatMap((channel) => {
          const part = parts.get(keyOf(row.ns, channel, versions[channel] as string));
          return part ? [whole(part, parts)] : [];
        }),
        writes: [...(writes.get(keyOf(row.ns, row.checkpoint_id))?.values() ?? [])].map(toWrite).sort(byPlace),
        created_at: row.created_at,
      };
    });
}

function keyOf(...names: readonly (string | number)[]): string {
  return JSON.stringify(names);
}

function payloadOf({ type, data, bytes }: LoadedRow): Payload {
  return { type, data: data ?? (bytes as Uint8Array) };
}

/** A value with the older ones it extends put before it. */
function whole(part: LoadedRow, parts: ReadonlyMap<string, LoadedRow>): ChannelValue {
  const { ns, channel, version } = part;
  if (part.extends_version === null) return { channel, version, ...payloadOf(part) };
  const tails: string[] = [];
  for (let at = part; ; ) {
    const items = textOf(at).trim().slice(1, -1).trim();
    if (items) tails.push(items);
    if (at.extends_version === null) break;
    const older = parts.get(keyOf(ns, channel, at.extends_version));
    if (!older) throw new Error(`The stored value of channel ${channel} is incomplete: version ${at.extends_version} is gone`);
    at = older;
  }
  const data = `[${tails.reverse().join(",")}]`;
  // What the oldest of them holds is the last whole copy.
  return { channel, version, type: part.type, data, tail_length: data.length - (tails[0]?.length ?? 0) };
}

function textOf({ data, bytes }: LoadedRow): string {
  return data ?? new TextDecoder().decode(bytes as Uint8Array);
}

function toWrite(row: LoadedRow): StoredWrite {
  return { task_id: row.task_id, idx: row.idx, channel: row.channel, ...payloadOf(row) };
}

function byPlace(a: StoredWrite, b: StoredWrite): number {
  if (a.task_id !== b.task_id) return a.task_id < b.task_id ? -1 : 1;
  return a.idx - b.idx;
}
