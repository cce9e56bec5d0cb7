/** Checks of traces after kill -9: what was stored is there, what was open is lost, and a durable function has all its attempts. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Run } from "../../lib/mod.ts";
import type { RunTrace } from "../../lib/traces/run-trace.ts";
import { createTemporaryFolder, type Program, root, start, waitForUrl } from "../support/programs.ts";
import { until } from "../support/until.ts";

type Span = RunTrace["spans"][number];

export interface Site extends Disposable {
  readonly path: string;
  /** Starts a server on the database. */
  serve(): Program;
}

/** Creates a folder for servers on a database: a file in it, or a URL. */
export function createSite(database = "agents.db"): Site {
  const folder = createTemporaryFolder();
  const agents = join(root, "test/e2e/traces-crash-agents.ts");
  const graphs = { mailer: `${agents}:mailer`, graph: `${agents}:graph` };
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, worker: { lease_ms: 3_000 } }));
  return {
    path: folder.path,
    serve: () => start("server.ts", ["--port", "0", "--database", database], { cwd: folder.path }),
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

async function call<Value>(url: string, path: string, body?: object): Promise<Value> {
  const init = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(url + path, init);
  const text = await response.text();
  assert.ok(response.ok, `${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Value;
}

const list = ({ spans }: RunTrace, kind: Span["kind"]): readonly Span[] => spans.filter((span) => span.kind === kind);

function get({ spans }: RunTrace, name: string): Span {
  const found = spans.filter((span) => span.name === name);
  assert.equal(found.length, 1, `${name}: ${JSON.stringify(found)}`);
  return found[0] as Span;
}

const toEnd = ({ start_ms, duration_ms }: { readonly start_ms: number; readonly duration_ms?: number }): number =>
  start_ms + (duration_ms ?? Number.NaN);

/** Returns the times between two active segments. */
function listGaps({ segments }: RunTrace): readonly { readonly from: number; readonly to: number }[] {
  const active = segments.filter(({ kind }) => kind === "active");
  return active.slice(1).map((segment, index) => ({ from: toEnd(active[index] ?? segment), to: segment.start_ms }));
}

/** Checks that segments adjoin from the creation of the run to its end, and that the sums are theirs. */
function checkSegments(trace: RunTrace): void {
  let end_ms = 0;
  for (const segment of trace.segments) {
    assert.ok(Math.abs(segment.start_ms - end_ms) < 0.01, JSON.stringify(trace.segments));
    end_ms = toEnd(segment);
  }
  const sum = trace.active_ms + trace.queued_ms + trace.suspended_ms;
  assert.ok(Math.abs(sum - end_ms) < 0.01, `${sum} of ${end_ms} ms`);
  const [run] = list(trace, "run");
  assert.ok(run && Math.abs(toEnd(run) - end_ms) < 0.01, `the run ends at ${run && toEnd(run)}, the axis at ${end_ms}`);
}

/** Kills a server in a step of a durable function that has asked and slept, and checks the trace of the run. */
export async function checkKilledStep(site: Site): Promise<void> {
  await using first = site.serve();
  let url = await waitForUrl(first);
  const { thread_id } = await call<{ thread_id: string }>(url, "/threads", {});
  const runs = `/threads/${thread_id}/runs`;
  const asking = await call<Run>(url, runs, { assistant_id: "mailer", input: {} });
  const read = (run_id: string): Promise<Run> => call(url, `${runs}/${run_id}`);
  await until(async () => (await read(asking.run_id)).status === "success", "the function asks");
  const state = await call<{ tasks: { interrupts: unknown[] }[] }>(url, `/threads/${thread_id}/state`);
  assert.equal(state.tasks.flatMap(({ interrupts }) => interrupts).length, 1);
  const answering = await call<Run>(url, runs, { assistant_id: "mailer", command: { resume: "yes" } });
  const { run_id } = answering;
  await until(async () => (await read(run_id)).waiting_for !== undefined, "the function sleeps");
  assert.equal(await first.kill("SIGTERM"), 0);

  await using second = site.serve();
  url = await waitForUrl(second);
  await until(() => existsSync(join(site.path, "begun")), "the step begins");
  const running = await call<RunTrace>(url, `${runs}/${run_id}/trace`);
  assert.deepEqual(
    list(running, "attempt").map(({ status, claim }) => [status, claim]),
    [
      ["waiting", 1],
      ["open", 2],
    ],
  );
  await second.kill("SIGKILL");

  await using third = site.serve();
  url = await waitForUrl(third);
  await until(async () => (await read(run_id)).status === "success", "the step ends");
  const trace = await call<RunTrace>(url, `${runs}/${run_id}/trace`);
  const earlier = { kind: "resumes", run_id: asking.run_id };
  const [run] = list(trace, "run");
  const [waiting, lost, last] = list(trace, "attempt");
  assert.ok(run && waiting && lost && last, JSON.stringify(trace.spans));
  assert.deepEqual(
    list(trace, "attempt").map(({ status, claim, attempt, counted, links, parent_id }) => [
      ...[status, claim, attempt, counted, links, parent_id],
    ]),
    [
      ["waiting", 1, 1, false, undefined, run.span_id],
      ["lost", 2, 1, true, [{ kind: "resumes", span_id: waiting.span_id }], run.span_id],
      ["ok", 3, 2, true, [{ kind: "retries", span_id: lost.span_id }], run.span_id],
    ],
  );
  assert.deepEqual([trace.status, run.status, run.start_ms, trace.links], ["success", "ok", 0, [earlier]]);
  const [ask, sleep, step] = [get(trace, "approve"), get(trace, "cool_off"), get(trace, "send")];
  assert.deepEqual([ask.kind, ask.status, ask.parent_id, ask.links], ["ask", "ok", run.span_id, [earlier]]);
  assert.ok(ask.start_ms < 0 && toEnd(ask) > 0, `the ask: ${ask.start_ms} to ${toEnd(ask)}`);
  assert.deepEqual([sleep.kind, sleep.status, sleep.parent_id], ["sleep", "ok", run.span_id]);
  assert.ok((sleep.duration_ms ?? 0) >= 3_000, `the sleep: ${sleep.duration_ms}`);
  assert.deepEqual(
    [step.kind, step.status, step.parent_id, step.claim, step.attempt, step.try],
    ["step", "ok", last.span_id, 3, 2, 1],
  );
  assert.equal(list(trace, "step").length, 2, "a replayed step makes no second span");
  const prepare = get(trace, "prepare");
  assert.deepEqual([prepare.status, prepare.parent_id, prepare.claim], ["ok", lost.span_id, 2]);
  assert.deepEqual(
    trace.spans.filter(({ status }) => status === "open"),
    [],
  );

  checkSegments(trace);
  const gaps = listGaps(trace);
  assert.equal(gaps.length, 2, JSON.stringify(trace.segments));
  const reaching = trace.spans.filter(({ kind, ...span }) =>
    gaps.some(({ from, to }) => kind !== "queue" && span.start_ms < to && toEnd(span) > from + 1),
  );
  const mayReach = new Set(["run", "sleep", "wait", "ask"]);
  assert.deepEqual(
    reaching.filter(({ kind }) => !mayReach.has(kind)),
    [],
  );
  assert.ok(reaching.some(({ kind }) => kind === "sleep"));
  const [suspension, restart] = gaps.map(({ from, to }) =>
    trace.segments.filter(({ start_ms }) => start_ms >= from - 0.01 && start_ms < to).map(({ kind }) => kind),
  );
  assert.equal(suspension?.[0], "suspended");
  assert.deepEqual(restart, ["queued"]);
  await third.kill("SIGTERM");
}

/** Kills a server in a model call that does not end, and checks the trace of the run. */
export async function checkKilledModelCall(site: Site): Promise<void> {
  await using first = site.serve();
  let url = await waitForUrl(first);
  const { thread_id } = await call<{ thread_id: string }>(url, "/threads", {});
  const runs = `/threads/${thread_id}/runs`;
  const input = { messages: [{ role: "user", content: "Hello" }] };
  const { run_id } = await call<Run>(url, runs, { assistant_id: "graph", input });
  // In the process of the run the trace is read from memory, so a list says when it is stored: it has rows of the database.
  await until(async () => {
    const { items } = await call<{ items: { run_id: string; models: string[] }[] }>(url, "/greenroom/traces");
    return items.some((item) => item.run_id === run_id && item.models.includes("slow"));
  }, "spans are stored while the model is called");
  await first.kill("SIGKILL");

  await using second = site.serve();
  url = await waitForUrl(second);
  await until(async () => {
    const { spans } = await call<RunTrace>(url, `${runs}/${run_id}/trace`);
    return spans.some(({ kind, claim }) => kind === "model" && claim === 2);
  }, "the next attempt calls the model");
  const trace = await call<RunTrace>(url, `${runs}/${run_id}/trace`);
  const [lost, present] = list(trace, "attempt");
  assert.deepEqual([lost?.status, lost?.counted, present?.status], ["lost", true, "open"]);
  // A slow machine has slow commits, which are spans, too.
  const spans = trace.spans.filter(({ claim, kind }) => claim === 1 && kind !== "queue" && kind !== "commit");
  assert.deepEqual(
    spans.map(({ kind, name, status }) => [kind, name, status]),
    [
      ["attempt", "graph", "lost"],
      ["node", "before", "ok"],
      ["node", "call", "lost"],
      ["model", "slow", "lost"],
    ],
  );
  const [attempt, before, node, model] = spans as [Span, Span, Span, Span];
  assert.deepEqual(
    [before.parent_id, node.parent_id, model.parent_id],
    [...[attempt.span_id, attempt.span_id, node.span_id]],
  );
  // What was open ends with its attempt, which was alive when it saved.
  for (const span of [node, model]) assert.ok(Math.abs(toEnd(span) - toEnd(attempt)) < 0.01, span.name);
  const cancelled = await fetch(`${url}${runs}/${run_id}/cancel?wait=1`, { method: "POST" });
  assert.ok(cancelled.ok, String(cancelled.status));
  const ended = await call<RunTrace>(url, `${runs}/${run_id}/trace`);
  assert.deepEqual(
    list(ended, "attempt").map(({ status }) => status),
    ["lost", "interrupted"],
  );
  assert.equal(ended.totals.spans, ended.spans.length);
}
