/** `sleep` and `wait` of greenroom/steps in nodes and tools of LangGraph. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { tool } from "@langchain/core/tools";
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { createAgent } from "langchain";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { sleep, wait } from "../../../adapters/steps.ts";
import type { Json, ProtocolEvent } from "../../../lib/mod.ts";
import { type TestService, testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { FakeChatModel } from "../../support/graphs.ts";
import { until } from "../../support/until.ts";

keepAlive();
const folder = mkdtempSync(join(tmpdir(), "graph-steps-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newFile = (): string => join(folder, `${++files}.db`);

const Log = Annotation.Root({ log: Annotation<Json[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

const sleeper = new StateGraph(Log)
  .addNode("nap", async () => {
    await sleep("nap", "2d");
    await sleep("again", "1d");
    return { log: ["slept"] };
  })
  .addEdge(START, "nap")
  .addEdge("nap", END);

/** Creates a graph with a node that asks a client, beside a node that waits. */
const createAskAndWaitGraph = (waits: () => Promise<Json>) =>
  new StateGraph(Log)
    .addNode("asks", () => ({ log: [`answer ${interrupt("Really?")}`] }))
    .addNode("waits", async () => ({ log: [await waits()] }))
    .addEdge(START, "asks")
    .addEdge(START, "waits");

let callCount = 0;
const urls: string[] = [];
const shipping = new StateGraph(MessagesAnnotation)
  .addNode(
    "tools",
    new ToolNode([
      tool(
        async () => {
          const parcel = await wait("parcel", {
            timeout: "30d",
            schema: { type: "object", required: ["code"] },
            begin: ({ url }) => {
              callCount++;
              urls.push(url);
            },
          });
          return parcel ? `Shipped as ${parcel.code}` : "No parcel";
        },
        { name: "ship", description: "Ships", schema: { type: "object", properties: {} } },
      ),
    ]),
  )
  .addEdge(START, "tools");
const toolCall = {
  messages: [{ type: "ai", content: "", tool_calls: [{ name: "ship", args: {}, id: "c1" }] }],
};

const isWaiting = (kit: TestService, thread_id: string, run_id: string) => async (): Promise<boolean> => {
  const { waiting_for, status } = await kit.service.runs.get(thread_id, run_id);
  assert.ok(["pending", "running"].includes(status), status);
  return waiting_for !== undefined;
};
const isOver = (kit: TestService, thread_id: string, run_id: string) => async (): Promise<boolean> =>
  !["pending", "running"].includes((await kit.service.runs.get(thread_id, run_id)).status);
const readLog = async (kit: TestService, thread_id: string): Promise<Json[]> =>
  ((await kit.service.threads.state(thread_id)).values as { log: Json[] }).log;

describe("a node that sleeps", () => {
  it("frees the worker slot, and emits no interrupt", async () => {
    const clock = testClock();
    await using kit = await testService({ executor: langgraph({ agent: sleeper.compile() }), environment: clock });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, {
      assistant_id: "agent",
      input: {},
      stream_mode: ["values", "updates", "tasks"],
      stream_resumable: true,
    });
    await clock.advance("1d");
    const run = await runs.get(thread_id, run_id);
    assert.equal(run.status, "pending");
    assert.deepEqual(
      run.waiting_for,
      [{ kind: "sleep", name: "nap", until: "2026-01-03T00:00:00.000Z" }].map((wait) => ({
        ...wait,
        until: run.waiting_for?.[0]?.until,
      })),
    );
    const state = await threads.state(thread_id);
    assert.deepEqual(
      state.tasks.flatMap(({ interrupts }) => interrupts),
      [],
    );
    assert.deepEqual((await threads.get(thread_id)).interrupts, {});
    await clock.advance("1d");
    assert.deepEqual(
      (await runs.get(thread_id, run_id)).waiting_for?.map(({ name }) => name),
      ["again"],
    );
    await clock.advance("1d");
    for (let i = 0; i < 20 && !(await isOver(kit, thread_id, run_id)()); i++) await clock.advance(1000);
    assert.equal((await runs.get(thread_id, run_id)).status, "success");
    assert.deepEqual(await readLog(kit, thread_id), ["slept"]);
    const { steps } = await runs.steps(thread_id, run_id);
    assert.deepEqual(
      steps.map(({ kind, name, status }) => [kind, name, status]),
      [
        ["sleep", "nap", "done"],
        ["sleep", "again", "done"],
      ],
    );
    let frames = "";
    const joined = await runs.joinStream(thread_id, run_id, { after: -1 });
    for await (const frame of joined.frames) frames += JSON.stringify(frame);
    assert.ok(frames.includes("slept"), frames);
    assert.ok(!frames.includes("greenroom_step"), frames);
  });
});

