import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { AuthContext } from "../../../lib/auth/custom.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { CheckpointHandle, StateUpdate, StoredCheckpoint, ThreadState } from "../../../lib/executor/contract.ts";
import { recordedGraphState } from "../../../lib/executor/recorded-states.ts";
import { changeState } from "../../../lib/executor/state-changes.ts";
import { type Executor, fromFunctions, type Json, type JsonObject } from "../../../lib/mod.ts";
import type { Storage } from "../../../lib/storage/types.ts";
import { compileExtract } from "../../../lib/threads/thread.ts";
import { testClock, testIds, testService } from "../../suite/kit.ts";
import { createUser } from "../../support/users.ts";

// Timers of the service keep no process alive, and some tests wait for nothing else.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

const refusal = (code: string, text: RegExp) => (error: { code?: string; message: string }) => {
  assert.equal(error.code, code, error.message);
  assert.match(error.message, text);
  return true;
};

const echo = fromFunctions({
  async *echo({ messages }) {
    yield { messages: [{ role: "assistant", content: `You said: ${String(messages.at(-1)?.content)}` }] };
  },
});

type StateParts = Pick<ThreadState, "values" | "next" | "tasks">;

describe("an update of a function's state", () => {
  const question = { id: "q", value: "?" };
  const task = { id: "t", name: "f", error: null, interrupts: [question], checkpoint: null, state: null, result: null };
  const done: StateParts = {
    values: { a: 1, messages: [{ type: "human", content: "hi", id: "m1" }] },
    next: [],
    tasks: [],
  };
  const asking: StateParts = { ...done, next: ["f"], tasks: [task] };
  const change = (before: StateParts | null, ...updates: StateUpdate[]): ReturnType<typeof changeState> =>
    changeState(before, "f", updates, testIds());

  it("continues after the given node", () => {
    const next = (before: StateParts | null, as_node?: string): readonly string[] =>
      change(before, { values: { b: 2 }, ...(as_node === undefined ? {} : { as_node }) }).next;
    for (const before of [null, done, asking]) {
      assert.deepEqual([next(before, "f"), next(before, "__end__")], [[], []]);
      assert.deepEqual([next(before, "__start__"), next(before, "__input__")], [["f"], ["f"]]);
    }
    assert.deepEqual([next(null), next(done), next(asking)], [["f"], [], ["f"]]);
  });

  it("keeps a pending interrupt unless the update names its node", () => {
    assert.deepEqual(change(asking, { values: { b: 2 } }).tasks, [task]);
    assert.deepEqual(change(asking, { values: { b: 2 }, as_node: "f" }).tasks, []);
    assert.deepEqual(change(asking, { values: null, as_node: "__start__" }).tasks, []);
  });

  it("merges values, and messages by id", () => {
    const { values } = change(done, { values: { a: null, messages: [{ role: "user", content: "new", id: "m1" }] } });
    assert.deepEqual(
      [values.a, (values.messages as { content: string }[]).map((message) => message.content)],
      [null, ["new"]],
    );
    const none = change(done, { values: { messages: [{ type: "remove", id: "__remove_all__" }, "more"] } });
    assert.deepEqual(
      (none.values.messages as { type: string; content: string }[]).map(({ type, content }) => [type, content]),
      [["ai", "more"]],
    );
    const input = change(null, { values: [{ messages: "one" }, { messages: "two" }, { b: 1 }], as_node: "__input__" });
    assert.deepEqual(
      (input.values.messages as { type: string }[]).map(({ type }) => type),
      ["human", "human"],
    );
    assert.deepEqual([input.source, input.values.b], ["input", 1]);
    assert.deepEqual(done.values, { a: 1, messages: [{ type: "human", content: "hi", id: "m1" }] });
  });

  it("accepts commands", () => {
    const update = (command: StateUpdate["command"]): ReturnType<typeof changeState> =>
      change(done, { values: null, as_node: "f", command: command as NonNullable<typeof command> });
    assert.deepEqual(update({ update: { a: 2 }, goto: ["f"] }).next, ["f"]);
    assert.deepEqual(update({ update: [["a", 2]], goto: ["__end__"] }).values.a, 2);
    assert.deepEqual(update({ goto: [{ node: "f", input: { a: 5 } }] }).values.a, 5);
  });

  it("is refused if it is invalid", () => {
    const refused: readonly (readonly [StateParts | null, StateUpdate, RegExp])[] = [
      [done, { values: {}, as_node: "g" }, /^as_node: .*"g"/],
      [done, { values: null, as_node: "f", command: { goto: ["g"] } }, /^command.goto: .*"g"/],
      [done, { values: null, as_node: "f", command: { resume: 1 } }, /^command.resume: /],
      [done, { values: { messages: [{ type: "remove", id: "m9" }] } }, /^values: .*m9/],
      [done, { values: { messages: [5] } }, /^values: /],
      [done, { values: "text" }, /^values: /],
      [{ ...done, values: "text" }, { values: {} }, /^values: /],
      [null, { values: null, as_node: "__copy__" }, /__copy__/],
      [done, { values: { a: 2 }, as_node: "__copy__" }, /__copy__/],
    ];
    for (const [before, update, text] of refused) {
      assert.throws(() => change(before, update), { name: "StateRefused", message: text });
    }
  });
});

