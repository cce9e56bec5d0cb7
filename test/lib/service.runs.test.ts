import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { ExecutorEvent } from "../../lib/executor/contract.ts";
import { recordStates } from "../../lib/executor/state-recorder.ts";
import {
  combine,
  createService,
  type Executor,
  type Frame,
  type FunctionJob,
  fromFunctions,
  type Json,
  type JsonObject,
  ServiceError,
} from "../../lib/mod.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { testClock, testService } from "../suite/kit.ts";
import { checkpoint } from "../suite/storage/material.ts";
import { createFaultyStorage } from "../support/faulty.ts";
import { until } from "../support/until.ts";
import { ask, contents, waited } from "./service.harness.ts";

/** Creates a gate at which agents wait until the test opens it. */
function gate(): {
  readonly open: () => void;
  readonly passed: Promise<void>;
  readonly reached: Promise<void>;
  readonly reach: () => void;
} {
  const [passed, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  return { open: passed.resolve, passed: passed.promise, reach: reached.resolve, reached: reached.promise };
}

describe("runs", () => {
  it("keep the state of a thread and store three checkpoints each", async () => {
    await using kit = await testService({ agents: { count: async ({ messages }) => `seen ${messages.length}` } });
    const { thread_id } = await kit.service.threads.create();
    await waited(kit.service, thread_id, ask("count"));
    assert.deepEqual(contents(await waited(kit.service, thread_id, ask("count", "again"))), [
      "hi",
      "seen 1",
      "again",
      "seen 3",
    ]);
    const history = await kit.service.threads.history(thread_id);
    assert.deepEqual(
      history.map((state) => [state.next, contents(state.values).length, state.metadata?.["source"]]),
      [
        [[], 4, "loop"],
        [["count"], 3, "loop"],
        [["__start__"], 2, "input"],
        [[], 2, "loop"],
        [["count"], 1, "loop"],
        [["__start__"], 0, "input"],
      ],
    );
    for (const [i, state] of history.entries()) {
      assert.equal(state.parent_checkpoint?.checkpoint_id, history[i + 1]?.checkpoint?.checkpoint_id);
    }
  });

  it("fork from a checkpoint without the states after it", async () => {
    await using kit = await testService({ agents: { count: async ({ messages }) => `seen ${messages.length}` } });
    const { thread_id } = await kit.service.threads.create();
    await waited(kit.service, thread_id, ask("count"));
    const [head] = await kit.service.threads.history(thread_id);
    await waited(kit.service, thread_id, ask("count", "first"));
    const checkpoint_id = head?.checkpoint?.checkpoint_id ?? "";
    const forked = await waited(kit.service, thread_id, { ...ask("count", "second"), checkpoint: { checkpoint_id } });
    assert.deepEqual(contents(forked), ["hi", "seen 1", "second", "seen 3"]);
    const history = await kit.service.threads.history(thread_id);
    const children = history.filter((state) => state.parent_checkpoint?.checkpoint_id === checkpoint_id);
    assert.equal(children.length, 2, "two branches");
    await assert.rejects(waited(kit.service, thread_id, { ...ask("count"), checkpoint_id: "nowhere" }), {
      code: "not_found",
    });
  });

  it("do not store a long conversation again with every turn", async () => {
    const storage = nodeSqlite(":memory:");
    let written = 0;
    const counting: Storage = new Proxy(storage, {
      get(target, name) {
        const verb = Reflect.get(target, name) as (...args: unknown[]) => unknown;
        if (typeof verb !== "function") return verb;
        return (...args: unknown[]) => {
          if (name === "finishRun" || name === "saveProgress") written += JSON.stringify(args).length;
          return verb.apply(target, args);
        };
      },
    });
    await using kit = await testService({ storage: counting, agents: { chat: async () => "y".repeat(200) } });
    const { thread_id } = await kit.service.threads.create();
    const bytes: number[] = [];
    for (let turn = 0; turn < 120; turn++) {
      const before = written;
      await waited(kit.service, thread_id, ask("chat", "x".repeat(200)));
      bytes.push(written - before);
    }
    const sum = (list: readonly number[]): number => list.reduce((a, b) => a + b, 0);
    // Some saves store a whole copy, but on average late turns cost as much as early ones.
    assert.ok(
      sum(bytes.slice(60)) < 3 * sum(bytes.slice(0, 60)),
      `${sum(bytes.slice(0, 60))} then ${sum(bytes.slice(60))}`,
    );
    assert.equal(contents((await kit.service.threads.get(thread_id)).values).length, 240);
  });

  it("are enqueued on a busy thread in order, and rejected with that strategy", async () => {
    const first = gate();
    const agents = {
      async slow({ messages }: FunctionJob) {
        if (messages.length === 1) {
          first.reach();
          await first.passed;
        }
        return `seen ${messages.length}`;
      },
    };
    await using kit = await testService({ agents });
    const { thread_id } = await kit.service.threads.create();
    const running = await kit.service.runs.create(thread_id, ask("slow", "1"));
    await first.reached;
    const queued = [
      await kit.service.runs.create(thread_id, ask("slow", "2")),
      await kit.service.runs.create(thread_id, ask("slow", "3")),
    ];
    assert.equal((await kit.service.threads.get(thread_id)).status, "busy");
    await assert.rejects(
      kit.service.runs.create(thread_id, { ...ask("slow"), multitask_strategy: "reject" }),
      (error: unknown) =>
        error instanceof ServiceError && error.code === "conflict" && /already running a task/.test(error.message),
    );
    assert.deepEqual(
      await Promise.all(queued.map(async (run) => (await kit.service.runs.get(thread_id, run.run_id)).status)),
      ["pending", "pending"],
    );
    first.open();
    const last = await kit.service.runs.join(thread_id, queued[1]?.run_id ?? "");
    assert.deepEqual(contents(await last.result), ["1", "seen 1", "2", "seen 3", "3", "seen 5"]);
    assert.equal((await kit.service.runs.get(thread_id, running.run_id)).status, "success");
    assert.equal((await kit.service.threads.get(thread_id)).status, "idle");
  });

  it("execute up to the configured concurrency", async () => {
    let now = 0;
    let most = 0;
    const agents = {
      async busy() {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setTimeout(resolve, 2));
        now--;
        return "done";
      },
    };
    await using kit = await testService({ agents, worker: { concurrency: 3 } });
    await Promise.all(Array.from({ length: 20 }, () => waited(kit.service, null, ask("busy"))));
    assert.equal(most, 3);
  });

  it("fail with an error that readers receive, and the service continues", async () => {
    const agents = {
      boom: async () => {
        throw new RangeError("too far");
      },
      garbage: async function* () {
        yield 5;
      },
      ok: async () => "ok",
    };
    await using kit = await testService({ agents });
    const { thread_id } = await kit.service.threads.create();
    const { frames, run } = await kit.service.runs.stream(thread_id, ask("boom"));
    const events: Frame[] = [];
    for await (const frame of frames) events.push(frame);
    assert.deepEqual(
      events.slice(-2).map((frame) => [frame.event, JSON.parse(frame.data)]),
      [
        ["error", { error: "RangeError", message: "too far" }],
        ["end", { run_id: run.run_id, status: "error" }],
      ],
    );
    assert.equal((await kit.service.runs.get(thread_id, run.run_id)).status, "error");
    const thread = await kit.service.threads.get(thread_id);
    assert.equal(thread.status, "error");
    assert.deepEqual(thread.error, { error: "RangeError", message: "too far" });
    assert.deepEqual(await waited(kit.service, thread_id, ask("boom")), {
      __error__: { error: "RangeError", message: "too far" },
    });
    assert.ok("__error__" in ((await waited(kit.service, null, ask("garbage"))) as JsonObject));
    const after = await waited(kit.service, thread_id, ask("ok"));
    assert.equal(contents(after).at(-1), "ok");
    assert.equal((await kit.service.threads.get(thread_id)).status, "idle");
  });

  it("fail alone if their executor yields unknown events", async () => {
    const broken: Executor = {
      graphs: () => [{ graph_id: "broken" }, { graph_id: "silent" }],
      execute: recordStates(async function* (job) {
        if (job.graph_id === "broken") yield { type: "nonsense" } as unknown as ExecutorEvent;
      }),
    };
    await using kit = await testService({ executor: combine(broken, fromFunctions({ ok: async () => "ok" })) });
    assert.ok("__error__" in ((await waited(kit.service, null, ask("broken"))) as JsonObject));
    assert.ok("__error__" in ((await waited(kit.service, null, ask("silent"))) as JsonObject));
    assert.deepEqual(contents(await waited(kit.service, null, ask("ok"))), ["hi", "ok"]);
  });

  it("have their final status in the store when the stream ends", async () => {
    await using kit = await testService({ agents: { ok: async () => "ok" } });
    const { thread_id } = await kit.service.threads.create();
    for (let i = 0; i < 20; i++) {
      const { frames, run } = await kit.service.runs.stream(thread_id, ask("ok"));
      for await (const frame of frames) {
        if (frame.event !== "end") continue;
        assert.equal((await kit.service.runs.get(thread_id, run.run_id)).status, "success");
        assert.equal((await kit.service.threads.get(thread_id)).status, "idle");
      }
    }
  });

  it("are interrupted when their reader leaves with on_disconnect cancel", async () => {
    const here = gate();
    let reason: unknown;
    const agents = {
      async *slow({ signal }: FunctionJob) {
        yield { step: 1 };
        here.reach();
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        reason = signal.reason;
        yield { step: 2 };
      },
    };
    await using kit = await testService({ agents });
    const { thread_id } = await kit.service.threads.create();
    const { frames, run } = await kit.service.runs.stream(thread_id, { ...ask("slow"), on_disconnect: "cancel" });
    for await (const frame of frames) {
      if (frame.event !== "values" || !frame.data.includes("step")) continue;
      await here.reached;
      break;
    }
    await (await kit.service.runs.join(thread_id, run.run_id)).result;
    assert.equal((await kit.service.runs.get(thread_id, run.run_id)).status, "interrupted");
    assert.equal(reason, "cancelled");
    const thread = await kit.service.threads.get(thread_id);
    assert.equal(thread.error, null);
    assert.notEqual(thread.status, "error");
    assert.equal((thread.values as JsonObject)["step"] ?? 1, 1, "nothing after the stop");
  });

  it("continue without their reader otherwise", async () => {
    const here = gate();
    const agents = {
      async *slow() {
        yield { step: 1 };
        await here.passed;
        yield { step: 2 };
      },
    };
    await using kit = await testService({ agents });
    const { thread_id } = await kit.service.threads.create();
    const { frames, run } = await kit.service.runs.stream(thread_id, ask("slow"));
    for await (const _ of frames) break;
    here.open();
    await (await kit.service.runs.join(thread_id, run.run_id)).result;
    assert.equal((await kit.service.runs.get(thread_id, run.run_id)).status, "success");
    assert.equal(((await kit.service.threads.get(thread_id)).values as JsonObject)["step"], 2);
  });

  it("are stopped when their thread is deleted, and their readers end", async () => {
    const here = gate();
    const agents = {
      async slow({ signal }: FunctionJob) {
        here.reach();
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        return "late";
      },
    };
    await using kit = await testService({ agents });
    const { thread_id } = await kit.service.threads.create();
    const running = await kit.service.runs.stream(thread_id, ask("slow"));
    const waiting = await kit.service.runs.wait(thread_id, ask("slow"));
    await here.reached;
    await kit.service.threads.delete(thread_id);
    const events: string[] = [];
    for await (const frame of running.frames) events.push(frame.event);
    assert.deepEqual(events.slice(-2), ["error", "end"]);
    assert.ok("__error__" in ((await waiting.result) as JsonObject));
    await assert.rejects(kit.service.threads.get(thread_id), { code: "not_found" });
    await assert.rejects(kit.service.runs.get(thread_id, running.run.run_id), { code: "not_found" });
  });

  it("without a thread return their result to late joins, and are deleted afterwards", async () => {
    const clock = testClock();
    await using kit = await testService({ agents: { ok: async () => "ok" }, environment: clock });
    const run = await kit.service.runs.create(null, ask("ok"));
    assert.deepEqual(contents(await (await kit.service.runs.join(run.thread_id, run.run_id)).result), ["hi", "ok"]);
    await assert.rejects(kit.service.threads.get(run.thread_id), { code: "not_found" });
    assert.equal(await kit.service.threads.count(), 0);
    await clock.advance(70_000);
    await until(async () =>
      kit.service.runs.get(run.thread_id, run.run_id).then(
        () => false,
        () => true,
      ),
    );
    const keptRun = await kit.service.runs.create(null, { ...ask("ok"), on_completion: "keep" });
    await (await kit.service.runs.join(keptRun.thread_id, keptRun.run_id)).result;
    assert.deepEqual(contents((await kit.service.threads.get(keptRun.thread_id)).values), ["hi", "ok"]);
  });

  it("are requeued without a charge when the service stops", async () => {
    const clock = testClock();
    const storage = nodeSqlite(":memory:");
    const sharedStorage = createFaultyStorage(storage).share().storage;
    const here = gate();
    let calls = 0;
    const executor = fromFunctions({
      async slow({ signal, attempt }) {
        calls++;
        if (calls > 1) return `attempt ${attempt}`;
        here.reach();
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        return "never";
      },
    });
    const quiet = { log: () => {} };
    const firstService = await createService({ storage: sharedStorage, executor, environment: { ...clock, ...quiet } });
    const { thread_id } = await firstService.threads.create();
    const run = await firstService.runs.create(thread_id, ask("slow"));
    await here.reached;
    const stopping = firstService.stop(50);
    await clock.advance(100);
    await stopping;
    const two = await createService({ storage: sharedStorage, executor, environment: { ...clock, ...quiet } });
    const joined = await two.runs.join(thread_id, run.run_id);
    assert.deepEqual(contents(await joined.result), ["hi", "attempt 1"]);
    await two.stop(0);
    await storage.close();
  });

  it("of a dead worker are claimed after their lease, and abandoned after three attempts", async () => {
    const clock = testClock();
    const storage = nodeSqlite(":memory:");
    const scope = { deployment: "default" };
    const environment = { ...clock, log: () => {} };
    const executor = fromFunctions({ ok: async ({ attempt }) => `attempt ${attempt}` });
    const idle = await createService({ storage, executor, worker: { concurrency: 0 }, environment });
    // This worker claims the run and dies.
    const die = async (): Promise<void> => {
      const terms = {
        token: crypto.randomUUID(),
        lease_until: clock.now() + 1_000,
        graph_ids: ["ok"],
        now: clock.now(),
      };
      assert.equal((await storage.claimRun(scope, terms)).kind, "claimed");
      await clock.advance(1_001);
    };
    const once = await idle.runs.create((await idle.threads.create()).thread_id, ask("ok"));
    await die();
    const twice = await createService({ storage, executor, worker: { concurrency: 1 }, environment });
    const { result } = await twice.runs.join(once.thread_id, once.run_id);
    assert.deepEqual(contents(await result), ["hi", "attempt 2"]);
    await twice.stop(0);
    await idle.stop(0);

    const otherStorage = nodeSqlite(":memory:");
    const again = await createService({ storage: otherStorage, executor, worker: { concurrency: 0 }, environment });
    const doomed = await again.runs.create((await again.threads.create()).thread_id, ask("ok"));
    const terms = (): Parameters<Storage["claimRun"]>[1] => ({
      token: crypto.randomUUID(),
      lease_until: clock.now() + 1_000,
      graph_ids: ["ok"],
      max_attempts: { ok: 3 },
      now: clock.now(),
    });
    for (let i = 1; i <= 5; i++) {
      const outcome = await otherStorage.claimRun(scope, terms());
      assert.ok(outcome.kind === "claimed");
      // Claims that only end the run are no attempts.
      assert.deepEqual([outcome.claimed.run.attempt, outcome.claimed.exhausted], [Math.min(i, 3), i > 3]);
      await clock.advance(1_001);
    }
    const last = await createService({ storage: otherStorage, executor, environment });
    const failed = (await (await last.runs.join(doomed.thread_id, doomed.run_id)).result) as { __error__: JsonObject };
    assert.equal(failed.__error__["error"], "AttemptsExhausted");
    assert.equal((await last.threads.get(doomed.thread_id)).status, "error");
    await last.stop(0);
    await again.stop(0);
  });

  /** Five workers of a run die, each after one more checkpoint. Returns its status after a service has claimed it. */
  async function finishRun(resumes: boolean, started_ms_ago: number): Promise<Json> {
    const clock = testClock();
    const storage = nodeSqlite(":memory:");
    const scope = { deployment: "default" };
    const executor: Executor = {
      graphs: () => [{ graph_id: "g", resumes_on_retry: resumes, timeout_ms: 60_000 }],
      execute: recordStates(async function* () {
        yield { type: "state", values: { messages: [] }, next: [], tasks: [] };
      }),
    };
    const options = { storage, executor, environment: { ...clock, log: () => {} } };
    const idle = await createService({ ...options, worker: { concurrency: 0 } });
    const { thread_id, run_id } = await idle.runs.create((await idle.threads.create()).thread_id, ask("g"));
    for (let i = 1; i <= 5; i++) {
      const now = clock.now();
      const terms = { token: crypto.randomUUID(), lease_until: now + 1_000, graph_ids: ["g"], now };
      const outcome = await storage.claimRun(scope, terms);
      assert.ok(outcome.kind === "claimed");
      await storage.saveProgress(
        scope,
        outcome.claimed.lease,
        { checkpoints: [checkpoint(`c${i}`, {})], writes: [] },
        now,
      );
      await clock.advance(1_001);
    }
    await clock.advance(started_ms_ago - 5 * 1_001);
    const last = await createService(options);
    const end = await (await last.runs.join(thread_id, run_id)).result;
    await last.stop(0);
    await idle.stop(0);
    return ((end as JsonObject)["__error__"] as JsonObject | undefined)?.["error"] ?? "ended";
  }

  it("that make progress continue over many attempts until their timeout", async () => {
    assert.equal(await finishRun(true, 59_000), "ended");
    assert.equal(await finishRun(true, 60_000), "AttemptsExhausted");
    assert.equal(await finishRun(false, 59_000), "AttemptsExhausted");
  });

  it("are refused before they are created if their webhooks or feedback links are invalid", async () => {
    await using kit = await testService({ agents: { ok: async () => "ok" } });
    const { thread_id } = await kit.service.threads.create();
    for (const [extra, message] of [
      [{ webhook: "" }, "Invalid webhook URL: empty"],
      [{ webhook: `https://example.com/${"x".repeat(65_536)}` }, "Invalid webhook URL: too_long"],
      [{ webhook: "http://127.0.0.1/hook" }, "Invalid webhook URL: ip_not_public"],
      [{ webhook: "/hook" }, "Invalid webhook URL: loopback_unavailable"],
      [{ feedback_keys: ["score"] }, "public_base_url is not set"],
      [{ feedback_keys: "score" }, "public_base_url is not set"],
    ] as const) {
      await assert.rejects(kit.service.runs.create(thread_id, { ...ask("ok"), ...extra }), {
        code: "invalid",
        message,
      });
    }
    assert.deepEqual(await kit.service.runs.list(thread_id), []);
    const request = { ...ask("ok"), feedback_keys: [], webhook: null };
    assert.equal((await kit.service.runs.create(thread_id, request)).status, "pending");
  });

  it("accept any webhook unchecked while webhooks are disabled", async () => {
    const agents = { ok: async () => "ok" };
    await using off = await testService({ agents, http: { disable_webhooks: true } });
    for (const webhook of ["", "http://127.0.0.1/hook", "/hook", "no URL"]) {
      assert.equal(contents(await waited(off.service, null, { ...ask("ok"), webhook })).at(-1), "ok");
    }
  });

  it("use the active version of their assistant, before the configuration of earlier runs", async () => {
    const agents = {
      show: async ({ context, config }: FunctionJob) => ({
        seen: [context, config.configurable["model"] ?? null] as Json,
      }),
    };
    await using kit = await testService({ agents });
    const { assistants, threads } = kit.service;
    const { assistant_id } = await assistants.create({
      graph_id: "show",
      context: { tone: "dry" },
      config: { configurable: { model: "one" } },
    });
    const { thread_id } = await threads.create();
    const readContext = async (extra: object = {}): Promise<unknown> =>
      ((await waited(kit.service, thread_id, { assistant_id, input: {}, ...extra })) as JsonObject)["seen"];
    assert.deepEqual(await readContext(), [{ model: "one", tone: "dry" }, "one"]);
    await assistants.update(assistant_id, { context: { tone: "warm" }, config: { configurable: { model: "two" } } });
    assert.deepEqual(await readContext(), [{ model: "two", tone: "warm" }, "two"]);
    await assistants.setLatest(assistant_id, 1);
    assert.deepEqual(await readContext({ context: { size: 1 } }), [{ model: "one", tone: "dry", size: 1 }, "one"]);
    await assert.rejects(readContext({ context: { a: 1 }, config: { configurable: { a: 2 } } }), {
      code: "bad_request",
    });
  });

  it("use the assistant that another process has changed meanwhile", async () => {
    const storage = nodeSqlite(":memory:");
    const executor = fromFunctions({ show: async ({ context }) => ({ seen: context as JsonObject }) });
    const environment = { log: () => {} };
    const [firstService, secondService] = [
      await createService({ storage, executor, environment }),
      await createService({ storage, executor, environment }),
    ];
    const { assistant_id } = await firstService.assistants.create({ graph_id: "show", context: { a: 1 } });
    const readContext = async (thread_id: string | null): Promise<Json> =>
      ((await waited(firstService, thread_id, { assistant_id, input: {} })) as JsonObject)["seen"] ?? null;
    const { thread_id } = await firstService.threads.create();
    assert.deepEqual([await readContext(null), await readContext(thread_id)], [{ a: 1 }, { a: 1 }]);
    await secondService.assistants.update(assistant_id, { context: { a: 2 } });
    assert.deepEqual([await readContext(null), await readContext(thread_id)], [{ a: 2 }, { a: 2 }]);
    await secondService.assistants.delete(assistant_id);
    await assert.rejects(readContext(null), { code: "not_found" });
    await assert.rejects(readContext(thread_id), { code: "not_found" });
    await Promise.all([firstService.stop(0), secondService.stop(0)]);
  });
});
