/** Webhook deliveries: the outbox that ending runs write to, and the claims of its senders. */
import type { JsonObject } from "../../lib/json.ts";
import type {
  DeliveryAttempt,
  DeliveryQuery,
  DeliveryRow,
  DeliveryState,
  DeliveryStorage,
  MultitaskStrategy,
  PushStorage,
  PushTerms,
  Scope,
  TerminalStatus,
} from "../../lib/storage/mod.ts";
import { fromText } from "./columns.ts";
import { scalar } from "./dialect.ts";
import type { SqlRow } from "./driver.ts";
import type { Feature, RunEnd, Runs } from "./feature.ts";
import { andOfPermitted, below, scoped } from "./filter.ts";
import { toFilterArgument } from "./filter-argument.ts";
import { pushesOf, pushRows, pushTables, pushVerbs } from "./pushes.ts";
import type { RowsOf } from "./schema/tables.ts";
import { type Args, type Database, prepared, readAll, readOne, type Statement, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

/** Their rows outlive the runs that they refer to. */
export const deliveryTables = {
  /** The outbox: an ended run with everything that its webhook's payload needs. */
  webhook_deliveries: {
    columns: {
      /** The run's id; that of a push notification is its own. */
      delivery_id: "text not null primary key",
      deployment: "text not null",
      url: "text not null",
      host: "text not null",
      depth: "integer not null",
      state: "text not null check (state in ('pending', 'delivered', 'failed'))",
      attempts: "integer not null",
      /** Attempts in the current retry series. */
      series_attempts: "integer not null",
      due_at: "bigint not null",
      claim_token: "text",
      claimed_until: "bigint",
      sent_at: "bigint",
      created_at: "bigint not null",
      thread_id: "text not null",
      assistant_id: "text not null",
      status: "text not null",
      metadata: "text not null",
      kwargs: "text not null",
      multitask_strategy: "text not null",
      attempt: "integer not null",
      temporary: "integer not null",
      run_created_at: "bigint not null",
      started_at: "bigint",
      ended_at: "bigint not null",
      error: "text",
      state_values: "text",
      values_omitted: "integer not null",
      cancel_reason: "text",
      run_id: "text not null",
      /** JSON: the terms of a push configuration; null for the webhook of a run. */
      push: "text",
      /** The open interrupts, for a push notification. */
      interrupts: "text",
    },
    constraints: [
      "check ((claim_token is null) = (claimed_until is null))",
      "check (claim_token is null or state = 'pending')",
    ],
    indexes: [
      "index deliveries_due on webhook_deliveries (deployment, due_at) where state = 'pending'",
      "index deliveries_host on webhook_deliveries (deployment, host, due_at, delivery_id) where state = 'pending'",
      "index deliveries_claimed on webhook_deliveries (deployment, host) where claim_token is not null",
      "index deliveries_created on webhook_deliveries (deployment, created_at, delivery_id)",
      "index deliveries_failed on webhook_deliveries (deployment, created_at, delivery_id) where state = 'failed'",
    ],
  },

  delivery_attempts: {
    columns: {
      delivery_id: "text not null",
      number: "integer not null",
      at: "bigint not null",
      status: "integer",
      error: "text",
      duration_ms: "bigint not null",
      address: "text",
      /** The start of the answer's body. */
      answer: "text",
    },
    constraints: [
      "primary key (delivery_id, number)",
      "foreign key (delivery_id) references webhook_deliveries (delivery_id) on delete cascade",
    ],
  },
} as const;

type Rows = RowsOf<typeof deliveryTables>;

/** The final state as JSON; null when there is none or it is omitted. */
type State = { values: string | null; values_omitted: number };

const COLUMNS = sql`delivery_id, deployment, url, host, depth, state, attempts, series_attempts, due_at,
  created_at, thread_id, assistant_id, status, metadata, kwargs, multitask_strategy, attempt, temporary,
  run_created_at, started_at, ended_at, error, state_values, values_omitted, cancel_reason, run_id, push, interrupts`;

/** Rows for the push configurations of the runs' tasks. */
function pushed<Of extends RunEnd & Args>(p: Of, runs: Runs<Of>): RawBuilder<unknown> {
  const { status, error, now } = p;
  return pushRows(sql`(select * from runs where ${runs(p)}) r`, {
    status,
    error,
    now,
    id_end: sql`substr(r.run_id, 25)`,
  });
}

// Runs without a webhook are skipped, and a run gets one delivery at most. The row contains everything that the payload needs, so the
// run may be deleted afterwards.
const outbox = <Of extends RunEnd & Args>(runs: Runs<Of>): ((end: Of & State) => Statement) =>
  prepared<Of & State>(
    (p) =>
      sql`insert into webhook_deliveries (${COLUMNS})
      select run_id, deployment, webhook, coalesce(webhook_host, ''), webhook_depth, 'pending', 0, 0, ${p.now},
        ${p.now}, thread_id, assistant_id, ${p.status}, metadata, kwargs, multitask_strategy, attempt, temporary,
        created_at, started_at, ${p.now}, ${p.error}, case when temporary = 1 then null else ${p.values} end,
        case when temporary = 1 then 0 else ${p.values_omitted} end,
        case when ${p.status} = 'interrupted' then cancel_reason else null end, run_id, null, null
      from runs where webhook is not null and ${runs(p)}
      union all ${pushed(p, runs)} where true on conflict do nothing`,
  );

export const webhooks: Feature<keyof (Rows & typeof pushTables)> = {
  name: "webhooks",
  tables: { ...deliveryTables, ...pushTables },
  runColumns: {
    webhook: ({ webhook }) => webhook?.url ?? null,
    webhook_host: ({ webhook }) => webhook?.host ?? null,
    webhook_depth: ({ webhook }) => webhook?.depth ?? 0,
  },
  created(deployment, { run: { run_id, thread_id, metadata, kwargs, push }, now }) {
    const resumes = metadata.created_by === "a2a" && (kwargs.command as JsonObject | undefined)?.resume !== undefined;
    return pushesOf({ deployment, thread_id, run_id }, push, resumes, now);
  },
  ended(runs) {
    const add = outbox(runs);
    return (end, finish) =>
      add({ ...end, values: finish?.values?.json ?? null, values_omitted: finish?.values?.omitted ? 1 : 0 });
  },
  swept: {
    table: "webhook_deliveries",
    key: "delivery_id",
    time: "created_at",
    condition: sql`state <> 'pending'`,
  },
  verbs: deliveryVerbs,
};

/** A task whose questions are closed ends without a run that ends. */
const tells = scoped<{ deployment: string; task_id: string; now: number }>((p, bound) => {
  const from = sql`(select runs.* from runs where deployment = ${p.deployment} and run_id in (
    select o.last_run from push_configs o where o.task_id = ${p.task_id})${andOfPermitted("runs", bound)}) r`;
  const rows = pushRows(from, {
    status: sql`'interrupted'`,
    error: sql`null`,
    now: p.now,
    id_end: sql`'000000000000'`,
  });
  return sql`insert into webhook_deliveries (${COLUMNS}) ${rows} where c.task_id = ${p.task_id} on conflict do nothing`;
});

type Claim = { deployment: string; token: string; until: number; now: number; limit: number; per_host: number };

/** Claims due deliveries host by host, so that one host's queue does not delay others; claimed ones count towards their host's limit. */
const takeDue = prepared<Claim>(
  (p) =>
    sql`update webhook_deliveries set claim_token = ${p.token}, claimed_until = ${p.until}, attempts = attempts + 1,
      series_attempts = series_attempts + 1, sent_at = coalesce(sent_at, ${p.now})
    where delivery_id in (
      with recursive hosts (host) as (
        select min(host) from webhook_deliveries where deployment = ${scalar(p.deployment)} and state = 'pending'
        union all
        select (select min(w.host) from webhook_deliveries w
          where w.deployment = ${scalar(p.deployment)} and w.state = 'pending' and w.host > hosts.host)
        from hosts where hosts.host is not null
      ), busy as (
        select host, count(*) as sends from webhook_deliveries
        where deployment = ${scalar(p.deployment)} and claim_token is not null and claimed_until > ${scalar(p.now)}
        group by host
      ), due as (
        select d.delivery_id, d.host, d.due_at,
          row_number() over (partition by d.host order by d.due_at, d.delivery_id) as rank
        from hosts cross join webhook_deliveries d where d.delivery_id in (
          select w.delivery_id from webhook_deliveries w
          where w.deployment = ${scalar(p.deployment)} and w.host = hosts.host and w.state = 'pending'
            and w.due_at <= ${scalar(p.now)} and (w.claim_token is null or w.claimed_until <= ${scalar(p.now)})
          order by w.due_at, w.delivery_id limit ${scalar(p.per_host)})
      )
      select due.delivery_id from due left join busy on busy.host = due.host
      where due.rank + coalesce(busy.sends, 0) <= ${scalar(p.per_host)}
      order by due.due_at, due.delivery_id limit ${scalar(p.limit)}
    ) returning *`,
);

/** `http_status`: of the response. Not named `status`: that column of other tables is text. */
type Attempt = Omit<Rows["delivery_attempts"], "status"> & { http_status: number | null };
type Fence = { deployment: string; delivery_id: string; token: string };

// The prefix `worker ` marks claims of the process with the worker lock: the next holder knows that this process is dead. Claims of
// other processes have no prefix.
const isClaimed = (p: Fence): RawBuilder<unknown> =>
  sql`delivery_id = ${p.delivery_id} and deployment = ${p.deployment}
    and claim_token in (${p.token}, 'worker ' || ${p.token})`;

const recordAttempt = prepared<Fence & Attempt>(
  (p) =>
    sql`insert into delivery_attempts (delivery_id, number, at, status, error, duration_ms, address, answer)
    select delivery_id, ${p.number}, ${p.at}, ${p.http_status}, ${p.error}, ${p.duration_ms}, ${p.address}, ${p.answer}
    from webhook_deliveries where ${isClaimed(p)} on conflict do nothing`,
);

const release = prepared<Fence & { state: string; due_at: number | null; uncounted: number }>(
  (p) =>
    sql`update webhook_deliveries set state = ${p.state}, due_at = coalesce(${p.due_at}, due_at), claim_token = null,
      claimed_until = null, series_attempts = series_attempts - cast(${p.uncounted} as integer)
    where ${isClaimed(p)} returning delivery_id`,
);

/** Ends the claims of a dead worker, which frees their hosts' limits. The deliveries are due when the claims would have expired. */
export const endClaims: (none: Record<never, never>) => Statement = prepared(
  () =>
    sql`update webhook_deliveries set due_at = claimed_until, claim_token = null, claimed_until = null
    where claim_token is not null and claim_token like 'worker %'`,
);

const firstDue = prepared<{ deployment: string }>(
  (p) =>
    sql`select due_at from webhook_deliveries
    where deployment = ${scalar(p.deployment)} and state = 'pending' and claim_token is null order by due_at limit 1`,
);

type Key = { deployment: string; delivery_id: string };

/** The texts of states as they stand in the conditions of indexes: a parameter would not match those. */
const STATES = { pending: sql`'pending'`, delivered: sql`'delivered'`, failed: sql`'failed'` } as const;

function listed({ deployment, filter }: Scope, query: DeliveryQuery): Statement {
  const { state = [], run_id, thread_id, after, limit } = query;
  const states = [state].flat();
  const where = [sql`deployment = ${deployment}`, ...below(after, "delivery_id")];
  const [first, ...others] = states.map((one) => STATES[one]);
  if (first) where.push(others.length > 0 ? sql`state in (${sql.join([first, ...others])})` : sql`state = ${first}`);
  if (run_id !== undefined) where.push(sql`delivery_id = ${run_id}`);
  if (thread_id !== undefined) where.push(sql`thread_id = ${thread_id}`);
  return statement(
    sql`select * from webhook_deliveries where ${sql.join(where, sql` and `)}${andOfPermitted("webhook_deliveries", toFilterArgument(filter))}
    order by created_at desc, delivery_id desc limit ${limit}`,
  );
}

const listAttempts = scoped<Key>(
  (p, bound) =>
    sql`select a.* from delivery_attempts a join webhook_deliveries d on d.delivery_id = a.delivery_id
    where a.delivery_id = ${scalar(p.delivery_id)} and d.deployment = ${scalar(p.deployment)}${andOfPermitted("d", bound)}
    order by a.number`,
);

const restart = scoped<Key & { now: number }>(
  (p, bound) =>
    sql`update webhook_deliveries set state = 'pending', series_attempts = 0, due_at = ${p.now}, claim_token = null,
      claimed_until = null
    where delivery_id = ${p.delivery_id} and deployment = ${p.deployment}
      and (claim_token is null or claimed_until <= ${p.now})${andOfPermitted("webhook_deliveries", bound)}
    returning delivery_id`,
);

/** The verbs on webhook deliveries. `executes`: this process holds the worker lock, if the database has one. */
function deliveryVerbs(driver: Database, executes: () => boolean): DeliveryStorage & PushStorage {
  return {
    ...pushVerbs(driver, tells),

    /**
     * @statements takeDue
     * @guards one update of due rows, at most `per_host` per host including those being sent; sets token and
     *   `claimed_until`, `attempts + 1`.
     */
    async claimDeliveries({ deployment }, { token, until, now, limit, per_host }) {
      const claimant = executes() ? `worker ${token}` : token;
      const [taken] = await driver.batch(
        [takeDue({ deployment, token: claimant, until, now, limit, per_host })],
        [`deliveries ${deployment}`],
      );
      const rows = (taken ?? []).map(toDelivery);
      return rows.sort((a, b) => a.due_at - b.due_at || (a.delivery_id < b.delivery_id ? -1 : 1));
    },

    /**
     * @statements recordAttempt · release
     * @guards insert the attempt where claimed · set state and `due_at`, release the claim where claimed.
     */
    async finishDelivery({ deployment }, token, attempt, result) {
      const fence = { deployment, delivery_id: attempt.delivery_id, token };
      const { number, at, status, error, duration_ms, address, answer = null } = attempt;
      const due_at = result.state === "pending" ? result.due_at : null;
      const uncounted = result.state === "pending" && result.uncounted ? 1 : 0;
      const [, released] = await driver.batch(
        [
          recordAttempt({ ...fence, number, at, http_status: status, error, duration_ms, address, answer }),
          release({ ...fence, state: result.state, due_at, uncounted }),
        ],
        [`delivery ${attempt.delivery_id}`],
      );
      return released?.length === 1;
    },

    /** @statements firstDue */
    nextDelivery: ({ deployment }) => readOne(driver, firstDue({ deployment }), (row) => row.due_at as number),

    /** @statements listed */
    listDeliveries: (scope, query) => readAll(driver, listed(scope, query), toDelivery),

    /** @statements listAttempts */
    listAttempts: ({ deployment, filter }, delivery_id) =>
      readAll(driver, listAttempts({ deployment, delivery_id }, filter), toAttempt),

    /**
     * @statements restart
     * @guards `pending` with a new series, where no attempt is under way and the thread is visible.
     */
    async redeliver({ deployment, filter }, delivery_id, now) {
      const restarting = restart({ deployment, delivery_id, now }, filter);
      const [restarted] = await driver.batch([restarting], [`delivery ${delivery_id}`]);
      return restarted?.length === 1;
    },
  };
}

function toDelivery(row: SqlRow): DeliveryRow {
  const stored = row as unknown as Rows["webhook_deliveries"];
  return {
    delivery_id: stored.delivery_id,
    url: stored.url,
    host: stored.host,
    state: stored.state as DeliveryState,
    attempts: stored.attempts,
    series_attempts: stored.series_attempts,
    due_at: stored.due_at,
    sent_at: stored.sent_at,
    depth: stored.depth,
    created_at: stored.created_at,
    ...(stored.push === null
      ? {}
      : {
          push: {
            ...(JSON.parse(stored.push) as PushTerms),
            interrupts: fromText<JsonObject>(stored.interrupts) ?? {},
          },
        }),
    run: {
      run_id: stored.run_id,
      thread_id: stored.thread_id,
      assistant_id: stored.assistant_id,
      status: stored.status as TerminalStatus,
      metadata: JSON.parse(stored.metadata) as JsonObject,
      kwargs: JSON.parse(stored.kwargs) as JsonObject,
      multitask_strategy: stored.multitask_strategy as MultitaskStrategy,
      attempt: stored.attempt,
      stateless: stored.temporary === 1,
      created_at: stored.run_created_at,
      started_at: stored.started_at,
      ended_at: stored.ended_at,
      error: fromText<JsonObject>(stored.error),
      values: stored.state_values,
      values_omitted: stored.values_omitted === 1,
      ...(stored.cancel_reason === null ? {} : { cancel_reason: stored.cancel_reason }),
    },
  };
}

function toAttempt(row: SqlRow): DeliveryAttempt {
  const { delivery_id, number, at, status, error, duration_ms, address, answer } =
    row as unknown as Rows["delivery_attempts"];
  const known = { delivery_id, number, at, status, error, duration_ms, address };
  return answer === null ? known : { ...known, answer };
}
