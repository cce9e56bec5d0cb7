/** The verbs that change states without a run: state updates, metadata of checkpoints, copies. */
import type { JsonObject } from "../../lib/json.ts";
import type { Scope, StateStorage, ThreadRow } from "../../lib/storage/mod.ts";
import type { ThreadKey } from "./checkpoints.ts";
import { namesOf } from "./columns.ts";
import { scalar } from "./dialect.ts";
import { whenCopied } from "./features.ts";
import { andPermitted, scoped } from "./filter.ts";
import { addLabels } from "./labels.ts";
import { pruningVerbs } from "./pruning.ts";
import { putState } from "./state-updates.ts";
import { type Database, ofThread, prepared, type Statement } from "./statement.ts";
import { isMarked, marked, unmarkThread } from "./statements/state-updates.ts";
import { type RawBuilder, sql } from "./template.ts";
import { busy, toThread } from "./threads.ts";
import { firstTurn } from "./turns.ts";

const visibleThread = scoped<ThreadKey>(
  (p, bound) =>
    sql`select head, revision, ${busy} as busy from threads where deployment = ${p.deployment}
    and thread_id = ${p.thread_id} and hidden = 0 ${andPermitted(sql`metadata`, bound)}`,
);

/** The thread; null if it does not exist in the scope. */
async function look(
  driver: Database,
  { deployment, filter }: Scope,
  thread_id: string,
): Promise<{ readonly head: string | null; readonly revision: number; readonly busy: boolean } | null> {
  const [row] = await driver.read(visibleThread({ deployment, thread_id }, filter));
  return row ? { head: row.head as string | null, revision: row.revision as number, busy: row.busy === 1 } : null;
}

// -------------------------------------------------------------------- updates

const sameHead = (seen: string | null): RawBuilder<unknown> => sql`coalesce(head, '') = coalesce(${seen}, '')`;

// A slot left by a deleted run is no obstacle: the process that still executes that run has lost its lease and cannot write.
const moveHead = scoped<
  ThreadKey & { head: string; seen_head: string | null; graph_id: string; ends: number; now: number }
>(
  (p, bound) =>
    sql`update threads set head = ${p.head}, graph_id = ${p.graph_id}, updated_at = ${p.now},
        state_updated_at = ${p.now}, run_count = ${marked(sql`run_count`)},
        interrupts = case when status = 'interrupted' and ${p.ends} = 1 then '{}' else interrupts end,
        status = case when status = 'interrupted' and ${p.ends} = 1 then 'idle' else status end
      where deployment = ${p.deployment} and thread_id = ${p.thread_id} and hidden = 0 and ${sameHead(p.seen_head)}
        and not ${busy} ${andPermitted(sql`metadata`, bound)}
      returning thread_id`,
);

const writeState =
  (driver: Database): StateStorage["writeState"] =>
  async (scope, thread_id, state, now) => {
    const { deployment, filter } = scope;
    const { head, seen_head, graph_id, ends } = state;
    const statements = [
      moveHead({ deployment, thread_id, head, seen_head, graph_id, ends: ends ? 1 : 0, now }, filter),
      ...putState(deployment, thread_id, state),
    ];
    for (;;) {
      const [moved] = await driver.batch(statements, [ofThread(deployment, thread_id)]);
      if (moved?.[0]) return "written";
      const thread = await look(driver, scope, thread_id);
      if (!thread) return "not_found";
      if (thread.busy) return "busy";
      if (thread.head !== seen_head) return "stale";
      // The obstacle has disappeared: retry.
    }
  };

// ---------------------------------------------------------------------- notes

type CheckpointKey = ThreadKey & { ns: string; checkpoint_id: string };

