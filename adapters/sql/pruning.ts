/** Pruning: deletes threads, or all their checkpoints except the newest state. */
import type { PruneStrategy, StateStorage } from "../../lib/storage/mod.ts";
import type { Filter } from "../../lib/storage/visibility.ts";
import { each, holds, membersOf, parentsIn, scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { whenDeleted } from "./features.ts";
import { andPermitted, type Bound, filterable, scoped } from "./filter.ts";
import { leftLabels } from "./labels.ts";
import { type Database, ofThread, prepared, rowsIn, type Statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";
import { busy } from "./threads.ts";
import { keepTurns } from "./turns.ts";

/** `thread_ids` is a JSON list. */
type Named = { deployment: string; thread_ids: string; now: number };

/** Written exactly as in the index `threads_expiry`, so that both databases use the index. */
const lastChange = sql<number>`case when updated_at > state_updated_at then updated_at else state_updated_at end`;

/** A thread whose TTL has expired and that pruning would change. Written as in its index. */
const isOver = (p: { now: number }): RawBuilder<unknown> => sql`ttl_ms is not null
  and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= ${lastChange})
  and (${lastChange} + ttl_ms) <= ${scalar(p.now)}`;

/** Which named threads are pruned. Every statement of a batch checks it, and the last one changes it. */
type Condition = (p: Named) => RawBuilder<unknown>;

const chosen = (condition: Condition, p: Named, bound: Bound): RawBuilder<unknown> =>
  sql`${each(p.thread_ids)} named cross join threads where threads.deployment = ${scalar(p.deployment)}
    and threads.thread_id = named.value and hidden = 0 and not ${busy} and ${condition(p)}
    ${andPermitted(sql`threads.metadata`, bound)}`;

/** Statements that prune; `pruned` returns the threads. */
type Pruning = (args: Named, filter: Filter | undefined) => { statements: Statement[]; pruned: Statement };

const deletion = (condition: Condition): Pruning => {
  const ids = (p: Named, bound: Bound): RawBuilder<unknown> =>
    sql`(select threads.thread_id from ${chosen(condition, p, bound)})`;
  const ofFeatures = filterable<Named, Statement[]>((bound) =>
    whenDeleted(
      (p) => sql`select run_id from runs where deployment = ${p.deployment} and thread_id in ${ids(p, bound(p))}`,
    ),
  );
  const keep = scoped<Named>((p, bound) =>
    keepTurns(sql`threads where deployment = ${p.deployment} and thread_id in ${ids(p, bound)}`),
  );
  const remove = scoped<Named>(
    (p, bound) =>
      sql`delete from threads where deployment = ${p.deployment} and thread_id in ${ids(p, bound)} returning thread_id`,
  );
  const unlabel = prepared<Named>(
    (p) =>
      sql`delete from ${leftLabels("thread")} and deployment = ${p.deployment} and row_id in ${each(p.thread_ids)}`,
  );
  return (args, filter) => {
    const pruned = remove(args, filter);
    return { statements: [...ofFeatures(args, filter), keep(args, filter), pruned, unlabel(args)], pruned };
  };
};

type Rows = (rows: string, owner: string) => RawBuilder<unknown>;

/** Rows of a table that belong to the thread of another table's row. */
const sameThreadAs =
  (p: Named): Rows =>
  (rows, owner) =>
    sql`${sql.ref(rows)}.deployment = ${scalar(p.deployment)}
      and ${sql.ref(rows)}.thread_id = ${sql.ref(owner)}.thread_id`;

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
const heads = (of: Rows): RawBuilder<unknown> =>
  sql`heads (thread_id, head, seq) as (select c.thread_id, c.checkpoint_id, c.seq from pruned cross join checkpoints c
      where ${of("c", "pruned")} and c.ns = '' and c.checkpoint_id = pruned.head)`;

/** `newest`: the newest checkpoint of every other namespace. */
const newest = (of: Rows): RawBuilder<unknown> =>
  sql`newest (thread_id, seq) as (select c.thread_id, max(c.seq) from heads cross join checkpoints c
      where ${of("c", "heads")} and c.ns <> '' group by c.thread_id, c.ns)`;

/**
 * `kept`: the heads, and the newest checkpoints that belong to them. These were created under the head or after it, or are in a
 * namespace without a task id in its name, which is the same in every run.
 */
const kept = (of: Rows): RawBuilder<unknown> =>
  sql`kept (thread_id, ns, checkpoint_id) as (
      select thread_id, '', head from heads
      union all
      select c.thread_id, c.ns, c.checkpoint_id from newest cross join checkpoints c cross join heads
      where ${of("c", "newest")} and c.seq = newest.seq and heads.thread_id = c.thread_id
        and (c.seq > heads.seq or not ${holds(sql`c.ns`, ":")}
          or heads.head in ${parentsIn(sql`c.metadata`)}))`;

/**
 * `walk`: from each kept checkpoint back through its ancestors, for each channel without a stored value. LangGraph stores the
 * whole value of some channels only now and then: their value is an older version plus the writes since. `written`: the version
 * changed on the way. The channels that control what runs next are omitted, because they are many and empty.
 */
const walk = (of: Rows): RawBuilder<unknown> =>
  sql`walk (thread_id, ns, checkpoint_id, channel, version, depth, written) as (
      select c.thread_id, c.ns, c.checkpoint_id, entry.key, entry.value, 0, 0
      from kept cross join checkpoints c cross join ${membersOf(sql`c.versions`)} entry
      where ${of("c", "kept")} and c.ns = kept.ns and c.checkpoint_id = kept.checkpoint_id
        and substr(entry.key, 1, 7) <> 'branch:' and entry.key <> '__start__'
        and not ${hasValue(of, "c", sql`entry.key`, sql`entry.value`)}
      union all
      select p.thread_id, p.ns, p.checkpoint_id, walk.channel, entry.value, walk.depth + 1,
        case when coalesce(entry.value, '') <> coalesce(walk.version, '') then 1 else 0 end
      from walk cross join checkpoints c cross join checkpoints p
        left join ${membersOf(sql`p.versions`)} entry on entry.key = walk.channel
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

/** Common table expressions up to `stays`: the checkpoints of the pruned threads that remain. */
const staying = (pruned: RawBuilder<unknown>, p: Named): RawBuilder<unknown> => {
  const of = sameThreadAs(p);
  return sql`recursive pruned (thread_id, head) as (select threads.thread_id, threads.head from ${pruned}),
    ${heads(of)}, ${newest(of)}, ${kept(of)}, ${walk(of)}, ${parts}, ${stays}`;
};

const keeping = (condition: Condition): Pruning => {
  const pruned = (p: Named, bound: Bound): RawBuilder<unknown> => chosen(condition, p, bound);
  const ofPruned = (p: Named, bound: Bound): RawBuilder<unknown> =>
    sql`deployment = ${scalar(p.deployment)} and thread_id in (select threads.thread_id from ${pruned(p, bound)})`;
  const steps = [
    // `except` instead of `not in`: SQLite would read the whole list of several columns for each row that it does not contain.
    scoped<Named>(
      (p, bound) =>
        sql`with ${staying(pruned(p, bound), p)} delete from checkpoints where deployment = ${p.deployment}
          and (thread_id, ns, checkpoint_id) in (select c.thread_id, c.ns, c.checkpoint_id
            from pruned cross join checkpoints c
            where c.deployment = ${scalar(p.deployment)} and c.thread_id = pruned.thread_id
            except select thread_id, ns, checkpoint_id from stays)`,
    ),
    scoped<Named>(
      (p, bound) =>
        sql`delete from checkpoint_writes where ${ofPruned(p, bound)} and not exists (select 1 from checkpoints c
          where c.deployment = checkpoint_writes.deployment and c.thread_id = checkpoint_writes.thread_id
            and c.ns = checkpoint_writes.ns and c.checkpoint_id = checkpoint_writes.checkpoint_id)`,
    ),
    scoped<Named>(
      (p, bound) =>
        sql`with recursive needed (thread_id, ns, channel, version) as (
            select c.thread_id, c.ns, entry.key, entry.value from checkpoints c cross join ${membersOf(sql`c.versions`)} entry
            where c.deployment = ${scalar(p.deployment)}
              and c.thread_id in (select threads.thread_id from ${pruned(p, bound)})
            union
            select v.thread_id, v.ns, v.channel, v.extends_version from needed cross join channel_values v
            where v.deployment = ${scalar(p.deployment)} and v.thread_id = needed.thread_id and v.ns = needed.ns
              and v.channel = needed.channel and v.version = needed.version and v.extends_version is not null)
          delete from channel_values where deployment = ${p.deployment}
            and (thread_id, ns, channel, version) in (select thread_id, ns, channel, version from channel_values
              where ${ofPruned(p, bound)} except select thread_id, ns, channel, version from needed)`,
    ),
    scoped<Named>(
      (p, bound) =>
        sql`update checkpoints set parent_id = null where ${ofPruned(p, bound)} and parent_id is not null
          and not exists (select 1 from checkpoints c where c.deployment = checkpoints.deployment
            and c.thread_id = checkpoints.thread_id and c.ns = checkpoints.ns
            and c.checkpoint_id = checkpoints.parent_id)`,
    ),
    scoped<Named>(
      (p, bound) =>
        sql`update threads set pruned_at = ${p.now} where deployment = ${scalar(p.deployment)}
          and thread_id in (select threads.thread_id from ${pruned(p, bound)}) returning thread_id`,
    ),
  ];
  return (args, filter) => {
    const statements = steps.map((step) => step(args, filter));
    return { statements, pruned: statements.at(-1) as Statement };
  };
};

const named: Record<PruneStrategy, Pruning> = {
  delete: deletion(() => sql`true`),
  keep_latest: keeping(() => sql`true`),
};

const over: Record<PruneStrategy, Pruning> = {
  delete: deletion((p) => sql`ttl_strategy = 'delete' and ${isOver(p)}`),
  keep_latest: keeping((p) => sql`ttl_strategy = 'keep_latest' and ${isOver(p)}`),
};

const overdue = scoped<{ deployment: string; now: number; limit: number }>(
  (p, bound) =>
    sql`select thread_id, ttl_strategy from threads where deployment = ${scalar(p.deployment)} and ${isOver(p)}
      and hidden = 0 and not ${busy} ${andPermitted(sql`metadata`, bound)}
    order by (${lastChange} + ttl_ms) limit ${scalar(p.limit)}`,
);

const locksOf = (deployment: string, thread_ids: readonly string[]): string[] =>
  thread_ids.map((thread_id) => ofThread(deployment, thread_id));

/** The verb that prunes threads. */
export function pruningVerbs(driver: Database): Pick<StateStorage, "pruneThreads"> {
  return {
    /**
     * @statements overdue · named · over
     * @guards each statement repeats the condition "named, visible, not busy" (and "time to live is over"). `delete`:
     *   tokens · turns · threads · labels. `keep_latest`: delete checkpoints that the newest state does not need · their
     *   writes · channel values that no checkpoint needs · clear dangling `parent_id` · set `pruned_at`, which is last
     *   because the others test it.
     */
    async pruneThreads({ deployment, filter }, target, now) {
      const isNamed = "thread_ids" in target;
      const found = isNamed
        ? [...new Set(target.thread_ids)].map((thread_id) => ({ thread_id, ttl_strategy: target.strategy }))
        : await driver.read(overdue({ deployment, now, limit: target.expired }, filter));
      const prunings = (["delete", "keep_latest"] as const).flatMap((strategy) => {
        const thread_ids = idsOf(found.filter((row) => row.ttl_strategy === strategy));
        const args = { deployment, thread_ids: JSON.stringify(thread_ids), now };
        return thread_ids.length > 0 ? [(isNamed ? named : over)[strategy](args, filter)] : [];
      });
      if (prunings.length === 0) return [];
      const statements = prunings.flatMap((pruning) => pruning.statements);
      const rowsOf = rowsIn(statements, await driver.batch(statements, locksOf(deployment, idsOf(found))));
      return prunings.flatMap(({ pruned }) => idsOf(rowsOf(pruned)));
    },
  };
}

const idsOf = (rows: readonly SqlRow[] = []): string[] => rows.map((row) => row.thread_id as string);
