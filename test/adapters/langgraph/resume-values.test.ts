import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { type AgentFunction, combine, fromFunctions, type Json, type JsonObject } from "../../../lib/mod.ts";
import { type TestServiceOptions, testService } from "../../suite/kit.ts";
import { createFaultyStorage, kill } from "../../support/faulty.ts";

const State = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
const NOBODY = "0".repeat(32);
const ACTIONS = {
  actionRequests: [
    { name: "transfer", args: {} },
    { name: "delete_file", args: {} },
  ],
  reviewConfigs: [],
};

/** Creates agents whose next call after an answer fails while `fails` has their name. */
function createAgents() {
  const fails = new Set<string>();
  const calls: string[] = [];
  const work = (name: string, answer: unknown): string => {
    calls.push(`${name} ${String(answer)}`);
    if (fails.has(name)) throw new RangeError(`${name} failed`);
    return `${name}: ${String(answer)}`;
  };
  const graph = new StateGraph(State)
    .addNode("pay", () => ({ log: [work("graph", interrupt({ amount: 10 }))] }))
    .addNode("report", () => ({ log: [work("report", "sent")] }))
    .addEdge(START, "pay")
    .addEdge("pay", "report")
    .compile();
  const twice = new StateGraph(State)
    .addNode("ask", () => ({ log: [`${interrupt("first?")} ${interrupt("second?")}`] }))
    .addEdge(START, "ask")
    .compile();
  const both = new StateGraph(State)
    .addNode("left", () => ({ log: [work("left", interrupt("left?"))] }))
    .addNode("right", () => ({ log: [work("right", interrupt("right?"))] }))
    .addEdge(START, "left")
    .addEdge(START, "right")
    .compile();
  const approvals = new StateGraph(State)
    .addNode("approve", () => ({ log: [JSON.stringify(interrupt(ACTIONS))] }))
    .addEdge(START, "approve")
    .compile();
  const plain: AgentFunction = async function* ({ command, interrupt: ask }) {
    if (command?.resume === undefined) yield ask({ amount: 10 });
    yield { seen: String(command?.resume) };
    yield { log: [work("plain", command?.resume)] };
  };
  const executor = combine(
    langgraph({ graph, twice, both, approvals, by_id: { graph, resume: "by_id" } }),
    fromFunctions({ plain, named: { agent: plain, resume: "by_id" } }),
  );
  return { executor, fails, calls };
}

async function createHarness(options: Partial<TestServiceOptions> = {}) {
  const agentSet = createAgents();
  const kit = await testService({ executor: agentSet.executor, ...options });
  const send = async (method: string, path: string, body?: unknown) => {
    const headers = { "content-type": "application/json" };
    const requestBody = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await kit.fetch(`http://greenroom${path}`, { method, headers, ...requestBody });
    return { status: response.status, body: (await response.json()) as JsonObject };
  };
  const at = {
    ...{ kit, send, ...agentSet },
    async thread(assistant_id?: string, extraFields: object = {}): Promise<string> {
      const thread_id = (await send("POST", "/threads", {})).body.thread_id as string;
      if (assistant_id)
        await send("POST", `/threads/${thread_id}/runs/wait`, { assistant_id, input: {}, ...extraFields });
      return thread_id;
    },
    wait: (thread_id: string, assistant_id: string, resume: Json, extraFields: object = {}) =>
      send("POST", `/threads/${thread_id}/runs/wait`, { assistant_id, command: { resume }, ...extraFields }),
    async settledThread(thread_id: string): Promise<{ status: Json; open: JsonObject[]; log: Json }> {
      const { status, interrupts, values } = (await send("GET", `/threads/${thread_id}`)).body;
      const open = Object.values(interrupts as JsonObject).flat() as JsonObject[];
      return { status: status as Json, open, log: ((values as JsonObject | null)?.log ?? []) as Json };
    },
    [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose](),
  };
  return at;
}

const toStatusAndCode = ({ status, body }: { status: number; body: JsonObject }): Json => [status, body.code as Json];

