/** The invariants of a copy of a database, before and after a service has continued it. */
import assert from "node:assert/strict";
import { type Acknowledged, type CopyEvidence, type NotificationsByRun, type Site, STEPS } from "./load.ts";

export type Row = Readonly<Record<string, unknown>>;
/** Asks the copy. */
export type Ask = (sql: string) => Promise<readonly Row[]>;

const ACTIVE = "('pending', 'running')";

/** Checks the invariants of every moment, which therefore hold at the moment of the copy. */
async function checkMoment(
  ask: Ask,
  acknowledged: readonly Acknowledged[],
  remainingRunIds: ReadonlySet<string>,
): Promise<void> {
  const none = async (what: string, sql: string): Promise<void> =>
    assert.deepEqual((await ask(sql)).slice(0, 5), [], `${what}:`);
  const runs = await readRunIds(ask);
  assert.deepEqual(
    acknowledged.filter(({ run_id }) => remainingRunIds.has(run_id) && !runs.has(run_id)),
    [],
    "acknowledged runs that the copy lacks",
  );
  await none(
    "threads with two runs executing",
    "select deployment, thread_id from runs where status = 'running' group by deployment, thread_id having count(*) > 1",
  );
  await none(
    "runs that ended without an end",
    `select run_id, status from runs where (ended_at is null) <> (status in ${ACTIVE})`,
  );
  await none(
    "runs that started and are not counted",
    "select run_id, attempt from runs where attempt > 0 and run_id not in (select trace_id from traces)",
  );
  await none(
    "runs that are counted and never started",
    "select run_id, status from runs where claims = 0 and run_id in (select trace_id from traces)",
  );
  await none(
    "runs that ended after a claim and have no trace of that end",
    `select r.run_id from runs r left join run_traces t on t.run_id = r.run_id
      where r.claims > 0 and r.status not in ${ACTIVE} and (t.ended_at is null or t.ended_at <> r.ended_at)`,
  );
  for (const table of ["run_trace_parts", "run_trace_contents"])
    await none(
      `rows of ${table} without a trace`,
      `select run_id from ${table} where run_id not in (select run_id from run_traces)`,
    );
  await none(
    "ends that nobody will be told of",
    `select run_id, status from runs where webhook is not null and status not in ${ACTIVE}
      and run_id not in (select delivery_id from webhook_deliveries)`,
  );
  await none(
    "deliveries before the end of their run",
    `select run_id from runs where status in ${ACTIVE} and run_id in (select delivery_id from webhook_deliveries)`,
  );
  await none(
    "links that do not live from the end of their run on",
    `select t.run_id from feedback_tokens t join runs r on r.run_id = t.run_id
      where (r.ended_at is null) <> (t.expires_at is null) or t.expires_at <> r.ended_at + t.life_ms`,
  );
  await none(
    "checkpoints of threads that are gone",
    "select thread_id from checkpoints where thread_id not in (select thread_id from threads)",
  );
  await none(
    "frames of runs that are gone",
    "select run_id from run_frames where run_id not in (select run_id from runs)",
  );
  await none(
    "frames that are missing",
    `select run_id, min(first_id) as first, max(last_id) as last, sum(last_id - first_id + 1) as count from run_frames
      group by run_id having min(first_id) <> 1 or sum(last_id - first_id + 1) <> max(last_id)`,
  );
}

/** Counts the runs of each status, and the other rows that a copy needs to be worth a test. */
async function readCounts(ask: Ask): Promise<Readonly<Record<string, number>>> {
  const rows = [
    ...(await ask("select status as name, count(*) as n from runs group by status")),
    ...(await ask("select 'delivery ' || state as name, count(*) as n from webhook_deliveries group by state")),
    ...(await ask("select 'frames' as name, sum(last_id) as n from run_frames")),
    ...(await ask("select 'links' as name, count(*) as n from feedback_tokens")),
    ...(await ask("select 'traces' as name, count(*) as n from run_traces")),
  ];
  return Object.fromEntries(rows.map(({ name, n }) => [String(name), Number(n)]));
}

interface Run {
  readonly run_id: string;
  readonly thread_id: string;
  readonly status: string;
  readonly metadata: { readonly n?: number };
}

const get = async <Value>(site: Site, path: string): Promise<Value> => {
  const { status, body } = await site.call<Value>("GET", path);
  assert.equal(status, 200, `${path}: ${status} ${JSON.stringify(body)}`);
  return body;
};

