/** Every method of the SDKs is answered, and stands in the table of docs/reference/sdk.md. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";
import type { Client as Client1 } from "langgraph-sdk-1-15";
import type { Client } from "langgraph-sdk-2";
import { testService } from "../suite/kit.ts";
import { createGates, type Gates, testExecutor } from "../support/graphs.ts";
import { collect } from "./sdk/bench.ts";
import { inProcess, SDKS } from "./sdk/reach.ts";

/** The arguments of the calls. */
interface CallArguments {
  readonly client: Client;
  readonly fetch: typeof fetch;
  readonly gates: Gates;
  /** A thread with a state, and an assistant. */
  readonly thread: string;
  readonly assistant: string;
}

type ThreadsClient = Client1["threads"];
type Call = (world: CallArguments) => Promise<unknown>;

const input = { messages: [{ role: "user", content: "hi" }] };
const space = ["users", "ann"];
/** Gives access to methods that only one of the families declares. */
const toUntypedGroup = (group: unknown): Record<string, (...args: unknown[]) => Promise<unknown>> =>
  group as Record<string, (...args: unknown[]) => Promise<unknown>>;

/** A call of each method. */
const CALLS: Readonly<Record<string, Call>> = {
  "assistants.get": ({ client, assistant }) => client.assistants.get(assistant),
  "assistants.getGraph": ({ client }) => client.assistants.getGraph("family", { xray: true }),
  "assistants.getSchemas": ({ client }) => client.assistants.getSchemas("chat"),
  "assistants.getSubgraphs": ({ client }) => client.assistants.getSubgraphs("family", { recurse: true }),
  "assistants.create": ({ client }) => client.assistants.create({ graphId: "agent", name: "One", context: { a: 1 } }),
  "assistants.update": ({ client, assistant }) => client.assistants.update(assistant, { metadata: { a: 1 } }),
  "assistants.delete": ({ client, assistant }) => client.assistants.delete(assistant, { deleteThreads: true }),
  "assistants.search": ({ client }) => client.assistants.search({ metadata: { a: 1 }, includePagination: true }),
  "assistants.count": ({ client }) => client.assistants.count({ graphId: "agent" }),
  "assistants.getVersions": ({ client, assistant }) => client.assistants.getVersions(assistant),
  "assistants.setLatest": ({ client, assistant }) => client.assistants.setLatest(assistant, 1),

  "threads.get": ({ client, thread }) => client.threads.get(thread),
  "threads.create": ({ client }) =>
    client.threads.create({
      ttl: { ttl: 5, strategy: "delete" },
      graphId: "family",
      supersteps: [{ updates: [{ values: { steps: ["made"] }, asNode: "child" }] }],
    }),
  "threads.copy": ({ client, thread }) => client.threads.copy(thread),
  "threads.update": ({ client, thread }) => client.threads.update(thread, { metadata: { a: 1 }, ttl: 10 }),
  "threads.delete": ({ client, thread }) => client.threads.delete(thread),
  "threads.prune": ({ client, thread }) =>
    toUntypedGroup(client.threads).prune?.([thread], { strategy: "keep_latest" }) as never,
  "threads.search": ({ client }) => client.threads.search({ metadata: { a: 1 }, values: { a: 1 } }),
  "threads.count": ({ client }) => client.threads.count({ status: "idle" }),
  "threads.getState": ({ client, thread }) => client.threads.getState(thread, undefined, { subgraphs: true }),
  "threads.updateState": ({ client, thread }) =>
    client.threads.updateState(thread, { values: { steps: ["told"] }, asNode: "after" }),
  "threads.patchState": ({ client, thread }) => client.threads.patchState(thread, { seen: true }),
  "threads.getHistory": ({ client, thread }) => client.threads.getHistory(thread, { limit: 5, metadata: { a: 1 } }),
  async "threads.joinStream"({ client, thread }) {
    const disconnect = new AbortController();
    const frames = client.threads.joinStream(thread, { signal: disconnect.signal, streamMode: "run_modes" });
    const first = frames.next();
    await client.runs.wait(thread, "family", { input: {} });
    await first;
    disconnect.abort();
    await collect(frames).catch(() => {});
  },
  async "threads.stream"({ client, fetch }) {
    const thread = (client.threads as unknown as ThreadsClient).stream({ assistantId: "agent", fetch });
    await thread.run.start({ input });
    await thread.output;
    await thread.close();
  },

  "runs.stream": ({ client, thread }) => collect(client.runs.stream(thread, "family", { input: {} })),
  "runs.create": ({ client, thread }) => client.runs.create(thread, "family", { input: {} }),
  "runs.createBatch": ({ client }) => client.runs.createBatch([{ assistantId: "agent", input }]),
  "runs.wait": ({ client }) => client.runs.wait(null, "agent", { input }),
  "runs.list": ({ client, thread }) => client.runs.list(thread, { limit: 5 }),
  async "runs.get"({ client, thread }) {
    const { run_id } = await client.runs.create(thread, "family", { input: {} });
    return await client.runs.get(thread, run_id);
  },
  async "runs.cancel"({ client, gates }) {
    const { thread_id: thread } = await client.threads.create();
    const { run_id } = await client.runs.create(thread, "wait", { input });
    await gates.reached("hi");
    return await client.runs.cancel(thread, run_id, true);
  },
  async "runs.cancelMany"({ client, gates }) {
    const { thread_id: thread } = await client.threads.create();
    const { run_id } = await client.runs.create(thread, "wait", { input });
    await gates.reached("hi");
    return await toUntypedGroup(client.runs).cancelMany?.({ threadId: thread, runIds: [run_id] });
  },
  async "runs.join"({ client, thread }) {
    const { run_id } = await client.runs.create(thread, "family", { input: {} });
    return await client.runs.join(thread, run_id);
  },
  async "runs.joinStream"({ client, thread }) {
    const { run_id } = await client.runs.create(thread, "family", { input: {}, streamResumable: true });
    return await collect(client.runs.joinStream(thread, run_id, { lastEventId: "-1" }));
  },
  async "runs.delete"({ client, thread }) {
    const { run_id } = await client.runs.create(thread, "family", { input: {} });
    await client.runs.join(thread, run_id);
    return await client.runs.delete(thread, run_id);
  },

  "crons.createForThread": ({ client, thread }) =>
    client.crons.createForThread(thread, "agent", { schedule: "0 0 1 1 *", input }),
  "crons.create": ({ client }) => client.crons.create("agent", { schedule: "0 0 1 1 *", input }),
  async "crons.update"({ client }) {
    const { cron_id } = await client.crons.create("agent", { schedule: "0 0 1 1 *", input });
    return await client.crons.update(cron_id, { enabled: false });
  },
  async "crons.delete"({ client }) {
    const { cron_id } = await client.crons.create("agent", { schedule: "0 0 1 1 *", input });
    return await client.crons.delete(cron_id);
  },
  "crons.search": ({ client }) => client.crons.search({ enabled: true, limit: 5 }),
  "crons.count": ({ client }) => client.crons.count({ assistantId: "agent" }),

  "store.putItem": ({ client }) => client.store.putItem(space, "note", { text: "hi" }, { ttl: 5 }),
  async "store.getItem"({ client }) {
    await client.store.putItem(space, "note", { text: "hi" });
    return await client.store.getItem(space, "note");
  },
  async "store.deleteItem"({ client }) {
    await client.store.putItem(space, "note", { text: "hi" });
    return await client.store.deleteItem(space, "note");
  },
  "store.searchItems": ({ client }) => client.store.searchItems(["users"], { filter: { text: { $eq: "hi" } } }),
  "store.listNamespaces": ({ client }) => client.store.listNamespaces({ prefix: ["users"], maxDepth: 1 }),
};

