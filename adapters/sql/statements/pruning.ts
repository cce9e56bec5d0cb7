/**
 * Statements that prune threads: they delete threads, or all their checkpoints except the newest state. Each statement of a batch
 * checks which threads are pruned, and the last one changes it.
 */
import { type RawBuilder, sql } from "kysely";
import { keepClaimCounts } from "../claim-counts.ts";
import { RUNS_DELETED } from "../features.ts";
import { isPermitted } from "../filter.ts";
import { containsText, jsonMembers, jsonParents, jsonStrings } from "../functions.ts";
import { bigint, type Operand, type ParametersFor, text } from "../parameters.ts";
import { query, scopedQuery, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";
import { busy } from "../thread-status.ts";
import { orphanedEntries } from "./metadata-index.ts";
import { findStatement } from "./runs-stop.ts";

const stable = { stable: true };

/** Written exactly as in the index `threads_expiry`, so that both databases use the index. */
const lastChange = sql<number>`case when updated_at > state_updated_at then updated_at else state_updated_at end`;

/** The condition that the TTL of a thread has expired and that pruning would change it. Written as in its index. */
const isExpired = (now: Operand<number>): RawBuilder<boolean> => sql<boolean>`ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= ${lastChange})
  and (${lastChange} + ttl_ms) <= ${now}`;

/** Selects expired threads that the filter permits and that have no active run, those first that expired first. */
export const selectExpiredThreads = scopedQuery(
  { deployment: text, now: bigint, limit: bigint },
  (p, filter) =>
    sql<Pick<CoreTables["threads"], "thread_id" | "ttl_strategy">>`select thread_id, ttl_strategy from threads
    where deployment = ${p.deployment} and ${isExpired(p.now)}
      and hidden = 0 and not ${busy} and ${isPermitted(sql`metadata`, filter)}
    order by (${lastChange} + ttl_ms) limit ${p.limit}`,
  stable,
);

/** Selects the named threads that are pruned: all, or those that have expired. */
export interface PruningShape {
  readonly expired: boolean;
  readonly filtered: boolean;
}

/** `thread_ids` is a JSON list. */
const types = { deployment: text, thread_ids: text, now: bigint, filter: text };

type Parameters = ParametersFor<typeof types>;

const shapes: readonly PruningShape[] = [
  { expired: false, filtered: false },
  { expired: true, filtered: true },
];

const options = { ...stable, shapes: shapes.slice(0, 1) };

/**
 * Returns the named threads that are pruned, for `from`: visible, permitted by the filter, without an active run, and with
 * `expired` those whose strategy is this one and whose time to live is over.
 */
const prunedBy = (strategy: RawBuilder<string>, p: Parameters, { expired, filtered }: PruningShape) =>
  sql`${jsonStrings(p.thread_ids)} named cross join threads where threads.deployment = ${p.deployment}
    and threads.thread_id = named.value and hidden = 0 and not ${busy}
    and ${expired ? sql`ttl_strategy = ${strategy} and ${isExpired(p.now)}` : sql`true`}
    and ${isPermitted(sql`threads.metadata`, filtered ? p.filter : null)}`;

// ------------------------------------------------------------------- deleting

/** The ids of the threads that are deleted, in parentheses. */
const deletedIds = (p: Parameters, shape: PruningShape): RawBuilder<unknown> =>
  sql`(select threads.thread_id from ${prunedBy(sql`'delete'`, p, shape)})`;

/** Deletes what features have stored of the runs of threads. `statement` is a key of `DELETED`. */
export const deleteOfFeatures = shapedQuery(
  (_: PruningShape & { readonly statement: string }) => types,
  (p, { statement, ...shape }) =>
    findStatement(
      RUNS_DELETED,
      statement,
    )(sql`select run_id from runs where deployment = ${p.deployment} and thread_id in ${deletedIds(p, shape)}`),
  { ...stable, shapes: Object.keys(RUNS_DELETED).map((statement) => ({ ...(shapes[0] as PruningShape), statement })) },
);

/** Keeps the claim counts of threads before they are deleted. */
export const keepClaimCountsOfThreads = shapedQuery(
  (_: PruningShape) => types,
  (p, shape) =>
    keepClaimCounts(sql`threads where deployment = ${p.deployment} and thread_id in ${deletedIds(p, shape)}`),
  options,
);

/** Deletes threads, and returns them. */
export const deleteThreads = shapedQuery(
  (_: PruningShape) => types,
  (p, shape) =>
    sql<{ thread_id: string }>`delete from threads where deployment = ${p.deployment}
      and thread_id in ${deletedIds(p, shape)} returning thread_id`,
  { ...stable, shapes },
);

/** Deletes the labels of those of the threads that are gone. `thread_ids` is a JSON list. */
export const deleteEntriesOfThreads = query(
  { deployment: text, thread_ids: text },
  (p) =>
    sql<never>`delete from ${orphanedEntries("thread")} and deployment = ${p.deployment} and row_id in ${jsonStrings(p.thread_ids)}`,
);

// -------------------------------------------------------------------- keeping

type Rows = (rows: string, owner: string) => RawBuilder<unknown>;

/** Rows of a table that belong to the thread of another table's row. */
const sameThreadAs =
  (deployment: Operand<string>): Rows =>
  (rows, owner) =>
    sql`${sql.ref(rows)}.deployment = ${deployment} and ${sql.ref(rows)}.thread_id = ${sql.ref(owner)}.thread_id`;

/** The channel has a stored value for this version. */
const hasValue = (
  of: Rows,
  owner: string,
  channel: RawBuilder<unknown>,
  version: RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`exists (select 1 from channel_values v where ${of("v", owner)} and v.ns = ${sql.ref(owner)}.ns
      and v.channel = ${channel} and v.version = ${version})`;

/** `heads`: the head of each pruned thread. */
const prunedHeads = (of: Rows): RawBuilder<unknown> =>
  sql`heads (thread_id, head, seq) as (select c.thread_id, c.checkpoint_id, c.seq from pruned cross join checkpoints c
      where ${of("c", "pruned")} and c.ns = '' and c.checkpoint_id = pruned.head)`;

/** `newest`: the newest checkpoint of every other namespace. */
const newestOfNamespaces = (of: Rows): RawBuilder<unknown> =>
  sql`newest (thread_id, seq) as (select c.thread_id, max(c.seq) from heads cross join checkpoints c
      where ${of("c", "heads")} and c.ns <> '' group by c.thread_id, c.ns)`;

/**
 * Returns the table expression `kept`: the heads, and the newest checkpoints that belong to them. These were created under the
 * head or after it, or are in a namespace without a task id in its name, which is the same in every run.
 */
const retainedCheckpoints = (of: Rows): RawBuilder<unknown> =>
  sql`kept (thread_id, ns, checkpoint_id) as (
      select thread_id, '', head from heads
      union all
      select c.thread_id, c.ns, c.checkpoint_id from newest cross join checkpoints c cross join heads
      where ${of("c", "newest")} and c.seq = newest.seq and heads.thread_id = c.thread_id
        and (c.seq > heads.seq or not ${containsText(sql`c.ns`, ":")}
          or heads.head in ${jsonParents(sql`c.metadata`)}))`;

/**
 * Returns the table expression `walk`: from each kept checkpoint back through its ancestors, for each channel without a stored
 * value. LangGraph stores the whole value of some channels only now and then: their value is an older version plus the writes
 * since. `written`: the version changed on the way. Channels that control what runs next are omitted, because they are many and
 * empty.
 */
const ancestorWalk = (of: Rows): RawBuilder<unknown> =>
  sql`walk (thread_id, ns, checkpoint_id, channel, version, depth, written) as (
      select c.thread_id, c.ns, c.checkpoint_id, entry.key, entry.value, 0, 0
      from kept cross join checkpoints c cross join ${jsonMembers(sql`c.versions`)} entry
      where ${of("c", "kept")} and c.ns = kept.ns and c.checkpoint_id = kept.checkpoint_id
        and substr(entry.key, 1, 7) <> 'branch:' and entry.key <> '__start__'
        and not ${hasValue(of, "c", sql`entry.key`, sql`entry.value`)}
      union all
      select p.thread_id, p.ns, p.checkpoint_id, walk.channel, entry.value, walk.depth + 1,
        case when coalesce(entry.value, '') <> coalesce(walk.version, '') then 1 else 0 end
      from walk cross join checkpoints c cross join checkpoints p
        left join ${jsonMembers(sql`p.versions`)} entry on entry.key = walk.channel
      where ${of("c", "walk")} and c.ns = walk.ns and c.checkpoint_id = walk.checkpoint_id
        and ${of("p", "walk")} and p.ns = walk.ns and p.checkpoint_id = c.parent_id and p.seq < c.seq
        and not ${hasValue(of, "walk", sql`walk.channel`, sql`walk.version`)}
        and (entry.value = walk.version or exists (select 1 from checkpoint_writes w where ${of("w", "walk")}
          and w.ns = walk.ns and w.checkpoint_id = p.checkpoint_id and w.channel = walk.channel)))`;

/** `parts`: for each channel, the oldest ancestor whose writes are part of its value. */
const parts = sql`parts (thread_id, ns, channel, depth) as (
      select thread_id, ns, channel, max(depth) from walk where written = 1 group by thread_id, ns, channel)`;

/** `stays`: the kept checkpoints, and the ancestors with parts of their values. */
const stays = sql`stays (thread_id, ns, checkpoint_id) as (
      select thread_id, ns, checkpoint_id from kept
      union
      select walk.thread_id, walk.ns, walk.checkpoint_id from parts cross join walk
      where walk.thread_id = parts.thread_id and walk.ns = parts.ns and walk.channel = parts.channel
        and walk.depth <= parts.depth)`;

const keptThreads = (p: Parameters, shape: PruningShape): RawBuilder<unknown> => prunedBy(sql`'keep_latest'`, p, shape);

/** Returns the table expressions up to `stays`, which lists the checkpoints of the pruned threads that remain. */
const staying = (p: Parameters, shape: PruningShape): RawBuilder<unknown> => {
  const of = sameThreadAs(p.deployment);
  return sql`recursive pruned (thread_id, head) as (select threads.thread_id, threads.head from ${keptThreads(p, shape)}),
    ${prunedHeads(of)}, ${newestOfNamespaces(of)}, ${retainedCheckpoints(of)}, ${ancestorWalk(of)}, ${parts}, ${stays}`;
};

/** The condition on rows of a table that their thread is pruned. */
const isOfPruned = (p: Parameters, shape: PruningShape): RawBuilder<boolean> =>
  sql<boolean>`deployment = ${p.deployment} and thread_id in (select threads.thread_id from ${keptThreads(p, shape)})`;

/**
 * Deletes the checkpoints that the newest state does not need. `except` instead of `not in`: SQLite would read the whole list of
 * several columns for each row that it does not contain.
 */
export const deleteCheckpoints = shapedQuery(
  (_: PruningShape) => types,
  (p, shape) =>
    sql<never>`with ${staying(p, shape)} delete from checkpoints where deployment = ${p.deployment}
      and (thread_id, ns, checkpoint_id) in (select c.thread_id, c.ns, c.checkpoint_id
        from pruned cross join checkpoints c
        where c.deployment = ${p.deployment} and c.thread_id = pruned.thread_id
        except select thread_id, ns, checkpoint_id from stays)`,
  { ...stable, shapes },
);

/** Deletes the writes whose checkpoint is gone. */
export const deleteWrites = shapedQuery(
  (_: PruningShape) => types,
  (p, shape) =>
    sql<never>`delete from checkpoint_writes where ${isOfPruned(p, shape)} and not exists (select 1 from checkpoints c
      where c.deployment = checkpoint_writes.deployment and c.thread_id = checkpoint_writes.thread_id
        and c.ns = checkpoint_writes.ns and c.checkpoint_id = checkpoint_writes.checkpoint_id)`,
  options,
);

/** Deletes the values of channels that no checkpoint needs. */
export const deleteValues = shapedQuery(
  (_: PruningShape) => types,
  (p, shape) =>
    sql<never>`with recursive needed (thread_id, ns, channel, version) as (
        select c.thread_id, c.ns, entry.key, entry.value from checkpoints c cross join ${jsonMembers(sql`c.versions`)} entry
        where c.deployment = ${p.deployment}
          and c.thread_id in (select threads.thread_id from ${keptThreads(p, shape)})
        union
        select v.thread_id, v.ns, v.channel, v.extends_version from needed cross join channel_values v
        where v.deployment = ${p.deployment} and v.thread_id = needed.thread_id and v.ns = needed.ns
          and v.channel = needed.channel and v.version = needed.version and v.extends_version is not null)
      delete from channel_values where deployment = ${p.deployment}
        and (thread_id, ns, channel, version) in (select thread_id, ns, channel, version from channel_values
          where ${isOfPruned(p, shape)} except select thread_id, ns, channel, version from needed)`,
  options,
);

/** Sets `parent_id` to null where the parent is gone. */
export const clearParents = shapedQuery(
  (_: PruningShape) => types,
  (p, shape) =>
    sql<never>`update checkpoints set parent_id = null where ${isOfPruned(p, shape)} and parent_id is not null
      and not exists (select 1 from checkpoints c where c.deployment = checkpoints.deployment
        and c.thread_id = checkpoints.thread_id and c.ns = checkpoints.ns
        and c.checkpoint_id = checkpoints.parent_id)`,
  options,
);

/** Sets when threads were pruned, and returns them. */
export const setPrunedAt = shapedQuery(
  (_: PruningShape) => types,
  (p, shape) =>
    sql<{
      thread_id: string;
    }>`update threads set pruned_at = ${p.now} where ${isOfPruned(p, shape)} returning thread_id`,
  options,
);
