/** Invariants I7, I8 and I10 of the design: what the database and the receivers have of webhooks, traces and feedback. */
import { DatabaseSync } from "node:sqlite";
import type { Inspection } from "./database.ts";
import type { Line } from "./executions.ts";
import type { Receivers } from "./receivers.ts";
import type { Report } from "./report.ts";
import { sleep } from "./servers.ts";

/** A run that was acknowledged. */
export interface AcknowledgedRun {
  readonly run_id: string;
  readonly webhook?: string | undefined;
  /** It is gone: it was rolled back before its end. */
  readonly rolledBack: boolean;
}

/** The claim of a process that is dead, a poll, and all attempts of a delivery: after so long without any being done, none will be. */
const STILL_MS = 60_000 + 15_000 + 30_000;
/** However long they go on. */
const ALL_MS = 15 * 60_000;

/** What the processes of the database, all dead, were about to send is due again: as it is a minute later. */
export function forgetClaims(path: string): void {
  const database = new DatabaseSync(path);
  try {
    database.exec("pragma busy_timeout = 5000");
    database.exec("update webhook_deliveries set claimed_until = 1 where claim_token is not null");
  } finally {
    database.close();
  }
}

export const UNSENT = "select count(*) as n from webhook_deliveries where state = 'pending'";

/** Resolves with how long it took until every delivery was taken, or had failed, or nothing moved any more. */
export async function awaitDeliveries(unsent: () => number | Promise<number>): Promise<number> {
  const from = Date.now();
  let least = Number.POSITIVE_INFINITY;
  for (let moved = from; moved > Date.now() - STILL_MS && Date.now() < from + ALL_MS; await sleep(50)) {
    const unsentCount = await unsent();
    if (unsentCount === 0) break;
    if (unsentCount < least) moved = Date.now();
    least = Math.min(least, unsentCount);
  }
  return Date.now() - from;
}

/** Checks I7: the webhook of each run that ended is delivered by one id and one body; none of a rolled-back run is. */
export function checkWebhooks(
  report: Report,
  {
    database,
    receivers,
    runs,
  }: { readonly database: Inspection; readonly receivers: Receivers; readonly runs: readonly AcknowledgedRun[] },
): void {
  const rows = new Map(database.rows("select * from webhook_deliveries").map((row) => [String(row.delivery_id), row]));
  const missed: string[] = [];
  const wrong: string[] = [...receivers.problems];
  const extra: string[] = [];
  let failed = 0;
  for (const { run_id, webhook, rolledBack } of runs) {
    const row = rows.get(run_id);
    const posts = receivers.posts.get(run_id) ?? [];
    if (rolledBack || webhook === undefined) {
      const why = rolledBack ? "was rolled back" : "has no webhook";
      if (row || posts.length > 0)
        extra.push(`run ${run_id} ${why}: ${row ? row.state : "no"} delivery, ${posts.length} posts`);
      continue;
    }
    const tried = posts.length > 0 && posts.some(({ answer }) => answer === 200);
    if (row?.state === "failed" && Number(row.series_attempts) >= receivers.attempts) failed += 1;
    else if (row?.state !== "delivered" || !tried) {
      missed.push(
        `run ${run_id}: ${row?.state ?? "no"} delivery, ${posts.length} posts (${row?.series_attempts} attempts)`,
      );
    }
    for (const { ids, path, body, status, at } of posts) {
      const refuse = (text: string): void => void wrong.push(`run ${run_id}: ${text}`);
      for (const id of ids) if (id !== `msg_${run_id}`) refuse(`it was told by the id ${id}`);
      if (!webhook.endsWith(path)) refuse(`it was told at ${path}, not ${webhook}`);
      if (body !== posts[0]?.body) refuse("two attempts differ in their body");
      if (status !== row?.status) refuse(`it was told as ${status}, and ended as ${row?.status}`);
      if (at < Number(row?.ended_at)) refuse(`it was told ${Number(row?.ended_at) - at} ms before its end`);
    }
  }
  const count = [...receivers.posts.values()].reduce((sum, posts) => sum + posts.length, 0);
  report.note("I7 deliveries, posts received", `${rows.size}, ${count}`);
  report.none("I7 webhooks missed", missed);
  report.none("I7 webhooks of runs that have none or were rolled back", extra);
  report.none("I7 webhooks with another id, body, place or status", wrong);
  report.atMost("I7 webhooks that failed in every attempt", failed, Math.ceil(rows.size / 1_000));
}

