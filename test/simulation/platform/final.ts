/** What must be left of webhooks, traces and feedback when everything has ended. */
import type { SqlRow } from "../database.ts";
import { isActiveStatus, type RunNote } from "../oracle/notes.ts";
import type { World } from "../world.ts";

/** The duration of a claim after the end of its process, in which no other process may look. */
const CLAIMED_MS = 60_000;
const POLL_MS = 15_000;
const MARGIN_MS = 10_000;

/** Returns true if the run has ended, even if it was removed afterwards. */
const hasEnded = (run: RunNote): boolean => !isActiveStatus(run.state.status);

/** Lets the deliveries come to their end: all of them do, by themselves. */
export async function awaitDeliveries(world: World): Promise<void> {
  const { scheduler, receivers, plan } = world;
  const longest = Math.max(0, ...plan.hooks.schedule_ms) * 1.2 + plan.hooks.timeout_ms;
  const within = CLAIMED_MS + POLL_MS + longest + MARGIN_MS;
  const from = scheduler.now;
  const failed = (): boolean => world.violations.length > 0;
  while (!failed()) {
    const waiting = world.database.query(
      "select delivery_id from webhook_deliveries where state = 'pending' or claim_token is not null",
    );
    if (waiting.length === 0) return;
    const idle = scheduler.now - Math.max(from, receivers.progressAt);
    if (idle > within) {
      const tags = waiting.map((row) => world.oracle.runs.byId.get(String(row.delivery_id))?.tag);
      world.violation("I7", `nothing was sent for ${idle} ms: ${tags.join()} wait`);
    }
    await scheduler.run(scheduler.now + 250, failed);
  }
}

/** Checks I7: each run that ended has one delivery that was accepted, or failed after all its attempts. */
export function checkDeliveries(world: World): void {
  const { database, oracle, receivers, plan } = world;
  const rows = new Map(
    database
      .query(`select d.*, (select count(*) from delivery_attempts a where a.delivery_id = d.delivery_id) as recorded,
        (select a.status from delivery_attempts a where a.delivery_id = d.delivery_id order by number desc limit 1) as answer
        from webhook_deliveries d`)
      .map((row) => [String(row.delivery_id), row]),
  );
  for (const run of oracle.runs.byId.values()) {
    const row = rows.get(run.run_id);
    rows.delete(run.run_id);
    const isExpected = run.webhook !== null && hasEnded(run);
    if (isExpected !== (row !== undefined)) {
      const what = `${run.fate}, ${run.state.status}, ${run.webhook === null ? "without" : "with"} a webhook`;
      world.violation("I7", `${run.tag} is ${what}, and ${row ? "has a" : "has no"} delivery`);
    }
    if (row) checkDelivery(run, row);
    if (row) world.count(`webhook: ${row.state}`);
  }
  for (const id of rows.keys()) world.violation("I7", `delivery ${id} is of no run`);
  for (const run_id of receivers.bodies.keys()) {
    if (!oracle.runs.byId.has(run_id)) world.violation("I7", `${run_id} was told, and is no run`);
  }

  function checkDelivery({ tag, run_id, state }: RunNote, row: SqlRow): void {
    const refuse = (text: string): void => world.violation("I7", `the delivery of ${tag} is ${row.state}: ${text}`);
    const attempts = Number(row.attempts);
    if (row.status !== state.status) refuse(`it says ${row.status}, the run ended as ${state.status}`);
    if (Number(row.recorded) > attempts) refuse(`${row.recorded} attempts are recorded, ${attempts} were begun`);
    if (row.state === "delivered" && !receivers.acceptedRunIds.has(run_id)) refuse("nobody said that it was taken");
    const all = Number(row.series_attempts) >= plan.hooks.schedule_ms.length + 1;
    if (row.state === "failed" && !all && Number(row.answer) !== 410)
      refuse(`it has had ${row.series_attempts} attempts`);
    if (row.state === "pending") refuse("it waits");
  }
}

/** Checks I8: each run that was started has one trace, and no other run has one. The sums are those of the traces. */
export function checkTraces(world: World): void {
  const { database, oracle } = world;
  const traces = new Map(database.query("select * from traces").map((row) => [String(row.trace_id), row]));
  for (const run of oracle.runs.byId.values()) {
    const row = traces.get(run.run_id);
    const started = run.claims.some(({ charged }) => charged > 0);
    const what = `${run.fate}, ${run.state.status}, ${started ? "was started" : "was never started"}`;
    if (started !== (row !== undefined))
      world.violation("I8", `${run.tag} is ${what}, and ${row ? "is" : "is not"} counted`);
    if (!row) continue;
    const thread_id = run.temporary ? null : run.state.thread_id;
    if (row.thread_id !== thread_id) world.violation("I8", `${run.tag} is counted on thread ${row.thread_id}`);
    if (Number(row.counted) !== 1) world.violation("I8", `${run.tag} is not to be reported`);
  }
  for (const [id, row] of traces) {
    if (oracle.runs.byId.has(id)) continue;
    world.violation("I8", `trace ${id} of ${row.started_at} is of no run`);
  }
  checkSums(world);
}

