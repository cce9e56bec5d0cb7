/** Other calls and changed code meet a suspended run of a durable function. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { type AgentFunction, fromFunctions, type Json } from "../../../lib/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { until } from "../../support/until.ts";

keepAlive();

const folder = mkdtempSync(join(tmpdir(), "steps-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newFile = (): string => join(folder, `${++files}.db`);

const done: string[] = [];
const waits: AgentFunction = async function* ({ step, wait, input }) {
  yield { started: true };
  await step("first", () => void done.push(String((input as { n: number }).n)));
  const event = await wait("go");
  yield { event };
};
const plain: AgentFunction = async function* () {
  yield { plain: true };
};

const kitOn = (agents: Record<string, AgentFunction>, file = newFile(), options: object = {}): Promise<TestService> =>
  testService({ storage: nodeSqlite(file), agents, ...options });

const isSuspended = (kit: TestService, thread_id: string, run_id: string) => async (): Promise<boolean> =>
  (await kit.service.runs.get(thread_id, run_id)).waiting_for !== undefined;

async function suspended(kit: TestService): Promise<{ thread_id: string; run_id: string }> {
  const { thread_id } = await kit.service.threads.create();
  const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "waits", input: { n: 1 } });
  await until(isSuspended(kit, thread_id, run_id));
  return { thread_id, run_id };
}

const status = async (
  kit: TestService,
  { thread_id, run_id }: { thread_id: string; run_id: string },
): Promise<string> => (await kit.service.runs.get(thread_id, run_id)).status;

/** Counts the rows of the call tables. */
async function countRows(kit: TestService, thread_id: string): Promise<{ calls: number; entries: number }> {
  const { storage } = serviceInternals(kit.service).options;
  const call = await storage.getNewestCall({ deployment: "default" }, thread_id);
  const entries = call ? await storage.readJournalEntries({ deployment: "default" }, thread_id, call.call_id, 0) : [];
  return { calls: call ? 1 : 0, entries: entries.length };
}

describe("a suspended run", () => {
  it("becomes interrupted when it is cancelled, and its call accepts no more events", async () => {
    await using kit = await kitOn({ waits, plain });
    const run = await suspended(kit);
    await kit.service.runs.cancel(run.thread_id, run.run_id, { wait: true });
    assert.equal(await status(kit, run), "interrupted");
    assert.deepEqual((await kit.service.threads.state(run.thread_id)).values, { n: 1, started: true });
    await assert.rejects(kit.service.threads.send(run.thread_id, "go", 1), { reason: "call_ended" });
  });

  it("is undone by a rollback with its journal", async () => {
    await using kit = await kitOn({ waits, plain });
    const run = await suspended(kit);
    assert.notEqual((await countRows(kit, run.thread_id)).entries, 0);
    await kit.service.runs.cancel(run.thread_id, run.run_id, { action: "rollback" });
    assert.deepEqual(await countRows(kit, run.thread_id), { calls: 0, entries: 0 });
    assert.equal((await kit.service.threads.get(run.thread_id)).status, "idle");
  });

  it("holds its thread: enqueued runs wait, rejected ones are refused, interrupting ones end it", async () => {
    await using kit = await kitOn({ waits, plain });
    const { runs, threads } = kit.service;
    const run = await suspended(kit);
    const request = { assistant_id: "plain", input: {} };
    await assert.rejects(runs.create(run.thread_id, { ...request, multitask_strategy: "reject" }), {
      reason: "thread_busy",
    });
    const queued = await runs.create(run.thread_id, request);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(await status(kit, { thread_id: run.thread_id, run_id: queued.run_id }), "pending");
    await threads.send(run.thread_id, "go", 7);
    await until(async () => (await status(kit, { thread_id: run.thread_id, run_id: queued.run_id })) === "success");
    assert.deepEqual((await threads.state(run.thread_id)).values, { n: 1, started: true, event: 7, plain: true });
    const secondThread = await suspended(kit);
    const { result } = await runs.wait(secondThread.thread_id, { ...request, multitask_strategy: "interrupt" });
    assert.deepEqual(await result, { n: 1, started: true, plain: true });
    assert.equal(await status(kit, secondThread), "interrupted");
    const third = await suspended(kit);
    const rolled = await runs.wait(third.thread_id, { ...request, multitask_strategy: "rollback" });
    assert.deepEqual(await rolled.result, { plain: true });
    await assert.rejects(runs.get(third.thread_id, third.run_id), { code: "not_found" });
  });

  it("can be deleted, also with its thread", async () => {
    await using kit = await kitOn({ waits, plain });
    const run = await suspended(kit);
    await kit.service.runs.delete(run.thread_id, run.run_id);
    assert.deepEqual(await countRows(kit, run.thread_id), { calls: 0, entries: 0 });
    const secondThread = await suspended(kit);
    await kit.service.threads.delete(secondThread.thread_id);
    await assert.rejects(kit.service.threads.send(secondThread.thread_id, "go", 1), { code: "not_found" });
  });

  it("counts towards a limit of its own instead of `limits.pending`", async () => {
    const limits = { pending: 1, suspended: 2 };
    await using kit = await kitOn({ waits, plain }, newFile(), { limits });
    await suspended(kit);
    await suspended(kit);
    const { thread_id } = await kit.service.threads.create();
    const { result } = await kit.service.runs.wait(thread_id, { assistant_id: "waits", input: { n: 3 } });
    assert.match(JSON.stringify(await result), /limits\.suspended is 2/);
  });

  it("needs no drain at a shutdown, and is not charged an attempt when it continues", async () => {
    const file = newFile();
    const first = await kitOn({ waits, plain }, file);
    const run = await suspended(first);
    await first.service.stop(0);
    await using kit = await kitOn({ waits, plain }, file);
    await kit.service.threads.send(run.thread_id, "go", "on");
    await until(async () => (await status(kit, run)) === "success");
    assert.equal((await kit.service.runs.inspect(run.run_id)).attempt, 1);
  });
});