describe("a state of another kind of graph", () => {
  it("cannot be updated as a function's", async () => {
    const environment = { ...systemEnvironment(), uuid: testIds() };
    const foreign: StoredCheckpoint = {
      ns: "",
      checkpoint_id: "1f000000-0000-6000-8000-000000000000",
      parent_id: null,
      run_id: null,
      payload: { type: "json", data: '{"v":4,"ts":"","versions_seen":{}}' },
      metadata: {},
      versions: {},
      values: [],
      writes: [],
      created_at: 0,
    };
    const checkpoints: CheckpointHandle = {
      get: async () => foreign,
      async *list() {},
      put: async () => assert.fail(),
      putWrites: async () => assert.fail(),
    };
    const at = { thread_id: "t", ns: "" };
    const change = recordedGraphState.update?.(at, "f", [[{ values: { a: 1 } }]], checkpoints, {
      metadata: {},
      environment,
    });
    await assert.rejects(async () => change, { name: "StateRefused", message: /another kind of graph/ });
  });
});

describe("paths of extracted values", () => {
  it("lead to members and items, and to null if there are none", () => {
    const thread = {
      values: { a: [{ b: 1 }, { b: null }], "x y": 2 },
      metadata: {},
      config: { c: false },
      interrupts: {},
    };
    const extract = (path: string): Json | undefined => compileExtract({ path }).extractFrom(thread).path;
    const cases: readonly (readonly [string, Json])[] = [
      ["values.a[0].b", 1],
      ["values.a[-1].b", null],
      ["values.a[-1]", { b: null }],
      ["values.a[2]", null],
      ["values.a[-3]", null],
      ["values.x y", 2],
      ["values[0]", null],
      ["values.constructor", null],
      ["config.c", false],
      ["config", { c: false }],
      ["metadata.no[0].thing", null],
    ];
    assert.deepEqual(
      cases.map(([path]) => [path, extract(path)]),
      cases,
    );
  });
});

