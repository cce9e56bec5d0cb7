/** Configuration from assistant, thread and request: what is kept, what a run is made of, and what its graph reads. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { mergeContext, omitSecrets } from "../../../lib/executor/job-request.ts";
import type { FunctionJob, Json, JsonObject, RunCreate, Service } from "../../../lib/mod.ts";
import type { RunOrigin } from "../../../lib/runs/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { type TestService, testService } from "../../suite/kit.ts";

type ObservedJob = Pick<FunctionJob, "config" | "context" | "metadata">;

interface World extends AsyncDisposable {
  readonly service: Service;
  /** Returns what the graph read in its last run. */
  readonly getLastJob: () => ObservedJob;
  run(thread_id: string | null, request: Omit<RunCreate, "assistant_id">, origin?: RunOrigin): Promise<JsonObject>;
  readonly kit: TestService;
}

/** Creates a service with one assistant of this `config`, `context` and `metadata`. */
async function open(of: { config?: JsonObject; context?: JsonObject; metadata?: JsonObject } = {}): Promise<World> {
  let lastJob: ObservedJob | undefined;
  const kit = await testService({
    agents: {
      graph: (job) => {
        lastJob = job;
        return "done";
      },
    },
  });
  const { service } = kit;
  const { assistant_id } = await service.assistants.create({ graph_id: "graph", ...of });
  return {
    kit,
    service,
    getLastJob: () => lastJob as ObservedJob,
    async run(thread_id, request, origin) {
      const { run, result } = await service.runs.wait(thread_id, { assistant_id, input: {}, ...request }, origin);
      assert.equal(((await result) as JsonObject)["__error__"], undefined);
      return run.kwargs;
    },
    [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose](),
  };
}

/** Removes the ids of the run. */
function omitRunIds(configurable: Json | undefined): JsonObject {
  const { run_id: _, thread_id: _t, graph_id: _g, assistant_id: _a, ...otherMembers } = configurable as JsonObject;
  return otherMembers;
}

describe("names of secret members", () => {
  const secret = [
    "openai_key",
    "openaiKey",
    "OPENAIKEY",
    "my-key",
    "keys",
    "dbPassword",
    "slack-token",
    "Client_Secret",
  ];
  const open = ["max_tokens", "keyboard", "tokenizer", "key_count", "secretary", "password_hint", "model"];

  it("end in key, token, secret, password and similar words, in any spelling", () => {
    const members = (names: readonly string[]): JsonObject => Object.fromEntries(names.map((name) => [name, 1]));
    const mixed = { ...members([...secret, ...open]), deep: [members(secret)] };
    assert.deepEqual(omitSecrets(mixed), { ...members(open), deep: [{}] });
  });
});

describe("the configuration of a run", () => {
  it("copies headers and other scalars into the metadata of its states, but no credentials", async () => {
    await using world = await open();
    const { thread_id } = await world.service.threads.create();
    const headers = { "x-foo": "bar", "user-agent": "tests", "x-session-token": "secret", plain: "not one", "x-n": 1 };
    await world.run(thread_id, { config: { configurable: headers }, metadata: { own: 1 } });
    const about = (await world.service.threads.state(thread_id)).metadata as JsonObject;
    const metadataValues = ["x-foo", "user-agent", "own", ...Object.keys(headers)].map((name) => about[name] ?? null);
    assert.deepEqual(metadataValues, ["bar", "tests", 1, "bar", "tests", null, "not one", 1]);
  });

  it("merges assistant, thread and request in this order, and configurable member by member", async () => {
    await using world = await open({
      config: {
        tags: ["assistant"],
        recursion_limit: 10,
        extra: { assistant: true },
        configurable: { a: "assistant", b: "assistant", c: "assistant" },
      },
    });
    const { thread_id } = await world.service.threads.create();
    const first = { config: { tags: ["first"], configurable: { b: "thread", c: "thread", deep: { one: 1 } } } };
    await world.run(thread_id, first);
    const kwargs = await world.run(thread_id, { config: { recursion_limit: 30, configurable: { c: "request" } } });
    const { configurable, metadata: _, ...otherConfig } = kwargs["config"] as JsonObject;
    assert.deepEqual(otherConfig, { tags: ["first"], recursion_limit: 30, extra: { assistant: true } });
    assert.deepEqual(omitRunIds(configurable), { a: "assistant", b: "thread", c: "request", deep: { one: 1 } });
    // The merge is shallow: an object replaces an object.
    const third = await world.run(thread_id, { config: { configurable: { deep: { two: 2 } } } });
    assert.deepEqual(omitRunIds((third["config"] as JsonObject)["configurable"])["deep"], { two: 2 });
  });

  it("prefers own members to copied headers, and headers to members of the thread", async () => {
    await using world = await open();
    const { thread_id } = await world.service.threads.create();
    await world.run(thread_id, { config: { configurable: { "x-one": "thread", "x-two": "thread" } } });
    const origin = { configurable: { "x-one": "header", "x-two": "header" } };
    const kwargs = await world.run(thread_id, { config: { configurable: { "x-two": "request" } } }, origin);
    const { configurable } = kwargs["config"] as JsonObject;
    assert.deepEqual(omitRunIds(configurable), { "x-one": "header", "x-two": "request" });
  });

  it("is kept by the thread without members of the assistant and of the run, and without secrets", async () => {
    await using world = await open({ config: { tags: ["assistant"], configurable: { a: 1 } }, context: { c: 1 } });
    const { thread_id } = await world.service.threads.create();
    assert.deepEqual((await world.service.threads.get(thread_id)).config, {});
    const configurable = { b: 2, openai_api_key: "s", run_id: "x", thread_id: "x", checkpoint_ns: "" };
    await world.run(thread_id, { config: { recursion_limit: 7, configurable }, context: { d: 4 } });
    assert.deepEqual((await world.service.threads.get(thread_id)).config, {
      recursion_limit: 7,
      configurable: { b: 2 },
    });
  });

  it("has the ids of the run itself, whatever the request contains", async () => {
    await using world = await open();
    const { thread_id } = await world.service.threads.create();
    const names = { run_id: "x", thread_id: "x", graph_id: "x", assistant_id: "x" };
    await world.run(thread_id, { config: { configurable: names } });
    const { configurable } = world.getLastJob().config;
    assert.equal(configurable["thread_id"], thread_id);
    assert.equal(configurable["graph_id"], "graph");
    assert.ok(!Object.values(configurable).includes("x"));
  });

  it("comes from the assistant's active version at the creation of the run", async () => {
    await using world = await open({ config: { configurable: { version: 1 } } });
    const [{ assistant_id = "" } = {}] = (await world.service.assistants.search({ name: "Untitled" })).items;
    await world.service.assistants.update(assistant_id, { context: { version: 2 } });
    await world.run(null, {});
    assert.deepEqual(
      [omitRunIds(world.getLastJob().config.configurable), world.getLastJob().context],
      [{ version: 2 }, { version: 2 }],
    );
    await world.service.assistants.setLatest(assistant_id, 1);
    await world.run(null, {});
    assert.deepEqual(
      [omitRunIds(world.getLastJob().config.configurable), world.getLastJob().context],
      [{ version: 1 }, { version: 1 }],
    );
  });
});