describe("a durable call", () => {
  const asks: AgentFunction = async function* ({ step, ask, wait, state }) {
    const n = await step("count", () => done.push("count"));
    const [answer, event] = await Promise.all([ask("ok", "?"), wait("go")]);
    yield { was: state, n, answer, event };
  };

  it("continues by an event during an ask, in a run of the service, and the ask stays pending", async () => {
    await using kit = await kitOn({ asks });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "asks", input: { n: 1 } })).result;
    await threads.send(thread_id, "go", "event");
    await until(
      async () => (await runs.list(thread_id)).length === 2 && (await threads.get(thread_id)).status === "interrupted",
    );
    const { result } = await runs.wait(thread_id, { assistant_id: "asks", command: { resume: "yes" } });
    const { was, answer, event } = (await result) as Record<string, Json>;
    assert.deepEqual([was, answer, event], [{ n: 1 }, "yes", "event"]);
  });

  it("ends when its ask is closed, and no event and no timeout continues it", async () => {
    const agent: AgentFunction = async function* ({ ask, wait }) {
      yield JSON.stringify(await Promise.all([ask("ok", "Good?"), wait("tick")]));
    };
    await using kit = await kitOn({ agent });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "agent", input: { messages: "Hi" } })).result;
    assert.equal((await threads.inbox()).total, 1);
    await threads.updateState(thread_id, { values: null, as_node: "__end__" });
    const { status, interrupts } = await threads.get(thread_id);
    assert.deepEqual([status, interrupts, (await threads.inbox()).total], ["idle", {}, 0]);
    await assert.rejects(threads.send(thread_id, "tick", 1), { reason: "call_ended" });
    assert.equal((await runs.list(thread_id)).length, 1);
  });

  it("ends with the next input, and continues in a run without input", async () => {
    await using kit = await kitOn({ asks, plain });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    done.length = 0;
    await (await runs.wait(thread_id, { assistant_id: "asks", input: { n: 1 } })).result;
    const again = await (await runs.wait(thread_id, { assistant_id: "asks" })).result;
    assert.ok("__interrupt__" in (again as object));
    assert.deepEqual(done, ["count"]);
    await (await runs.wait(thread_id, { assistant_id: "asks", input: { n: 2 } })).result;
    assert.deepEqual(done, ["count", "count"]);
  });

  it("is copied with its thread and by a fork, which repeat no step and have their own idempotency keys", async () => {
    const keys: string[] = [];
    const forked: AgentFunction = async function* ({ step, ask }) {
      await step("once", ({ key }) => void keys.push(key));
      const answer = await ask("ok", "?");
      await step("after", ({ key }) => void keys.push(key));
      yield { answer };
    };
    await using kit = await kitOn({ forked });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const request = { assistant_id: "forked" };
    await (await runs.wait(thread_id, { ...request, input: {} })).result;
    const { checkpoint } = await threads.state(thread_id);
    const copy = await threads.copy(thread_id);
    const copied = await runs.wait(copy.thread_id, { ...request, command: { resume: 2 } });
    assert.deepEqual(await copied.result, { answer: 2 });
    // The head belongs to another call, so the fork continues the first one.
    await (await runs.wait(thread_id, { ...request, input: {} })).result;
    const at = { ...request, checkpoint: { checkpoint_id: checkpoint?.checkpoint_id ?? null } };
    const fork = await runs.wait(thread_id, { ...at, command: { resume: 3 } });
    assert.deepEqual(await fork.result, { answer: 3 });
    await assert.rejects(runs.wait(thread_id, { ...at, command: { resume: 4 } }), { reason: "no_open_interrupt" });
    assert.equal(keys.length, 4);
    assert.equal(new Set(keys).size, 4);
  });

  it("keeps its start state when the thread is pruned", async () => {
    await using kit = await kitOn({ asks });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "asks", input: { n: 1 } })).result;
    await threads.prune([thread_id], "keep_latest");
    await threads.send(thread_id, "go", "event");
    await until(
      async () => (await runs.list(thread_id)).length === 2 && (await threads.get(thread_id)).status === "interrupted",
    );
    const { result } = await runs.wait(thread_id, { assistant_id: "asks", command: { resume: "yes" } });
    assert.deepEqual(((await result) as Record<string, Json>).was, { n: 1 });
  });

  it("refuses a resume value that does not match the schema, and the ask stays pending", async () => {
    const typed: AgentFunction = async function* ({ ask }) {
      yield { ok: await ask("ok", "?", { schema: { type: "boolean" } }) };
    };
    await using kit = await kitOn({ typed });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "typed", input: {} })).result;
    await assert.rejects(runs.wait(thread_id, { assistant_id: "typed", command: { resume: "yes" } }), {
      code: "invalid",
      issues: [{ loc: ["body", "command", "resume"], msg: "value must be of type boolean", type: "value_error" }],
    });
    assert.equal((await threads.get(thread_id)).status, "interrupted");
    assert.equal((await runs.list(thread_id)).length, 1);
    const right = await (await runs.wait(thread_id, { assistant_id: "typed", command: { resume: true } })).result;
    assert.deepEqual(right, { ok: true });
  });

  /** Asks after the first version of a function, and answers with the second one. */
  async function changed(before: AgentFunction, now: AgentFunction, strict: boolean): Promise<[Json, string[]]> {
    const file = newFile();
    const first = await kitOn({ agent: before }, file);
    const { thread_id } = await first.service.threads.create();
    await (await first.service.runs.wait(thread_id, { assistant_id: "agent", input: {} })).result;
    await first.service.stop(0);
    const executor = fromFunctions({ agent: { agent: now, strict } });
    await using kit = await testService({ storage: nodeSqlite(file), executor });
    const { result } = await kit.service.runs.wait(thread_id, { assistant_id: "agent", command: { resume: 1 } });
    return [await result, kit.log.filter(({ level }) => level === "warn").map(({ message }) => message)];
  }

  it("continues with one warning if steps were added, removed or reordered, and with `strict` refuses", async () => {
    let executed: string[] = [];
    const named = (name: string) => (): void => void executed.push(name);
    const before: AgentFunction = async function* ({ step, ask }) {
      for (const name of ["a", "b", "c"]) await step(name, named(name));
      await ask("ok", "?");
      yield { end: true };
    };
    const now: AgentFunction = async function* ({ step, ask }) {
      for (const name of ["c", "a", "new"]) await step(name, named(name));
      await ask("ok", "?");
      yield { end: true };
    };
    const [values, warnings] = await changed(before, now, false);
    assert.deepEqual(values, { end: true });
    assert.deepEqual(executed, ["a", "b", "c", "new"]);
    assert.deepEqual(warnings, [
      "a durable function took another way than its journal: steps were removed or reordered",
    ]);
    executed = [];
    const [refused] = await changed(before, now, true);
    assert.deepEqual((refused as { __error__: Json }).__error__, {
      error: "ReplayMismatch",
      message: "call 1 is step c; the journal has step a",
    });
    assert.deepEqual(executed, ["a", "b", "c"]);
    const [same] = await changed(before, before, true);
    assert.deepEqual(same, { end: true });
  });
});