/** Checks I8: each run that was started is counted once, also if it was removed; the sums are those of the traces. */
export function checkTraces(
  report: Report,
  { database, lines }: { readonly database: Inspection; readonly lines: readonly Line[] },
): void {
  const traces = new Map(database.rows("select * from traces").map((row) => [String(row.trace_id), row]));
  const startedIds = new Set(lines.filter(({ mark }) => mark === "begin").map(({ run }) => run));
  const wrong: string[] = [];
  for (const run of startedIds) if (!traces.has(run)) wrong.push(`run ${run} was executed, and is not counted`);
  for (const row of database.rows("select run_id, attempt, claims, started_at, status from runs")) {
    const trace = traces.get(String(row.run_id));
    // One that was put back before its first attempt came to an end has started, and is charged none.
    if (trace ? Number(row.claims) === 0 : Number(row.attempt) > 0) {
      wrong.push(`run ${row.run_id} (${row.status}, attempt ${row.attempt}) is ${trace ? "" : "not "}counted`);
    }
    if (trace && trace.started_at !== row.started_at) {
      wrong.push(`run ${row.run_id} started at ${row.started_at}, and is counted at ${trace.started_at}`);
    }
  }
  for (const [id, { counted }] of traces) if (counted !== 1) wrong.push(`trace ${id} is not to be reported`);
  const [sums] = database.rows(
    `select (select coalesce(sum(traces), 0) from usage_hourly) as summed, (select count(*) from traces
      where started_at < (select sealed_before from usage_seals where name = 'hourly')) as raw`,
  );
  if (sums?.summed !== sums?.raw) wrong.push(`the sums say ${sums?.summed}, there are ${sums?.raw} traces`);
  report.note("I8 traces", traces.size);
  report.none("I8 traces missed, doubled or of runs that never started", wrong);
}

/** Feedback that was taken. */
export interface Submitted {
  readonly run_id: string;
  readonly feedback_id: string;
  readonly comment: string;
}

/** Checks I10: links live from the end of their run on, those of a run that is gone are gone, and accepted feedback is stored once. */
export function checkFeedback(
  report: Report,
  {
    database,
    submitted,
    keyed,
  }: {
    readonly database: Inspection;
    readonly submitted: readonly Submitted[];
    /** Runs with feedback keys, and whether they are gone. */
    readonly keyed: readonly AcknowledgedRun[];
  },
): void {
  const wrong: string[] = [];
  const tokens = new Map(
    database
      .rows(`select t.run_id, count(*) as n, min(t.expires_at - r.ended_at - t.life_ms) as least,
        max(t.expires_at - r.ended_at - t.life_ms) as most, sum(t.expires_at is null) as open
        from feedback_tokens t left join runs r on r.run_id = t.run_id group by t.run_id`)
      .map((row) => [String(row.run_id), row]),
  );
  for (const { run_id, rolledBack } of keyed) {
    const row = tokens.get(run_id);
    if (rolledBack && row) wrong.push(`run ${run_id} is gone, and ${row.n} of its links are left`);
    if (rolledBack) continue;
    if (Number(row?.n) !== 1) wrong.push(`run ${run_id} has ${row?.n ?? 0} links`);
    else if (row?.least !== 0 || row.most !== 0 || row.open !== 0) {
      wrong.push(`the links of run ${run_id} live ${row?.least} ms too long`);
    }
  }
  const records = new Map<string, string[]>();
  for (const { id, run_id, key, comment } of database.rows("select id, run_id, key, comment from feedback")) {
    const tokenIds = records.get(String(comment)) ?? [];
    records.set(String(comment), [...tokenIds, `${id} ${run_id} ${key}`]);
  }
  for (const { run_id, feedback_id, comment } of submitted) {
    const recordIds = records.get(comment) ?? [];
    if (recordIds.join() === `${feedback_id} ${run_id} score`) continue;
    wrong.push(
      `feedback ${comment} was taken as ${feedback_id} on run ${run_id}, there is ${recordIds.join() || "none"}`,
    );
  }
  for (const [comment, recordIds] of records)
    if (recordIds.length > 1) wrong.push(`feedback ${comment}: ${recordIds.length} records`);
  report.note("I10 runs with links, feedback taken", `${keyed.length}, ${submitted.length}`);
  report.none("I10 links or feedback lost, doubled or left behind", wrong);
}
