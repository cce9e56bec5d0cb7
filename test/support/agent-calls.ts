/** Tests of the calls of agents, in process and over HTTP. */
import assert from "node:assert/strict";
import { createApp } from "../../adapters/app.ts";
import type { AgentHandle, FailedOutcome, Outcome, StreamFrame } from "../../lib/handles/types.ts";
import { type FunctionJob, RunFailed, type Service } from "../../lib/mod.ts";

/** Resolves when the run must stop. */
const waitForStop = ({ signal }: FunctionJob): Promise<string> =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve("stopped")));

/** The agents of the suite. */
const AGENTS = {
  async *echo({ messages, emit }: FunctionJob) {
    emit({ percent: 50 });
    yield `You said ${messages.at(-1)?.content}`;
  },
  count: async ({ state }: FunctionJob) => ({ n: Number(state["n"] ?? 0) + 1 }),
  context: ({ context }: FunctionJob) => ({ context }),
  review: ({ command, interrupt }: FunctionJob) =>
    command?.resume === undefined ? interrupt({ question: "Sure?" }) : { answer: command.resume },
  async *fails() {
    yield { n: 1 };
    throw new TypeError("Boom");
  },
  waits: waitForStop,
  slow: { agent: waitForStop, timeout_ms: 10 },
};

/** The calls of a place, and the service behind them. */
export interface AgentHarness extends AsyncDisposable {
  agent(name: string): AgentHandle;
  readonly service: Service;
}

export const openService = async (): Promise<
  AgentHarness & { readonly fetch: (request: Request) => Promise<Response> }
> => {
  const app = await createApp({
    database: ":memory:",
    agents: AGENTS,
    environment: { log: () => {} },
    public_base_url: "http://127.0.0.1",
  });
  const service: Service = app.service;
  return { agent: (name) => service.agent(name), service, fetch: app.fetch, [Symbol.asyncDispose]: () => app.stop(0) };
};