describe("concurrent state updates", () => {
  it("start again from the head that another call has created meanwhile", async () => {
    const storage = nodeSqlite(":memory:");
    let interfere: (() => Promise<unknown>) | null = null;
    const between: Storage = {
      ...storage,
      async writeState(...args) {
        const first = interfere;
        interfere = null;
        await first?.();
        return await storage.writeState(...args);
      },
    };
    await using host = await testService({ storage: between, executor: echo });
    const { threads, runs } = host.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "echo", input: { a: 0 } })).result;
    interfere = () => threads.updateState(thread_id, { values: { b: 1 } });
    await threads.updateState(thread_id, { values: { a: 1 } });
    const { a, b } = (await threads.get(thread_id)).values as { a: Json; b: Json };
    assert.deepEqual([a, b], [1, 1]);
    interfere = () => threads.delete(thread_id);
    await assert.rejects(threads.updateState(thread_id, { values: { a: 2 } }), refusal("not_found", /not found/));
  });

  it("lose none of twenty at once, and their checkpoints form one chain", async () => {
    await using host = await testService({ executor: echo });
    const { threads } = host.service;
    const { thread_id } = await threads.create({ metadata: { graph_id: "echo" } });
    const names = Array.from({ length: 20 }, (_, i) => `k${i}`);
    await Promise.all(names.map((name) => threads.updateState(thread_id, { values: { [name]: 1 } })));
    const { values } = await threads.get(thread_id);
    assert.deepEqual(Object.keys(values as object).toSorted(), names.toSorted());
    const history = await threads.history(thread_id, { limit: 100 });
    assert.equal(history.length, 20);
    history.slice(0, -1).forEach((state, at) => {
      assert.equal(state.parent_checkpoint?.checkpoint_id, history[at + 1]?.checkpoint?.checkpoint_id);
    });
  });

  it("have ids above the head's when the clock was set back", async () => {
    const clock = testClock();
    await using host = await testService({ executor: echo, environment: { now: clock.now, timer: clock.timer } });
    const { threads } = host.service;
    const { thread_id } = await threads.create({ metadata: { graph_id: "echo" } });
    const first = await threads.updateState(thread_id, { values: { a: 1 } });
    await clock.set(clock.now() - 86_400_000);
    const second = await threads.updateState(thread_id, { values: { a: 2 } });
    assert.ok(second.checkpoint_id > first.checkpoint_id);
    assert.deepEqual((await threads.get(thread_id)).values, { a: 2 });
  });

  it("of a long list store only its new items", async () => {
    const storage = nodeSqlite(":memory:");
    let stored = 0;
    const counted: Storage = {
      ...storage,
      async writeState(scope, thread_id, state, now) {
        stored = state.progress.checkpoints
          .flatMap(({ values }) => values)
          .reduce((sum, { data }) => sum + data.length, 0);
        return await storage.writeState(scope, thread_id, state, now);
      },
    };
    await using host = await testService({ storage: counted, executor: echo });
    const { threads } = host.service;
    const { thread_id } = await threads.create({ metadata: { graph_id: "echo" } });
    const many = Array.from({ length: 200 }, (_, i) => ({ role: "user", content: "x".repeat(100), id: `m${i}` }));
    await threads.updateState(thread_id, { values: { messages: many } });
    assert.ok(stored > 20_000);
    await threads.updateState(thread_id, { values: { messages: [{ role: "user", content: "one more" }] } });
    assert.ok(stored < 1_000, `${stored} characters`);
    const { values } = await threads.get(thread_id);
    assert.equal((values as { messages: Json[] }).messages.length, 201);
  });

  it("pass on errors of the store", async () => {
    const storage = nodeSqlite(":memory:");
    let broken = false;
    const failing: Storage = {
      ...storage,
      async getCheckpoint(...args) {
        if (broken) throw new Error("no disk");
        return await storage.getCheckpoint(...args);
      },
    };
    await using host = await testService({ storage: failing, executor: echo });
    const { threads } = host.service;
    const { thread_id } = await threads.create({ metadata: { graph_id: "echo" } });
    await threads.updateState(thread_id, { values: { a: 1 } });
    broken = true;
    await assert.rejects(threads.updateState(thread_id, { values: { a: 2 } }), { message: "no disk" });
    await assert.rejects(threads.copy(thread_id), { message: "no disk" });
  });

  it("need a graph that exists and supports updates", async () => {
    const fixed: Executor = {
      graphs: () => [{ graph_id: "fixed" }],
      async *execute() {},
      state: () => ({
        get: async () => null,
        schemas: async () => assert.fail(),
        graph: async () => assert.fail(),
        subgraphs: async () => ({}),
      }),
    };
    await using host = await testService({ executor: fixed });
    const { threads } = host.service;
    const ownThread = await threads.create({ metadata: { graph_id: "fixed" } });
    await assert.rejects(threads.updateState(ownThread.thread_id, { values: {} }), refusal("invalid", /only by runs/));
    const deletedGraphThread = await threads.create({ metadata: { graph_id: "gone" } });
    await assert.rejects(
      threads.updateState(deletedGraphThread.thread_id, { values: {} }),
      refusal("not_found", /Graph gone/),
    );
    const otherThread = await threads.create({ metadata: { graph_id: 5 } });
    await assert.rejects(
      threads.updateState(otherThread.thread_id, { values: {} }),
      refusal("bad_request", /no graph/),
    );
  });

  it("are refused for a caller who cannot see the thread", async () => {
    const handler = ({ event, user, value }: AuthContext): JsonObject => {
      if (event === "threads:create") value.metadata = { ...value.metadata, copied: true };
      return { owner: user.identity };
    };
    const custom = { authenticate: () => "nobody", on: { threads: handler } };
    await using host = await testService({ executor: echo, auth: { custom } });
    const { threads } = host.service;
    const { thread_id } = await threads.create({ metadata: { graph_id: "echo", owner: "ann" } });
    await threads.updateState(thread_id, { values: { a: 1 } });
    const [ann, bob] = [host.service.as({ user: createUser("ann") }), host.service.as({ user: createUser("bob") })];
    const absent = refusal("not_found", /not found/);
    await assert.rejects(bob.threads.updateState(thread_id, { values: { a: 2 } }), absent);
    await assert.rejects(bob.threads.patchState(thread_id, { b: 1 }), absent);
    await assert.rejects(bob.threads.copy(thread_id), refusal("conflict", /not found/));
    assert.equal(await bob.threads.prune([thread_id], "delete"), 0);
    assert.deepEqual((await ann.threads.state(thread_id)).values, { a: 1 });
    const copy = await ann.threads.copy(thread_id);
    assert.deepEqual(copy.metadata, { graph_id: "echo", owner: "ann", copied: true });
    assert.equal(await ann.threads.prune([thread_id, copy.thread_id], "delete"), 2);
    assert.equal(await threads.count(), 0);
  });
});