describe("the context and the metadata of a run", () => {
  it("merge assistant and request in this order, and metadata the thread between them", async () => {
    await using world = await open({
      context: { a: "assistant", b: "assistant", deep: { one: 1 } },
      metadata: { a: "assistant", b: "assistant", c: "assistant" },
    });
    const { thread_id } = await world.service.threads.create({ metadata: { b: "thread", c: "thread" } });
    const kwargs = await world.run(thread_id, {
      context: { b: "request", deep: { two: 2 } },
      metadata: { c: "request" },
    });
    assert.deepEqual(kwargs["context"], { a: "assistant", b: "request", deep: { two: 2 } });
    const [run] = await world.service.runs.list(thread_id);
    const { graph_id, assistant_id, ...metadata } = run?.metadata ?? {};
    assert.deepEqual(metadata, { a: "assistant", b: "thread", c: "request" });
    const run_id = run?.run_id as string;
    for (const redactedKwargs of [kwargs, run?.kwargs, (await world.service.runs.get(thread_id, run_id)).kwargs]) {
      assert.deepEqual((redactedKwargs as { readonly config?: JsonObject }).config?.["metadata"], run?.metadata);
    }
    const stored = await serviceInternals(world.service).options.storage.getRun({ deployment: "default" }, run_id);
    assert.ok(stored && !("metadata" in (stored.kwargs["config"] as JsonObject)), "not stored twice");
    const thread = await world.service.threads.get(thread_id);
    assert.deepEqual(thread.metadata, { b: "thread", c: "thread", graph_id, assistant_id });
    assert.equal(graph_id, "graph");
    assert.equal(world.getLastJob().metadata["c"], "request");
  });
});

