/** Graphs and tools receive the user of custom authentication, also after a restart. No response contains it. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { AIMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { interrupt, type LangGraphRunnableConfig, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { combine, type FunctionJob, fromFunctions, type JsonObject } from "../../lib/mod.ts";
import { serviceInternals } from "../../lib/service.ts";
import { customWorld, type World, type WorldOptions } from "../lib/auth/custom-auth.harness.ts";

const CANARY = {
  identity: "canary-identity",
  permission: "canary-permission",
  display_name: "canary-name",
  token: "canary-token",
  email: "canary@example.com",
};
const USER = {
  identity: CANARY.identity,
  permissions: [CANARY.permission],
  display_name: CANARY.display_name,
  is_authenticated: true,
  token: CANARY.token,
  email: CANARY.email,
};
const MODES = ["values", "updates", "messages", "messages-tuple", "debug", "tasks", "checkpoints", "events", "custom"];

/** Observations of the user: `[source, user, id, permissions]`. */
type Observations = [place: string, ...rest: unknown[]][];

function createExecutor(observations: Observations): NonNullable<WorldOptions["executor"]> {
  const see = (source: string, configurable: Readonly<Record<string, unknown>> = {}): void => {
    const { langgraph_auth_user, langgraph_auth_user_id, langgraph_auth_permissions } = configurable;
    observations.push([source, langgraph_auth_user, langgraph_auth_user_id, langgraph_auth_permissions]);
  };
  const whoami = tool(
    (_input, config: LangGraphRunnableConfig) => {
      see("tool", config.configurable);
      return "known";
    },
    { name: "whoami", description: "Says who asks", schema: { type: "object", properties: {} } },
  );
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("agent", (_state, config: LangGraphRunnableConfig) => {
      see("node", config.configurable);
      config.writer?.({ told: true });
      return { messages: [new AIMessage({ content: "", tool_calls: [{ name: "whoami", args: {}, id: "call" }] })] };
    })
    .addNode("tools", new ToolNode([whoami]))
    .addNode("ask", (_state, config: LangGraphRunnableConfig) => {
      const answer = interrupt("sure?");
      see(`answered ${answer}`, config.configurable);
      return { messages: [] };
    })
    .addEdge(START, "agent")
    .addEdge("agent", "tools")
    .addEdge("tools", "ask")
    .compile();
  const functions = {
    async *plain(job: FunctionJob) {
      observations.push(["job", job.user]);
      see("config", job.config.configurable);
      job.emit("told");
      yield { messages: [] };
    },
    bad: () => Promise.reject(new Error("it failed")),
  };
  return combine(langgraph({ graph }), fromFunctions(functions));
}

const open = (observations: Observations, options: WorldOptions = {}): Promise<World> =>
  customWorld({
    executor: createExecutor(observations),
    claims: () => {
      const { identity: _, ...claims } = USER;
      return claims;
    },
    ...options,
  });

