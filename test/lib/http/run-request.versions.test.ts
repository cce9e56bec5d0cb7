/** Requests of every way to create a run can name the version of the assistant. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FunctionJob, Json, JsonObject } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { customWorld } from "../auth/custom-auth.harness.ts";

const UNKNOWN = 9;

interface World extends AsyncDisposable {
  readonly kit: TestService;
  readonly assistant_id: string;
  /** What the runs of the agent have read, in their order. */
  readonly tones: Json[];
  send(method: string, path: string, body?: unknown): Promise<{ readonly status: number; readonly body: unknown }>;
  newThread(): Promise<string>;
}

/** Answers a question first if the state has `asks`. */
const createAgent = (tones: Json[]) =>
  async function* agent({ context, input, command, interrupt }: FunctionJob) {
    tones.push((context as JsonObject).tone ?? null);
    if ((input as JsonObject | undefined)?.asks && !command) yield interrupt({ question: "ok?" });
    else yield `tone ${(context as JsonObject).tone}`;
  };

/** Opens a service with an assistant of versions 1 to 3, whose context has the tone of their number. Version 3 is active. */
async function openWorld(): Promise<World> {
  const tones: Json[] = [];
  const kit = await testService({ agents: { speaker: createAgent(tones) }, crons: { misfire_grace_ms: 1000 } });
  const { assistants, threads } = kit.service;
  const { assistant_id } = await assistants.create({ graph_id: "speaker", context: { tone: 1, first: true } });
  for (const tone of [2, 3]) await assistants.update(assistant_id, { context: { tone } });
  return {
    kit,
    assistant_id,
    tones,
    async send(method, path, body) {
      const init = { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await kit.fetch(`http://greenroom${path}`, init);
      const text = await response.text();
      return { status: response.status, body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : text };
    },
    newThread: async () => (await threads.create()).thread_id,
    [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose](),
  };
}

const MESSAGE = { id: "m1", role: "user" } as const;

/** The requests that create a run, by their way. `field` has the version; `thread_id` is that of a new thread. */
const REQUESTS: Readonly<
  Record<string, (assistant_id: string, thread_id: string, field: object) => readonly [path: string, body: unknown]>
> = {
  "POST /threads/{id}/runs": (assistant_id, id, field) => [`/threads/${id}/runs`, { assistant_id, ...field }],
  "POST /threads/{id}/runs/wait": (assistant_id, id, field) => [`/threads/${id}/runs/wait`, { assistant_id, ...field }],
  "POST /threads/{id}/runs/stream": (assistant_id, id, field) => [
    `/threads/${id}/runs/stream`,
    { assistant_id, ...field },
  ],
  "POST /runs": (assistant_id, _, field) => ["/runs", { assistant_id, ...field }],
  "POST /runs/wait": (assistant_id, _, field) => ["/runs/wait", { assistant_id, ...field }],
  "POST /runs/stream": (assistant_id, _, field) => ["/runs/stream", { assistant_id, ...field }],
  "POST /runs/batch": (assistant_id, _, field) => ["/runs/batch", [{ assistant_id, ...field }]],
  "run.start": (assistant_id, id, field) => [
    `/threads/${id}/commands`,
    { id: 1, method: "run.start", params: { assistant_id, input: {}, ...field } },
  ],
  "POST /ai/{id}/chat": (assistant_id, id, field) => [
    `/ai/${assistant_id}/chat`,
    { id, trigger: "submit-message", messages: [{ ...MESSAGE, parts: [{ type: "text", text: "Hi" }] }], ...field },
  ],
  "POST /ag-ui/{id}": (assistant_id, threadId, field) => [
    `/ag-ui/${assistant_id}`,
    {
      ...{ threadId, runId: "r1", state: {}, tools: [], context: [], messages: [{ ...MESSAGE, content: "Hi" }] },
      forwardedProps: field,
    },
  ],
};

/** Waits until all runs have ended, and returns them, the newest first. */
async function listEndedRuns({ kit }: World): Promise<readonly JsonObject[]> {
  const { runs } = kit.service;
  for (;;) {
    const { items } = await runs.search({});
    if (items.every(({ ended_at }) => ended_at !== null)) return items as unknown as JsonObject[];
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

for (const [way, createRequest] of Object.entries(REQUESTS)) {
  describe(`${way} with assistant_version`, () => {
    it("runs that version, and the active one without it", async () => {
      await using world = await openWorld();
      const { assistant_id, send } = world;
      for (const field of [{ assistant_version: 1 }, { assistant_version: 3 }, {}]) {
        const [path, body] = createRequest(assistant_id, await world.newThread(), field);
        assert.equal((await send("POST", path, body)).status, 200);
        await listEndedRuns(world);
      }
      assert.deepEqual(world.tones, [1, 3, 3]);
      const runs = await listEndedRuns(world);
      assert.deepEqual(runs.map(({ assistant_version }) => assistant_version).reverse(), [1, 3, 3]);
    });

    it("refuses an unknown version and what is no version, and creates nothing", async () => {
      await using world = await openWorld();
      const { assistant_id, send, kit } = world;
      const thread_id = await world.newThread();
      const isCommand = way === "run.start";
      for (const [version, status] of [
        [UNKNOWN, 404],
        [0, 422],
        [1.5, 422],
        ["1", 422],
      ] as const) {
        const [path, body] = createRequest(assistant_id, thread_id, { assistant_version: version });
        const response = await send("POST", path, body);
        assert.equal(response.status, isCommand ? 200 : status, `${version} ${JSON.stringify(response.body)}`);
        if (isCommand) assert.equal((response.body as JsonObject).type, "error");
        const text = JSON.stringify(response.body);
        // Pages of the AI SDK show the text of an error, which names nothing that is not found.
        assert.match(text, status === 404 ? /has no version 9|^"Not found"$/ : /assistant_version/);
      }
      assert.deepEqual((await kit.service.runs.search({})).items, []);
      assert.equal((await kit.service.threads.search({})).total, 1);
    });
  });
}

describe("a version in config", () => {
  it("is that of the run, for SDKs that omit unknown members, and is not stored", async () => {
    await using world = await openWorld();
    const { assistant_id, send, kit } = world;
    const thread_id = await world.newThread();
    const path = `/threads/${thread_id}/runs/wait`;
    const config = { assistant_version: 2, tags: ["x"] };
    assert.equal((await send("POST", path, { assistant_id, input: {}, config })).status, 200);
    assert.equal((await send("POST", path, { assistant_id, input: {} })).status, 200);
    assert.deepEqual(world.tones, [2, 3]);
    const [second, first] = await kit.service.runs.list(thread_id);
    assert.deepEqual([first?.assistant_version, second?.assistant_version], [2, 3]);
    assert.doesNotMatch(JSON.stringify([first?.kwargs, await kit.service.threads.get(thread_id)]), /assistant_version/);
  });

  it("may repeat that of the request, but not differ from it", async () => {
    await using world = await openWorld();
    const { assistant_id, send } = world;
    const request = { assistant_id, assistant_version: 2, input: {} };
    assert.equal((await send("POST", "/runs/wait", { ...request, config: { assistant_version: 2 } })).status, 200);
    const refused = await send("POST", "/runs/wait", { ...request, config: { assistant_version: 1 } });
    assert.deepEqual(
      [refused.status, refused.body],
      [422, { detail: "assistant_version: must be one integer from 1", code: "invalid" }],
    );
    const wrong = await send("POST", "/runs/wait", { assistant_id, config: { assistant_version: "2" } });
    assert.deepEqual(
      [wrong.status, wrong.body],
      [422, { detail: "assistant_version: must be one integer from 1", code: "invalid" }],
    );
  });
});

describe("an answer to an interrupt", () => {
  it("runs the active version unless it names one", async () => {
    await using world = await openWorld();
    const { assistant_id, send } = world;
    for (const field of [{}, { assistant_version: 2 }]) {
      const thread_id = await world.newThread();
      const question = { assistant_id, assistant_version: 1, input: { asks: true } };
      await send("POST", `/threads/${thread_id}/runs/wait`, question);
      const state = (await send("GET", `/threads/${thread_id}/state`)).body as {
        readonly interrupts: readonly { readonly id: string }[];
      };
      const params = { interrupt_id: state.interrupts[0]?.id, response: "yes", namespace: [], ...field };
      const answered = await send("POST", `/threads/${thread_id}/commands`, { id: 1, method: "input.respond", params });
      assert.equal((answered.body as JsonObject).type, "success", JSON.stringify(answered.body));
      await listEndedRuns(world);
    }
    assert.deepEqual(world.tones, [1, 3, 1, 2]);
  });
});

describe("a cron with assistant_version", () => {
  it("creates runs of that version, and of the active one after null", async () => {
    await using world = await openWorld();
    const { assistant_id, send, kit } = world;
    const cron = { assistant_id, schedule: "0 0 1 1 *", assistant_version: 1, input: {} };
    const { body, status } = await send("POST", "/runs/crons", cron);
    assert.equal(status, 200);
    const { cron_id, payload } = body as { readonly cron_id: string; readonly payload: JsonObject };
    assert.equal(payload.assistant_version, 1);
    await send("POST", `/greenroom/crons/${cron_id}/run`);
    await listEndedRuns(world);
    await send("PATCH", `/runs/crons/${cron_id}`, { assistant_version: 2 });
    await send("POST", `/greenroom/crons/${cron_id}/run`);
    await listEndedRuns(world);
    await send("PATCH", `/runs/crons/${cron_id}`, { assistant_version: null });
    await send("POST", `/greenroom/crons/${cron_id}/run`);
    await listEndedRuns(world);
    assert.deepEqual(world.tones, [1, 2, 3]);
    const unchanged = await send("PATCH", `/runs/crons/${cron_id}`, { assistant_version: UNKNOWN });
    assert.equal(unchanged.status, 404);
    assert.equal((await kit.service.crons.get(cron_id)).payload.assistant_version, undefined);
  });

  it("is refused for an unknown version, on a thread too, and creates nothing", async () => {
    await using world = await openWorld();
    const { assistant_id, send, kit } = world;
    const cron = { assistant_id, schedule: "@daily", assistant_version: UNKNOWN };
    const thread_id = crypto.randomUUID();
    for (const path of ["/runs/crons", `/threads/${thread_id}/runs/crons`]) {
      const refused = await send("POST", path, { ...cron, ...(path.length > 20 ? { if_not_exists: "create" } : {}) });
      assert.deepEqual(
        [refused.status, refused.body],
        [404, { detail: `Assistant ${assistant_id} has no version 9`, code: "not_found" }],
      );
    }
    assert.equal(await kit.service.crons.count(), 0);
    assert.equal(await kit.service.threads.count(), 0);
  });
});

describe("a version whose metadata a caller may not see", () => {
  it("answers as an unknown one does", async () => {
    const agents = { echo: () => "Hi" };
    const owned = ({ user }: { readonly user: { readonly identity: string } }) => ({ owner: user.identity });
    await using world = await customWorld({ agents, on: { "*": () => true, assistants: owned } });
    const { assistants } = world.it.service;
    const { assistant_id } = await assistants.create({ graph_id: "echo", metadata: { owner: "bob" } });
    await assistants.update(assistant_id, { metadata: { owner: "ann" } });
    const run = async (assistant_version: number) =>
      await world.ask("ann", "POST", "/runs/wait", { assistant_id, assistant_version, input: {} });
    assert.equal((await run(2)).status, 200);
    const [hidden, unknown] = [await run(1), await run(UNKNOWN)];
    assert.deepEqual([hidden.status, unknown.status], [404, 404]);
    assert.equal(JSON.stringify(hidden.body).replace("version 1", "version 9"), JSON.stringify(unknown.body));
  });

  it("is named to the handler of new runs, which cannot change it", async () => {
    const seen: unknown[] = [];
    const agents = { echo: () => "Hi" };
    const change = ({ value }: { readonly value: Record<string, unknown> }) => {
      seen.push([value.assistant_version, (value.kwargs as JsonObject).assistant_version]);
      value.assistant_version = 1;
      return true;
    };
    await using world = await customWorld({ agents, on: { "*": () => true, "threads:create_run": change as never } });
    const { assistants, runs } = world.it.service;
    const { assistant_id } = await assistants.create({ graph_id: "echo" });
    for (const name of ["Two", "Three"]) await assistants.update(assistant_id, { name });
    const { thread_id } = await world.it.service.threads.create();
    const path = `/threads/${thread_id}/runs/wait`;
    await world.ask("ann", "POST", path, { assistant_id, assistant_version: 2, input: {} });
    await world.ask("ann", "POST", path, { assistant_id, input: {} });
    assert.deepEqual(seen, [
      [2, undefined],
      [undefined, undefined],
    ]);
    const list = await runs.list(thread_id);
    assert.deepEqual(
      list.map(({ assistant_version }) => assistant_version),
      [3, 2],
    );
  });
});