describe("a tool that waits", () => {
  it("receives the event that comes to its address, also after a restart of the service", async () => {
    const file = newFile();
    const options = () => ({
      executor: langgraph({ agent: shipping.compile() }),
      storage: nodeSqlite(file),
      public_base_url: "http://greenroom.test",
    });
    let ids: { thread_id: string; run_id: string };
    {
      await using kit = await testService(options());
      const { thread_id } = await kit.service.threads.create();
      const { run_id } = await kit.service.runs.create(thread_id, { assistant_id: "agent", input: toolCall as never });
      await until(isWaiting(kit, thread_id, run_id));
      ids = { thread_id, run_id };
    }
    await using kit = await testService(options());
    const { thread_id, run_id } = ids;
    const url = new URL(urls[0] as string);
    const post = (body: object): Promise<Response> =>
      kit.fetch(`http://greenroom.test${url.pathname}`, {
        method: "POST",
        body: JSON.stringify(body),
        headers: { "content-type": "application/json" },
      });
    assert.equal((await post({ other: 1 })).status, 422);
    assert.equal((await post({ code: "P1" })).status, 200);
    await until(isOver(kit, thread_id, run_id));
    const { values } = await kit.service.threads.state(thread_id);
    assert.equal((values as { messages: { content: string }[] }).messages.at(-1)?.content, "Shipped as P1");
    assert.equal(callCount, 1);
    assert.equal((await post({ code: "P1" })).status, 200);
  });
});

describe("a wait beside an interrupt", () => {
  it("is not emitted, and stays pending when the interrupt is answered", async () => {
    await using kit = await testService({
      executor: langgraph({ agent: createAskAndWaitGraph(async () => await wait("go")).compile() }),
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const first = await (await runs.wait(thread_id, { assistant_id: "agent", input: {} })).result;
    const { __interrupt__: interrupts } = first as unknown as { __interrupt__: { value: Json }[] };
    assert.deepEqual(
      interrupts.map(({ value }) => value),
      ["Really?"],
    );
    const thread = await threads.get(thread_id);
    assert.equal(thread.status, "interrupted");
    assert.deepEqual(
      Object.values(thread.interrupts)
        .flat()
        .map((entry) => (entry as { value: Json }).value),
      ["Really?"],
    );
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", command: { resume: "yes" } });
    await until(isWaiting(kit, thread_id, run_id));
    await threads.send(thread_id, "go", { n: 1 });
    await until(isOver(kit, thread_id, run_id));
    assert.deepEqual(await readLog(kit, thread_id), ["answer yes", { n: 1 }]);
  });

  it("is resumed in a separate run while the interrupt stays pending, and its timeout counts from its first appearance", async () => {
    const clock = testClock();
    const agent = createAskAndWaitGraph(async () => {
      await sleep("nap", "2d");
      return "slept";
    }).compile();
    await using kit = await testService({ executor: langgraph({ agent }), environment: clock });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id: "agent", input: {} })).result;
    await clock.advance("3d");
    await until(async () => (await runs.list(thread_id)).length === 2);
    await until(async () => (await threads.get(thread_id)).status === "interrupted");
    const { run_id } = (await runs.list(thread_id))[0] as { run_id: string };
    await until(isOver(kit, thread_id, run_id));
    assert.deepEqual(
      (await threads.state(thread_id)).interrupts.map(({ value }) => value),
      ["Really?"],
    );
    await (await runs.wait(thread_id, { assistant_id: "agent", command: { resume: "yes" } })).result;
    assert.deepEqual(await readLog(kit, thread_id), ["answer yes", "slept"]);
  });
});