describe("configurable and context", () => {
  it("are merged for graphs, and stored unchanged", async () => {
    await using world = await open({ config: { configurable: { model: "m1" } } });
    const { thread_id } = await world.service.threads.create();
    const kwargs = await world.run(thread_id, { context: { tone: "kind" } });
    assert.deepEqual(omitRunIds(world.getLastJob().config.configurable), { model: "m1", tone: "kind" });
    assert.deepEqual(world.getLastJob().context, { model: "m1", tone: "kind" });
    assert.deepEqual(omitRunIds((kwargs["config"] as JsonObject)["configurable"]), { model: "m1" });
    assert.deepEqual(kwargs["context"], { tone: "kind" });
    const [assistant] = (await world.service.assistants.search({ name: "Untitled" })).items;
    assert.deepEqual([assistant?.config, assistant?.context], [{ configurable: { model: "m1" } }, {}]);
    assert.deepEqual((await world.service.threads.get(thread_id)).config, {});
  });

  it("of a thread reach the context of its later runs", async () => {
    await using world = await open();
    const { thread_id } = await world.service.threads.create();
    await world.run(thread_id, { config: { configurable: { tone: "kind" } } });
    await world.run(thread_id, {});
    assert.deepEqual(world.getLastJob().context, { tone: "kind" });
  });

  it("keep both values that came with different requests", async () => {
    await using world = await open({ config: { configurable: { model: "m1" } } });
    await world.run(null, { context: { model: "m2" } });
    assert.deepEqual(
      [omitRunIds(world.getLastJob().config.configurable), world.getLastJob().context],
      [{ model: "m1" }, { model: "m2" }],
    );
  });

  it("with two values for one name in one request are refused with the name", async () => {
    await using world = await open();
    const { thread_id } = await world.service.threads.create();
    const two = { config: { configurable: { model: "m1", same: [1] } }, context: { model: "m2", same: [1] } };
    const refused = { code: "bad_request", message: /^model has two values/ };
    await assert.rejects(world.run(thread_id, two), refused);
    await assert.rejects(world.run(null, two), refused);
    await assert.rejects(world.service.assistants.create({ graph_id: "graph", ...two }), refused);
    const { assistant_id } = await world.service.assistants.create({ graph_id: "graph" });
    await assert.rejects(world.service.assistants.update(assistant_id, two), refused);
    assert.deepEqual(await world.service.runs.list(thread_id), []);
    const equal = { config: { configurable: { same: [1] } }, context: { same: [1] } };
    await world.run(thread_id, equal);
    assert.deepEqual(world.getLastJob().context, { same: [1] });
    const response = await world.kit.fetch("http://x/runs/wait", {
      method: "POST",
      body: JSON.stringify({ assistant_id, ...two }),
    });
    assert.equal(response.status, 400);
  });

  it("pass credentials on, but no checkpoint ids, headers or members of the server", () => {
    const configurable = {
      api_key: "k",
      run_id: "r",
      thread_id: "t",
      graph_id: "g",
      assistant_id: "a",
      checkpoint_id: "c",
      checkpoint_ns: "",
      checkpoint_map: {},
      "x-locale": "de",
      "user-agent": "test/1",
      langgraph_auth_user: { identity: "u" },
      langgraph_auth_user_id: "u",
      langgraph_auth_permissions: [],
      __pregel_stream: 1,
    };
    const both = mergeContext({
      config: { configurable },
      context: {
        token: "t",
        run_id: "forged",
        checkpoint_id: "forged",
        checkpoint_map: {},
        langgraph_auth_user_id: "forged",
        __pregel_read: 1,
      },
    });
    assert.deepEqual(both.config.configurable, { ...configurable, token: "t" });
    assert.deepEqual(both.context, {
      token: "t",
      api_key: "k",
      run_id: "forged",
      checkpoint_id: "forged",
      checkpoint_map: {},
      langgraph_auth_user_id: "forged",
      __pregel_read: 1,
    });
    assert.deepEqual(mergeContext({ config: { configurable: {} }, context: { checkpoint_id: "x" } }).config, {
      configurable: {},
    });
  });

  it("keep members with any name", () => {
    const odd = JSON.parse('{"__proto__": {"a": 1}, "constructor": 1}') as JsonObject;
    const { config, context } = mergeContext({ config: { configurable: odd }, context: {} });
    assert.equal(JSON.stringify(config.configurable), '{"__proto__":{"a":1},"constructor":1}');
    assert.deepEqual(Object.keys(context), ["constructor"]);
    assert.equal(Object.getPrototypeOf(context), Object.prototype);
  });

  it("reach a LangGraph node, and frames, state and history contain no secret of them", async () => {
    const State = Annotation.Root({ done: Annotation<boolean> });
    const inputs: JsonObject[] = [];
    const graph = new StateGraph(State)
      .addNode("node", (_state, { configurable, context }: LangGraphRunnableConfig) => {
        inputs.push({ configurable, context } as JsonObject);
        return { done: true };
      })
      .addEdge(START, "node")
      .compile();
    await using kit = await testService({ executor: langgraph({ graph }) });
    const { thread_id } = await kit.service.threads.create();
    const body = {
      assistant_id: "graph",
      input: {},
      config: {
        configurable: { model: "m1", first_api_key: "canary", openaiKey: "canary", "x-service-key": "canary" },
      },
      context: { tone: "kind", second_api_key: "canary", openai_key: "canary" },
      stream_mode: ["values", "updates", "debug", "events", "tasks", "checkpoints", "messages-tuple"],
    };
    const ask = async (path: string, body?: object): Promise<string> =>
      await (
        await kit.fetch(`http://x/threads/${thread_id}${path}`, body && { method: "POST", body: JSON.stringify(body) })
      ).text();
    const responseTexts = [await ask("/runs/stream", body), await ask(""), await ask("/state"), await ask("/history")];
    const [{ configurable, context } = {}] = inputs as { configurable: JsonObject; context: JsonObject }[];
    for (const from of [configurable, context] as JsonObject[]) {
      assert.deepEqual([from["model"], from["tone"]], ["m1", "kind"]);
      for (const name of ["first_api_key", "second_api_key", "openaiKey", "openai_key"]) {
        assert.equal(from[name], "canary", name);
      }
    }
    assert.equal(context?.["thread_id"], undefined);
    assert.match(responseTexts[0] ?? "", /event: end/);
    assert.ok(!responseTexts.join().includes("canary"));
  });
});
