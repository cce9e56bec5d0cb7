/** What a stock client may rely on, written once for every release of the SDK and every way to reach the service. */
import assert from "node:assert/strict";
import type { Checkpoint, Client } from "langgraph-sdk-2";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { testService } from "../suite/kit.ts";
import { createGates, type Gates, testExecutor } from "./graphs.ts";

/** The test runner's two functions. */
export interface TestApi {
  describe(name: string, body: () => void): unknown;
  it(name: string, body: () => Promise<void>): unknown;
}

export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** Where a client finds the service. */
export interface Opened {
  readonly apiUrl: string;
  readonly fetch: Fetch;
  close(): Promise<void>;
}

interface Bench extends AsyncDisposable {
  readonly client: Client;
  readonly gates: Gates;
  /** Method and path of each request the client has sent. */
  readonly requests: string[];
  /** One request without the SDK. */
  readonly send: (path: string, init?: RequestInit) => Promise<Response>;
}

interface Frame {
  readonly id?: string;
  readonly event: string;
  readonly data: Json;
}

interface Message extends JsonObject {
  readonly type: string;
  readonly content: string;
  readonly id: string;
}

/** Both SDKs call `onRunCreated` here too; their types do not say so. */
type RunsWaitPayload = Parameters<Client["runs"]["wait"]>[2];

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const ABSENT = "00000000-0000-4000-8000-00000000dead";
const human = (content: string): { messages: { role: string; content: string }[] } => ({
  messages: [{ role: "user", content }],
});

/** The two families of agents that do the same: a function and a LangGraph graph, each of one node. */
const FAMILIES = [
  { kind: "function", graph: "tokens", node: "tokens", wait: "wait", fail: "fail", tell: "tell" },
  { kind: "LangGraph", graph: "chat", node: "model", wait: "waiting", fail: "failing", tell: "informed" },
] as const;

const ALL_MODES = [
  "values",
  "updates",
  "messages",
  "messages-tuple",
  "events",
  "tasks",
  "checkpoints",
  "debug",
  "custom",
] as const;

const messagesOf = (values: unknown): Message[] => (values as { messages: Message[] }).messages;
const contents = (values: unknown): string[] => messagesOf(values).map((message) => message.content);
const names = (frames: readonly Frame[]): string[] => frames.map((frame) => frame.event);
const dataOf = (frames: readonly Frame[], event: string): JsonObject[] =>
  frames.filter((frame) => frame.event === event).map((frame) => frame.data as JsonObject);
const tuplesOf = (frames: readonly Frame[]): [Message, JsonObject][] =>
  frames.filter((frame) => frame.event === "messages").map((frame) => frame.data as [Message, JsonObject]);
const interruptsOf = (values: unknown): { id: string; value: Json }[] =>
  (values as { __interrupt__: { id: string; value: Json }[] }).__interrupt__;

async function collect(stream: AsyncIterable<unknown>, each?: (frame: Frame) => unknown): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of stream as AsyncIterable<Frame>) {
    frames.push(frame);
    await each?.(frame);
  }
  return frames;
}

/** The SDK's HTTPError: its status, and the detail in its text. */
async function refused(call: Promise<unknown>, status: number, detail: RegExp): Promise<void> {
  await assert.rejects(call, (error: Error & { status?: number; text?: string }) => {
    assert.equal(error.status, status, error.message);
    assert.equal(error.message, `HTTP ${status}: ${error.text}`);
    const body = JSON.parse(error.text ?? "") as JsonObject;
    assert.deepEqual(Object.keys(body), ["detail"]);
    assert.match(String(body.detail), detail);
    return true;
  });
}

