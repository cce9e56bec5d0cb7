/** Statements on webhook deliveries: the outbox, and the claims of its senders. */
import { type RawBuilder, sql } from "kysely";
import type { DeliveryState } from "../../../lib/storage/mod.ts";
import type { EndedStatement, RunEnd } from "../feature.ts";
import { isThreadPermitted } from "../filter.ts";
import { bigint, columns, type Operand, type Operands, orNull, type ParametersFor, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, scopedQuery, shapedQuery } from "../query.ts";
import { deliveryTables } from "../schema/deliveries.ts";
import type { RowsOf } from "../schema/tables.ts";

type Rows = RowsOf<typeof deliveryTables>;

const db = createBuilder<Rows>();

const stable = { stable: true };

// ---------------------------------------------------------------- the outbox

/** The columns of a new delivery. Those that are missing here are null until a sender claims it. */
type NewColumn = Exclude<keyof Rows["webhook_deliveries"], "claim_token" | "claimed_until" | "sent_at">;

/** The columns whose values differ between the webhook of a run and a push notification. */
type SpecificColumn =
  | ("delivery_id" | "url" | "host" | "depth" | "metadata" | "kwargs" | "state_values")
  | ("values_omitted" | "cancel_reason" | "push" | "interrupts");

/** Returns column → value of a new delivery about the run `r`. Each run of the statement has the same columns in the same order. */
const toDelivery = (
  { status, error, now }: Operands<Pick<RunEnd, "status" | "error" | "now">>,
  specific: Readonly<Record<SpecificColumn, RawBuilder<unknown>>>,
): Readonly<Record<NewColumn, Operand<string | number | null> | RawBuilder<unknown>>> => ({
  delivery_id: specific.delivery_id,
  deployment: sql`r.deployment`,
  url: specific.url,
  host: specific.host,
  depth: specific.depth,
  state: sql`'pending'`,
  attempts: sql`0`,
  series_attempts: sql`0`,
  due_at: now,
  created_at: now,
  thread_id: sql`r.thread_id`,
  assistant_id: sql`r.assistant_id`,
  status,
  metadata: specific.metadata,
  kwargs: specific.kwargs,
  multitask_strategy: sql`r.multitask_strategy`,
  attempt: sql`r.attempt`,
  stateless: sql`r.stateless`,
  run_created_at: sql`r.created_at`,
  started_at: sql`r.started_at`,
  ended_at: now,
  error,
  state_values: specific.state_values,
  values_omitted: specific.values_omitted,
  cancel_reason: specific.cancel_reason,
  run_id: sql`r.run_id`,
  push: specific.push,
  interrupts: specific.interrupts,
  assistant_version: sql`r.assistant_version`,
  trace_origin: sql`r.trace_origin`,
});

/** Returns column → value of a notification of the configuration `c` about the run `r`. Its id is the start of the configuration's id and `id_end`. */
const toNotification = (end: Operands<Pick<RunEnd, "status" | "error" | "now">>, id_end: RawBuilder<string>) =>
  toDelivery(end, {
    delivery_id: sql`substr(c.push_id, 1, 24) || ${id_end}`,
    url: sql`c.url`,
    host: sql`c.host`,
    depth: sql`0`,
    metadata: sql`'{}'`,
    kwargs: sql`'{}'`,
    state_values: sql`null`,
    values_omitted: sql`0`,
    cancel_reason: sql`null`,
    push: sql`c.config`,
    interrupts: sql`case when ${end.status} = 'success' then (select t.interrupts from threads t
      where t.deployment = r.deployment and t.thread_id = r.thread_id) else null end`,
  });

const joinColumns = (delivery: object): RawBuilder<unknown> =>
  sql.join(Object.keys(delivery).map((name) => sql.ref(name)));
const joinValues = (delivery: object): RawBuilder<unknown> => sql.join(Object.values(delivery));

/**
 * Inserts the deliveries of ending runs: one for the webhook of each run, and one for each push configuration of its task. A row has
 * everything that the payload needs, so the run may be deleted.
 */
export const insertDeliveries: EndedStatement = (end, isEnding) => {
  const ofWebhook = toDelivery(end, {
    delivery_id: sql`r.run_id`,
    url: sql`r.webhook`,
    host: sql`coalesce(r.webhook_host, '')`,
    depth: sql`r.webhook_depth`,
    metadata: sql`r.metadata`,
    kwargs: sql`r.kwargs`,
    state_values: sql`case when r.stateless = 1 then null else ${end.values} end`,
    values_omitted: sql`case when r.stateless = 1 then 0 else ${end.values_omitted} end`,
    cancel_reason: sql`case when ${end.status} = 'interrupted' then r.cancel_reason else null end`,
    push: sql`null`,
    interrupts: sql`null`,
  });
  const ofPush = toNotification(end, sql`substr(r.run_id, 25)`);
  return sql<never>`insert into webhook_deliveries (${joinColumns(ofWebhook)})
    select ${joinValues(ofWebhook)} from (select * from runs where webhook is not null and ${isEnding}) r
    union all
    select ${joinValues(ofPush)} from (select * from runs where ${isEnding}) r join push_configs c on c.last_run = r.run_id
    where true on conflict do nothing`;
};