describe("a finished step", () => {
  it("is not executed again after a restart", async () => {
    const file = newFile();
    const calls: string[] = [];
    let block = true;
    const agent: AgentFunction = async function* ({ step, emit, signal }) {
      for (let i = 0; i < 3; i++) {
        yield `token ${i} `;
        emit({ i });
        await step(["work", i], () => void calls.push(`work ${i}`));
      }
      if (block) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      await step("say", async function* () {
        calls.push("say");
        yield* ["streamed ", "text"];
      });
      yield "end";
    };
    const first = await kitOn({ agent }, file);
    const { thread_id } = await first.service.threads.create();
    const { run_id } = await first.service.runs.create(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
    await until(() => calls.length === 3);
    await until(async () => (await first.service.runs.steps(thread_id, run_id)).steps.length === 3);
    await first.service.stop(0);
    block = false;
    await using kit = await kitOn({ agent }, file);
    await until(async () => (await status(kit, { thread_id, run_id })) === "success");
    assert.deepEqual(calls, ["work 0", "work 1", "work 2", "say"]);
    const state = await kit.service.threads.state(thread_id);
    assert.deepEqual(
      (state.values as { messages: { content: string }[] }).messages.map(({ content }) => content),
      ["Hi", "token 0 token 1 token 2 ", "streamed text", "end"],
    );
  });
});

describe("a cancelled step", () => {
  it("is abandoned and stores nothing if it does not settle", async () => {
    let entered = false;
    const endless: AgentFunction = ({ step }) =>
      step("endless", () => {
        entered = true;
        return new Promise(() => {});
      });
    await using kit = await testService({ executor: fromFunctions({ endless: { agent: endless, abandon_ms: 20 } }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "endless", input: {} });
    await until(() => entered);
    await runs.cancel(thread_id, run_id, { wait: true });
    assert.equal((await runs.get(thread_id, run_id)).status, "interrupted");
    assert.deepEqual((await runs.steps(thread_id, run_id)).steps, []);
  });

  it("can be caught by the function, after which operations throw and nothing is stored", async () => {
    const log: string[] = [];
    let entered = false;
    const swallows: AgentFunction = async function* ({ step, signal }) {
      try {
        await step("waits", ({ signal }) => {
          entered = true;
          return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
        });
      } catch {
        log.push(String(signal.reason));
      }
      await step("late", () => void log.push("late")).catch((error: Error) => log.push(error.message));
      yield { swallowed: true };
    };
    await using kit = await kitOn({ swallows });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "swallows", input: { n: 1 } });
    await until(() => entered);
    await runs.cancel(thread_id, run_id, { wait: true });
    assert.deepEqual(log, ["cancelled", "late: the run was stopped"]);
    assert.deepEqual((await threads.state(thread_id)).values, { n: 1 });
  });
});