describe("a resume without a pending interrupt", () => {
  it("is rejected with 409 no_open_interrupt, and creates no thread", async () => {
    await using at = await createHarness();
    for (const assistant_id of ["graph", "plain"]) {
      const thread_id = await at.thread();
      for (const resume of ["yes", null, { [NOBODY]: "yes" }]) {
        assert.deepEqual(toStatusAndCode(await at.wait(thread_id, assistant_id, resume)), [409, "no_open_interrupt"]);
      }
      const unknown = crypto.randomUUID();
      const created = await at.wait(unknown, assistant_id, "yes", { if_not_exists: "create" });
      assert.deepEqual(toStatusAndCode(created), [409, "no_open_interrupt"]);
      assert.equal((await at.send("GET", `/threads/${unknown}`)).status, 404);
      const waiting = await at.thread(assistant_id);
      assert.deepEqual(toStatusAndCode(await at.wait(waiting, assistant_id, { [NOBODY]: "yes" })), [
        409,
        "no_open_interrupt",
      ]);
      assert.equal((await at.settledThread(waiting)).open.length, 1);
    }
    assert.deepEqual(at.calls, []);
  });

  it("is rejected with strict_resume beside goto and update, too, and at a breakpoint", async () => {
    await using at = await createHarness();
    for (const assistant_id of ["graph", "plain"]) {
      const idle = await at.thread();
      const paused = await at.thread(assistant_id, { interrupt_before: "*" });
      for (const resume of ["yes", null, { [NOBODY]: "yes" }]) {
        const command = { resume, goto: assistant_id === "plain" ? "plain" : "report", update: { log: ["in"] } };
        const body = { assistant_id, command, strict_resume: true };
        assert.deepEqual(toStatusAndCode(await at.send("POST", `/threads/${idle}/runs/wait`, body)), [
          409,
          "no_open_interrupt",
        ]);
        assert.deepEqual(toStatusAndCode(await at.wait(paused, assistant_id, resume, { strict_resume: true })), [
          409,
          "no_open_interrupt",
        ]);
      }
      assert.equal((await at.kit.service.runs.list(idle)).length, 0);
      assert.equal((await at.kit.service.threads.get(paused)).status, "interrupted");
      // By default a value continues from a breakpoint.
      assert.equal((await at.wait(paused, assistant_id, "yes")).status, 200);
    }
  });

  it("is ignored beside goto and update", async () => {
    await using at = await createHarness();
    const thread_id = await at.thread();
    const body = { assistant_id: "graph", command: { resume: "yes", goto: "report", update: { log: ["in"] } } };
    const { status, body: values } = await at.send("POST", `/threads/${thread_id}/runs/wait`, body);
    assert.deepEqual([status, values.log], [200, ["in", "report: sent"]]);
    const [run] = await at.kit.service.runs.list(thread_id);
    assert.ok(!Object.hasOwn(run?.kwargs.command as JsonObject, "resume"));
  });

  it("continues from a breakpoint as a run without input, once", async () => {
    await using at = await createHarness();
    for (const [assistant_id, interrupt_before] of [
      ["graph", ["report"]],
      ["plain", ["plain"]],
    ] as const) {
      const thread_id = await at.thread();
      const input = { assistant_id, input: {}, interrupt_before };
      await at.send("POST", `/threads/${thread_id}/runs/wait`, input);
      if (assistant_id === "graph") await at.wait(thread_id, assistant_id, "yes", { interrupt_before });
      const { next } = (await at.send("GET", `/threads/${thread_id}/state`)).body;
      assert.deepEqual(next, interrupt_before);
      const later = { assistant_id, command: { resume: "on" }, after_seconds: 3600 };
      const first = await at.send("POST", `/threads/${thread_id}/runs`, later);
      assert.equal(first.status, 200);
      const second = await at.wait(thread_id, assistant_id, "on");
      assert.deepEqual(toStatusAndCode(second), [409, "interrupt_already_answered"]);
      assert.equal(second.body.run_id, first.body.run_id);
      await at.kit.service.runs.delete(thread_id, first.body.run_id as string);
      const { body } = await at.wait(thread_id, assistant_id, "on");
      assert.deepEqual(body.log ?? null, assistant_id === "graph" ? ["graph: yes", "report: sent"] : null);
      assert.equal((await at.settledThread(thread_id)).status, assistant_id === "graph" ? "idle" : "interrupted");
    }
  });
});