/** Inserts a notification for each push configuration of a task that was cancelled while it waited, once for each. */
export const insertCancelNotifications = scopedQuery({ deployment: text, task_id: text, now: bigint }, (p, filter) => {
  const end = { status: sql<string>`'interrupted'`, error: sql<null>`null`, now: p.now };
  const notification = toNotification(end, sql<string>`'000000000000'`);
  return sql<never>`insert into webhook_deliveries (${joinColumns(notification)})
    select ${joinValues(notification)} from (select runs.* from runs where deployment = ${p.deployment} and run_id in (
      select o.last_run from push_configs o where o.task_id = ${p.task_id}) and ${isThreadPermitted("runs", filter)}) r
    join push_configs c on c.last_run = r.run_id
    where c.task_id = ${p.task_id} on conflict do nothing`;
});

// -------------------------------------------------------------------- claims

/**
 * Claims due deliveries host by host and returns them: then the queue of one host delays no other. Deliveries that are being sent count
 * towards the limit of their host.
 */
export const claimDeliveries = query(
  { deployment: text, token: text, until: bigint, now: bigint, limit: bigint, per_host: bigint },
  (p) =>
    sql<Rows["webhook_deliveries"]>`update webhook_deliveries set claim_token = ${p.token}, claimed_until = ${p.until},
      attempts = attempts + 1, series_attempts = series_attempts + 1, sent_at = coalesce(sent_at, ${p.now})
    where delivery_id in (
      with recursive hosts (host) as (
        select min(host) from webhook_deliveries where deployment = ${p.deployment} and state = 'pending'
        union all
        select (select min(w.host) from webhook_deliveries w
          where w.deployment = ${p.deployment} and w.state = 'pending' and w.host > hosts.host)
        from hosts where hosts.host is not null
      ), busy as (
        select host, count(*) as sends from webhook_deliveries
        where deployment = ${p.deployment} and claim_token is not null and claimed_until > ${p.now}
        group by host
      ), due as (
        select d.delivery_id, d.host, d.due_at,
          row_number() over (partition by d.host order by d.due_at, d.delivery_id) as rank
        from hosts cross join webhook_deliveries d where d.delivery_id in (
          select w.delivery_id from webhook_deliveries w
          where w.deployment = ${p.deployment} and w.host = hosts.host and w.state = 'pending'
            and w.due_at <= ${p.now} and (w.claim_token is null or w.claimed_until <= ${p.now})
          order by w.due_at, w.delivery_id limit ${p.per_host})
      )
      select due.delivery_id from due left join busy on busy.host = due.host
      where due.rank + coalesce(busy.sends, 0) <= ${p.per_host}
      order by due.due_at, due.delivery_id limit ${p.limit}
    ) returning *`,
  stable,
);

const keyTypes = { deployment: text, delivery_id: text };
const claimTypes = { ...keyTypes, token: text };

/**
 * The sender has the claim of the delivery. The prefix `worker ` marks claims of the process with the worker lock: the next holder
 * knows that this process is dead. Claims of other processes have no prefix.
 */
const isClaimed = (p: ParametersFor<typeof claimTypes>): RawBuilder<boolean> =>
  sql<boolean>`delivery_id = ${p.delivery_id} and deployment = ${p.deployment}
    and claim_token in (${p.token}, 'worker ' || ${p.token})`;

/** Inserts an attempt while its sender has the claim. */
export const insertAttempt = query(
  {
    ...claimTypes,
    ...columns(deliveryTables.delivery_attempts, [
      "number",
      "at",
      "status",
      "error",
      "duration_ms",
      "address",
      "answer",
    ]),
  },
  (p) =>
    insertWhere(
      db,
      "delivery_attempts",
      {
        delivery_id: p.delivery_id,
        number: p.number,
        at: p.at,
        status: p.status,
        error: p.error,
        duration_ms: p.duration_ms,
        address: p.address,
        answer: p.answer,
      },
      sql`exists (select 1 from webhook_deliveries where ${isClaimed(p)})`,
    ).onConflict((conflict) => conflict.doNothing()),
);

const noClaim = { claim_token: sql<null>`null`, claimed_until: sql<null>`null` };

