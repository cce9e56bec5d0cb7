/** Runs of graphs whose context does not fit the schema that the graph declares: refused as those of function agents are. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { z } from "zod";
import { type AgentDefinition, agent, type JsonObject } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";

const context = z.object({ tier: z.enum(["free", "pro"]), limit: z.number().default(10) });
const PRO = { context: { tier: "pro" } };
const INPUT = { messages: [{ role: "user", content: "Hi" }] };

type Context = z.input<typeof context>;
const createBuilder = () =>
  new StateGraph(MessagesAnnotation, { context })
    .addNode("reply", (_state, { context: given }) => ({
      messages: [{ role: "assistant", content: `${(given as Context | undefined)?.tier}` }],
    }))
    .addEdge(START, "reply");
const graph = createBuilder().compile();

/** The same agent as a graph and as a function. */
const AGENTS: Readonly<Record<string, AgentDefinition | { readonly graph: typeof graph }>> = {
  graph: { graph },
  function: agent({ context }, ({ context: given }) => given.tier),
};

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function post(kit: TestService, path: string, body: object): Promise<Answer> {
  const response = await kit.fetch(`http://localhost${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.text() };
}

/** Requests of every protocol that starts a run. `name` is the graph id of the agent. */
const REQUESTS: Readonly<Record<string, (name: string) => readonly [path: string, body: object]>> = {
  wait: (name) => ["/runs/wait", { assistant_id: name, input: INPUT }],
  stream: (name) => ["/runs/stream", { assistant_id: name, input: INPUT, context: { tier: "gold", limit: "x" } }],
  "a run on a new thread": (name) => [
    "/threads/7a9d5c1e-52b4-4f0e-9d36-2f1b8c6a4e10/runs",
    { assistant_id: name, input: INPUT, if_not_exists: "create" },
  ],
  "a batch": (name) => ["/runs/batch", [{ assistant_id: name, input: INPUT, ...PRO }, { assistant_id: name }]],
  "a cron": (name) => ["/runs/crons", { assistant_id: name, schedule: "0 0 1 1 *", input: INPUT }],
  "the event protocol": (name) => [
    "/threads/7a9d5c1e-52b4-4f0e-9d36-2f1b8c6a4e10/commands",
    { id: 1, method: "run.start", params: { assistant_id: name, input: INPUT } },
  ],
  "the AI SDK": (name) => [
    `/ai/${name}/chat`,
    {
      id: "7a9d5c1e-52b4-4f0e-9d36-2f1b8c6a4e10",
      trigger: "submit-message",
      messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Hi" }] }],
    },
  ],
  "AG-UI": (name) => [
    `/ag-ui/${name}`,
    {
      threadId: "7a9d5c1e-52b4-4f0e-9d36-2f1b8c6a4e10",
      runId: "run-1",
      messages: [{ id: "m1", role: "user", content: "Hi" }],
    },
  ],
  MCP: (name) => [
    "/mcp",
    { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: { messages: INPUT.messages } } },
  ],
  A2A: (name) => [
    `/a2a/${name}`,
    {
      jsonrpc: "2.0",
      id: 1,
      method: "message/send",
      params: { message: { kind: "message", messageId: "m1", role: "user", parts: [{ kind: "text", text: "Hi" }] } },
    },
  ],
};

const countRuns = async ({ service }: TestService): Promise<number> => (await service.runs.search({})).items.length;

describe("the context of a graph with a schema of zod", () => {
  for (const [protocol, createRequest] of Object.entries(REQUESTS)) {
    it(`is refused as that of a function is, with its place and without a run: ${protocol}`, async () => {
      const answers: Answer[] = [];
      for (const name of Object.keys(AGENTS)) {
        await using kit = await testService({ agents: AGENTS });
        answers.push(await post(kit, ...createRequest(name)));
        assert.equal(await countRuns(kit), 0);
      }
      const [ofGraph, ofFunction] = answers;
      assert.deepEqual(ofGraph, ofFunction);
      assert.match(ofGraph?.body ?? "", /context[^a-z]+tier/);
      // These protocols tell an error in the body of a success.
      const status = ["MCP", "A2A", "the event protocol"].includes(protocol) ? 200 : 422;
      assert.equal(ofGraph?.status, status, JSON.stringify(ofGraph));
    });
  }

  it("is accepted if assistant and run together fit, also by the configuration, and with defaults left out", async () => {
    await using kit = await testService({ agents: { graph } });
    const { assistant_id } = await kit.service.assistants.create({ graph_id: "graph", ...PRO });
    const requests = [
      { assistant_id },
      { assistant_id: "graph", ...PRO },
      { assistant_id: "graph", config: { configurable: { tier: "pro" } } },
      { assistant_id: "graph", context: { tier: "pro", more: 1 } },
    ];
    for (const request of requests) {
      const { status, body } = await post(kit, "/runs/wait", { input: INPUT, ...request });
      assert.equal(status, 200, body);
      const { messages } = JSON.parse(body) as { readonly messages: readonly { readonly content: string }[] };
      assert.equal(messages.at(-1)?.content, "pro");
    }
    const refused = await post(kit, "/runs/wait", { assistant_id, input: INPUT, context: { tier: "gold" } });
    assert.equal(refused.status, 422);
    const { code, detail } = JSON.parse(refused.body) as {
      readonly code: string;
      readonly detail: readonly JsonObject[];
    };
    assert.equal(code, "invalid");
    assert.deepEqual(
      detail.map(({ loc }) => loc),
      [["body", "context", "tier"]],
    );
  });

  it("is refused with an answer, and the question stays open", async () => {
    const asks = new StateGraph(Annotation.Root({ answer: Annotation<string>() }), { context })
      .addNode("ask", () => ({ answer: interrupt("Sure?") as string }))
      .addEdge(START, "ask")
      .compile();
    await using kit = await testService({ agents: { asks } });
    const { thread_id } = await kit.service.threads.create();
    const run = (request: object): Promise<Answer> =>
      post(kit, `/threads/${thread_id}/runs/wait`, { assistant_id: "asks", ...request });
    assert.equal((await run({ input: {}, ...PRO })).status, 200);
    assert.equal((await run({ command: { resume: "yes" } })).status, 422);
    assert.equal((await run({ input: null })).status, 422);
    assert.equal((await kit.service.threads.get(thread_id)).status, "interrupted");
    assert.equal((await run({ command: { resume: "yes" }, ...PRO })).body, '{"answer":"yes"}');
  });

  it("fails the run of a factory, whose graph is not known before", async () => {
    await using kit = await testService({ agents: { made: { graph: () => graph, max_attempts: 1 } } });
    const { status, body } = await post(kit, "/runs/wait", { assistant_id: "made", input: INPUT });
    assert.equal(status, 200);
    assert.match(body, /__error__/);
  });

  it("is any object without a schema of zod", async () => {
    const annotated = new StateGraph(MessagesAnnotation, Annotation.Root({ tier: Annotation<"pro">() }))
      .addNode("reply", () => ({ messages: [{ role: "assistant", content: "Hi" }] }))
      .addEdge(START, "reply");
    await using kit = await testService({ agents: { annotated } });
    const wait = (more: object): Promise<Answer> =>
      post(kit, "/runs/wait", { assistant_id: "annotated", input: INPUT, ...more });
    assert.equal((await wait({ context: { tier: 5 } })).status, 200);
    assert.equal((await wait({})).status, 200);
  });
});