describe("a rollback", () => {
  it("replaces a resume value that is pending or running", async () => {
    for (const name of ["graph", "plain"]) {
      const gate = Promise.withResolvers<void>();
      const slow = new StateGraph(State)
        .addNode("pay", async () => {
          const answer = interrupt({ amount: 10 });
          await gate.promise;
          return { log: [String(answer)] };
        })
        .addEdge(START, "pay")
        .compile();
      const hold: AgentFunction = async function* ({ command, interrupt: ask, signal }) {
        if (command?.resume === undefined) yield ask({ amount: 10 });
        yield { before: true };
        await Promise.race([gate.promise, new Promise((resolve) => signal.addEventListener("abort", resolve))]);
        yield { log: [String(command?.resume)] };
      };
      const executor = name === "graph" ? langgraph({ graph: slow }) : fromFunctions({ plain: hold });
      await using at = await createHarness({ executor });
      const thread_id = await at.thread(name);
      const answer = (resume: string, multitask_strategy: string) =>
        at.send("POST", `/threads/${thread_id}/runs`, { assistant_id: name, command: { resume }, multitask_strategy });
      const first = await answer("no", "enqueue");
      assert.deepEqual(toStatusAndCode(await answer("yes", "interrupt")), [409, "interrupt_already_answered"]);
      const second = await answer("yes", "rollback");
      assert.equal(second.status, 200);
      gate.resolve();
      const { result } = await at.kit.service.runs.join(thread_id, second.body.run_id as string);
      await result;
      assert.deepEqual((await at.settledThread(thread_id)).log, ["yes"]);
      assert.equal((await at.send("GET", `/threads/${thread_id}/runs/${first.body.run_id}`)).status, 404);
    }
  });
});