/** The public methods of a client, as `group.method`. */
function listMethods(Sdk: typeof Client): string[] {
  const client = new Sdk({ apiUrl: "http://greenroom" });
  return Object.entries(client)
    .filter(([group]) => !group.startsWith("~"))
    .flatMap(([group, methods]) =>
      Object.getOwnPropertyNames(Object.getPrototypeOf(methods))
        .filter((name) => name !== "constructor" && !name.startsWith("_"))
        .map((name) => `${group}.${name}`),
    )
    .sort();
}

/** Reads the table of the docs: the families that have a method, by its name. */
async function readTable(): Promise<Map<string, readonly boolean[]>> {
  const page = await readFile(new URL("../../docs/reference/sdk.md", import.meta.url), "utf8");
  const rows = page.matchAll(/^\| `(\w+\.\w+)` \| (yes|no) \| (yes|no) \| (yes|no) \|/gm);
  return new Map([...rows].map(([, name, ...marks]) => [name as string, marks.map((mark) => mark === "yes")]));
}

/** Calls one method on a service of its own; gives the statuses of all answers. */
async function callMethod(Sdk: typeof Client, call: Call): Promise<readonly number[]> {
  const gates = createGates();
  await using host = await testService({ executor: testExecutor(gates) });
  const { apiUrl, fetch, close } = await inProcess(host.fetch);
  try {
    const statuses: number[] = [];
    const counted: typeof fetch = async (request, init) => {
      const answer = await fetch(request, init);
      statuses.push(answer.status);
      return answer;
    };
    const client = new Sdk({ apiUrl, apiKey: null, callerOptions: { fetch: counted, maxRetries: 0 } });
    const { thread_id: thread } = await client.threads.create();
    await client.runs.wait(thread, "family", { input: {} });
    const { assistant_id: assistant } = await client.assistants.create({ graphId: "agent" });
    statuses.length = 0;
    await call({ client, fetch: counted as typeof globalThis.fetch, gates, thread, assistant });
    return statuses;
  } finally {
    await close();
  }
}