/** A subgraph whose node waits, beside a node that goes on. */
const inner = new StateGraph(Log)
  .addNode("waits", async () => ({ log: [await wait("inner", { timeout: "30d" })] }))
  .addEdge(START, "waits")
  .compile();
const outer = new StateGraph(Log)
  .addNode("inner", inner)
  .addNode("beside", () => ({ log: ["beside"] }))
  .addNode("last", () => ({ log: ["last"] }))
  .addEdge(START, "inner")
  .addEdge(START, "beside")
  .addEdge(["inner", "beside"], "last");

describe("a subgraph that waits", () => {
  it("emits nothing about it in any mode, channel or state, and continues with the event", async () => {
    await using kit = await testService({ executor: langgraph({ agent: outer.compile() }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const events = threads.events(thread_id, {
      channels: ["values", "updates", "tasks", "checkpoints", "lifecycle", "input"],
    });
    const received: ProtocolEvent[] = [];
    const reading = (async () => {
      for await (const event of events) {
        received.push(event);
        const { namespace, data } = event.params;
        if (namespace.length === 0 && (data as { event?: string } | null)?.event === "completed") break;
      }
    })();
    const { run_id } = await runs.create(thread_id, {
      assistant_id: "agent",
      input: {},
      stream_mode: ["values", "updates", "tasks", "checkpoints", "debug"],
      stream_subgraphs: true,
      stream_resumable: true,
    });
    await until(isWaiting(kit, thread_id, run_id));
    assert.deepEqual(
      (await runs.get(thread_id, run_id)).waiting_for?.map(({ kind, name }) => [kind, name]),
      [["wait", "inner"]],
    );
    const state = await threads.state(thread_id, { subgraphs: true });
    assert.ok(!JSON.stringify(state).includes("greenroom_step"), JSON.stringify(state));
    assert.deepEqual((await threads.get(thread_id)).interrupts, {});
    assert.equal((await threads.get(thread_id)).status, "busy");
    await threads.send(thread_id, "inner", "came");
    await until(isOver(kit, thread_id, run_id));
    assert.deepEqual(await readLog(kit, thread_id), ["beside", "came", "last"]);
    const frames: unknown[] = [];
    for await (const frame of (await runs.joinStream(thread_id, run_id, { after: -1 })).frames) frames.push(frame);
    await reading;
    for (const [name, expected] of [
      ["frames", frames],
      ["events", received],
      ["history", await threads.history(thread_id)],
    ])
      assert.ok(!JSON.stringify(expected).includes("greenroom_step"), `${name}: ${JSON.stringify(expected)}`);
    assert.ok(!received.some(({ method }) => method.startsWith("input")), "input.requested");
    const root = received.filter(({ method, params }) => method === "lifecycle" && params.namespace.length === 0);
    assert.deepEqual(
      root.map(({ params }) => (params.data as { event: string }).event),
      ["running", "completed"],
    );
  });
});

describe("a run of a graph that sleeps", () => {
  const begin = async (kit: TestService) => {
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create({ metadata: { kept: true } });
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: {} });
    await until(isWaiting(kit, thread_id, run_id));
    return { runs, threads, thread_id, run_id };
  };
  const kit = () => testService({ executor: langgraph({ agent: sleeper.compile() }) });

  it("can be cancelled, and is not resumed", async () => {
    await using it = await kit();
    const { runs, threads, thread_id, run_id } = await begin(it);
    await runs.cancel(thread_id, run_id, { wait: true });
    assert.equal((await runs.get(thread_id, run_id)).status, "interrupted");
    // As after any cancel: nodes are left to do.
    const { status, interrupts } = await threads.get(thread_id);
    assert.deepEqual([status, interrupts], ["interrupted", {}]);
    assert.equal((await runs.get(thread_id, run_id)).waiting_for, undefined);
  });

  it("is rolled back by the next run", async () => {
    await using it = await kit();
    const { runs, threads, thread_id, run_id } = await begin(it);
    const next = await runs.create(thread_id, { assistant_id: "agent", input: {}, multitask_strategy: "rollback" });
    await until(isWaiting(it, thread_id, next.run_id));
    await assert.rejects(runs.get(thread_id, run_id), { code: "not_found" });
    assert.equal((await runs.list(thread_id)).length, 1);
    assert.equal((await threads.get(thread_id)).status, "busy");
  });

  it("is not in a copy of its thread, which continues by itself", async () => {
    await using it = await kit();
    const { runs, threads, thread_id, run_id } = await begin(it);
    const copy = await threads.copy(thread_id);
    assert.deepEqual([copy.status, copy.interrupts, await runs.list(copy.thread_id)], ["idle", {}, []]);
    const copyRun = await runs.create(copy.thread_id, { assistant_id: "agent", input: {} });
    await until(isWaiting(it, copy.thread_id, copyRun.run_id));
    assert.equal(await isWaiting(it, thread_id, run_id)(), true);
  });

  it("is deleted with its thread", async () => {
    await using it = await kit();
    const { runs, threads, thread_id, run_id } = await begin(it);
    await threads.delete(thread_id);
    await assert.rejects(runs.get(thread_id, run_id), { code: "not_found" });
  });

  it("rejects the sleep if no state is stored", async () => {
    await using it = await kit();
    const { result } = await it.service.runs.wait(null, { assistant_id: "agent", input: {} });
    const failed = (await result) as unknown as { __error__: { message: string } };
    assert.match(failed.__error__.message, /a stateless run sleeps and waits only with durability/);
    const { run_id } = await it.service.runs.create(null, { assistant_id: "agent", input: {}, durability: "async" });
    await until(async () => (await it.service.runs.get(null, run_id)).waiting_for !== undefined);
  });
});

describe("a node beside others", () => {
  it("sleeps while the others continue, and a wait ends at its timeout", async () => {
    const clock = testClock();
    const agent = new StateGraph(Log)
      .addNode("sleeps", async () => {
        await sleep("nap", "1d");
        return { log: ["slept"] };
      })
      .addNode("waits", async () => ({ log: [(await wait("never", { timeout: "2d" })) ?? "timed out"] }))
      .addNode("goes", () => ({ log: ["went"] }))
      .addEdge(START, "sleeps")
      .addEdge(START, "waits")
      .addEdge(START, "goes")
      .compile();
    await using kit = await testService({ executor: langgraph({ agent }), environment: clock });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: {} });
    await clock.advance("1h");
    // Without the paths of tasks, which LangGraph has set since 1.7, their order is that of their ids.
    const names = async () => (await runs.get(thread_id, run_id)).waiting_for?.map(({ name }) => name).sort();
    assert.deepEqual(await names(), ["nap", "never"]);
    await clock.advance("1d");
    assert.deepEqual(await names(), ["never"]);
    await clock.advance("1d");
    for (let i = 0; i < 20 && !(await isOver(kit, thread_id, run_id)()); i++) await clock.advance(1000);
    assert.equal((await runs.get(thread_id, run_id)).status, "success");
    assert.deepEqual([...(await readLog(kit, thread_id))].sort(), ["slept", "timed out", "went"]);
    const { steps } = await runs.steps(thread_id, run_id);
    assert.deepEqual(steps.map(({ name, status }) => `${name} ${status}`).sort(), ["nap done", "never timed_out"]);
  });
});

class ToolModel extends FakeChatModel {
  override bindTools(): this {
    return this;
  }
}

describe("a tool of createAgent", () => {
  it("waits, and the model is called once for each turn", async () => {
    let turns = 0;
    const model = new ToolModel(() => {
      turns++;
      return turns === 1 ? { text: "", call: { name: "ship", args: {}, id: "c1" } } : { text: "Done." };
    });
    const ship = tool(async () => `Shipped as ${await wait("parcel")}`, {
      name: "ship",
      description: "Ships",
      schema: { type: "object", properties: {} },
    });
    const agent = createAgent({ model, tools: [ship] });
    await using kit = await testService({ executor: langgraph({ agent: agent.graph as never }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const input = { messages: [{ role: "user", content: "Ship it" }] };
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input });
    await until(isWaiting(kit, thread_id, run_id));
    await threads.send(thread_id, "parcel", "P9");
    await until(isOver(kit, thread_id, run_id));
    const { values } = await threads.state(thread_id);
    const contents = (values as { messages: { content: string }[] }).messages.map(({ content }) => content);
    assert.deepEqual(contents.slice(2), ["Shipped as P9", "Done."]);
    assert.equal(turns, 2);
  });
});