describe("a resume value whose task fails", () => {
  it("is removed: the same interrupt is pending, and another resume value completes the thread", async () => {
    await using at = await createHarness();
    for (const name of ["graph", "plain"]) {
      const thread_id = await at.thread(name);
      const before = await at.settledThread(thread_id);
      at.fails.add(name);
      for (let attempt = 0; attempt < 2; attempt++) {
        const { body } = await at.wait(thread_id, name, `no ${attempt}`);
        assert.equal((body.__error__ as JsonObject).error, "RangeError");
        const [run] = await at.kit.service.runs.list(thread_id);
        assert.equal(run?.status, "error");
        const { status, open } = await at.settledThread(thread_id);
        assert.deepEqual([status, open], ["interrupted", before.open]);
        const state = (await at.send("GET", `/threads/${thread_id}/state`)).body;
        assert.deepEqual(
          (state.interrupts as JsonObject[]).map(({ id }) => id),
          before.open.map(({ id }) => id),
        );
        assert.equal(
          (await at.kit.service.threads.inbox()).items.filter((inboxEntry) => inboxEntry.thread_id === thread_id)
            .length,
          1,
        );
      }
      at.fails.clear();
      at.calls.length = 0;
      await at.wait(thread_id, name, "yes");
      const { status, open, log } = await at.settledThread(thread_id);
      assert.deepEqual([status, open, (log as Json[])[0]], ["idle", [], `${name}: yes`]);
      assert.deepEqual(at.calls[0], `${name} yes`);
    }
  });

  it("stays if its task is complete, also if another task of the step fails", async () => {
    await using at = await createHarness();
    const thread_id = await at.thread("graph");
    at.fails.add("report");
    await at.wait(thread_id, "graph", "yes");
    const { status, open } = await at.settledThread(thread_id);
    assert.deepEqual([status, open], ["error", []]);
    assert.deepEqual(toStatusAndCode(await at.wait(thread_id, "graph", "again")), [409, "no_open_interrupt"]);
    at.fails.clear();
    await at.send("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "graph", input: null });
    assert.deepEqual((await at.settledThread(thread_id)).log, ["graph: yes", "report: sent"]);

    const two = await at.thread("both");
    const ids = Object.fromEntries((await at.settledThread(two)).open.map(({ id, value }) => [value, id as string]));
    at.fails.add("right");
    await at.wait(two, "both", { [ids["left?"] as string]: "L", [ids["right?"] as string]: "R" });
    const settledThread = await at.settledThread(two);
    assert.deepEqual([settledThread.status, settledThread.open.map(({ value }) => value)], ["interrupted", ["right?"]]);
    at.fails.clear();
    at.calls.length = 0;
    await at.wait(two, "both", "R2");
    assert.deepEqual([(await at.settledThread(two)).log, at.calls], [["left: L", "right: R2"], ["right R2"]]);
  });

  it("is also removed by a timeout and a cancel", async () => {
    for (const ends of ["timeout", "interrupted"] as const) {
      const never = new StateGraph(State)
        .addNode("ask", async () => {
          const answer = interrupt("go?");
          if (answer === "stuck") await new Promise(() => {});
          return { log: [String(answer)] };
        })
        .addEdge(START, "ask")
        .compile();
      const createStuckThread: AgentFunction = async function* ({ command, interrupt: ask, signal }) {
        if (command?.resume === undefined) yield ask("go?");
        yield { seen: true };
        yield { half: true };
        if (command?.resume === "stuck") await new Promise((resolve) => signal.addEventListener("abort", resolve));
        yield { log: [String(command?.resume)] };
      };
      const settings = { abandon_ms: 50, ...(ends === "timeout" ? { timeout_ms: 200 } : {}) };
      const executor = combine(
        langgraph({ graph: { graph: never, ...settings } }),
        fromFunctions({ plain: { agent: createStuckThread, ...settings } }),
      );
      await using at = await createHarness({ executor });
      for (const name of ["graph", "plain"]) {
        const thread_id = await at.thread(name);
        const before = await at.settledThread(thread_id);
        const { run_id } = (
          await at.send("POST", `/threads/${thread_id}/runs`, { assistant_id: name, command: { resume: "stuck" } })
        ).body;
        const { runs, threads } = at.kit.service;
        if (ends === "interrupted") {
          if (name === "plain") while (!JSON.stringify((await threads.state(thread_id)).values).includes("seen"));
          await runs.cancel(thread_id, run_id as string, { wait: true });
        } else await (await runs.join(thread_id, run_id as string)).result;
        assert.equal((await runs.get(thread_id, run_id as string)).status, ends);
        const { status, open } = await at.settledThread(thread_id);
        assert.deepEqual([status, open], ["interrupted", before.open]);
        await at.wait(thread_id, name, "yes");
        assert.deepEqual((await at.settledThread(thread_id)).log, ["yes"]);
      }
    }
  });
});

describe("decisions of an approval", () => {
  it("are counted before the run is accepted", async () => {
    await using at = await createHarness();
    const thread_id = await at.thread("approvals");
    const [{ id }] = (await at.settledThread(thread_id)).open as [JsonObject];
    const decisions = [{ type: "approve" }];
    for (const resume of [{ decisions }, { [id as string]: { decisions: [] } }]) {
      const { status, body } = await at.wait(thread_id, "approvals", resume);
      assert.equal(status, 422);
      assert.match(String(body.detail), /2, one for each action: transfer, delete_file/);
    }
    const fits = { decisions: [...decisions, { type: "reject" }] };
    assert.equal((await at.wait(thread_id, "approvals", fits)).status, 200);
    assert.deepEqual((await at.settledThread(thread_id)).log, [JSON.stringify(fits)]);
  });
});

describe("resume values by id", () => {
  it("are required by agents with that setting", async () => {
    await using at = await createHarness();
    for (const name of ["by_id", "named"]) {
      const thread_id = await at.thread(name);
      const [{ id }] = (await at.settledThread(thread_id)).open as [JsonObject];
      const plain = await at.wait(thread_id, name, "yes");
      assert.deepEqual([plain.status, String(plain.body.detail).includes(String(id))], [422, true]);
      const command = { id: 1, method: "run.start", params: { assistant_id: name, input: "yes" } };
      const started = await at.send("POST", `/threads/${thread_id}/commands`, command);
      assert.deepEqual([started.body.type, started.body.error], ["error", "invalid_argument"]);
      assert.match(String(started.body.message), new RegExp(String(id)));
      assert.equal((await at.wait(thread_id, name, { [id as string]: "yes" })).status, 200);
      assert.equal((await at.settledThread(thread_id)).status, "idle");
    }
  });

  it("may contain the number of resume values that the task has consumed, for ids that repeat", async () => {
    await using at = await createHarness();
    const thread_id = await at.thread("twice");
    const [first] = (await at.settledThread(thread_id)).open as [JsonObject];
    assert.equal(first.answered, undefined);
    const answer = (id: Json | undefined, count: number, value: string) =>
      at.send("POST", `/threads/${thread_id}/runs/wait`, {
        assistant_id: "twice",
        command: { resume: { [String(id)]: value }, expected_answers: { [String(id)]: count } },
      });
    assert.deepEqual(toStatusAndCode(await answer(first.id, 1, "early")), [409, "no_open_interrupt"]);
    assert.equal((await answer(first.id, 0, "one")).status, 200);
    const [second] = (await at.settledThread(thread_id)).open as [JsonObject];
    assert.deepEqual([second.value, second.answered], ["second?", 1]);
    // The guide says where ids repeat.
    const [major = 0, minor = 0] = String((await at.kit.service.info()).langgraph_js_version)
      .split(".")
      .map(Number);
    assert.equal(second.id === first.id, major === 1 && minor < 7);
    const state = (await at.send("GET", `/threads/${thread_id}/state`)).body;
    assert.equal((state.interrupts as JsonObject[])[0]?.answered, 1);
    // Another tab shows the first question.
    assert.deepEqual(toStatusAndCode(await answer(first.id, 0, "stale")), [409, "no_open_interrupt"]);
    assert.equal((await answer(second.id, 1, "two")).status, 200);
    assert.deepEqual((await at.settledThread(thread_id)).log, ["one two"]);
    const bad = { assistant_id: "twice", command: { resume: 1, expected_answers: { a: -1 } } };
    assert.equal((await at.send("POST", `/threads/${thread_id}/runs/wait`, bad)).status, 422);
  });
});

describe("a copy of a waiting thread", () => {
  it("waits, is in the inbox, and is answered separately", async () => {
    await using at = await createHarness();
    for (const name of ["graph", "plain"]) {
      const thread_id = await at.thread(name);
      const before = await at.settledThread(thread_id);
      const copy = (await at.send("POST", `/threads/${thread_id}/copy`)).body;
      assert.deepEqual(
        [copy.status, Object.values(copy.interrupts as JsonObject).flat()],
        ["interrupted", before.open],
      );
      const { items } = await at.kit.service.threads.inbox();
      assert.ok(items.some((inboxEntry) => inboxEntry.thread_id === copy.thread_id));
      await at.wait(copy.thread_id as string, name, "copied");
      assert.equal((await at.settledThread(copy.thread_id as string)).status, "idle");
      assert.deepEqual((await at.settledThread(thread_id)).open, before.open);
      await at.wait(thread_id, name, "own");
      assert.deepEqual(((await at.settledThread(thread_id)).log as Json[])[0], `${name}: own`);
    }
  });
});

describe("a process that is killed after a resume value was consumed", () => {
  it("leaves a run that completes, and consumes the resume value once", async () => {
    const storage = nodeSqlite(":memory:");
    const scope = { deployment: "default" };
    for (const name of ["both", "plain"]) {
      const blocked = Promise.withResolvers<void>();
      let kills = true;
      const parts = new StateGraph(State)
        .addNode("left", () => ({ log: [`left ${interrupt("left?")}`] }))
        .addNode("right", async () => {
          const answer = interrupt("right?");
          if (kills) await blocked.promise;
          return { log: [`right ${answer}`] };
        })
        .addEdge(START, "left")
        .addEdge(START, "right")
        .compile();
      const createHalfAnsweredThread: AgentFunction = async function* ({ command, interrupt: ask }) {
        if (command?.resume === undefined) yield ask("go?");
        yield { seen: true };
        if (kills) await blocked.promise;
        yield { log: [`plain ${String(command?.resume)}`] };
      };
      const executor = combine(langgraph({ both: parts }), fromFunctions({ plain: createHalfAnsweredThread }));
      const store = createFaultyStorage(storage);
      const [first, second] = [store.share(), store.share()];
      const worker = { lease_ms: 1_000 };
      await using restarted = await createHarness({ executor, storage: first.storage, worker });
      const thread_id = await restarted.thread(name);
      const { open } = await restarted.settledThread(thread_id);
      const resume = name === "plain" ? "yes" : Object.fromEntries(open.map(({ id }) => [id, "yes"]));
      const response = await restarted.send("POST", `/threads/${thread_id}/runs`, {
        assistant_id: name,
        command: { resume },
      });
      const run_id = response.body.run_id as string;
      // One answer is stored as consumed.
      for (;;) {
        const stored = await storage.getCheckpoint(scope, thread_id, { ns: "", run_id });
        const head = (await storage.getThread(scope, thread_id))?.head as string;
        const at = await storage.getCheckpoint(scope, thread_id, { ns: "", checkpoint_id: head });
        if (stored || (name === "both" && at?.writes.filter(({ channel }) => channel === "__resume__").length === 3))
          break;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      kill(first);
      kills = false;
      await using two = await createHarness({ executor, storage: second.storage, worker });
      await (await two.kit.service.runs.join(thread_id, run_id)).result;
      blocked.resolve();
      assert.equal((await two.kit.service.runs.get(thread_id, run_id)).status, "success");
      const { log, status } = await two.settledThread(thread_id);
      assert.deepEqual([status, log], ["idle", name === "plain" ? ["plain yes"] : ["left yes", "right yes"]]);
    }
    await storage.close();
  });
});