async function catchFailed(run: Promise<unknown>): Promise<FailedOutcome> {
  const error: unknown = await run.then(
    () => assert.fail("The run succeeded"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof RunFailed, String(error));
  assert.match(error.message, new RegExp(error.outcome.run_id));
  return error.outcome;
}

async function collect(frames: AsyncIterable<StreamFrame>): Promise<StreamFrame[]> {
  const all: StreamFrame[] = [];
  for await (const frame of frames) all.push(frame);
  return all;
}

const readTexts = ({ values }: { readonly values: Outcome["values"] }): unknown[] =>
  (values?.messages ?? []).map(({ content }) => content);

interface TestApi {
  describe(name: string, body: () => void): void;
  it(name: string, body: () => Promise<void>): void;
  after(body: () => Promise<void>): void;
  before(body: () => Promise<void>): void;
}

export function agentCallsSuite(
  { describe, it, before, after }: TestApi,
  title: string,
  open: () => Promise<AgentHarness>,
): void {
  describe(title, () => {
    let harness: AgentHarness;
    before(async () => {
      harness = await open();
    });
    after(async () => harness[Symbol.asyncDispose]());
    const createThread = async (): Promise<string> => (await harness.service.threads.create()).thread_id;
    const isRefused = (code: string) => (error: unknown) => {
      assert.ok(error instanceof Error && !(error instanceof RunFailed));
      assert.match(`${(error as { reason?: string }).reason} ${error.message}`, new RegExp(code));
      return true;
    };

    describe("run", () => {
      it("returns the values of a new thread, which it keeps", async () => {
        const values = await harness.agent("echo").run({ messages: "Hi" });
        assert.deepEqual(readTexts({ values }), ["Hi", "You said Hi"]);
        const [thread] = (await harness.service.threads.search({ metadata: { graph_id: "echo" } })).items;
        assert.deepEqual(thread?.values, values);
      });
      it("continues the thread that it is given", async () => {
        const thread_id = await createThread();
        assert.deepEqual(await harness.agent("count").run({}, { thread_id }), { n: 1 });
        assert.deepEqual(await harness.agent("count").run({}, { thread_id }), { n: 2 });
      });
      it("leaves no thread after a stateless run", async () => {
        const threads = await harness.service.threads.count();
        assert.deepEqual(await harness.agent("count").run({}, { thread_id: null }), { n: 1 });
        assert.equal(await harness.service.threads.count(), threads);
      });
      it("passes context, metadata and configuration on, and names the assistant", async () => {
        const { assistant_id } = await harness.service.assistants.create({
          graph_id: "context",
          context: { tier: "pro" },
        });
        const thread_id = await createThread();
        const options = { assistant_id, thread_id, context: { name: "Ann" }, metadata: { topic: "a" } };
        const values = await harness
          .agent("count")
          .run({}, { ...options, config: { tags: ["x"], recursion_limit: 7 } });
        assert.deepEqual(values, { context: { tier: "pro", name: "Ann" } });
        const [run] = await harness.service.runs.list(thread_id);
        assert.equal(run?.metadata["topic"], "a");
        assert.equal(run.assistant_id, assistant_id);
        const { tags, recursion_limit } = run.kwargs["config"] as { tags: string[]; recursion_limit: number };
        assert.deepEqual([tags, recursion_limit], [["x"], 7]);
      });
      it("executes the version of the assistant that it names, with each call", async () => {
        const { assistants, runs } = harness.service;
        const { assistant_id } = await assistants.create({ graph_id: "context", context: { tone: "a" } });
        await assistants.update(assistant_id, { context: { tone: "b" } });
        const agent = harness.agent("context");
        const thread_id = await createThread();
        const options = { thread_id, assistant_id, assistant_version: 1, config: { tags: ["x"] } };
        const expected = { context: { tone: "a" } };
        assert.deepEqual(await agent.run({}, options), expected);
        const started = await agent.start({}, options);
        assert.deepEqual((await started.outcome()).values, expected);
        const frames = await collect(agent.stream({}, options));
        assert.deepEqual(frames.at(-1)?.data, expected);
        assert.deepEqual(await agent.run({}, { assistant_id, assistant_version: 1, thread_id: null }), expected);
        assert.deepEqual(await agent.run({}, { thread_id, assistant_id }), { context: { tone: "b" } });
        const list = await runs.list(thread_id);
        assert.deepEqual(
          list.map(({ assistant_version }) => assistant_version),
          [2, 1, 1, 1],
        );
        const { tags } = (list[1]?.kwargs["config"] ?? {}) as { readonly tags?: readonly string[] };
        assert.deepEqual(tags, ["x"]);
      });
      it("throws RunFailed with the error and the values that the run has stored", async () => {
        const { run_id, thread_id, ...outcome } = await catchFailed(harness.agent("fails").run({}));
        assert.deepEqual(outcome, {
          status: "error",
          values: { n: 1 },
          error: { error: "TypeError", message: "Boom" },
        });
        assert.equal((await harness.service.runs.get(thread_id, run_id)).status, "error");
      });
      it("throws RunFailed for a stateless run that fails", async () => {
        const { status, values } = await catchFailed(harness.agent("fails").run({}, { thread_id: null }));
        assert.deepEqual({ status, values }, { status: "error", values: null });
      });
      it("throws RunFailed with the status timeout", async () => {
        const outcome = await catchFailed(harness.agent("slow").run({}));
        assert.equal(outcome.status, "timeout");
        assert.equal(outcome.error.error, "RunTimeout");
      });
      it("throws RunFailed with the interrupt of a run that waits", async () => {
        const outcome = await catchFailed(harness.agent("review").run({}));
        assert.equal(outcome.status, "waiting");
        assert.deepEqual(
          outcome.interrupts.map(({ value }) => value),
          [{ question: "Sure?" }],
        );
      });
      it("rejects an unknown agent, and creates no thread", async () => {
        const threads = await harness.service.threads.count();
        await assert.rejects(harness.agent("refnd").run({}), isRefused("assistant_not_found"));
        assert.equal(await harness.service.threads.count(), threads);
      });
      it("keeps the given thread if the run is rejected", async () => {
        const thread_id = await createThread();
        await assert.rejects(harness.agent("refnd").run({}, { thread_id }), isRefused("assistant_not_found"));
        assert.equal((await harness.service.threads.get(thread_id)).thread_id, thread_id);
      });
      it("rejects with the reason of its signal, and the run continues", async () => {
        const thread_id = await createThread();
        const abort = new AbortController();
        const call = harness.agent("waits").run({}, { thread_id, signal: abort.signal });
        while ((await harness.service.runs.list(thread_id)).length === 0) await Promise.race([call, tick()]);
        abort.abort(new Error("left"));
        await assert.rejects(call, /left/);
        const [run] = await harness.service.runs.list(thread_id);
        assert.ok(run);
        assert.ok(["running", "pending"].includes(run.status), run.status);
        await harness.service.runs.cancel(thread_id, run.run_id, { wait: true });
      });
    });

    describe("start", () => {
      it("returns the ids before the run ends, and the outcome after it", async () => {
        const started = await harness.agent("waits").start({});
        const { run_id, thread_id } = started;
        const outcome = started.outcome();
        await harness.service.runs.cancel(thread_id, run_id, { reason: "not needed", wait: true });
        const { values: _, ...ended } = await outcome;
        assert.deepEqual(ended, { run_id, thread_id, status: "cancelled", reason: "not needed" });
      });
      it("gives each of two runs of a thread its own values, also when both have ended", async () => {
        const thread_id = await createThread();
        const options = { thread_id, multitask_strategy: "enqueue" } as const;
        const first = await harness.agent("count").start({}, options);
        const second = await harness.agent("count").start({}, options);
        assert.deepEqual((await second.outcome()).values, { n: 2 });
        assert.deepEqual((await first.outcome()).values, { n: 1 });
        assert.equal((await first.outcome()).status, "success");
      });
      it("returns the status of a waiting run after another run has answered it", async () => {
        const started = await harness.agent("review").start({});
        const before = await started.outcome();
        assert.equal(before.status, "waiting");
        await harness.agent("review").resume(started.thread_id, "yes");
        const { status, values } = await started.outcome();
        assert.deepEqual({ status, values }, { status: "waiting", values: {} });
      });
      it("has no values for a run that was cancelled before it started", async () => {
        const thread_id = await createThread();
        await harness.agent("count").run({}, { thread_id });
        const active = await harness.agent("waits").start({}, { thread_id });
        const queued = await harness.agent("count").start({}, { thread_id });
        await harness.service.runs.cancel(thread_id, queued.run_id, { wait: true });
        const { status, values } = await queued.outcome();
        assert.deepEqual({ status, values }, { status: "cancelled", values: null });
        await harness.service.runs.cancel(thread_id, active.run_id, { wait: true });
      });
      it("has no values for a run whose thread was deleted", async () => {
        const { outcome, thread_id } = await harness.agent("waits").start({});
        await harness.service.threads.delete(thread_id);
        const { status, values } = await outcome();
        assert.deepEqual({ status, values }, { status: "cancelled", values: null });
      });
      it("reports that a run was deleted", async () => {
        const { outcome, run_id, thread_id } = await harness.agent("waits").start({});
        await harness.service.runs.cancel(thread_id, run_id, { action: "rollback", wait: true });
        assert.deepEqual(await outcome(), {
          ...{ run_id, thread_id, status: "cancelled", values: null },
          reason: "The run was deleted",
        });
      });
    });

    describe("stream", () => {
      it("parses the frames, and omits those that belong to no mode", async () => {
        const frames = harness
          .agent("echo")
          .stream(
            { messages: "Hi" },
            { stream_mode: ["values", "updates", "custom", "messages-tuple"], feedback_keys: ["score"] },
          );
        const all = await collect(frames);
        assert.deepEqual(
          all.map(({ mode }) => mode),
          ["values", "custom", "messages-tuple", "updates", "values"],
        );
        for (const { id, namespace } of all) assert.deepEqual([typeof id, namespace], ["number", []]);
        const [, custom, token, , last] = all;
        assert.deepEqual(custom?.data, { percent: 50 });
        assert.ok(token?.mode === "messages-tuple");
        assert.equal(token.data[0].content, "You said Hi");
        const outcome = await frames.outcome;
        assert.deepEqual(outcome, { ...(await frames.run), status: "success", values: last?.data });
      });
      it("streams values without a mode", async () => {
        const all = await collect(harness.agent("count").stream({}));
        assert.deepEqual(
          all.map(({ mode, data }) => ({ mode, data })),
          [
            { mode: "values", data: {} },
            { mode: "values", data: { n: 1 } },
          ],
        );
      });
      it("has the ids and the outcome of a stateless run", async () => {
        const frames = harness.agent("count").stream({}, { thread_id: null });
        assert.equal((await collect(frames)).length, 2);
        const { run_id, thread_id, ...outcome } = await frames.outcome;
        assert.deepEqual(await frames.run, { run_id, thread_id });
        assert.deepEqual(outcome, { status: "success", values: { n: 1 } });
      });
      it("throws RunFailed after the frames of a run that fails", async () => {
        const frames = harness.agent("fails").stream({});
        const received: unknown[] = [];
        const reading = (async () => {
          for await (const { data } of frames) received.push(data);
        })();
        const outcome = await catchFailed(reading);
        assert.deepEqual(received, [{}, { n: 1 }]);
        assert.equal(outcome.status, "error");
        assert.deepEqual(await frames.outcome, outcome);
      });
      it("throws RunFailed for a run that is cancelled, also by a rollback", async () => {
        for (const action of ["interrupt", "rollback"] as const) {
          const frames = harness.agent("waits").stream({});
          const { thread_id, run_id } = await frames.run;
          const reading = catchFailed(collect(frames));
          await harness.service.runs.cancel(thread_id, run_id, { action, wait: true });
          assert.equal((await reading).status, "cancelled");
        }
      });
      it("ends without a frame of the interrupt when the run waits", async () => {
        const frames = harness.agent("review").stream({}, { stream_mode: ["values", "updates"] });
        assert.deepEqual(
          (await collect(frames)).map(({ data }) => data),
          [{}],
        );
        const outcome = await frames.outcome;
        assert.equal(outcome.status, "waiting");
        assert.deepEqual(outcome.interrupts[0]?.value, { question: "Sure?" });
      });
      it("has an outcome if no reader takes the frames", async () => {
        const frames = harness.agent("count").stream({});
        assert.deepEqual((await frames.outcome).values, { n: 1 });
      });
      it("does not cancel the run when its reader leaves", async () => {
        const frames = harness.agent("waits").stream({});
        for await (const _ of frames) break;
        const { thread_id, run_id } = await frames.run;
        assert.equal((await harness.service.runs.get(thread_id, run_id)).status, "running");
        await harness.service.runs.cancel(thread_id, run_id, { wait: true });
      });
      it("rejects with the reason of its signal", async () => {
        const abort = new AbortController();
        const frames = harness.agent("waits").stream({}, { signal: abort.signal });
        const { thread_id, run_id } = await frames.run;
        const reading = collect(frames);
        abort.abort(new Error("left"));
        await assert.rejects(reading, /left|abort/i);
        await harness.service.runs.cancel(thread_id, run_id, { wait: true });
      });
      it("rejects an unknown mode and an unknown agent, and creates no run", async () => {
        const threads = await harness.service.threads.count();
        const misspelt = { stream_mode: "token" } as object;
        await assert.rejects(collect(harness.agent("echo").stream({}, misspelt)), isRefused("invalid"));
        const frames = harness.agent("refnd").stream({});
        await assert.rejects(frames.run, isRefused("assistant_not_found"));
        await assert.rejects(frames.outcome, isRefused("assistant_not_found"));
        await assert.rejects(collect(frames), isRefused("assistant_not_found"));
        assert.equal(await harness.service.threads.count(), threads);
      });
    });

    describe("resume and state", () => {
      it("answer the interrupt of a thread", async () => {
        const { outcome, thread_id } = await harness.agent("review").start({});
        const waiting = await outcome();
        assert.equal(waiting.status, "waiting");
        const state = await harness.agent("review").state(thread_id);
        assert.deepEqual(state, { values: {}, next: ["review"], interrupts: waiting.interrupts });
        const answered = await harness.agent("review").resume(thread_id, "yes", { metadata: { by: "ann" } });
        assert.equal(answered.status, "success");
        assert.deepEqual(answered.values, { answer: "yes" });
        assert.deepEqual(await harness.agent("review").state(thread_id), {
          ...{ values: { answer: "yes" }, next: [], interrupts: [] },
        });
        assert.equal((await harness.service.runs.get(thread_id, answered.run_id)).metadata["by"], "ann");
      });
      it("reject an unknown thread", async () => {
        const unknown = "00000000-0000-4000-8000-000000000000";
        await assert.rejects(harness.agent("review").state(unknown), isRefused("thread_not_found"));
        await assert.rejects(harness.agent("review").resume(unknown, "yes"), isRefused("thread_not_found"));
      });
    });
  });
}

/** Runs an agent with feedback keys, and checks that the values do not have the links. SDK 2.0.0 sends keys only with streams. */
export async function runWithFeedback({ agent, service }: AgentHarness): Promise<void> {
  const { thread_id } = await service.threads.create();
  assert.deepEqual(await agent("count").run({}, { thread_id, feedback_keys: ["score"] }), { n: 1 });
  const [run] = await service.runs.list(thread_id);
  assert.deepEqual(run?.kwargs["feedback_keys"], ["score"]);
}

const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