const DIMENSIONS = "workspace_id, project_id, coalesce(user_id, '') as user_id, coalesce(api_key, '') as api_key";

/** The sums of the hours before the seal are those of their traces, and there are none after it. */
export function checkSums(world: World): void {
  const { database } = world;
  const [seal] = database.query("select sealed_before from usage_seals where name = 'hourly'");
  const sealed = Number(seal?.sealed_before ?? Number.NEGATIVE_INFINITY);
  const formatLines = (sql: string, ...args: number[]): string[] =>
    database.query(sql, args).map((row) => JSON.stringify(Object.values(row).map(String)));
  const summed = formatLines(`select hour, ${DIMENSIONS}, traces from usage_hourly order by 1, 2, 3, 4, 5`);
  const raw = Number.isFinite(sealed)
    ? formatLines(
        `select started_at - started_at % 3600000 as hour, ${DIMENSIONS}, count(*) as traces from traces
          where counted = 1 and started_at < ? group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5`,
        sealed,
      )
    : [];
  if (summed.join() === raw.join()) return;
  world.violation("I8", `before ${sealed} there are ${raw.join(" ")}, and the sums say ${summed.join(" ")}`);
}

/** Checks I10: tokens live while their run does and for a while after it; those of runs that were rolled back or deleted are gone. */
export function checkTokens(world: World): void {
  const { database, oracle, plan } = world;
  const tokens = new Map<string, SqlRow[]>();
  for (const row of database.query("select * from feedback_tokens order by created_at, token_id")) {
    tokens.set(String(row.run_id), [...(tokens.get(String(row.run_id)) ?? []), row]);
  }
  for (const run of oracle.runs.byId.values()) {
    const rows = tokens.get(run.run_id) ?? [];
    tokens.delete(run.run_id);
    const hasTokens = run.fate === "present" || run.fate === "swept";
    const expected = hasTokens ? [...run.tokens].sort().map(([key, id]) => `${key} ${id}`) : [];
    const storedTokens = rows.map((row) => `${row.feedback_key} ${row.token_id}`).sort();
    if (storedTokens.join() !== expected.sort().join()) {
      world.violation(
        "I10",
        `${run.tag} is ${run.fate}: its tokens are ${storedTokens.join()}, not ${expected.join()}`,
      );
    }
    for (const row of rows) {
      const end = (run.state.ended_at ?? Number.NaN) + plan.token_ttl_ms;
      if (Number(row.expires_at) !== end) {
        world.violation("I10", `a token of ${run.tag} lives until ${row.expires_at}, not until ${end}`);
      }
    }
  }
  for (const id of tokens.keys()) world.violation("I10", `there are tokens of ${id}, which is no run`);
  checkFeedback(world);
}

/** Checks I10: feedback that was accepted is stored once, under the key of its token. */
function checkFeedback(world: World): void {
  const rows = new Map<string, SqlRow[]>();
  for (const row of world.database.query("select * from feedback")) {
    rows.set(String(row.comment), [...(rows.get(String(row.comment)) ?? []), row]);
  }
  for (const { submitted } of world.clients) {
    for (const { run, key, comment, ids, unknown } of submitted) {
      const records = rows.get(comment) ?? [];
      rows.delete(comment);
      const refuse = (text: string): void => world.violation("I10", `feedback ${comment} on ${run.tag}: ${text}`);
      if (records.length > 1 || (records.length === 1 && ids.length === 0 && !unknown)) {
        refuse(`${records.length} records, ${ids.length} were told`);
      }
      if (ids.length > 0 && String(records[0]?.id) !== ids[0]) refuse(`${ids[0]} was told, there is ${records[0]?.id}`);
      for (const row of records) {
        if (row.run_id === run.run_id && row.key === key) continue;
        refuse(`it is on ${row.run_id} under ${row.key}, not ${key}`);
      }
    }
  }
  for (const comment of rows.keys()) world.violation("I10", `nobody has submitted ${comment}`);
}