/** Returns true if a method of runs passes feedbackKeys on in the body of its request. */
async function sendsFeedbackKeys(Sdk: typeof Client, method: "create" | "stream" | "wait"): Promise<boolean> {
  const bodies: unknown[] = [];
  const record = (async (_url: unknown, init?: RequestInit) => {
    bodies.push(JSON.parse(String(init?.body)));
    const headers = { "content-type": method === "stream" ? "text/event-stream" : "application/json" };
    return new Response(method === "stream" ? "" : "{}", { headers });
  }) as unknown as typeof fetch;
  const client = new Sdk({ apiUrl: "http://greenroom", apiKey: null, callerOptions: { fetch: record, maxRetries: 0 } });
  // The types of 2.0.0 know the option of `stream` alone.
  const runs = client.runs as unknown as Record<typeof method, (...args: unknown[]) => unknown>;
  const answer = runs[method](null, "agent", { feedbackKeys: ["helpful"] });
  if (method === "stream") await collect(answer as AsyncIterable<unknown>);
  else await answer;
  assert.equal(bodies.length, 1);
  return Object.hasOwn(bodies[0] as object, "feedback_keys");
}

for (const [name, Sdk] of Object.entries(SDKS)) {
  describe(`every method of ${name}`, () => {
    const methods = listMethods(Sdk);

    it("has a call in this file", () => {
      assert.ok(methods.length > 35, "methods are found");
      assert.deepEqual(
        methods.filter((method) => !Object.hasOwn(CALLS, method)),
        [],
      );
    });

    for (const method of methods) {
      const call = CALLS[method];
      if (!call) continue;
      it(`gets a response: ${method}`, async () => {
        const statuses = await callMethod(Sdk, call);
        assert.ok(statuses.length > 0, "it asked for something");
        assert.deepEqual(
          statuses.filter((status) => status >= 400),
          [],
        );
      });
    }
  });
}

describe("the table of methods in docs/reference/sdk.md", () => {
  it("has a row for each method, with the families that have it, and no other", async () => {
    const families = Object.values(SDKS).map((Sdk) => new Set(listMethods(Sdk)));
    const expected = [...new Set(families.flatMap((names) => [...names]))].map((name): [string, boolean[]] => [
      name,
      families.map((names) => names.has(name)),
    ]);
    assert.deepEqual(
      [...(await readTable())].sort(([a], [b]) => (a < b ? -1 : 1)),
      expected.sort(([a], [b]) => (a < b ? -1 : 1)),
    );
  });

  it("names the versions that omit feedbackKeys of a run", async () => {
    const page = await readFile(new URL("../../docs/reference/sdk.md", import.meta.url), "utf8");
    const withoutKeys = new Map<string, string[]>();
    for (const [name, Sdk] of Object.entries(SDKS)) {
      for (const method of ["create", "stream", "wait"] as const) {
        if (!(await sendsFeedbackKeys(Sdk, method)))
          withoutKeys.set(method, [...(withoutKeys.get(method) ?? []), name.replace("SDK ", "")]);
      }
    }
    const note = (method: string): string | undefined =>
      new RegExp(`^\\| \`runs\\.${method}\` .*; (.*) \`feedbackKeys\` \\|$`, "m").exec(page)?.[1];
    assert.equal(note("create"), `${withoutKeys.get("create")?.join(", ")} sends no`);
    assert.equal(note("wait"), "no version sends");
    assert.equal(withoutKeys.get("wait")?.length, Object.keys(SDKS).length);
    assert.equal(note("stream"), undefined);
    assert.equal(withoutKeys.get("stream"), undefined);
  });

  it("has calls of existing methods", () => {
    const methodNames = new Set(Object.values(SDKS).flatMap(listMethods));
    assert.deepEqual(
      Object.keys(CALLS).filter((name) => !methodNames.has(name)),
      [],
    );
  });
});