/** The tests, for one SDK reaching a service as `open` says. */
export function sdkSuite(
  { describe, it }: TestApi,
  name: string,
  Sdk: typeof Client,
  open: (fetch: Fetch) => Promise<Opened>,
): void {
  async function bench(): Promise<Bench> {
    const gates = createGates();
    const host = await testService({ storage: nodeSqlite(":memory:"), executor: testExecutor(gates) });
    const { apiUrl, fetch, close } = await open(host.fetch);
    const requests: string[] = [];
    const counted: Fetch = (input, init) => {
      requests.push(`${init?.method ?? "GET"} ${new URL(String(input)).pathname}`);
      return fetch(input, init);
    };
    const client = new Sdk({ apiUrl, apiKey: null, callerOptions: { fetch: counted, maxRetries: 0 } });
    return {
      client,
      gates,
      requests,
      send: (path, init) => fetch(`${apiUrl}${path}`, init),
      async [Symbol.asyncDispose]() {
        await close();
        await host[Symbol.asyncDispose]();
        assert.deepEqual(
          host.log.filter((record) => record.level !== "info"),
          [],
          "nothing went wrong unseen",
        );
      },
    };
  }

  const thread = async (client: Client): Promise<string> => (await client.threads.create()).thread_id;

  describe(`${name}: assistants`, () => {
    it("every graph has a default assistant, known by the graph's id", async () => {
      await using at = await bench();
      const { client } = at;
      const byGraph = await client.assistants.get("agent");
      assert.equal(byGraph.assistant_id, "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
      assert.deepEqual(await client.assistants.get(byGraph.assistant_id), byGraph);
      assert.equal(byGraph.name, "agent");
      assert.equal(byGraph.version, 1);
      assert.deepEqual(byGraph.metadata, { created_by: "system" });
      const found = await client.assistants.search({ metadata: { created_by: "system" }, limit: 100 });
      const graphs = found.map((assistant) => assistant.graph_id).sort();
      assert.ok(graphs.includes("agent") && graphs.includes("chat"));
      assert.equal(new Set(graphs).size, graphs.length);
      await refused(client.assistants.delete("agent"), 409, /default assistant/);
    });

    it("is created, changed, set back and deleted, version by version", async () => {
      await using at = await bench();
      const { client } = at;
      const created = await client.assistants.create({
        graphId: "agent",
        name: "First",
        description: "an assistant",
        context: { tone: "plain" },
        metadata: { team: "a", level: 1 },
      });
      assert.match(created.assistant_id, UUID);
      const { assistant_id: id } = created;
      assert.equal(created.version, 1);
      assert.deepEqual(created.context, { tone: "plain" });
      assert.ok(!Number.isNaN(Date.parse(created.created_at)));

      const second = await client.assistants.update(id, {
        config: { tags: ["x"], configurable: { color: "red" } },
        metadata: { level: 2 },
        name: "Second",
      });
      assert.equal(second.version, 2);
      assert.deepEqual(second.config, { tags: ["x"], configurable: { color: "red" } });
      assert.deepEqual(second.context, {}, "the configuration of a version is the request's alone");
      assert.deepEqual(second.metadata, { team: "a", level: 2 });
      assert.equal(second.description, "an assistant");
      assert.deepEqual(await client.assistants.get(id), second);

      const third = await client.assistants.update(id, { graphId: "chat" });
      assert.deepEqual([third.version, third.graph_id, third.name], [3, "chat", "Second"]);
      assert.deepEqual(third.config, second.config);

      const back = await client.assistants.setLatest(id, 1);
      assert.deepEqual([back.version, back.graph_id, back.name], [1, "agent", "First"]);
      assert.deepEqual([back.config, back.context, back.metadata], [created.config, created.context, created.metadata]);
      const fourth = await client.assistants.update(id, { name: "Fourth" });
      assert.deepEqual([fourth.version, fourth.context], [4, { tone: "plain" }]);

      const versions = await client.assistants.getVersions(id);
      assert.deepEqual(
        versions.map((version) => [version.version, version.name, version.graph_id]),
        [
          [4, "Fourth", "agent"],
          [3, "Second", "chat"],
          [2, "Second", "agent"],
          [1, "First", "agent"],
        ],
      );
      const page = await client.assistants.getVersions(id, { limit: 2, offset: 1 });
      assert.deepEqual(
        page.map((version) => version.version),
        [3, 2],
      );

      await client.assistants.delete(id);
      await refused(client.assistants.get(id), 404, /not found/);
    });

    it("is found by graph, name and metadata, page by page", async () => {
      await using at = await bench();
      const { client } = at;
      const made: string[] = [];
      for (const label of ["Alpha", "Beta", "Gamma"]) {
        const metadata = { group: "greek", nested: { label, more: true } };
        made.push((await client.assistants.create({ graphId: "agent", name: label, metadata })).assistant_id);
      }
      const query = { metadata: { group: "greek" }, sortBy: "name", sortOrder: "asc" } as const;
      const first = await client.assistants.search({ ...query, limit: 2, includePagination: true });
      assert.deepEqual(
        first.assistants.map((assistant) => assistant.assistant_id),
        made.slice(0, 2),
      );
      assert.equal(first.next, "2");
      const last = await client.assistants.search({ ...query, limit: 2, offset: 2, includePagination: true });
      assert.deepEqual(
        last.assistants.map((assistant) => assistant.name),
        ["Gamma"],
      );
      assert.equal(last.next, null);
      const selected = await client.assistants.search({ ...query, limit: 1, select: ["name", "version"] });
      assert.deepEqual(selected, [{ name: "Alpha", version: 1 }]);
      const nested = await client.assistants.search({ metadata: { nested: { label: "Beta" } } });
      assert.deepEqual(
        nested.map((assistant) => assistant.name),
        ["Beta"],
      );
      assert.equal(await client.assistants.count({ metadata: { group: "greek" } }), 3);
      assert.equal(await client.assistants.count({ graphId: "agent" }), 4);
      assert.equal(await client.assistants.count({ name: "ALPH" }), 1);
    });

    it("shows its graph, its schemas and its subgraphs", async () => {
      await using at = await bench();
      const { client } = at;
      const drawn = await client.assistants.getGraph("chat");
      assert.deepEqual(drawn.nodes.map((node) => node.id).sort(), ["__end__", "__start__", "model"]);
      assert.deepEqual(drawn.edges.map((edge) => [edge.source, edge.target]).sort(), [
        ["__start__", "model"],
        ["model", "__end__"],
      ]);
      const inside = await client.assistants.getGraph("family", { xray: true });
      assert.ok(inside.nodes.some((node) => String(node.id).includes("inner")));
      const simple = await client.assistants.getGraph("agent");
      assert.ok(simple.nodes.some((node) => node.id === "agent"));

      for (const graph of ["agent", "chat"]) {
        const schemas = await client.assistants.getSchemas(graph);
        assert.equal(schemas.graph_id, graph);
        for (const key of ["input_schema", "output_schema", "state_schema", "config_schema"] as const) {
          assert.ok(schemas[key] === null || schemas[key] === undefined || isObject(schemas[key]), key);
        }
      }
      assert.deepEqual(Object.keys(await client.assistants.getSubgraphs("family")), ["child"]);
      assert.deepEqual(Object.keys(await client.assistants.getSubgraphs("family", { namespace: "child" })), ["child"]);
      assert.deepEqual(await client.assistants.getSubgraphs("chat", { recurse: true }), {});
      assert.deepEqual(await client.assistants.getSubgraphs("agent"), {});
    });

    it("is refused with the status and the text that say why", async () => {
      await using at = await bench();
      const { client } = at;
      const { assistant_id } = await client.assistants.create({ graphId: "agent", name: "Kept" });
      await refused(client.assistants.create({ graphId: "nope" }), 404, /nope/);
      await refused(client.assistants.create({ graphId: "agent", assistantId: assistant_id }), 409, /exists/);
      const kept = await client.assistants.create({
        graphId: "chat",
        assistantId: assistant_id,
        name: "Other",
        ifExists: "do_nothing",
      });
      assert.deepEqual([kept.name, kept.graph_id], ["Kept", "agent"]);
      await refused(client.assistants.create({ graphId: "agent", assistantId: "no-uuid" }), 422, /assistant_id/);
      await refused(client.assistants.get(ABSENT), 404, /not found/);
      await refused(client.assistants.update(ABSENT, { name: "x" }), 404, /not found/);
      await refused(client.assistants.setLatest(assistant_id, 99), 404, /version 99/);
      await refused(client.assistants.getVersions(ABSENT), 404, /not found/);
      await refused(client.assistants.search({ limit: 0 }), 422, /limit/);
      await refused(client.assistants.search({ limit: 1001 }), 422, /limit/);
      await refused(client.assistants.search({ sortBy: "height" as "name" }), 422, /sort_by/);
    });
  });

  describe(`${name}: threads`, () => {
    it("is created, read, changed and deleted", async () => {
      await using at = await bench();
      const { client } = at;
      const fresh = await client.threads.create();
      assert.match(fresh.thread_id, UUID);
      assert.deepEqual([fresh.status, fresh.metadata, fresh.values], ["idle", {}, null]);
      const threadId = "7f1c9c6e-3f5b-4f0a-9d59-3a2f5f0c0a01";
      const made = await client.threads.create({ threadId, metadata: { owner: "ann", tags: ["a"] } });
      assert.equal(made.thread_id, threadId);
      assert.deepEqual(await client.threads.get(threadId), made);
      await refused(client.threads.create({ threadId }), 409, /exists/);
      const same = await client.threads.create({ threadId, ifExists: "do_nothing", metadata: { owner: "bob" } });
      assert.deepEqual(same.metadata, { owner: "ann", tags: ["a"] });
      const changed = await client.threads.update(threadId, { metadata: { tags: ["b"], seen: true } });
      assert.deepEqual(changed.metadata, { owner: "ann", tags: ["b"], seen: true });
      assert.deepEqual((await client.threads.get(threadId)).metadata, changed.metadata);
      await client.threads.delete(threadId);
      await refused(client.threads.get(threadId), 404, /not found/);
      await refused(client.threads.delete(threadId), 404, /not found/);
      await refused(client.threads.get("no-uuid"), 422, /thread_id/);
    });

    it("is found by metadata, status, values and id", async () => {
      await using at = await bench();
      const { client } = at;
      const made: string[] = [];
      for (const group of ["x", "x", "y"]) made.push((await client.threads.create({ metadata: { group } })).thread_id);
      const [first, second, third] = made as [string, string, string];
      await client.runs.wait(first, "tell", { input: { flavor: "sweet" }, context: {} });
      await client.runs.wait(second, "ask", { input: {} });

      const ids = async (query: Parameters<typeof client.threads.search>[0]): Promise<string[]> =>
        (await client.threads.search(query)).map((found) => found.thread_id);
      assert.deepEqual((await ids({ metadata: { group: "x" } })).sort(), [first, second].sort());
      assert.deepEqual(await ids({ status: "interrupted" }), [second]);
      assert.deepEqual(await ids({ values: { flavor: "sweet" } }), [first]);
      assert.deepEqual(await ids({ ids: [third, ABSENT] }), [third]);
      const sorted = made.toSorted();
      assert.deepEqual(await ids({ sortBy: "thread_id", sortOrder: "asc" }), sorted);
      assert.deepEqual(await ids({ sortBy: "thread_id", sortOrder: "desc", limit: 1, offset: 1 }), [sorted[1]]);
      assert.deepEqual(await client.threads.search({ ids: [third], select: ["thread_id", "status"] }), [
        { thread_id: third, status: "idle" },
      ]);
      assert.equal(await client.threads.count({ metadata: { group: "x" } }), 2);
      assert.equal(await client.threads.count({ values: { flavor: "sweet" } }), 1);
      assert.equal(await client.threads.count({ status: "busy" }), 0);
    });

    it("has an empty state and no history before its first run", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      const state = await client.threads.getState(id);
      assert.deepEqual([state.values, state.next, state.tasks, state.checkpoint], [{}, [], [], null]);
      assert.deepEqual(await client.threads.getHistory(id), []);
      await refused(client.threads.getState(ABSENT), 404, /not found/);
      await refused(client.threads.getHistory(ABSENT), 404, /not found/);
      await refused(client.threads.getState(id, "nothing"), 404, /checkpoint/);
    });
  });

  for (const { kind, graph, node, wait, fail, tell } of FAMILIES) {
    describe(`${name}: ${kind} runs`, () => {
      it("waits for the result, and the thread keeps it", async () => {
        await using at = await bench();
        const { client } = at;
        const { assistant_id } = await client.assistants.get(graph);
        const id = await thread(client);
        const values = await client.runs.wait(id, graph, { input: human("hi") });
        assert.deepEqual(contents(values), ["hi", "You said: hi"]);
        assert.deepEqual(
          messagesOf(values).map((message) => message.type),
          ["human", "ai"],
        );
        assert.ok(messagesOf(values).every((message) => typeof message.id === "string" && message.id !== ""));
        const kept = await client.threads.get(id);
        assert.equal(kept.status, "idle");
        assert.deepEqual(kept.values, values);
        assert.deepEqual(kept.metadata, { graph_id: graph, assistant_id });
        assert.deepEqual((await client.threads.getState(id)).values, values);
        const more = await client.runs.wait(id, assistant_id, { input: human("again") });
        assert.deepEqual(messagesOf(more).slice(0, 2), messagesOf(values));
        assert.deepEqual(contents(more).slice(2), ["again", "You said: again"]);
      });

      it("leaves three checkpoints a run, each of them readable", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        await client.runs.wait(id, graph, { input: human("one") });
        await client.runs.wait(id, graph, { input: human("two") });
        const history = await client.threads.getHistory(id);
        assert.deepEqual(
          history.map((state) => [
            state.metadata?.source,
            state.metadata?.step,
            state.next,
            contentsOrNone(state.values),
          ]),
          [
            ["loop", 4, [], ["one", "You said: one", "two", "You said: two"]],
            ["loop", 3, [node], ["one", "You said: one", "two"]],
            ["input", 2, ["__start__"], ["one", "You said: one"]],
            ["loop", 1, [], ["one", "You said: one"]],
            ["loop", 0, [node], ["one"]],
            ["input", -1, ["__start__"], []],
          ],
        );
        const ids = history.map((state) => state.checkpoint.checkpoint_id as string);
        assert.deepEqual(ids, [...ids].sort().reverse(), "checkpoint ids sort by age");
        assert.deepEqual(
          history.map((state) => state.parent_checkpoint?.checkpoint_id ?? null),
          [...ids.slice(1), null],
        );
        assert.ok(history.every((state) => !Number.isNaN(Date.parse(state.created_at ?? ""))));
        const third = history[3];
        assert.ok(third);
        assert.deepEqual(await client.threads.getState(id, ids[3]), third);
        assert.deepEqual(await client.threads.getState(id, third.checkpoint), third);
        const page = await client.threads.getHistory(id, {
          limit: 2,
          before: { configurable: { checkpoint_id: ids[1] } },
        });
        assert.deepEqual(page, history.slice(2, 4));
        assert.equal((await client.threads.getHistory(id, { metadata: { source: "input" } })).length, 2);
      });

      it("creates, joins, lists, reads and deletes a run", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const run = await client.runs.create(id, graph, {
          input: human("hi"),
          metadata: { mark: 1 },
          streamMode: ["values", "updates"],
        });
        assert.match(run.run_id, UUID);
        const { assistant_id } = await client.assistants.get(graph);
        assert.deepEqual([run.thread_id, run.assistant_id, run.multitask_strategy], [id, assistant_id, "enqueue"]);
        const { kwargs } = run as unknown as { kwargs: JsonObject };
        assert.deepEqual([kwargs.input, kwargs.stream_mode], [human("hi"), ["values", "updates"]]);
        const values = await client.runs.join(id, run.run_id);
        assert.deepEqual(contents(values), ["hi", "You said: hi"]);
        const read = await client.runs.get(id, run.run_id);
        assert.equal(read.status, "success");
        assert.equal((read.metadata as JsonObject).mark, 1);
        const later = await client.runs.create(id, graph, { input: human("more") });
        await client.runs.join(id, later.run_id);
        const listed = await client.runs.list(id);
        assert.deepEqual(
          listed.map((one) => one.run_id),
          [later.run_id, run.run_id],
        );
        assert.deepEqual(await client.runs.list(id, { limit: 1, offset: 1, select: ["run_id", "status"] }), [
          { run_id: run.run_id, status: "success" },
        ]);
        assert.deepEqual(await client.runs.list(id, { status: "pending" }), []);
        await client.runs.delete(id, run.run_id);
        await refused(client.runs.get(id, run.run_id), 404, /not found/);
        await refused(client.runs.join(id, run.run_id), 404, /not found/);
        assert.deepEqual(
          (await client.runs.list(id)).map((one) => one.run_id),
          [later.run_id],
        );
      });

      it("streams values by default: metadata first, end last, and then the run is over", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        let created: { run_id: string; thread_id?: string } | undefined;
        const ends: string[] = [];
        const stream = client.runs.stream(id, graph, {
          input: human("hi"),
          onRunCreated: (run) => {
            created = run;
          },
        });
        const frames = await collect(stream, async ({ event, data }) => {
          if (event !== "end") return;
          ends.push((await client.runs.get(id, String((data as JsonObject).run_id))).status);
          ends.push((await client.threads.get(id)).status);
        });
        assert.deepEqual(names(frames), ["metadata", "values", "values", "end"]);
        const [metadata] = dataOf(frames, "metadata");
        assert.equal(metadata?.attempt, 1);
        assert.deepEqual(created, { run_id: metadata?.run_id, thread_id: id });
        assert.deepEqual(dataOf(frames, "end"), [{ run_id: metadata?.run_id, status: "success" }]);
        assert.deepEqual(ends, ["success", "idle"]);
        const [early, final] = dataOf(frames, "values");
        assert.deepEqual(contents(early), ["hi"]);
        assert.deepEqual(final, (await client.threads.getState(id)).values);
        const ids = frames.map((frame) => Number(frame.id));
        assert.deepEqual(
          ids,
          [...ids].sort((a, b) => a - b),
        );
        assert.equal(new Set(ids).size, ids.length);
      });

      it("streams the tokens of the message that the state then holds", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const frames = await collect(
          client.runs.stream(id, graph, { input: human("one two three"), streamMode: "messages-tuple" }),
        );
        assert.deepEqual([...new Set(names(frames))], ["metadata", "messages", "end"]);
        const chunks = tuplesOf(frames);
        const words = chunks.map(([chunk]) => chunk.content).filter((content) => content !== "");
        assert.deepEqual(words, ["You ", "said: ", "one ", "two ", "three"]);
        assert.ok(chunks.every(([chunk]) => chunk.type === "AIMessageChunk"));
        const final = messagesOf((await client.threads.getState(id)).values).at(-1);
        assert.equal(final?.content, "You said: one two three");
        assert.deepEqual([...new Set(chunks.map(([chunk]) => chunk.id))], [final?.id]);
        assert.ok(chunks.every(([, about]) => about.langgraph_node === node && about.thread_id === id));
      });

      it("streams mode messages: metadata, the growing message, the complete one", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const frames = await collect(client.runs.stream(id, graph, { input: human("one"), streamMode: "messages" }));
        assert.deepEqual(
          [...new Set(names(frames))],
          ["metadata", "messages/metadata", "messages/partial", "messages/complete", "end"],
        );
        const final = messagesOf((await client.threads.getState(id)).values).at(-1) as Message;
        assert.deepEqual(Object.keys(dataOf(frames, "messages/metadata")[0] ?? {}), [final.id]);
        const partial = frames
          .filter((frame) => frame.event === "messages/partial")
          .map((frame) => frame.data as [Message]);
        assert.deepEqual(
          [...new Set(partial.map(([message]) => message.content))],
          ["You ", "You said: ", "You said: one"],
        );
        assert.ok(partial.every(([message]) => message.id === final.id && message.type === "ai"));
        const complete = frames
          .filter((frame) => frame.event === "messages/complete")
          .map((frame) => frame.data as [Message]);
        assert.deepEqual(
          complete.map(([message]) => [message.id, message.content]),
          [[final.id, final.content]],
        );
      });

      it("streams mode updates: what the node wrote", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const frames = await collect(client.runs.stream(id, graph, { input: human("one"), streamMode: "updates" }));
        assert.deepEqual(names(frames), ["metadata", "updates", "end"]);
        const [update] = dataOf(frames, "updates");
        assert.deepEqual(Object.keys(update ?? {}), [node]);
        const final = messagesOf((await client.threads.getState(id)).values).at(-1);
        assert.deepEqual(messagesOf(update?.[node]), [final]);
      });

      it("streams modes tasks, checkpoints and debug in step with the history", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const streamMode = ["tasks", "checkpoints", "debug"] as ["tasks", "checkpoints", "debug"];
        const frames = await collect(client.runs.stream(id, graph, { input: human("one"), streamMode }));
        const [start, result, ...others] = dataOf(frames, "tasks");
        assert.equal(others.length, 0);
        assert.deepEqual([start?.name, result?.name], [node, node]);
        assert.equal(start?.id, result?.id);
        assert.ok(start && "input" in start && "triggers" in start);
        assert.ok(result && "result" in result && !("input" in result));
        const history = (await client.threads.getHistory(id)).reverse();
        const checkpoints = dataOf(frames, "checkpoints");
        assert.deepEqual(
          checkpoints.map(({ values, next, metadata }) => [
            contentsOrNone(values),
            next,
            (metadata as JsonObject).step,
          ]),
          history.map(({ values, next, metadata }) => [contentsOrNone(values), next, metadata?.step]),
        );
        const debug = dataOf(frames, "debug");
        assert.deepEqual(
          debug.map(({ type }) => type),
          ["checkpoint", "checkpoint", "task", "task_result", "checkpoint"],
        );
        assert.ok(
          debug.every(({ step, timestamp, payload }) => typeof step === "number" && !!timestamp && isObject(payload)),
        );
      });

      it("streams mode events: start, tokens and end", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const frames = await collect(client.runs.stream(id, graph, { input: human("one"), streamMode: "events" }));
        assert.deepEqual([...new Set(names(frames))], ["metadata", "events", "end"]);
        const events = dataOf(frames, "events");
        assert.equal(events[0]?.event, "on_chain_start");
        assert.equal(events.at(-1)?.event, "on_chain_end");
        assert.equal(events[0]?.run_id, events.at(-1)?.run_id);
        const tokens = events.filter(({ event }) => event === "on_chat_model_stream");
        const text = tokens.map(({ data }) => ((data as JsonObject).chunk as Message).content).join("");
        assert.equal(text, "You said: one");
        assert.ok(events.every((event) => isObject(event.metadata) && Array.isArray(event.tags)));
      });

      it("streams several modes at once, and custom data in order", async () => {
        await using at = await bench();
        const { client, gates } = at;
        gates.open("x");
        const id = await thread(client);
        const custom = await collect(
          client.runs.stream(id, wait, {
            input: human("x"),
            streamMode: ["custom", "updates"] as ["custom", "updates"],
          }),
        );
        assert.deepEqual(names(custom), ["metadata", "custom", "updates", "end"]);
        assert.deepEqual(dataOf(custom, "custom"), [{ at: "x" }]);
        const all = await collect(client.runs.stream(id, graph, { input: human("y"), streamMode: [...ALL_MODES] }));
        const seen = new Set(names(all));
        for (const mode of [
          "values",
          "updates",
          "messages",
          "messages/partial",
          "events",
          "tasks",
          "checkpoints",
          "debug",
        ]) {
          assert.ok(seen.has(mode), mode);
        }
        assert.equal(names(all)[0], "metadata");
        assert.equal(names(all).at(-1), "end");
        const [first] = tuplesOf(all);
        assert.equal(first?.[0].id, messagesOf(dataOf(all, "values").at(-1)).at(-1)?.id);
      });

      it("runs without a thread: nothing stays but the run's own result", async () => {
        await using at = await bench();
        const { client, gates } = at;
        assert.deepEqual(contents(await client.runs.wait(null, graph, { input: human("hi") })), ["hi", "You said: hi"]);
        let created: { run_id: string; thread_id?: string } | undefined;
        const stream = client.runs.stream(null, graph, {
          input: human("hi"),
          onRunCreated: (run) => {
            created = run;
          },
        });
        const frames = await collect(stream);
        assert.deepEqual(names(frames), ["metadata", "values", "values", "end"]);
        const [metadata] = dataOf(frames, "metadata");
        assert.equal(created?.run_id, metadata?.run_id);
        await refused(client.threads.get(String(metadata?.thread_id)), 404, /not found/);

        const run = await client.runs.create(null, wait, { input: human("later") });
        assert.match(run.thread_id, UUID);
        await gates.reached("later");
        const reader = client.runs.joinStream(null, run.run_id, { lastEventId: "-1" });
        assert.equal((await reader.next()).value?.event, "metadata");
        const joining = collect(reader);
        gates.open("later");
        assert.equal(names(await joining).at(-1), "end");
        await refused(client.threads.get(run.thread_id), 404, /not found/);
        assert.equal(await client.threads.count(), 0);

        const kept = await collect(
          client.runs.stream(null, graph, { input: human("hi"), onCompletion: "keep" } as object),
        );
        const { thread_id } = dataOf(kept, "metadata")[0] as { thread_id: string };
        assert.equal((await client.threads.get(thread_id)).status, "idle");
        assert.deepEqual(contents((await client.threads.getState(thread_id)).values), ["hi", "You said: hi"]);
        await refused(client.runs.wait(null, graph, { command: { resume: 1 } }), 400, /stateless/);
      });

      it("joins a stream while the run goes on and after it has ended", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await thread(client);
        const run = await client.runs.create(id, wait, {
          input: human("gate"),
          streamMode: ["values", "updates", "custom"],
          streamResumable: true,
        });
        await gates.reached("gate");
        assert.equal((await client.threads.get(id)).status, "busy");
        const all = client.runs.joinStream(id, run.run_id, { lastEventId: "-1" });
        const some = client.runs.joinStream(id, run.run_id, { lastEventId: "-1", streamMode: ["values", "updates"] });
        const first = [await all.next(), await some.next()].map(({ value }) => value as Frame);
        assert.deepEqual(names(first), ["metadata", "metadata"]);
        const rest = [collect(all), collect(some)] as const;
        gates.open("gate");
        assert.deepEqual(names(await rest[0]), ["values", "custom", "updates", "values", "end"]);
        assert.deepEqual(names(await rest[1]), ["values", "updates", "values", "end"]);
        const after = await collect(client.runs.joinStream(id, run.run_id));
        assert.equal(after.at(-1)?.event, "end");
        assert.deepEqual(
          dataOf(after, "end").map(({ status }) => status),
          ["success"],
        );
        await refused(collect(client.runs.joinStream(id, ABSENT)), 404, /not found/);
      });

      it("tells where the run is, whichever call created it", async () => {
        await using at = await bench();
        const { client, send } = at;
        const id = await thread(client);
        const seen: { run_id: string; thread_id?: string }[] = [];
        const onRunCreated = (run: { run_id: string; thread_id?: string }): void => void seen.push(run);
        const run = await client.runs.create(id, graph, { input: human("a"), onRunCreated });
        await client.runs.wait(id, graph, { input: human("b"), onRunCreated } as RunsWaitPayload);
        assert.deepEqual(seen[0], { run_id: run.run_id, thread_id: id });
        const [second] = await client.runs.list(id, { limit: 1 });
        assert.deepEqual(seen[1], { run_id: second?.run_id, thread_id: id });
        const body = JSON.stringify({ assistant_id: graph, input: human("c") });
        const response = await send(`/threads/${id}/runs/stream`, { method: "POST", body });
        const place = response.headers.get("content-location");
        await response.text();
        const [third] = await client.runs.list(id, { limit: 1 });
        assert.equal(place, `/threads/${id}/runs/${third?.run_id}`);
        assert.equal(response.headers.get("location"), `${place}/stream`);
      });

      it("merges configuration, context and metadata of assistant, thread and request", async () => {
        await using at = await bench();
        const { client } = at;
        const { assistant_id } = await client.assistants.create({
          graphId: tell,
          config: { configurable: { color: "red", size: 1 } },
          metadata: { from: "assistant", a: 1 },
        });
        const { thread_id: id } = await client.threads.create({ metadata: { from: "thread", t: 1 } });
        let run_id = "";
        const told = (await client.runs.wait(id, assistant_id, {
          input: { x: 1 },
          config: { configurable: { size: 2 } },
          metadata: { from: "request", r: 1 },
          onRunCreated: (run: { run_id: string }) => {
            run_id = run.run_id;
          },
        } as RunsWaitPayload)) as unknown as { told: JsonObject };
        assert.deepEqual([told.told.color, told.told.size], ["red", 2]);
        const run = await client.runs.get(id, run_id);
        const { from, a, t, r } = run.metadata as JsonObject;
        assert.deepEqual([from, a, t, r], ["request", 1, 1, 1]);
        const { metadata } = await client.threads.get(id);
        assert.deepEqual(metadata, { from: "thread", t: 1, graph_id: tell, assistant_id });

        const contextual = await client.assistants.create({ graphId: tell, context: { tone: "plain", lang: "en" } });
        const heard = (await client.runs.wait(null, contextual.assistant_id, {
          input: { x: 1 },
          context: { tone: "formal" },
        })) as unknown as { told: JsonObject };
        assert.deepEqual(heard.told.context, { tone: "formal", lang: "en" });
        await refused(
          client.runs.create(id, tell, { context: { k: 1 }, config: { configurable: { k: 2 } } }),
          400,
          /k has two values/,
        );
      });

      it("runs the active version of the assistant", async () => {
        await using at = await bench();
        const { client } = at;
        const { assistant_id } = await client.assistants.create({ graphId: tell, context: { greeting: "hi" } });
        const greeting = async (): Promise<unknown> => {
          const values = await client.runs.wait(null, assistant_id, { input: { x: 1 } });
          return ((values as unknown as { told: { context: JsonObject } }).told.context as JsonObject).greeting;
        };
        assert.equal(await greeting(), "hi");
        await client.assistants.update(assistant_id, { context: { greeting: "yo" } });
        assert.equal(await greeting(), "yo");
        await client.assistants.setLatest(assistant_id, 1);
        assert.equal(await greeting(), "hi");
      });

      it("stops at breakpoints and goes on without input", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const stopped = (await client.runs.wait(id, graph, {
          input: human("hi"),
          interruptBefore: [node],
        })) as unknown as JsonObject;
        assert.deepEqual(interruptsOf(stopped), []);
        assert.equal((await client.threads.get(id)).status, "interrupted");
        assert.deepEqual((await client.threads.getState(id)).next, [node]);
        const [run] = await client.runs.list(id);
        assert.equal(run?.status, "success");
        const values = await client.runs.wait(id, graph, { input: null });
        assert.deepEqual(contents(values), ["hi", "You said: hi"]);
        assert.equal((await client.threads.get(id)).status, "idle");
        const anywhere = await client.runs.wait(id, graph, { input: human("more"), interruptBefore: "*" });
        assert.deepEqual(interruptsOf(anywhere), []);
      });

      it("ends a failing run as error, in every way to follow it", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const frames = await collect(client.runs.stream(id, fail, { input: human("hi") }));
        assert.deepEqual(names(frames).slice(-2), ["error", "end"]);
        const [metadata] = dataOf(frames, "metadata");
        assert.deepEqual(dataOf(frames, "error"), [{ error: "Error", message: "boom happened" }]);
        assert.deepEqual(dataOf(frames, "end"), [{ run_id: metadata?.run_id, status: "error" }]);
        assert.equal((await client.runs.get(id, String(metadata?.run_id))).status, "error");
        const failed = (await client.threads.get(id)) as unknown as JsonObject;
        assert.deepEqual([failed.status, failed.error], ["error", { error: "Error", message: "boom happened" }]);
        const error = (await client.threads.getState(id)).tasks.at(-1)?.error;
        assert.match(String(error), /boom happened/);

        await assert.rejects(client.runs.wait(id, fail, { input: human("hi") }), { message: "Error: boom happened" });
        const told = await client.runs.wait(id, fail, { input: human("hi"), raiseError: false });
        assert.deepEqual(told, { __error__: { error: "Error", message: "boom happened" } });
        await assert.rejects(client.runs.wait(null, fail, { input: human("hi") }), { message: "Error: boom happened" });
        const run = await client.runs.create(id, fail, { input: human("hi") });
        const joined = (await client.runs.join(id, run.run_id)) as unknown as JsonObject;
        assert.deepEqual(joined.__error__, { error: "Error", message: "boom happened" });
        assert.deepEqual(contents(await client.runs.wait(null, graph, { input: human("still here") })).length, 2);
      });

      it("queues runs on a busy thread in order, or rejects them", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await thread(client);
        const make = async (text: string): Promise<string> =>
          (await client.runs.create(id, wait, { input: human(text), multitaskStrategy: "enqueue" })).run_id;
        const runs = [await make("a"), await make("b"), await make("c")];
        await gates.reached("a");
        await refused(
          client.runs.create(id, wait, { input: human("no"), multitaskStrategy: "reject" }),
          409,
          /already running a task/,
        );
        const statuses = await Promise.all(runs.map(async (run_id) => (await client.runs.get(id, run_id)).status));
        assert.deepEqual(statuses, ["running", "pending", "pending"]);
        assert.deepEqual(
          (await client.runs.list(id, { status: "pending" })).map((run) => run.run_id),
          [runs[2], runs[1]],
        );
        await refused(client.runs.delete(id, runs[0] as string), 409, /running/);
        assert.equal((await client.threads.get(id)).status, "busy");
        gates.open("c", "b", "a");
        const values = await Promise.all(runs.map((run_id) => client.runs.join(id, run_id)));
        assert.deepEqual(
          values.map((result) => messagesOf(result).length),
          [2, 4, 6],
        );
        assert.deepEqual(contents(values[2]), ["a", "waited for a", "b", "waited for b", "c", "waited for c"]);
        assert.equal((await client.threads.get(id)).status, "idle");
        const free = await client.runs.wait(id, graph, { input: human("now"), multitaskStrategy: "reject" });
        assert.equal(messagesOf(free).length, 8);
      });

      it("forks from a checkpoint: the history shows two branches", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        await client.runs.wait(id, graph, { input: human("one") });
        const before = await client.runs.wait(id, graph, { input: human("two") });
        const edited = messagesOf(before)[2] as Message;
        const history = await client.threads.getHistory(id);
        const seen = history.findLast((state) =>
          messagesOrNone(state.values).some((message) => message.id === edited.id),
        );
        const from = seen?.parent_checkpoint;
        assert.ok(from?.checkpoint_id);
        const { thread_id: _, ...checkpoint } = from;
        const values = await client.runs.wait(id, graph, { input: human("three"), checkpoint });
        assert.deepEqual(contents(values), ["one", "You said: one", "three", "You said: three"]);
        assert.deepEqual((await client.threads.getState(id)).values, values);
        const all = await client.threads.getHistory(id, { limit: 100 });
        assert.equal(all.length, 9);
        const children = all.filter((state) => state.parent_checkpoint?.checkpoint_id === from.checkpoint_id);
        assert.equal(children.length, 2);
        const left = history[0] as (typeof history)[number];
        assert.deepEqual((await client.threads.getState(id, left.checkpoint)).values, before);
        const short = await client.runs.wait(id, graph, {
          input: human("four"),
          checkpointId: from.checkpoint_id as string,
        });
        assert.deepEqual(contents(short), ["one", "You said: one", "four", "You said: four"]);
        await refused(client.runs.wait(id, graph, { input: human("x"), checkpointId: "nothing" }), 404, /checkpoint/);
      });

      it("keeps every state of a long conversation, and of its branches", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await thread(client);
        const said = (turn: string): string => `${turn} ${"and so on ".repeat(30)}`;
        for (let turn = 1; turn <= 8; turn++) await client.runs.wait(id, graph, { input: human(said(`turn ${turn}`)) });
        const history = await client.threads.getHistory(id, { limit: 100 });
        assert.equal(history.length, 24);
        const final = messagesOf(history[0]?.values);
        assert.equal(final.length, 16);
        history.forEach((state) => {
          const messages = messagesOrNone(state.values);
          assert.deepEqual(messages, final.slice(0, messages.length));
        });
        const middle = history.find((state) => messagesOrNone(state.values).length === 8 && state.next.length === 0);
        const checkpointId = middle?.checkpoint.checkpoint_id as string;
        await client.runs.wait(id, graph, { input: human(said("branch 1")), checkpointId });
        const values = await client.runs.wait(id, graph, { input: human(said("branch 2")) });
        assert.equal(messagesOf(values).length, 12);
        assert.deepEqual(messagesOf(values).slice(0, 8), final.slice(0, 8));
        assert.deepEqual(
          contents(values).slice(8),
          ["branch 1", "branch 2"].flatMap((turn) => [said(turn), `You said: ${said(turn)}`]),
        );
        assert.deepEqual(messagesOf((await client.threads.getState(id, history[0]?.checkpoint)).values), final);
      });

      it("takes messages however they are written", async () => {
        await using at = await bench();
        const { client } = at;
        const written = [
          { role: "system", content: "be kind" },
          { type: "human", content: "a", id: "mine" },
          { role: "assistant", content: "b" },
          { role: "user", content: [{ type: "text", text: "c" }] },
          { type: "human", content: "d" },
        ];
        const values = await client.runs.wait(null, graph, { input: { messages: written } });
        assert.deepEqual(
          messagesOf(values).map((message) => message.type),
          ["system", "human", "ai", "human", "human", "ai"],
        );
        assert.equal(messagesOf(values)[1]?.id, "mine");
        assert.deepEqual(messagesOf(values)[3]?.content as unknown, [{ type: "text", text: "c" }]);
        assert.equal(contents(values).at(-1), "You said: d");
        assert.equal(new Set(messagesOf(values).map((message) => message.id)).size, 6);
      });

      it("goes on with a resumable stream after the frame a reader has seen", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await thread(client);
        const run = await client.runs.create(id, wait, {
          input: human("gate"),
          streamMode: ["values", "custom"],
          streamResumable: true,
        });
        const seen: Frame[] = [];
        for await (const frame of client.runs.joinStream(id, run.run_id, { lastEventId: "-1" })) {
          seen.push(frame as Frame);
          if (frame.event === "custom") break;
        }
        assert.deepEqual(names(seen), ["metadata", "values", "custom"]);
        const lastEventId = seen[1]?.id as string;
        gates.open("gate");
        const rest = await collect(client.runs.joinStream(id, run.run_id, { lastEventId }));
        assert.deepEqual(names(rest), ["custom", "values", "end"]);
        assert.equal(rest[0]?.id, seen[2]?.id);
      });

      it("goes on when its reader leaves, or stops if it was asked to", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await thread(client);
        const leave = async (text: string, onDisconnect: "continue" | "cancel"): Promise<string> => {
          const gone = new AbortController();
          let run_id = "";
          const input = { input: human(text), onDisconnect, signal: gone.signal };
          try {
            for await (const { event, data } of client.runs.stream(id, wait, input)) {
              if (event !== "metadata") continue;
              run_id = data.run_id;
              await gates.reached(text);
              gone.abort();
            }
          } catch (error) {
            assert.ok(gone.signal.aborted, String(error));
          }
          return run_id;
        };
        const cancelled = await leave("stop me", "cancel");
        await client.runs.join(id, cancelled);
        assert.equal((await client.runs.get(id, cancelled)).status, "interrupted");
        const going = await leave("let me", "continue");
        assert.equal((await client.runs.get(id, going)).status, "running");
        gates.open("let me");
        assert.equal(contents(await client.runs.join(id, going)).at(-1), "waited for let me");
        assert.equal((await client.runs.get(id, going)).status, "success");
      });

      it("ends the streams of a thread that is deleted", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await thread(client);
        const run = await client.runs.create(id, wait, { input: human("never") });
        await gates.reached("never");
        const reader = client.runs.joinStream(id, run.run_id, { lastEventId: "-1" });
        assert.equal((await reader.next()).value?.event, "metadata");
        const rest = collect(reader);
        await client.threads.delete(id);
        const frames = await rest;
        assert.deepEqual(names(frames).slice(-2), ["error", "end"]);
        await refused(client.runs.get(id, run.run_id), 404, /not found/);
        await refused(client.threads.get(id), 404, /not found/);
      });

      it("runs many at once, each with its own answer", async () => {
        await using at = await bench();
        const { client } = at;
        const texts = Array.from({ length: 25 }, (_, n) => `number ${n}`);
        const values = await Promise.all(texts.map((text) => client.runs.wait(null, graph, { input: human(text) })));
        assert.deepEqual(
          values.map((result) => contents(result)),
          texts.map((text) => [text, `You said: ${text}`]),
        );
        assert.equal(await client.threads.count(), 0);
      });

      it("stores checkpoints as the durability asks", async () => {
        await using at = await bench();
        const { client } = at;
        for (const durability of ["sync", "async", "exit"] as const) {
          const id = await thread(client);
          const values = await client.runs.wait(id, graph, { input: human(durability), durability });
          assert.deepEqual(contents(values), [durability, `You said: ${durability}`]);
          assert.deepEqual((await client.threads.getState(id)).values, values);
          const more = await client.runs.wait(id, graph, { input: human("more"), durability });
          assert.equal(messagesOf(more).length, 4);
        }
      });

      it("creates the thread when asked, and refuses what does not exist", async () => {
        await using at = await bench();
        const { client } = at;
        const id = "7f1c9c6e-3f5b-4f0a-9d59-3a2f5f0c0a02";
        await refused(client.runs.wait(id, graph, { input: human("hi") }), 404, /not found/);
        const values = await client.runs.wait(id, graph, {
          input: human("hi"),
          ifNotExists: "create",
          metadata: { m: 1 },
        });
        assert.deepEqual(contents(values), ["hi", "You said: hi"]);
        const { assistant_id } = await client.assistants.get(graph);
        assert.deepEqual((await client.threads.get(id)).metadata, { graph_id: graph, assistant_id, m: 1 });
        await refused(client.runs.create(id, "nobody", { input: {} }), 404, /not found/);
        await refused(client.runs.create(id, ABSENT, { input: {} }), 404, /not found/);
        await refused(client.runs.get(id, ABSENT), 404, /not found/);
        await refused(client.runs.join(id, ABSENT), 404, /not found/);
        await refused(client.runs.list(ABSENT), 404, /not found/);
        await refused(client.runs.get(id, "no-uuid"), 422, /run_id/);
        await refused(collect(client.runs.stream(id, graph, { streamMode: "loud" as "values" })), 422, /stream_mode/);
        await refused(client.runs.list(id, { limit: 0 }), 422, /limit/);
        assert.equal((await client.runs.list(id)).length, 1);
      });
    });
  }

  describe(`${name}: interrupts`, () => {
    it("a function asks, and the command answers", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      const asked = await client.runs.wait(id, "ask", { input: { topic: "x" } });
      const [question] = interruptsOf(asked);
      assert.deepEqual(question?.value, { question: "ok?" });
      const paused = await client.threads.get(id);
      assert.equal(paused.status, "interrupted");
      assert.deepEqual(Object.values(paused.interrupts).flat(), [question]);
      const state = await client.threads.getState(id);
      assert.deepEqual(state.next, ["ask"]);
      assert.deepEqual(
        state.tasks.flatMap((task) => task.interrupts),
        [question],
      );
      const [run] = await client.runs.list(id);
      assert.equal(run?.status, "success");
      const values = await client.runs.wait(id, "ask", { command: { resume: "sure" } });
      assert.deepEqual(values, { topic: "x", answer: "sure" });
      const done = await client.threads.get(id);
      assert.deepEqual([done.status, done.interrupts], ["idle", {}]);
    });

    it("a graph asks before it uses a tool, and the command answers", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      const streamMode = ["values", "updates", "messages-tuple"] as ["values", "updates", "messages-tuple"];
      const frames = await collect(client.runs.stream(id, "approval", { input: human("book a seat"), streamMode }));
      const interrupts = frames.filter((frame) => isObject(frame.data) && "__interrupt__" in frame.data);
      assert.deepEqual([...new Set(names(interrupts))].sort(), ["updates", "values"]);
      const [question] = interruptsOf(interrupts[0]?.data);
      assert.deepEqual(question?.value, { question: "Book seat 7A?", tool: "book" });
      assert.deepEqual(
        dataOf(frames, "end").map(({ status }) => status),
        ["success"],
      );
      const paused = await client.threads.get(id);
      assert.equal(paused.status, "interrupted");
      assert.deepEqual(
        Object.values(paused.interrupts)
          .flat()
          .map((one) => one.id),
        [question?.id],
      );
      const state = await client.threads.getState(id);
      assert.deepEqual(state.next, ["approve"]);
      const call = messagesOf(state.values).at(-1);
      assert.deepEqual(call?.tool_calls, [{ name: "book", args: { seat: "7A" }, id: "call-1", type: "tool_call" }]);
      const chunks = tuplesOf(frames).map(([chunk]) => chunk);
      assert.deepEqual([...new Set(chunks.map((chunk) => chunk.id))], [call?.id]);

      const values = await client.runs.wait(id, "approval", { command: { resume: "yes" } });
      assert.deepEqual(contents(values), [
        "book a seat",
        "One moment.",
        "seat 7A is booked",
        "Done: seat 7A is booked",
      ]);
      assert.deepEqual(
        messagesOf(values).map((message) => message.type),
        ["human", "ai", "tool", "ai"],
      );
      assert.equal((await client.threads.get(id)).status, "idle");
    });

    it("two questions are answered by a map of their ids", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      const asked = await client.runs.wait(id, "questions", { input: {} });
      const open = interruptsOf(asked);
      assert.deepEqual(open.map(({ value }) => value).sort(), ["first?", "second?"]);
      const { interrupts } = await client.threads.get(id);
      assert.equal(Object.keys(interrupts).length, 2);
      const resume = Object.fromEntries(open.map((one) => [one.id, `answer to ${one.value}`]));
      const values = await client.runs.wait(id, "questions", { command: { resume } });
      assert.deepEqual(values, { first: "answer to first?", second: "answer to second?" });
      assert.equal((await client.threads.get(id)).status, "idle");
    });

    it("the answer to one of two questions leaves the other open", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      const asked = await client.runs.wait(id, "questions", { input: {} });
      const [one, two] = interruptsOf(asked).toSorted((a, b) => String(a.value).localeCompare(String(b.value)));
      assert.ok(one && two);
      const half = (await client.runs.wait(id, "questions", {
        command: { resume: { [one.id]: "1" } },
      })) as unknown as JsonObject;
      assert.deepEqual(
        interruptsOf(half).map((open) => open.id),
        [two.id],
      );
      const { status, interrupts } = await client.threads.get(id);
      assert.equal(status, "interrupted");
      assert.deepEqual(
        Object.values(interrupts)
          .flat()
          .map((open) => open.id),
        [two.id],
      );
      const values = await client.runs.wait(id, "questions", { command: { resume: { [two.id]: "2" } } });
      assert.deepEqual(values, { first: "1", second: "2" });
    });

    it("a subgraph asks, and shows where it stands", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      await client.runs.wait(id, "outer", { input: { first: "given" } });
      const state = await client.threads.getState(id, undefined, { subgraphs: true });
      assert.deepEqual(state.next, ["inside"]);
      const [task] = state.tasks;
      assert.deepEqual(
        task?.interrupts.map(({ value }) => value),
        ["inner?"],
      );
      const inner = task?.state as unknown as { next: string[]; checkpoint: { checkpoint_ns: string } };
      assert.deepEqual(inner.next, ["question"]);
      assert.match(inner.checkpoint.checkpoint_ns, /^inside:/);
      const history = await client.threads.getHistory(id, {
        checkpoint: { checkpoint_ns: inner.checkpoint.checkpoint_ns },
      });
      assert.ok(history.length > 0);
      assert.ok(history.every((past) => past.checkpoint.checkpoint_ns === inner.checkpoint.checkpoint_ns));
      const values = await client.runs.wait(id, "outer", { command: { resume: "yes" } });
      assert.deepEqual(values, { first: "given", second: "yes" });
      assert.equal((await client.threads.get(id)).status, "idle");
    });

    it("an answer may name its checkpoint, and a function's question be answered again from there", async () => {
      await using at = await bench();
      const { client } = at;
      const asked = async (id: string): Promise<Omit<Checkpoint, "thread_id">> => {
        const { thread_id: _, ...checkpoint } = (await client.threads.getState(id)).checkpoint;
        return checkpoint;
      };
      const graph = await thread(client);
      await client.runs.wait(graph, "approval", { input: human("book a seat") });
      const values = await client.runs.wait(graph, "approval", {
        command: { resume: "yes" },
        checkpoint: await asked(graph),
      });
      assert.equal(contents(values).at(-1), "Done: seat 7A is booked");

      // LangGraph itself keeps the first answer it was given at a checkpoint.
      const id = await thread(client);
      await client.runs.wait(id, "ask", { input: { topic: "x" } });
      const checkpoint = await asked(id);
      for (const resume of ["yes", "no"]) {
        const answered = await client.runs.wait(id, "ask", { command: { resume }, checkpoint });
        assert.deepEqual(answered, { topic: "x", answer: resume });
        assert.deepEqual((await client.threads.getState(id)).values, answered);
      }
      assert.equal((await client.threads.get(id)).status, "idle");
      const history = await client.threads.getHistory(id);
      const children = history.filter((state) => state.parent_checkpoint?.checkpoint_id === checkpoint.checkpoint_id);
      assert.equal(children.length, 2);
    });

    it("false, 0 and an empty text are answers", async () => {
      await using at = await bench();
      const { client } = at;
      for (const resume of [false, 0, "", { a: null }, ["x"]]) {
        const asking = await thread(client);
        await client.runs.wait(asking, "ask", { input: {} });
        assert.deepEqual(await client.runs.wait(asking, "ask", { command: { resume } }), { answer: resume });
        const graph = await thread(client);
        await client.runs.wait(graph, "outer", { input: { first: "given" } });
        assert.deepEqual(await client.runs.wait(graph, "outer", { command: { resume } }), {
          first: "given",
          second: resume,
        });
      }
    });

    it("a command may update the state and say where to go on", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      await client.runs.wait(id, "ask", { input: { topic: "x" } });
      const given = await client.runs.wait(id, "ask", { command: { update: { answer: "given" }, goto: "__end__" } });
      assert.deepEqual(given, { topic: "x", answer: "given" });
      assert.equal((await client.threads.get(id)).status, "idle");

      const graph = await thread(client);
      await client.runs.wait(graph, "approval", { input: human("book a seat") });
      const noted = (await client.runs.wait(graph, "approval", {
        command: { update: { note: "looked at" }, resume: "no" },
      })) as unknown as JsonObject;
      assert.equal(noted.note, "looked at");
      assert.equal(contents(noted).at(-1), "Done: nothing was booked");
      const again = await client.runs.wait(graph, "approval", { command: { goto: "model" } });
      assert.equal(messagesOf(again).length, messagesOf(noted).length + 1);
    });

    it("a breakpoint after a node stops there", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      await client.runs.wait(id, "family", { input: { steps: ["start"] }, interruptAfter: ["child"] });
      assert.deepEqual((await client.threads.getState(id)).next, ["after"]);
      const values = await client.runs.wait(id, "family", { input: null });
      assert.deepEqual(values, { steps: ["start", "start", "inner", "last", "after"] });
    });
  });

  describe(`${name}: subgraphs`, () => {
    it("show their frames under their own name space", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await thread(client);
      const streamMode = ["values", "updates"] as ["values", "updates"];
      const frames = await collect(
        client.runs.stream(id, "family", { input: { steps: ["start"] }, streamMode, streamSubgraphs: true }),
      );
      const shown = names(frames).map((event) => event.replace(/:[0-9a-f-]{36}$/, ":TASK"));
      assert.deepEqual(shown, [
        "metadata",
        "values",
        "values|child:TASK",
        "updates|child:TASK",
        "values|child:TASK",
        "updates|child:TASK",
        "values|child:TASK",
        "updates",
        "values",
        "updates",
        "values",
        "end",
      ]);
      const quiet = await collect(client.runs.stream(id, "family", { input: { steps: [] }, streamMode }));
      assert.ok(names(quiet).every((event) => !event.includes("|")));
      const plain = await collect(
        client.runs.stream(null, "agent", { input: human("hi"), streamMode, streamSubgraphs: true }),
      );
      assert.deepEqual(names(plain), ["metadata", "values", "updates", "values", "end"]);
    });
  });

  describe(`${name}: what is not built`, () => {
    it("answers 501 once and says what is missing", async () => {
      await using at = await bench();
      const { client, requests } = at;
      const id = await thread(client);
      const checkpoint = { values: {}, asNode: "agent" };
      const calls: (() => Promise<unknown>)[] = [
        () => client.threads.copy(id),
        () => client.threads.updateState(id, checkpoint),
        () => client.threads.patchState(id, { a: 1 }),
        () => client.threads.create({ ttl: 5 }),
        () => client.threads.create({ supersteps: [{ updates: [{ values: {}, asNode: "agent" }] }] }),
        () => client.threads.update(id, { ttl: 5 }),
        () => collect(client.threads.joinStream(id)),
        () => client.runs.cancel(id, ABSENT),
        () => client.runs.createBatch([{ assistantId: "agent" }]),
        () => client.runs.create(id, "agent", { input: {}, afterSeconds: 5 }),
        () => client.runs.create(id, "agent", { input: {}, webhook: "https://example.com/hook" }),
        () => client.runs.create(id, "agent", { input: {}, multitaskStrategy: "rollback" }),
        () => client.runs.create(id, "agent", { input: {}, multitaskStrategy: "interrupt" }),
        () => collect(client.runs.stream(id, "agent", { input: {}, feedbackKeys: ["thumbs"] })),
        () => client.crons.create("agent", { schedule: "* * * * *" }),
        () => client.crons.createForThread(id, "agent", { schedule: "* * * * *" }),
        () => client.crons.search(),
        () => client.crons.count(),
        () => client.crons.update(ABSENT, { schedule: "* * * * *" }),
        () => client.crons.delete(ABSENT),
        () => client.store.putItem(["a"], "k", { v: 1 }),
        () => client.store.getItem(["a"], "k"),
        () => client.store.deleteItem(["a"], "k"),
        () => client.store.searchItems(["a"]),
        () => client.store.listNamespaces(),
      ];
      requests.length = 0;
      for (const call of calls) await refused(call(), 501, /not built yet/i);
      assert.equal(requests.length, calls.length);
      assert.deepEqual(await client.runs.list(id), []);
      assert.equal(await client.threads.count(), 1);
    });
  });
}

/** A state from before the first input has no messages at all. */
const messagesOrNone = (values: unknown): Message[] => (values as { messages?: Message[] } | null)?.messages ?? [];
const contentsOrNone = (values: unknown): string[] => messagesOrNone(values).map((message) => message.content);