/** Resolves once no run and no webhook is pending; runs that start later do not count. */
async function waitUntilIdle(ask: Ask): Promise<void> {
  const until = Date.now() + 60_000;
  const countPending = async (): Promise<number> => {
    const [runs] = await ask(`select count(*) as n from runs where status in ${ACTIVE} and due_at < ${Date.now()}`);
    const [notifications] = await ask("select count(*) as n from webhook_deliveries where state = 'pending'");
    return Number(runs?.n) + Number(notifications?.n);
  };
  while ((await countPending()) > 0) {
    assert.ok(Date.now() < until, `${await countPending()} runs and deliveries are left`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Checks the invariants after the service has executed all runs that were active. */
async function checkRest(site: Site, ask: Ask, notifications: NotificationsByRun): Promise<void> {
  const threads = await ask("select thread_id from threads where hidden = 0");
  for (const { thread_id } of threads) {
    const at = `/threads/${thread_id}`;
    const runs = (await get<Run[]>(site, `${at}/runs?limit=1000`)).toReversed();
    const { values } = await get<{ values: { messages?: { id: string }[] } | null }>(site, `${at}/state`);
    checkMessages(
      runs,
      (values?.messages ?? []).map(({ id }) => id),
    );
    const { status } = await get<{ status: string }>(site, at);
    const waits = runs.some((run) => run.status === "pending");
    assert.equal(status === "busy", waits, `thread ${thread_id} is ${status}`);
    for (const run of runs) if (run.status !== "pending") await checkStream(site, run);
  }
  for (const row of await ask("select run_id, attempt, webhook, status from runs")) {
    const { run_id, attempt, webhook, status } = row;
    assert.ok(Number(attempt) <= 3, `run ${run_id} was started ${attempt} times`);
    if (webhook === null || status === "pending") continue;
    assert.deepEqual(
      [...(notifications.get(String(run_id)) ?? [])],
      [`msg_${run_id}`],
      `the ids by which run ${run_id} was told`,
    );
  }
}

/** The messages of a thread are those of its runs in their order, each once; a run that did not succeed may have left fewer. */
function checkMessages(runs: readonly Run[], messages: readonly string[]): void {
  const remainingMessages = [...messages];
  for (const { run_id, thread_id, status, metadata } of runs) {
    const expected = [`${thread_id}/${metadata.n}`, ...Array.from({ length: STEPS }, (_, step) => `${run_id}/${step}`)];
    let count = 0;
    while (count < expected.length && remainingMessages[0] === expected[count]) {
      remainingMessages.shift();
      count++;
    }
    if (status === "success")
      assert.ok(count >= 2, `run ${run_id} left ${count} messages, then comes ${remainingMessages[0]}`);
  }
  assert.deepEqual(remainingMessages, [], "messages of no run, doubled or out of order");
}

/** A stream that is read from its start has every id once, and ends with the end. */
async function checkStream(site: Site, { thread_id, run_id, status }: Run): Promise<void> {
  const request = new Request(`http://greenroom/threads/${thread_id}/runs/${run_id}/stream`, {
    headers: { "last-event-id": "-1" },
  });
  const text = await (await site.handler(request)).text();
  const ids = [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  assert.deepEqual(
    ids,
    Array.from(ids, (_, at) => at + 1),
    `the frames of run ${run_id}`,
  );
  const end = text.split("\n\n").filter((frame) => /^event: end$/m.test(frame));
  assert.equal(end.length, 1, `run ${run_id} has ${end.length} ends`);
  assert.match(end[0] ?? "", new RegExp(`"status":"${status}"`));
  assert.ok(text.trimEnd().endsWith(end[0]?.trimEnd() ?? "nothing"), `run ${run_id} goes on after its end`);
}

const WANTED = [
  "pending",
  "running",
  "success",
  "error",
  "interrupted",
  "timeout",
  "delivery delivered",
  "frames",
  "links",
  "traces",
];

/** The copy holds something of everything, and is right as it is. */
export async function checkCopy(
  ask: Ask,
  acknowledged: readonly Acknowledged[],
  remainingRunIds: ReadonlySet<string>,
): Promise<void> {
  const counts = await readCounts(ask);
  const missing = WANTED.filter((name) => !counts[name]);
  assert.deepEqual(missing, [], `not there at the moment of the copy; there were ${JSON.stringify(counts)}`);
  await checkMoment(ask, acknowledged, remainingRunIds);
}

/** Checks the rows after a service has continued the copy, except for the run that starts much later. */
export async function checkRestored(
  site: Site,
  ask: Ask,
  { acknowledged, notifications }: CopyEvidence,
  remainingRunIds: ReadonlySet<string>,
): Promise<void> {
  site.open();
  await waitUntilIdle(ask);
  await checkMoment(ask, acknowledged, remainingRunIds);
  await checkRest(site, ask, notifications);
  const [scheduled] = await ask("select count(*) as n from runs where status = 'pending'");
  assert.equal(Number(scheduled?.n), 1, "the run that is to start later");
}

/** Returns the ids of all runs. */
export async function readRunIds(ask: Ask): Promise<ReadonlySet<string>> {
  return new Set((await ask("select run_id from runs")).map(({ run_id }) => String(run_id)));
}