const itsThread = (p: ThreadKey, condition: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`exists (select 1 from threads t where t.deployment = ${scalar(p.deployment)}
    and t.thread_id = ${scalar(p.thread_id)} and t.hidden = 0 ${condition})`;

const notesOf = scoped<CheckpointKey>(
  (p, bound) =>
    sql`select metadata from checkpoints where deployment = ${scalar(p.deployment)}
    and thread_id = ${scalar(p.thread_id)} and ns = ${scalar(p.ns)} and checkpoint_id = ${scalar(p.checkpoint_id)}
    and ${itsThread(p, andPermitted(sql`t.metadata`, bound))}`,
);

const annotate = scoped<CheckpointKey & { metadata: string; seen: string }>(
  (p, bound) =>
    sql`update checkpoints set metadata = ${p.metadata} where deployment = ${p.deployment}
    and thread_id = ${p.thread_id} and ns = ${p.ns} and checkpoint_id = ${p.checkpoint_id} and metadata = ${p.seen}
    and ${itsThread(p, andPermitted(sql`t.metadata`, bound))}
    returning checkpoint_id`,
);

const annotateCheckpoint =
  (driver: Database): StateStorage["annotateCheckpoint"] =>
  async ({ deployment, filter }, thread_id, { ns, checkpoint_id }, added) => {
    const place = { deployment, thread_id, ns, checkpoint_id };
    for (;;) {
      const [row] = await driver.read(notesOf(place, filter));
      if (!row) return false;
      const seen = row.metadata as string;
      const metadata = JSON.stringify({ ...(JSON.parse(seen) as JsonObject), ...added });
      const [changed] = await driver.batch(
        [annotate({ ...place, metadata, seen }, filter)],
        [ofThread(deployment, thread_id)],
      );
      if (changed?.[0]) return true;
    }
  };

// --------------------------------------------------------------------- copies

/** `of_source` and `of_copy`: how metadata names the two threads. */
type Copy = ThreadKey & { from: string; of_source: string; of_copy: string };

const insertCopy = scoped<Copy & { seen_revision: number; metadata: string; now: number }>(
  (p, bound) =>
    sql`insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config, graph_id,
      status, head, interrupts, error, hidden, revision, run_count, turn, ttl_strategy, ttl_ms)
    select deployment, ${p.thread_id}, ${p.now}, ${p.now}, ${p.now}, ${p.metadata}, config, graph_id,
      case when status = 'interrupted' then status else 'idle' end, head,
      case when status = 'interrupted' then interrupts else '{}' end, null, 0, ${p.now}, ${marked(sql`run_count`)}, ${firstTurn(p)}, ttl_strategy, ttl_ms
    from threads where deployment = ${p.deployment} and thread_id = ${p.from} and hidden = 0
      and revision = ${p.seen_revision} ${andPermitted(sql`metadata`, bound)}
    on conflict do nothing returning *`,
);

const memberOf = (thread_id: string): string => `"thread_id":${JSON.stringify(thread_id)}`;

/**
 * Copies the rows of a table from one thread to the other, marked one. Omits what active runs have stored: it becomes part of the
 * thread's state when they end.
 */
const copying = (
  table: string,
  columns: readonly string[],
  changed: (p: Copy) => Readonly<Record<string, RawBuilder<unknown>>> = () => ({}),
): ((copy: Copy) => Statement) =>
  prepared<Copy>((p) => {
    const own = changed(p);
    return sql`insert into ${sql.table(table)} (deployment, thread_id, ${namesOf(columns)})
      select deployment, ${p.thread_id}, ${sql.join(columns.map((name) => own[name] ?? sql.ref(name)))}
      from ${sql.table(table)} where deployment = ${scalar(p.deployment)} and thread_id = ${scalar(p.from)}
        and (run_id is null or run_id not in (select r.run_id from runs r where r.deployment = ${scalar(p.deployment)}
          and r.thread_id = ${scalar(p.from)} and r.status in ('pending', 'running')))
        and ${isMarked(p)}`;
  });

const payload = ["type", "data", "bytes"];

const copies = [
  copying(
    "checkpoints",
    ["ns", "checkpoint_id", "seq", "run_id", "parent_id", ...payload, "metadata", "versions", "created_at"],
    (p) => ({
      metadata: sql`replace(metadata, ${scalar(p.of_source)}, ${scalar(p.of_copy)})`,
    }),
  ),
  copying("checkpoint_writes", ["ns", "checkpoint_id", "task_id", "idx", "run_id", "run_seq", "channel", ...payload]),
  copying("channel_values", ["ns", "channel", "version", "run_id", ...payload, "extends_version"]),
];

const ofFeatures = whenCopied(isMarked);

const copyValueLabels = prepared<Copy & { now: number }>(
  (p) =>
    sql`insert into labels (deployment, kind, row_id, path_hash, value_hash, exact, created_at)
    select deployment, kind, ${p.thread_id}, path_hash, value_hash, exact, ${p.now} from labels
    where deployment = ${scalar(p.deployment)} and kind = 'values' and row_id = ${scalar(p.from)} and ${isMarked(p)}
    on conflict do nothing`,
);

const copyThread =
  (driver: Database): StateStorage["copyThread"] =>
  async (scope, { from, seen_revision, thread_id, metadata }, now) => {
    const { deployment, filter } = scope;
    const copy = { deployment, thread_id, from, of_source: memberOf(from), of_copy: memberOf(thread_id) };
    const statements = [
      insertCopy({ ...copy, seen_revision, metadata: JSON.stringify(metadata), now }, filter),
      ...copies.map((rows) => rows(copy)),
      ...ofFeatures(copy),
      copyValueLabels({ ...copy, now }),
      unmarkThread({ deployment, thread_id }),
    ];
    for (;;) {
      const [inserted] = await driver.batch(
        [...statements, ...addLabels("thread", deployment, thread_id, metadata)],
        [ofThread(deployment, from), ofThread(deployment, thread_id)],
      );
      if (inserted?.[0]) return { kind: "copied", thread: made(inserted[0]) };
      const source = await look(driver, scope, from);
      if (!source) return { kind: "not_found" };
      if (source.revision !== seen_revision) return { kind: "stale" };
      if (await isThere(driver, { deployment, thread_id })) return { kind: "exists" };
    }
  };

const made = (row: Parameters<typeof toThread>[0]): ThreadRow => toThread({ ...row, running: null, waiting: 0 });

const anyThread = prepared<ThreadKey>(
  (p) => sql`select thread_id from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id}`,
);

const isThere = async (driver: Database, key: ThreadKey): Promise<boolean> =>
  (await driver.read(anyThread(key))).length > 0;

/** The verbs that change states without a run. */
export function stateVerbs(driver: Database): StateStorage {
  return {
    /**
     * @statements moveHead · putState · look
     * @guards update `head`, and interrupts where nothing follows, where the thread is visible, not busy and `head = seen`;
     *   sets the mark · state rows while marked · remove the mark · value labels. Otherwise a read finds the reason: `busy`,
     *   `stale` or `not_found`.
     */
    writeState: writeState(driver),
    /**
     * @statements notesOf · annotate
     * @guards read · update where `metadata = seen`. Retries.
     */
    annotateCheckpoint: annotateCheckpoint(driver),
    /**
     * @statements insertCopy · copies · ofFeatures · copyValueLabels · unmarkThread · addLabels · look · isThere
     * @guards insert the copy from the source where `revision = seen`, marked · copy checkpoints, writes and channel
     *   values while marked, except those of active runs · copy value labels · remove the mark · labels.
     */
    copyThread: copyThread(driver),
    ...pruningVerbs(driver),
  };
}