describe("the user of custom authentication", () => {
  it("reaches nodes, tools and functions, whatever the request contains", async () => {
    const observations: Observations = [];
    await using world = await open(observations);
    const forged = { langgraph_auth_user: { identity: "admin" }, langgraph_auth_user_id: "admin", langgraph_auth_x: 1 };
    const config = { configurable: forged };
    const { assistant_id } = (await world.ask(CANARY.identity, "POST", "/assistants", { graph_id: "graph", config }))
      .body;
    for (const id of [assistant_id, "plain"]) {
      const { status } = await world.ask(CANARY.identity, "POST", "/runs/wait", {
        assistant_id: id,
        input: {},
        config,
      });
      assert.equal(status, 200);
    }
    const expectedUser = [USER, USER.identity, USER.permissions];
    assert.deepEqual(observations, [
      ["node", ...expectedUser],
      ["tool", ...expectedUser],
      ["job", USER],
      ["config", ...expectedUser],
    ]);
  });

  it("is null without authentication, whatever the request contains", async () => {
    const observations: Observations = [];
    await using world = await open(observations);
    const config = { configurable: { langgraph_auth_user: { identity: "admin" }, LANGGRAPH_AUTH_USER_ID: "admin" } };
    const { service } = world.it;
    const { assistant_id } = await service.assistants.create({ graph_id: "plain", config });
    const { thread_id } = await service.threads.create({});
    await (await service.runs.wait(thread_id, { assistant_id, config })).result;
    assert.deepEqual(observations, [
      ["job", null],
      ["config", undefined, undefined, undefined],
    ]);
    assert.equal(JSON.stringify(await service.threads.get(thread_id)).includes("admin"), false);
  });

  it("is the creator of the run, also after a restart", async () => {
    const folder = await mkdtemp(join(tmpdir(), "greenroom-user-"));
    const storage = () => nodeSqlite(join(folder, "user.db"));
    const observations: Observations = [];
    try {
      const before = await open(observations, { storage: storage(), worker: { concurrency: 0 } });
      const { thread_id } = (await before.ask(CANARY.identity, "POST", "/threads", {})).body;
      const waiting = await before.ask(CANARY.identity, "POST", `/threads/${thread_id}/runs`, {
        assistant_id: "graph",
        input: {},
      });
      await before[Symbol.asyncDispose]();
      assert.deepEqual(observations, []);

      await using world = await open(observations, { storage: storage() });
      const run = `/threads/${thread_id}/runs/${waiting.body.run_id}`;
      assert.equal((await world.ask("another", "GET", `${run}/join`)).status, 200);
      const expectedUser = [USER, USER.identity, USER.permissions];
      assert.deepEqual(observations.splice(0), [
        ["node", ...expectedUser],
        ["tool", ...expectedUser],
      ]);
      const answer = { assistant_id: "graph", command: { resume: "yes" } };
      await world.ask("another", "POST", `/threads/${thread_id}/runs/wait`, answer);
      const anotherUser = { ...USER, identity: "another" };
      assert.deepEqual(observations, [["answered yes", anotherUser, "another", USER.permissions]]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("appears in no response, frame, checkpoint, webhook and log", async () => {
    const observations: Observations = [];
    const webhookTexts: string[] = [];
    const all = Promise.withResolvers<void>();
    await using world = await open(observations, {
      webhooks: {
        loopback: async (request) => {
          webhookTexts.push(`${JSON.stringify([...request.headers])} ${await request.text()}`);
          if (webhookTexts.length === 3) all.resolve();
          return new Response(null, { status: 204 });
        },
      },
    });
    const heard: string[] = [];
    const ask = async (method: string, path: string, body?: unknown): Promise<JsonObject> => {
      const answer = await world.ask(CANARY.identity, method, path, body);
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
      heard.push(`${method} ${path}: ${JSON.stringify([...answer.headers])} ${answer.text}`);
      return answer.body;
    };
    const { storage } = serviceInternals(world.it.service).options;
    for (const assistant_id of ["graph", "plain", "bad"]) {
      const { thread_id } = await ask("POST", "/threads", {});
      const thread = `/threads/${thread_id}`;
      const run = { assistant_id, input: {}, stream_mode: MODES, stream_subgraphs: true, stream_resumable: true };
      await ask("POST", `${thread}/runs/stream`, { ...run, webhook: "/told" });
      await ask("POST", "/runs/wait", { assistant_id, input: {} });
      for (const path of ["", "/runs", "/state?subgraphs=true", "/history"]) await ask("GET", `${thread}${path}`);
      const runs = await storage.listRuns({ deployment: "default" }, thread_id as string, { limit: 9, offset: 0 });
      for (const { run_id } of runs) {
        for (const path of ["", "/join", "/stream"]) await ask("GET", `${thread}/runs/${run_id}${path}`);
      }
      const checkpoints = await storage.listCheckpoints({ deployment: "default" }, thread_id as string, { limit: 99 });
      heard.push(`checkpoints: ${JSON.stringify(checkpoints)}`);
      const row = await storage.getThread({ deployment: "default" }, thread_id as string);
      heard.push(`thread: ${JSON.stringify(row)}`);
    }
    await ask("POST", "/threads/search", {});
    await all.promise;
    heard.push(...webhookTexts.map((text) => `webhook: ${text}`), `log: ${JSON.stringify(world.it.log)}`);
    assert.ok(observations.length >= 8, "graphs were told");
    assert.ok(
      heard.some((text) => text.includes("event: debug")) && heard.some((text) => text.includes("event: events")),
    );
    for (const text of heard) {
      for (const secret of Object.values(CANARY)) assert.ok(!text.includes(secret), `${secret} in ${text}`);
    }
  });
});