/** Sets the state of a delivery and ends its claim, while the sender has it. Returns a row if so. A `due_at` of null keeps the time. */
export const releaseDelivery = query({ ...claimTypes, state: text, due_at: orNull(bigint), uncounted: bigint }, (p) =>
  db
    .updateTable("webhook_deliveries")
    .set({
      state: p.state,
      due_at: sql<number>`coalesce(${p.due_at}, due_at)`,
      series_attempts: sql<number>`series_attempts - ${p.uncounted}`,
      ...noClaim,
    })
    .where(isClaimed(p))
    .returning("delivery_id"),
);

/** Ends the claims of a dead worker, which frees the limits of their hosts. The deliveries are due when the claims would have expired. */
export const endWorkerClaims = query({}, () =>
  db
    .updateTable("webhook_deliveries")
    .set({ due_at: sql`claimed_until`, ...noClaim })
    .where("claim_token", "is not", null)
    .where("claim_token", "like", sql<string>`'worker %'`),
);

/** Selects when the next delivery without a claim is due. */
export const selectNextDue = query(
  { deployment: text },
  (p) =>
    db
      .selectFrom("webhook_deliveries")
      .select("due_at")
      .where("deployment", "=", p.deployment)
      .where("state", "=", sql.lit("pending"))
      .where("claim_token", "is", null)
      .orderBy("due_at")
      .limit(sql.lit(1)),
  stable,
);

// ------------------------------------------------------------------- reading

/** The states as they stand in the conditions of indexes, which a parameter would not match. */
const STATES = { pending: sql.lit("pending"), delivered: sql.lit("delivered"), failed: sql.lit("failed") } as const;

/** Selects the deliveries of a list. Without states it has those of every state. With `filtered`, the filter permits their threads. */
interface DeliveriesShape {
  readonly states: readonly DeliveryState[];
  readonly of_run: boolean;
  readonly of_thread: boolean;
  readonly after: boolean;
  readonly filtered: boolean;
}

/** Selects a page of deliveries, the newest first. */
export const selectDeliveries = shapedQuery(
  (_: DeliveriesShape) => ({
    ...{ deployment: text, run_id: text, thread_id: text, after_created_at: bigint, after_id: text },
    ...{ filter: text, limit: bigint },
  }),
  (p, { states, of_run, of_thread, after, filtered }) => {
    const [state, ...otherStates] = states.map((name) => STATES[name]);
    return db
      .selectFrom("webhook_deliveries")
      .selectAll()
      .where("deployment", "=", p.deployment)
      .$if(after, (deliveries) =>
        deliveries.where(sql<boolean>`(created_at, delivery_id) < (${p.after_created_at}, ${p.after_id})`),
      )
      .$if(state !== undefined, (deliveries) =>
        otherStates.length > 0
          ? deliveries.where(sql<boolean>`state in (${sql.join([state, ...otherStates])})`)
          : deliveries.where(sql<boolean>`state = ${state}`),
      )
      .$if(of_run, (deliveries) => deliveries.where("delivery_id", "=", p.run_id))
      .$if(of_thread, (deliveries) => deliveries.where("thread_id", "=", p.thread_id))
      .where(isThreadPermitted("webhook_deliveries", filtered ? p.filter : null))
      .orderBy("created_at", "desc")
      .orderBy("delivery_id", "desc")
      .limit(p.limit);
  },
  {
    stable: true,
    shapes: [
      { states: [], of_run: false, of_thread: false, after: true, filtered: false },
      { states: ["failed"], of_run: false, of_thread: false, after: false, filtered: true },
      { states: ["pending", "delivered"], of_run: true, of_thread: true, after: false, filtered: false },
    ],
  },
);

/** Selects the attempts of a delivery whose thread the filter permits, in their order. */
export const selectAttempts = scopedQuery(
  keyTypes,
  (p, filter) =>
    db
      .selectFrom("delivery_attempts as a")
      .innerJoin("webhook_deliveries as d", "d.delivery_id", "a.delivery_id")
      .selectAll("a")
      .where("a.delivery_id", "=", p.delivery_id)
      .where("d.deployment", "=", p.deployment)
      .where(isThreadPermitted("d", filter))
      .orderBy("a.number"),
  stable,
);

/** Makes a delivery due now with a new series of attempts, if none is under way. Returns a row if so. */
export const restartDelivery = scopedQuery({ ...keyTypes, now: bigint }, (p, filter) =>
  db
    .updateTable("webhook_deliveries")
    .set({ state: sql.lit("pending"), series_attempts: sql.lit(0), due_at: p.now, ...noClaim })
    .where("delivery_id", "=", p.delivery_id)
    .where("deployment", "=", p.deployment)
    .where(sql<boolean>`(claim_token is null or claimed_until <= ${p.now})`)
    .where(isThreadPermitted("webhook_deliveries", filter))
    .returning("delivery_id"),
);
