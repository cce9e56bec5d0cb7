/** The verbs on crons. */
import type { JsonObject } from "../../lib/json.ts";
import type {
  CreateRun,
  CronContent,
  CronFiring,
  CronQuery,
  CronRow,
  CronSort,
  CronStorage,
  FireCron,
  FireOutcome,
  OnRunCompleted,
  Scope,
  SkipReason,
} from "../../lib/storage/mod.ts";
import { fromText, toText } from "./columns.ts";
import { each, rowsOf, scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import { andPermitted, scoped } from "./filter.ts";
import { addLabels, dropLabels, leftLabels, replaceLabels } from "./labels.ts";
import { refusal } from "./runs/create.ts";
import { createStatements, isOpen, isSeen, type Tick } from "./runs/create-statements.ts";
import type { Tables } from "./schema/tables.ts";
import { findRows, type Sought } from "./search.ts";
import { type Database, prepared, readAll, readOne, rowsIn, type Statement, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

type Key = { deployment: string; cron_id: string };
type Row = Tables["crons"];
type Content = Pick<Row, keyof CronContent>;
type Origin = Pick<Row, "assistant_id" | "thread_id" | "user_id" | "auth_user">;

const insertCron = prepared<Key & Content & Origin & { now: number }>(
  (p) =>
    sql`insert into crons (deployment, cron_id, assistant_id, thread_id, on_run_completed, schedule, timezone, end_time,
      enabled, next_run_date, payload, metadata, user_id, auth_user, failures, created_at, updated_at, revision)
    select ${p.deployment}, ${p.cron_id}, ${p.assistant_id}, ${p.thread_id}, ${p.on_run_completed}, ${p.schedule},
      ${p.timezone}, ${p.end_time}, ${p.enabled}, ${p.next_run_date}, ${p.payload}, ${p.metadata}, ${p.user_id},
      ${p.auth_user}, 0, ${p.now}, ${p.now}, ${p.now}
    where exists (select 1 from assistants where deployment = ${p.deployment} and assistant_id = ${p.assistant_id})
      and (${p.thread_id} is null or exists (select 1 from threads
        where deployment = ${p.deployment} and thread_id = ${p.thread_id} and hidden = 0))
    returning *`,
);

const isThread = prepared<{ deployment: string; thread_id: string }>(
  (p) =>
    sql`select thread_id from threads where deployment = ${p.deployment} and thread_id = ${p.thread_id} and hidden = 0`,
);

const metadata = sql`crons.metadata`;

const getCron = scoped<Key>(
  (p, bound) =>
    sql`select * from crons where deployment = ${p.deployment}
    and cron_id = ${p.cron_id}${andPermitted(metadata, bound)}`,
);

// Firing changes only the next run date: an update that read the row before must not set the date back.
const updateCron = prepared<Key & Content & { seen_revision: number; seen_next: number | null; now: number }>(
  (p) =>
    sql`update crons set on_run_completed = ${p.on_run_completed}, schedule = ${p.schedule}, timezone = ${p.timezone},
      end_time = ${p.end_time}, failures = case when enabled = 0 and ${p.enabled} = 1 then 0 else failures end,
      enabled = ${p.enabled}, next_run_date = ${p.next_run_date}, payload = ${p.payload}, metadata = ${p.metadata},
      updated_at = ${p.now}, revision = revision + 1
    where deployment = ${p.deployment} and cron_id = ${p.cron_id} and revision = ${p.seen_revision}
      and coalesce(next_run_date, -1) = coalesce(${p.seen_next}, -1)
    returning *`,
);

const deleteCron = scoped<Key>(
  (p, bound) =>
    sql`delete from crons where deployment = ${p.deployment}
    and cron_id = ${p.cron_id}${andPermitted(metadata, bound)} returning cron_id`,
);

/** `run_id`: the run that the batch must have created; null for none. */
type Firing = { deployment: string; now: number; run_id: string | null } & Tick;

const isMade = (p: Firing): RawBuilder<unknown> =>
  sql`(${p.run_id} is null or exists (select 1 from runs where run_id = ${p.run_id}))`;

const insertFiring = prepared<Firing>(
  (p) =>
    sql`insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped)
    select ${p.deployment}, ${p.cron_id}, ${p.scheduled_at}, ${p.now}, run_id, null from runs where run_id = ${p.run_id}`,
);

const insertSkipped = prepared<Firing & { skipped: string }>(
  (p) =>
    sql`insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped)
    select ${p.deployment}, ${p.cron_id}, s.scheduled_at, ${p.now}, null, s.reason
    from ${rowsOf(p.skipped, { scheduled_at: "bigint", reason: "text" })} s where ${isSeen(p, p.deployment)} and ${isMade(p)}
    on conflict do nothing`,
);

const advance = prepared<Firing & { next_run_date: number | null }>(
  (p) =>
    sql`update crons set next_run_date = ${p.next_run_date}, updated_at = ${p.now}
    where deployment = ${p.deployment} and cron_id = ${p.cron_id} and enabled = 1 and next_run_date = ${p.seen_next}
      and revision = ${p.seen_revision} and ${isMade(p)}
    returning cron_id`,
);

const recordFiring = prepared<Key & { now: number; run_id: string }>(
  (p) =>
    sql`insert into cron_firings (deployment, cron_id, scheduled_at, fired_at, run_id, skipped, manual)
    select deployment, cron_id, ${p.now}, ${p.now}, ${p.run_id}, null, 1 from crons
    where deployment = ${p.deployment} and cron_id = ${p.cron_id} on conflict do nothing`,
);

const isStillOpen = prepared<Firing>((p) => sql`select 1 as open where ${isOpen(p, scalar(p.deployment))}`);

const listFirings = prepared<Key & { limit: number; offset: number }>(
  (p) =>
    sql`select * from cron_firings where deployment = ${scalar(p.deployment)} and cron_id = ${scalar(p.cron_id)}
    order by scheduled_at desc limit ${scalar(p.limit)} offset ${scalar(p.offset)}`,
);

type Old = { deployment: string; before: number; limit: number };

const sweepFirings = prepared<Old>(
  (p) =>
    sql`delete from cron_firings where (deployment, cron_id, scheduled_at) in (
      select deployment, cron_id, scheduled_at from cron_firings where deployment = ${scalar(p.deployment)}
        and fired_at < ${scalar(p.before)} order by fired_at limit ${scalar(p.limit)})
    returning cron_id`,
);

const deletedCrons = prepared<{ deployment: string; limit: number }>(
  (p) =>
    sql`select distinct row_id from ${leftLabels("cron")} and deployment = ${scalar(p.deployment)}
    limit ${scalar(p.limit)}`,
);

const dropLeft = prepared<{ deployment: string; cron_ids: string }>(
  (p) =>
    sql`delete from ${leftLabels("cron")} and deployment = ${p.deployment} and row_id in ${each(p.cron_ids)}
    returning row_id`,
);

/** Statements that delete records of old ticks, and the labels of deleted crons. */
export async function sweepCrons(driver: Database, old: Old): Promise<Statement[]> {
  const left = await driver.read(deletedCrons(old));
  const cron_ids = JSON.stringify(left.map(({ row_id }) => row_id));
  return [sweepFirings(old), ...(left.length > 0 ? [dropLeft({ deployment: old.deployment, cron_ids })] : [])];
}

// Databases sort nulls differently.
const orders: Readonly<Record<CronSort, "created_at" | RawBuilder<unknown>>> = {
  created_at: "created_at",
  updated_at: sql`crons.updated_at`,
  cron_id: sql`crons.cron_id`,
  assistant_id: sql`crons.assistant_id`,
  thread_id: sql`coalesce(crons.thread_id, '')`,
  end_time: sql`coalesce(crons.end_time, -1)`,
  next_run_date: sql`coalesce(crons.next_run_date, -1)`,
};

/** Fires one tick of a cron: creates its run, or records why it did not, in one batch. */
function firing(driver: Database): CronStorage["fireCron"] {
  /** Records a tick as skipped and schedules the next one. False when the cron has changed since it was read. */
  async function skip(fire: FireCron, firing: Firing, skipped: FireCron["skipped"]): Promise<boolean> {
    const { next_run_date } = fire;
    const results = await driver.batch([
      ...(skipped.length > 0 ? [insertSkipped({ ...firing, skipped: listed(skipped) })] : []),
      advance({ ...firing, next_run_date }),
    ]);
    return results.at(-1)?.length === 1;
  }

  /** Why a tick created no run. */
  async function refused(fire: FireCron, firing: Firing, request: CreateRun): Promise<FireOutcome> {
    const [open] = await driver.read(isStillOpen(firing));
    if (!open) return { kind: "lost" };
    const { kind: reason } = await refusal(driver, firing.deployment, request);
    if (reason !== "thread_busy" && reason !== "thread_full" && reason !== "deployment_full") return { kind: "stale" };
    const { scheduled_at } = firing;
    const recorded = await skip(fire, { ...firing, run_id: null }, [...fire.skipped, { scheduled_at, reason }]);
    return recorded ? { kind: "refused", reason } : { kind: "lost" };
  }

  return async ({ deployment }, fire) => {
    const { cron_id, seen, next_run_date, now } = fire;
    const scheduled_at = fire.firing?.scheduled_at ?? seen.next_run_date;
    const tick: Tick = { cron_id, seen_next: seen.next_run_date, seen_revision: seen.revision, scheduled_at };
    const firing: Firing = { deployment, now, run_id: null, ...tick };
    if (!fire.firing) return { kind: (await skip(fire, firing, fire.skipped)) ? "skipped" : "lost" };
    const { run: request } = fire.firing;
    const create = createStatements(deployment, request, request.limits?.pending ?? null, tick);
    const fired: Firing = { ...firing, run_id: request.run.run_id };
    const statements = [
      ...create.statements,
      insertFiring(fired),
      ...(fire.skipped.length > 0 ? [insertSkipped({ ...fired, skipped: listed(fire.skipped) })] : []),
      advance({ ...fired, next_run_date }),
    ];
    const lock_keys = [...create.lock_keys, `cron ${deployment} ${cron_id}`];
    const rowsOf = rowsIn(statements, await driver.batch(statements, lock_keys));
    const created = create.created(rowsOf);
    return created ? { kind: "fired", created } : await refused(fire, firing, request);
  };
}

export function cronVerbs(driver: Database): CronStorage {
  const get = ({ deployment, filter }: Scope, cron_id: string): Promise<CronRow | null> =>
    readOne(driver, getCron({ deployment, cron_id }, filter), toCron);

  return {
    /**
     * @statements insertCron · addLabels · isThread
     * @guards insert where assistant and thread exist · labels.
     */
    async createCron({ deployment }, cron, now) {
      const { cron_id, assistant_id, thread_id, user_id } = cron;
      const columns = { assistant_id, thread_id, user_id, auth_user: toText(cron.auth_user), ...toContent(cron) };
      const [inserted] = await driver.batch([
        insertCron({ deployment, cron_id, ...columns, now }),
        ...addLabels("cron", deployment, cron_id, cron.metadata),
      ]);
      if (inserted?.[0]) return { kind: "created", cron: toCron(inserted[0]) };
      const there = thread_id === null || (await driver.read(isThread({ deployment, thread_id }))).length > 0;
      return { kind: there ? "assistant_not_found" : "thread_not_found" };
    },

    /** @statements getCron */
    getCron: get,

    /**
     * @statements findRows
     * @guards As searchAssistants.
     */
    async searchCrons(scope, query) {
      const by = orders[query.sort_by];
      const { rows, total } = await findRows(driver, sought(scope, query), { ...query, columns: sql`crons.*`, by });
      return { rows: rows.map(toCron), total };
    },

    /**
     * @statements getCron · updateCron · replaceLabels
     * @guards read · update where `revision` and `next_run_date` are as seen · labels; retries.
     */
    async updateCron(scope, cron_id, next, now) {
      const { deployment } = scope;
      for (;;) {
        const cron = await get(scope, cron_id);
        if (!cron) return null;
        const content = next(cron);
        const seen = { seen_revision: cron.revision, seen_next: cron.next_run_date };
        const [updated] = await driver.batch([
          updateCron({ deployment, cron_id, ...toContent(content), ...seen, now }),
          ...replaceLabels("cron", deployment, cron_id, content.metadata),
        ]);
        if (updated?.[0]) return toCron(updated[0]);
      }
    },

    /**
     * @statements deleteCron · dropLabels
     * @guards delete · labels if it is gone.
     */
    async deleteCron({ deployment, filter }, cron_id) {
      const [deleted] = await driver.batch([
        deleteCron({ deployment, cron_id }, filter),
        dropLabels("cron", deployment, cron_id),
      ]);
      return deleted?.length === 1;
    },

    // Two partial indexes: of those with a date, and of those that fail.
    /** @statements statement */
    enabledCrons({ deployment }, { due_by, failures, limit }) {
      const where = [sql`deployment = ${deployment} and enabled = 1`];
      if (due_by !== undefined) where.push(sql`next_run_date is not null and next_run_date <= ${due_by}`);
      if (failures !== undefined) where.push(sql`failures > 0 and failures >= ${failures}`);
      const order = due_by === undefined ? sql`` : sql`order by next_run_date`;
      const select = sql`select * from crons where ${sql.join(where, sql` and `)} ${order} limit ${limit}`;
      return readAll(driver, statement(select), toCron);
    },

    /**
     * @statements insertSkipped · advance · isStillOpen · refusal · createStatements · insertFiring
     * @guards the statements of `createRun`, which also require that the cron is as seen and the tick has no firing ·
     *   insert the firing from the run · skipped ticks · advance `next_run_date` where it is as seen. The primary key of
     *   `cron_firings` makes a tick fire once. Without a run to create: skipped ticks · advance.
     */
    fireCron: firing(driver),

    /**
     * @statements recordFiring
     * @guards insert the firing of a run that was created by hand, where the cron exists.
     */
    async recordFiring({ deployment }, { cron_id, fired_at, run_id }) {
      await driver.batch(
        [recordFiring({ deployment, cron_id, now: fired_at, run_id })],
        [`cron ${deployment} ${cron_id}`],
      );
    },

    /** @statements listFirings */
    listCronFirings: ({ deployment }, cron_id, { limit, offset }) =>
      readAll(driver, listFirings({ deployment, cron_id, limit, offset }), toFiring),
  };
}

const listed = (skipped: FireCron["skipped"]): string =>
  JSON.stringify(skipped.map(({ scheduled_at, reason }) => [scheduled_at, reason]));

function sought({ deployment, filter }: Scope, query: CronQuery): Sought {
  const where: RawBuilder<unknown>[] = [];
  if (query.assistant_id !== undefined) where.push(sql`crons.assistant_id = ${query.assistant_id}`);
  if (query.thread_id !== undefined) where.push(sql`crons.thread_id = ${query.thread_id}`);
  if (query.enabled !== undefined) where.push(sql`crons.enabled = ${query.enabled ? 1 : 0}`);
  return { kind: "cron", deployment, metadata: query.metadata, filter, where };
}

function toContent(cron: CronContent): Content {
  return {
    on_run_completed: cron.on_run_completed,
    schedule: cron.schedule,
    timezone: cron.timezone,
    end_time: cron.end_time,
    enabled: cron.enabled ? 1 : 0,
    next_run_date: cron.next_run_date,
    payload: JSON.stringify(cron.payload),
    metadata: JSON.stringify(cron.metadata),
  };
}

function toCron(row: SqlRow): CronRow {
  const { deployment: _, ...stored } = row as unknown as Row;
  return {
    ...stored,
    on_run_completed: stored.on_run_completed as OnRunCompleted | null,
    enabled: stored.enabled === 1,
    payload: JSON.parse(stored.payload) as JsonObject,
    metadata: JSON.parse(stored.metadata) as JsonObject,
    auth_user: fromText<JsonObject>(stored.auth_user),
  };
}

function toFiring(row: SqlRow): CronFiring {
  const { cron_id, scheduled_at, fired_at, run_id, skipped, manual } = row as unknown as Tables["cron_firings"];
  const known = { cron_id, scheduled_at, fired_at, run_id, skipped: skipped as SkipReason | null };
  return manual === 1 ? { ...known, manual: true } : known;
}
