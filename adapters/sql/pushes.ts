/** Push configurations of A2A tasks. Their notifications are rows in the outbox of webhooks. */
import type { NewPush, PushRow, PushStorage, PushTerms, Scope } from "../../lib/storage/mod.ts";
import { scalar } from "./dialect.ts";
import { andOfPermitted, type Bound, scoped } from "./filter.ts";
import type { RowsOf } from "./schema/tables.ts";
import { type Database, ofThread, prepared, readAll, type Statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** They go with the run that began the task. */
export const pushTables = {
  push_configs: {
    columns: {
      /** A UUID. Ids of deliveries begin with it. */
      push_id: "text not null",
      deployment: "text not null",
      thread_id: "text not null",
      /** The run that began the task. */
      task_id: "text not null",
      config_id: "text not null",
      /** The newest run of the task: its end is told. */
      last_run: "text not null",
      url: "text not null",
      host: "text not null",
      /** JSON: what the request needs. */
      config: "text not null",
      created_at: "bigint not null",
    },
    constraints: [
      "primary key (task_id, config_id)",
      "foreign key (task_id) references runs (run_id) on delete cascade",
    ],
    indexes: ["index push_configs_last on push_configs (last_run)"],
  },
} as const;

type Rows = RowsOf<typeof pushTables>;
type Stored = Omit<Rows["push_configs"], "thread_id" | "created_at"> & { now: number };

/** The most configurations of one task. */
const MOST = 10;

const put = (p: Stored, bound: Bound): RawBuilder<unknown> =>
  sql`insert into push_configs (push_id, deployment, thread_id, task_id, config_id, last_run, url, host, config, created_at)
    select ${p.push_id}, r.deployment, r.thread_id, r.run_id, ${p.config_id}, ${p.last_run}, ${p.url}, ${p.host}, ${p.config},
      ${p.now}
    from runs r where r.run_id = ${scalar(p.task_id)} and r.deployment = ${scalar(p.deployment)}
      and exists (select 1 from runs l where l.run_id = ${p.last_run})
      and (select count(*) from push_configs c where c.task_id = r.run_id and c.config_id <> ${p.config_id}) < ${MOST}
      ${andOfPermitted("r", bound)}
    on conflict (task_id, config_id) do update set last_run = excluded.last_run, url = excluded.url, host = excluded.host,
      config = excluded.config
    returning config_id`;

const putOfRun = prepared<Stored>((p) => put(p, null));
const putOfTask = scoped<Stored>(put);

type Following = { deployment: string; thread_id: string; run_id: string };

/** A run that resumes continues the task of the run before it. */
const follow = prepared<Following>(
  (p) =>
    sql`update push_configs set last_run = ${p.run_id} where deployment = ${p.deployment} and last_run = (
      select q.run_id from runs q where q.deployment = ${p.deployment} and q.thread_id = ${p.thread_id}
        and q.seq < (select o.seq from runs o where o.run_id = ${p.run_id}) order by q.seq desc limit 1)`,
);

/** Beside a new run. `resumes`: it may answer what a task asks. */
export function pushesOf(
  { deployment, thread_id, run_id }: Following,
  push: NewPush | undefined,
  resumes: boolean,
  now: number,
): Statement[] {
  const task_id = push?.task_id ?? run_id;
  return [
    ...(resumes ? [follow({ deployment, thread_id, run_id })] : []),
    ...(push ? [putOfRun({ ...columnsOf({ ...push, task_id }), deployment, last_run: run_id, now })] : []),
  ];
}

function columnsOf({ push_id, task_id, config_id, url, host, terms }: NewPush & { readonly task_id: string }) {
  const stored: PushTerms = { ...terms, task_id };
  return { push_id, task_id, config_id, url, host, config: JSON.stringify(stored) };
}

/** How a run ended, for the notifications of its task. */
interface PushedEnd {
  readonly status: unknown;
  readonly error: unknown;
  readonly now: unknown;
  /** The end of the delivery's id, behind the start of the configuration's. */
  readonly id_end: RawBuilder<unknown>;
}

/** The rows of the outbox for these runs, in the order of its columns. `from`: rows of `runs`, named r. */
export const pushRows = (from: RawBuilder<unknown>, { status, error, now, id_end }: PushedEnd): RawBuilder<unknown> =>
  sql`select substr(c.push_id, 1, 24) || ${id_end}, r.deployment, c.url, c.host, 0, 'pending', 0, 0, ${now}, ${now},
      r.thread_id, r.assistant_id, ${status}, '{}', '{}', r.multitask_strategy, r.attempt, r.temporary, r.created_at,
      r.started_at, ${now}, ${error}, null, 0, null, r.run_id, c.config,
      case when ${status} = 'success' then (select t.interrupts from threads t
        where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end
    from ${from} join push_configs c on c.last_run = r.run_id`;

type Task = { deployment: string; task_id: string };

const listed = scoped<Task>(
  (p, bound) =>
    sql`select * from push_configs where deployment = ${p.deployment} and task_id = ${p.task_id}${andOfPermitted("push_configs", bound)}
    order by created_at, config_id`,
);

const removed = scoped<Task & { config_id: string }>(
  (p, bound) =>
    sql`delete from push_configs where deployment = ${p.deployment} and task_id = ${p.task_id}
      and config_id = ${p.config_id}${andOfPermitted("push_configs", bound)} returning config_id`,
);

/** `tells`: the statement that adds a notification of the cancelled task for each of its configurations. */
export function pushVerbs(
  driver: Database,
  tells: (of: Task & { now: number }, filter: Scope["filter"]) => Statement,
): PushStorage {
  const locks = (deployment: string, thread_id: string): string[] => [ofThread(deployment, thread_id)];
  return {
    /**
     * @statements putOfTask
     * @guards insert or replace where the task's run and its newest run exist, the thread is visible, and the task has
     *   fewer than 10 others. Outcome: its row.
     */
    async setPush({ deployment, filter }, { thread_id, last_run, ...push }, now) {
      const row: Stored = { ...columnsOf(push), deployment, last_run, now };
      const [set] = await driver.batch([putOfTask(row, filter)], locks(deployment, thread_id));
      return set?.length === 1;
    },

    /** @statements listed */
    listPushes: ({ deployment, filter }, task_id) => readAll(driver, listed({ deployment, task_id }, filter), toPush),

    /**
     * @statements removed
     * @guards delete where the thread is visible.
     */
    async removePush({ deployment, filter }, { thread_id, task_id, config_id }) {
      await driver.batch([removed({ deployment, task_id, config_id }, filter)], locks(deployment, thread_id));
    },

    /**
     * @statements tells
     * @guards insert a delivery for each configuration of the task where the thread is visible; once for each.
     */
    async tellCancelled({ deployment, filter }, { thread_id, task_id }, now) {
      await driver.batch([tells({ deployment, task_id, now }, filter)], locks(deployment, thread_id));
    },
  };
}

function toPush(row: Readonly<Record<string, unknown>>): PushRow {
  const { push_id, task_id, thread_id, config_id, last_run, url, host, config } =
    row as unknown as Rows["push_configs"];
  const { task_id: _, ...terms } = JSON.parse(config) as PushTerms;
  return { push_id, task_id, thread_id, config_id, last_run, url, host, terms };
}
