/** The links of traces, as the route shows them: to what a run or an attempt repeats, resumes, forks or was called by. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { testClock } from "../../../suite/kit.ts";
import { advanceUntil, createClockedService, createFaultyStorage, kill } from "../../../support/faulty.ts";
import { aborted, ask, graph, state } from "../../engine/attempt.harness.ts";
import { type Answer, type Kit, kit, ran } from "./operations.harness.ts";

const simple = {
  agents: undefined,
  executor: graph(async function* () {
    yield state({ ok: true });
  }),
};

const readTrace = (it_: Kit, run_id: string): Promise<Answer> => it_.ask("GET", `/greenroom/traces/${run_id}`);
const find = ({ spans }: Answer, kind: string): Answer[] => spans.filter((span: Answer) => span.kind === kind);

/** Runs an agent on a thread, and returns the id of the run once it has ended. */
async function run(it_: Kit, thread_id: string, request: object): Promise<string> {
  const { run_id } = await it_.ask("POST", `/threads/${thread_id}/runs`, request);
  await it_.ask("GET", `/threads/${thread_id}/runs/${run_id}/join`);
  return run_id;
}

describe("The trace of a run links", () => {
  it("the run that it makes again, and not the trace that called that run", async () => {
    await using it_ = await kit(simple as never);
    const metadata = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
    const [thread_id, first] = await ran(it_, {}, { assistant_id: "g", metadata });
    const { run_id } = await it_.ask("POST", `/greenroom/runs/${first}/again`, {});
    await it_.ask("GET", `/threads/${thread_id}/runs/${run_id}/join`);
    const { links, trace_id } = await readTrace(it_, run_id);
    assert.deepEqual(links, [{ kind: "again", run_id: first }]);
    assert.equal(trace_id, run_id.replaceAll("-", ""));
  });

  it("the span that called it, and the list of traces has the link too", async () => {
    await using it_ = await kit(simple as never);
    const ids = { trace_id: "0af7651916cd43dd8448eb211c80319c", span_id: "b7ad6b7169203331" };
    const traceparent = `00-${ids.trace_id}-${ids.span_id}-00`;
    await it_.ask("POST", "/runs/wait", { assistant_id: "g", input: {} }, 200, { traceparent });
    const { items } = await it_.ask("GET", "/greenroom/traces");
    const link = { kind: "called_by", ...ids };
    assert.deepEqual([items[0].links, items[0].trace_id], [[link], ids.trace_id]);
    assert.deepEqual((await readTrace(it_, items[0].run_id)).links, [link]);
  });

  it("the cron that has fired it, and has a trace of its own", async () => {
    const clock = testClock();
    await using it_ = await kit({ ...simple, environment: clock } as never);
    const metadata = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
    const request = { assistant_id: "g", input: {}, schedule: "* * * * *", metadata };
    const { cron_id } = await it_.ask("POST", "/runs/crons", request);
    await clock.advance("2m");
    const { items } = await it_.ask("GET", `/greenroom/traces?cron_id=${cron_id}`);
    assert.ok(items.length > 0);
    const { run_id } = items[0];
    const { links, source, trace_id } = await readTrace(it_, run_id);
    assert.deepEqual([links, source], [[{ kind: "fired_by", cron_id }], "cron"]);
    assert.equal(trace_id, run_id.replaceAll("-", ""));
  });

  it("the run that has written the earlier checkpoint from which it starts, but no run for the newest one", async () => {
    await using it_ = await kit(simple as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const first = await run(it_, thread_id, { assistant_id: "g", input: {} });
    const { checkpoint } = await it_.ask("GET", `/threads/${thread_id}/state`);
    const second = await run(it_, thread_id, { assistant_id: "g", input: {}, checkpoint });
    assert.equal((await readTrace(it_, second)).links, undefined);
    const fork = await run(it_, thread_id, { assistant_id: "g", input: {}, checkpoint });
    assert.deepEqual((await readTrace(it_, fork)).links, [{ kind: "forks", run_id: first }]);
  });

  it("the run whose interrupt it answers", async () => {
    const asking = new StateGraph(MessagesAnnotation)
      .addNode("ask", () => ({ messages: [{ role: "ai", content: String(interrupt("Really?")) }] }))
      .addEdge(START, "ask")
      .compile();
    await using it_ = await kit({ agents: { asking } } as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const first = await run(it_, thread_id, { assistant_id: "asking", input: { messages: [] } });
    const second = await run(it_, thread_id, { assistant_id: "asking", command: { resume: "yes" } });
    const trace = await readTrace(it_, second);
    assert.equal(trace.status, "success");
    assert.deepEqual(trace.links, [{ kind: "resumes", run_id: first }]);
    assert.equal((await readTrace(it_, first)).links, undefined);
  });

  it("the run that has asked, at the ask and at the run", async () => {
    const agents = { mailer: async ({ ask }: Answer) => ({ answer: await ask("approve", { to: "ann" }) }) };
    await using it_ = await kit({ agents } as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const first = await run(it_, thread_id, { assistant_id: "mailer", input: {} });
    const second = await run(it_, thread_id, { assistant_id: "mailer", command: { resume: true } });
    const trace = await readTrace(it_, second);
    const link = { kind: "resumes", run_id: first };
    assert.deepEqual(trace.links, [link]);
    assert.deepEqual(find(trace, "ask")[0].links, [link]);
  });
});

describe("An attempt links", () => {
  it("the attempt before that was lost, as what it retries", async () => {
    const clock = testClock();
    const storage = createFaultyStorage();
    const executor = graph(async function* ({ attempt }, signal) {
      if (attempt === 1) await aborted(signal);
      yield state({ ok: true });
    });
    await using dead = await createClockedService(clock, { storage: storage.storage, executor });
    const { thread_id } = await dead.service.threads.create();
    const { run_id } = await dead.service.runs.create(thread_id, ask("g"));
    await clock.advance(8_000);
    kill(storage);
    await using alive = await createClockedService(clock, { storage: storage.share().storage, executor });
    await advanceUntil(clock, async () => (await alive.service.runs.get(thread_id, run_id)).status === "success");
    const trace = (await (await alive.fetch(`http://greenroom/greenroom/traces/${run_id}`)).json()) as Answer;
    const [lost, retry] = find(trace, "attempt");
    assert.deepEqual([lost.status, retry.status], ["lost", "ok"]);
    assert.deepEqual(retry.links, [{ kind: "retries", span_id: lost.span_id }]);
  });

  it("a node with a retry policy has two spans, and the second links the first", async () => {
    let tries = 0;
    const flaky = new StateGraph(MessagesAnnotation)
      .addNode(
        "call",
        () => {
          tries++;
          if (tries === 1) throw new RangeError("Not yet");
          return { messages: [] };
        },
        { retryPolicy: { maxAttempts: 2, initialInterval: 1, jitter: false, retryOn: () => true } },
      )
      .addEdge(START, "call")
      .compile();
    await using it_ = await kit({ agents: { flaky } } as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const run_id = await run(it_, thread_id, { assistant_id: "flaky", input: { messages: [] } });
    const trace = await readTrace(it_, run_id);
    const [first, second] = find(trace, "node");
    assert.deepEqual(
      find(trace, "node").map(({ status, try: number }) => [status, number]),
      [
        ["error", 1],
        ["ok", 2],
      ],
    );
    assert.deepEqual([first.links, second.links], [undefined, [{ kind: "retries", span_id: first.span_id }]]);
  });

  it("the attempt that was suspended, as what it resumes", async () => {
    const clock = testClock();
    const agents = { sleeper: async ({ sleep }: Answer) => ({ slept: await sleep("nap", "1h") }) };
    await using it_ = await kit({ agents, environment: clock } as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const { run_id } = await it_.ask("POST", `/threads/${thread_id}/runs`, { assistant_id: "sleeper", input: {} });
    await clock.advance("1m");
    await clock.advance("1h");
    const [before, after_] = find(await readTrace(it_, run_id), "attempt");
    assert.equal(before.status, "waiting");
    assert.deepEqual(after_.links, [{ kind: "resumes", span_id: before.span_id }]);
  });
});
