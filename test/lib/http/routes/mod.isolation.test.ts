/**
 * Every route of the server, and every call of `service.as`, asked for what is the caller's own, another tenant's, and nobody's: the
 * last two answers are the same, byte for byte. A route or a call without a row fails.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { AuthContext } from "../../../../lib/auth/custom.ts";
import { loadAllRoutes } from "../../../../lib/http/routes/mod.ts";
import type { JsonObject } from "../../../../lib/json.ts";
import { serviceInternals } from "../../../../lib/service.ts";
import { until } from "../../../support/until.ts";
import { createUser } from "../../../support/users.ts";
import { AGENT, CALLS, CRON, type ResourceIds } from "../../auth/authorized-calls.ts";
import { customWorld, owning, type World } from "../../auth/custom-auth.harness.ts";

const ROUTES = await loadAllRoutes();

interface Row {
  /** The status for own ids and for ids that do not exist. */
  readonly ownStatus: number;
  readonly absent: number;
  readonly query?: (ids: ResourceIds) => string;
  readonly body?: (ids: ResourceIds) => unknown;
  /** The status for ids of another tenant, and why it differs from that of absent ids. */
  readonly exception?: readonly [status: number, why: string];
}

const requireExisting = (ownStatus: number, fields: Partial<Row> = {}): Row => ({ ownStatus, absent: 404, ...fields });
const empty = (fields: Partial<Row>): Row => ({ ownStatus: 200, absent: 200, ...fields });
/** A route whose caller names no id. */
const same = (status: number, body?: unknown): Row => ({ ownStatus: status, absent: status, body: () => body });
const open = same(200);
const notBuilt = same(501);
const CLAIMED = [409, "an id that a client has made is taken, whatever if_exists says"] as const;

const ROWS: Readonly<Record<string, Row>> = {
  "POST /runs/crons/search": empty({ body: ({ thread_id, mark }) => ({ thread_id, metadata: { mark } }) }),
  "POST /runs/crons/count": empty({ body: ({ assistant_id }) => ({ assistant_id }) }),
  "POST /runs/crons": requireExisting(200, { body: ({ assistant_id }) => ({ ...CRON, assistant_id }) }),
  "GET /runs/crons/:cron_id": requireExisting(200),
  "PATCH /runs/crons/:cron_id": requireExisting(200, { body: () => ({ enabled: false }) }),
  "DELETE /runs/crons/:cron_id": requireExisting(204),
  "POST /threads/:thread_id/runs/crons": requireExisting(200, {
    body: ({ assistant_id }) => ({ ...CRON, assistant_id }),
  }),

  "POST /runs/stream": requireExisting(200, { body: ({ assistant_id }) => ({ ...AGENT, assistant_id }) }),
  "POST /runs/wait": requireExisting(200, { body: ({ assistant_id }) => ({ ...AGENT, assistant_id }) }),
  "POST /runs/batch": requireExisting(200, { body: ({ assistant_id }) => [AGENT, { ...AGENT, assistant_id }] }),
  "POST /runs/cancel": requireExisting(204, { body: ({ thread_id, run_id }) => ({ thread_id, run_ids: [run_id] }) }),
  "POST /runs": requireExisting(200, { body: ({ assistant_id }) => ({ ...AGENT, assistant_id }) }),
  "GET /runs/:stateless_run_id/stream": requireExisting(200),
  "POST /threads/:thread_id/runs/stream": requireExisting(200, {
    body: ({ assistant_id }) => ({ ...AGENT, assistant_id }),
  }),
  "POST /threads/:thread_id/runs/wait": requireExisting(200, {
    body: ({ checkpoint_id }) => ({ ...AGENT, checkpoint_id }),
  }),
  "POST /threads/:thread_id/runs": requireExisting(200, { body: () => AGENT }),
  "GET /threads/:thread_id/runs": requireExisting(200),
  "GET /threads/:thread_id/runs/:run_id": requireExisting(200),
  "DELETE /threads/:thread_id/runs/:run_id": requireExisting(204),
  "POST /threads/:thread_id/runs/:run_id/cancel": requireExisting(202),
  "GET /threads/:thread_id/runs/:run_id/join": requireExisting(200),
  "GET /threads/:thread_id/runs/:run_id/steps": requireExisting(200),
  "GET /threads/:thread_id/runs/:run_id/trace": requireExisting(200),
  "GET /threads/:thread_id/runs/:run_id/trace/stream": requireExisting(200),
  "DELETE /threads/:thread_id/runs/:run_id/trace": requireExisting(204),
  "GET /greenroom/traces": empty({ query: ({ thread_id }) => `?thread_id=${thread_id}` }),
  "GET /greenroom/traces/:stateless_run_id": requireExisting(200),
  "GET /greenroom/traces/:stateless_run_id/stream": requireExisting(200),
  "POST /threads/:thread_id/events/:name": { ownStatus: 404, absent: 404, body: () => ({ sent: true }) },
  "POST /greenroom/events/:address": same(404, { sent: true }),
  "GET /threads/:thread_id/runs/:run_id/stream": requireExisting(200),
  "GET /threads/:thread_id/stream": requireExisting(200),

  "POST /threads/search": empty({ body: ({ thread_id, mark }) => ({ ids: [thread_id], metadata: { mark } }) }),
  "POST /threads/count": empty({ body: ({ mark }) => ({ metadata: { mark } }) }),
  "POST /threads/prune": empty({ body: ({ thread_id }) => ({ thread_ids: [thread_id] }) }),
  "POST /threads": {
    ownStatus: 200,
    absent: 200,
    body: ({ thread_id }) => ({ thread_id, if_exists: "do_nothing" }),
    exception: CLAIMED,
  },
  "POST /threads/:thread_id/copy": requireExisting(200, { absent: 409 }),
  "GET /threads/:thread_id/state": requireExisting(200),
  "POST /threads/:thread_id/state": requireExisting(200, {
    body: ({ checkpoint_id }) => ({ values: { said: 2 }, checkpoint_id }),
  }),
  "PATCH /threads/:thread_id/state": requireExisting(204, { body: () => ({ metadata: { a: 1 } }) }),
  "POST /threads/:thread_id/state/checkpoint": requireExisting(200, {
    body: ({ checkpoint_id }) => ({ checkpoint: { checkpoint_id } }),
  }),
  "GET /threads/:thread_id/state/:checkpoint_id": requireExisting(200),
  "GET /threads/:thread_id/history": requireExisting(200),
  "POST /threads/:thread_id/history": requireExisting(200, { body: () => ({ limit: 5 }) }),
  "GET /threads/:thread_id": requireExisting(200),
  "PATCH /threads/:thread_id": requireExisting(200, { body: () => ({ metadata: { a: 1 } }) }),
  "DELETE /threads/:thread_id": requireExisting(204),

  "POST /assistants/search": empty({ body: ({ mark }) => ({ metadata: { mark } }) }),
  "POST /assistants/count": empty({ body: ({ mark }) => ({ metadata: { mark } }) }),
  "POST /assistants": {
    ownStatus: 200,
    absent: 200,
    body: ({ assistant_id }) => ({ graph_id: "agent", assistant_id, if_exists: "do_nothing" }),
    exception: CLAIMED,
  },
  "POST /assistants/:assistant_id/versions": requireExisting(200, { body: () => ({}) }),
  "POST /assistants/:assistant_id/latest": requireExisting(200, { body: () => ({ version: 1 }) }),
  "GET /assistants/:assistant_id/graph": requireExisting(200),
  "GET /assistants/:assistant_id/schemas": requireExisting(200),
  "GET /assistants/:assistant_id/subgraphs": requireExisting(200),
  "GET /assistants/:assistant_id/subgraphs/:namespace": requireExisting(200),
  "GET /assistants/:assistant_id": requireExisting(200),
  "PATCH /assistants/:assistant_id": requireExisting(200, { body: () => ({ name: "new" }) }),
  "DELETE /assistants/:assistant_id": requireExisting(204, { query: () => "?delete_threads=true" }),

  "PUT /store/items": {
    ownStatus: 204,
    absent: 204,
    body: ({ key }) => ({ namespace: ["walk"], key, value: { owner: "bob" } }),
    exception: [403, "a put over what a handler hides is refused"],
  },
  "GET /store/items": requireExisting(200, { query: ({ key }) => `?namespace=walk&key=${key}` }),
  "DELETE /store/items": { ownStatus: 204, absent: 204, body: ({ key }) => ({ namespace: ["walk"], key }) },
  "POST /store/items/search": empty({ body: ({ mark }) => ({ namespace_prefix: ["walk"], filter: { mark } }) }),
  "POST /store/namespaces": empty({ body: ({ mark }) => ({ prefix: ["walk", mark] }) }),

  "GET /greenroom/runs": empty({ query: ({ thread_id }) => `?thread_id=${thread_id}` }),
  "GET /greenroom/runs/stats": open,
  "GET /greenroom/runs/:run_id": requireExisting(200),
  "POST /greenroom/runs/:run_id/again": requireExisting(200),
  "GET /greenroom/threads": empty({ query: ({ mark }) => `?metadata={"mark":"${mark}"}` }),
  "GET /greenroom/inbox": empty({ query: ({ assistant_id }) => `?assistant_id=${assistant_id}` }),
  "GET /greenroom/webhooks": empty({ query: ({ thread_id }) => `?thread_id=${thread_id}` }),
  "GET /greenroom/webhooks/:run_id": requireExisting(200),
  "POST /greenroom/webhooks/:run_id/send": requireExisting(202),
  "GET /greenroom/crons/preview": { ...open, query: () => "?schedule=@yearly" },
  "GET /greenroom/crons/:cron_id": requireExisting(200),
  "POST /greenroom/crons/:cron_id/run": requireExisting(200),
  "GET /greenroom/feedback/scores": { ...open, query: () => "?start=2026-01-01&end=2028-01-01" },
  "GET /greenroom/feedback/links": open,
  "DELETE /greenroom/feedback/links/:token_id": requireExisting(204),
  "GET /greenroom/server": same(403),

  "GET /ok": open,
  "GET /ready": open,
  "GET /metrics": open,
  "GET /info": open,
  "GET /openapi.json": open,
  "GET /api/v1/info": open,
  "GET /api/v1/workspaces": open,
  "POST /api/v1/feedback/tokens": requireExisting(200, {
    body: ({ trace_id }) => ({ run_id: trace_id, feedback_key: "k" }),
  }),
  "GET /api/v1/feedback/tokens": empty({ query: ({ trace_id }) => `?run_id=${trace_id}` }),
  "GET /api/v1/feedback/stats": empty({ query: ({ trace_id }) => `?run=${trace_id}` }),
  "GET /api/v1/feedback": empty({ query: ({ trace_id }) => `?run=${trace_id}` }),
  "POST /api/v1/feedback": requireExisting(200, { body: ({ trace_id }) => ({ run_id: trace_id, key: "k", score: 1 }) }),
  "GET /api/v1/feedback/:id": requireExisting(200),
  "PATCH /api/v1/feedback/:id": requireExisting(200, { body: () => ({ score: 2 }) }),
  "DELETE /api/v1/feedback/:id": requireExisting(200),
  "GET /api/v1/orgs/current/billing/granular-usage": { ownStatus: 200, absent: 403, query: createUsageQuery },
  "GET /api/v1/orgs/current/billing/granular-usage/export": { ownStatus: 200, absent: 403, query: createUsageQuery },

  "GET /threads/:thread_id/storage": requireExisting(200),
  // A stream waits for its thread.
  "POST /threads/:thread_id/stream/events": empty({ body: () => ({ channels: ["values"] }) }),
  "GET /threads/:thread_id/stream/events": same(426),
  "POST /threads/:thread_id/commands": empty({ body: () => ({ id: 1, method: "state.get" }) }),
  "POST /ag-ui/:assistant_id": {
    ownStatus: 200,
    absent: 404,
    body: ({ thread_id: threadId }) => ({
      ...{ threadId, runId: "r1" },
      messages: [{ id: "u1", role: "user", content: "Hi" }],
    }),
    exception: [404, "an absent thread is created"],
  },
  "POST /ai/:assistant_id/chat": {
    ownStatus: 200,
    absent: 404,
    body: ({ thread_id: id }) => ({
      ...{ id, trigger: "submit-message" },
      messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] }],
    }),
    exception: [404, "an absent chat is begun"],
  },
  "GET /ai/:assistant_id/chat/:thread_id/stream": { ownStatus: 204, absent: 204 },
  "POST /ai/:assistant_id/chat/:thread_id/stop": requireExisting(204),
  "GET /ai/:assistant_id/chat/:thread_id": { ownStatus: 200, absent: 204 },
  "GET /docs": notBuilt,
  "POST /ui/:assistant_id": notBuilt,
  // Its calls are walked in mcp.test.ts.
  "POST /mcp": same(406),
  "GET /mcp": same(405),
  "DELETE /mcp": same(405),
  "GET /.well-known/oauth-protected-resource": same(404),
  "GET /.well-known/oauth-protected-resource/mcp": same(404),
  // Its calls are walked in a2a.test.ts.
  "POST /a2a/:assistant_id": requireExisting(200, {
    body: ({ run_id: id }) => ({ jsonrpc: "2.0", id: 1, method: "GetTask", params: { id } }),
  }),
  "GET /a2a/:assistant_id/.well-known/agent-card.json": requireExisting(200),
  "GET /.well-known/agent-card.json": requireExisting(200, {
    query: ({ assistant_id }) => `?assistant_id=${assistant_id}`,
  }),
};

function createUsageQuery({ workspace_id }: ResourceIds): string {
  const range = "start_time=2026-01-01T00:00:00Z&end_time=2026-01-02T00:00:00Z";
  return `?${range}&workspace_ids=${workspace_id}&group_by=workspace`;
}

/** Lists the routes that depend on the caller, and those that respond with 501, without feedback links. */
const routes = (): string[] =>
  ROUTES.filter(({ public_headers }) => !public_headers).map(({ method, path }) => {
    const named = path
      .replace(":chat_id", ":thread_id")
      .replace(/^\/runs\/:run_id\/stream$/, "/runs/:stateless_run_id/stream")
      .replace(/^\/greenroom\/traces\/:run_id/, "/greenroom/traces/:stateless_run_id")
      .replace(/^\/greenroom\/feedback\/links\/:id$/, "/greenroom/feedback/links/:token_id");
    return `${method.toUpperCase()} ${named}`;
  });

const PERMISSIONS = ["organization:read", "workspaces:read", "feedback:create", "feedback:read", "feedback:delete"];

/** Sets the owner in metadata, and in values of the store. */
const handler = (context: AuthContext): unknown =>
  context.resource === "store" && context.action === "list_namespaces" ? true : owning(context);

interface Answer {
  readonly status: number;
  /** The status and body that a client sees, with ids and times normalized. */
  readonly normalized: string;
}

describe("ids of another tenant", () => {
  let world: World;
  let foreign: string;
  let count = 0;

  before(async () => {
    world = await customWorld({
      on: { "*": handler },
      claims: () => ({ permissions: PERMISSIONS }),
      agents: {
        async *agent({ input, interrupt }) {
          if ((input as JsonObject).ask) yield interrupt("sure?");
          yield { messages: [], said: input };
        },
      },
      public_base_url: "https://walk.example",
      webhooks: {
        transport: {
          resolve: async () => ["93.184.215.14"],
          send: async () => ({ status: 204, retry_after: null, address: "93.184.215.14" }),
        },
      },
    });
    const { accounts } = world.it.service;
    foreign = (await accounts.createWorkspace("Ann's")).id;
  });
  after(() => world[Symbol.asyncDispose]());

  const nobody = (): ResourceIds => {
    const { uuid } = serviceInternals(world.it.service).environment;
    const [run_id, stateless_run_id, trace_id] = [uuid(), uuid(), uuid()];
    const otherIds = {
      assistant_id: uuid(),
      cron_id: uuid(),
      trace_id,
      id: uuid(),
      token_id: uuid(),
      workspace_id: uuid(),
    };
    return {
      thread_id: uuid(),
      run_id,
      stateless_run_id,
      checkpoint_id: uuid(),
      key: uuid(),
      mark: uuid(),
      ...otherIds,
    };
  };

  /** Creates rows of a tenant. Rows of the platform are Bob's if they are in the workspace of the deployment. */
  async function createResources(who: "ann" | "bob"): Promise<ResourceIds> {
    const make = async (method: string, path: string, body?: unknown): Promise<JsonObject> => {
      const answer = await world.ask(who, method, path, body);
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
      return answer.body;
    };
    const mark = `${who}-${++count}`;
    const metadata = { mark };
    const thread_id = (await make("POST", "/threads", { metadata })).thread_id as string;
    const runRequest = { ...AGENT, webhook: "https://hooks.example/in?key=secret" };
    const run_id = (await make("POST", `/threads/${thread_id}/runs`, runRequest)).run_id as string;
    await make("GET", `/threads/${thread_id}/runs/${run_id}/join`);
    const { webhooks } = world.it.service;
    await until(async () => (await webhooks.get(run_id)).state === "delivered");
    const { checkpoint } = await make("GET", `/threads/${thread_id}/state`);
    const stateless_run_id = (await make("POST", "/runs", { ...AGENT, on_completion: "keep" })).run_id as string;
    await make("GET", `/runs/${stateless_run_id}/stream`);
    const assistant_id = (await make("POST", "/assistants", { graph_id: "agent", metadata })).assistant_id as string;
    const { thread_id: asking } = await make("POST", "/threads", { metadata });
    await make("POST", `/threads/${asking}/runs/wait`, { assistant_id, input: { ask: true } });
    const cron = { ...CRON, assistant_id, metadata };
    const cron_id = (await make("POST", `/threads/${thread_id}/runs/crons`, cron)).cron_id as string;
    await make("PUT", "/store/items", { namespace: ["walk"], key: mark, value: { owner: who, mark } });
    const runsPath = count % 4 < 2 ? `/threads/${thread_id}/runs` : "/runs";
    const trace_id = (await make("POST", runsPath, { ...AGENT, on_completion: "keep" })).run_id as string;
    await make("GET", `/runs/${trace_id}/stream`);
    const { id: token } = await make("POST", "/api/v1/feedback/tokens", { run_id: trace_id, feedback_key: "k" });
    const { feedback_id } = await make("GET", `/api/v1/feedback/tokens/${token}?score=1`);
    return {
      ...{ thread_id, run_id, stateless_run_id, assistant_id, cron_id, key: mark, mark, trace_id },
      checkpoint_id: (checkpoint as JsonObject).checkpoint_id as string,
      id: feedback_id as string,
      token_id: token as string,
      workspace_id: who === "ann" ? foreign : world.it.service.deployment.workspace_id,
    };
  }

  async function ask(route: string, row: Row, ids: ResourceIds, method?: string): Promise<Answer> {
    const [verb = "", path = ""] = route.split(" ");
    const requestPath = path
      .replace("*", "x")
      .replace(/:(\w+)/g, (_, name: string) => (name === "namespace" ? "x" : ids[name as keyof ResourceIds]));
    const requestBody = row.body?.(ids);
    const response = await world.it.fetch(`http://greenroom${requestPath}${row.query?.(ids) ?? ""}`, {
      method: method ?? (verb === "ALL" ? "POST" : verb),
      headers: { authorization: "Bearer bob" },
      ...(requestBody === undefined ? {} : { body: JSON.stringify(requestBody) }),
    });
    const { status, headers } = response;
    if (status === 200 && headers.get("content-type") === "text/event-stream") {
      await response.body?.cancel();
      return { status, normalized: "" };
    }
    const plain = [...headers].filter(([name]) => name !== "x-request-id" && name !== "date");
    let normalized = `${status} ${JSON.stringify(plain.sort())} ${await response.text()}`;
    normalized = normalized.replace(/(_uptime_seconds) [\d.]+/, "$1").replace(/"since":.*"minutes":\[.*\]/, "");
    for (const [name, value] of Object.entries(ids)) normalized = normalized.replaceAll(value, `:${name}`);
    return { status, normalized };
  }

  /** Returns the names of the ids that a request of this route contains. */
  function namedBy(route: string, { body, query }: Row, ids: ResourceIds): (keyof ResourceIds)[] {
    const named = new Set(Array.from(route.matchAll(/:(\w+)/g), ([, name]) => name as keyof ResourceIds));
    const watched = new Proxy(ids, {
      get(of, name) {
        named.add(name as keyof ResourceIds);
        return Reflect.get(of, name);
      },
    });
    body?.(watched);
    query?.(watched);
    named.delete("namespace" as keyof ResourceIds);
    return [...named];
  }

  /** Reads everything of Ann's. */
  async function seenByAnn({
    thread_id,
    run_id,
    assistant_id,
    cron_id,
    key,
    trace_id,
    id,
  }: ResourceIds): Promise<string[]> {
    const paths = [
      ...[`/threads/${thread_id}`, `/threads/${thread_id}/state`, `/threads/${thread_id}/runs/${run_id}`],
      ...[`/assistants/${assistant_id}`, `/runs/crons/${cron_id}`, `/store/items?namespace=walk&key=${key}`],
      ...[`/threads/${thread_id}/runs`, `/api/v1/feedback/${id}`, `/api/v1/feedback?run=${trace_id}`],
      `/api/v1/feedback/tokens?run_id=${trace_id}`,
    ];
    const answers = await Promise.all(paths.map((path) => world.ask("ann", "GET", path)));
    for (const { status, text } of answers) assert.equal(status, 200, text);
    return answers.map(({ text }) => text);
  }

  it("are tested on every route", () => {
    const served = routes();
    assert.ok(served.length > 70, `only ${served.length} routes were found`);
    assert.deepEqual([...served].sort(), Object.keys(ROWS).sort());
  });

  for (const [route, row] of Object.entries(ROWS)) {
    it(`get the response of unknown ids: ${route}`, async () => {
      const [annIds, bobIds] = [await createResources("ann"), await createResources("bob")];
      const before = await seenByAnn(annIds);
      const names = namedBy(route, row, bobIds);
      const choices = names.length > 1 ? [names, ...names.map((name) => [name])] : [names];
      for (const [i, choice] of choices.entries()) {
        const absent = nobody();
        const pick = (of: ResourceIds): ResourceIds => ({
          ...bobIds,
          ...Object.fromEntries(choice.map((name) => [name, of[name]])),
        });
        const about = `${route}, ${choice.join(" and ")}`;
        const [theirs, none] = [await ask(route, row, pick(annIds)), await ask(route, row, pick(absent))];
        if (i === 0) assert.equal(none.status, row.absent, `${about}: ${none.normalized}`);
        if (row.exception) {
          const [status, why] = row.exception;
          assert.equal(theirs.status, status, `${about}: ${why}`);
        } else {
          assert.equal(theirs.normalized, none.normalized, about);
        }
        for (const [name, value] of Object.entries(annIds)) {
          const isNamed = choice.includes(name as keyof ResourceIds) || row.exception;
          assert.ok(
            isNamed || !theirs.normalized.includes(value),
            `${about} shows another's ${name}: ${theirs.normalized}`,
          );
        }
        if (route.startsWith("GET ")) {
          const heads = [await ask(route, row, pick(annIds), "HEAD"), await ask(route, row, pick(absent), "HEAD")];
          assert.equal(heads[0]?.normalized, heads[1]?.normalized, `HEAD ${about}`);
        }
      }
      if (/^\w+ \/greenroom\/.*:\w*id\b|:run_id\/trace/.test(route)) {
        const readCode = ({ normalized }: Answer) => normalized.match(/^\d+|"code":"\w+"/g);
        const malformed = Object.fromEntries(
          Object.keys(bobIds).map((name) => [name, "no-id"]),
        ) as unknown as ResourceIds;
        const [of, none] = [await ask(route, row, malformed), await ask(route, row, nobody())];
        // The routes of traces name the place of what is malformed.
        const isTrace = /\/greenroom\/traces\/|:run_id\/trace/.test(route);
        const expected = isTrace ? ["422", '"code":"invalid"'] : readCode(none);
        assert.deepEqual(readCode(of), expected, "an id that is no UUID is as nobody's");
      }
      assert.deepEqual(await seenByAnn(annIds), before, "nothing of it has changed");
      const mine = await ask(route, row, bobIds);
      assert.equal(mine.status, row.ownStatus, mine.normalized);
      const alike = /^POST \/(?:store\/namespaces|threads\/:thread_id\/stream\/events)/.test(route);
      if (row.absent === 200 && names.length > 0 && !row.exception && !alike) {
        assert.notEqual(mine.normalized, (await ask(route, row, nobody())).normalized, "one's own is found");
      }
    });
  }

  /** Returns Bob's resources in process, created for each call as for each request, including calls that only requests have. */
  function nounsOfBob() {
    const { service } = world.it;
    const user = { ...createUser("bob"), permissions: PERMISSIONS };
    const { access, authorizeRequest } = serviceInternals(service);
    const { runs, protocol } = authorizeRequest(() => access.user(user)).resources;
    const nouns = service.as({ user });
    return { ...nouns, runs: { ...runs, ...nouns.runs }, protocol };
  }

  /** Returns the calls of a noun. Those of agents are made by name. */
  const listCalls = (noun: object): readonly string[] =>
    Object.keys(typeof noun === "function" ? (noun("agent") as object) : noun);

  const callerBob = () =>
    world.it.service.caller(new Request("http://greenroom/", { headers: { authorization: "Bearer bob" } }));

  it("are tested in every call of service.as and of requests", () => {
    const calls = Object.entries(nounsOfBob()).flatMap(([noun, verbs]) =>
      listCalls(verbs).map((verb) => `${noun}.${verb}`),
    );
    assert.ok(calls.length > 70, `only ${calls.length} calls were found`);
    assert.deepEqual(calls.sort(), Object.keys(CALLS).sort());
  });

  for (const [name, row] of Object.entries(CALLS)) {
    const { call, exception } = typeof row === "function" ? { call: row, exception: undefined } : row;

    /** Calls in process and returns the normalized result. */
    async function outcome(ids: ResourceIds): Promise<{ readonly normalized: string; readonly error: unknown }> {
      const by = await callerBob();
      let error: unknown;
      let normalized: string;
      try {
        normalized = `${JSON.stringify(await call(nounsOfBob(), ids, by))}`;
      } catch (thrown) {
        error = thrown;
        const { code, message } = thrown as { readonly code?: string; readonly message: string };
        normalized = `${code}: ${message}`;
      }
      for (const [thing, value] of Object.entries(ids)) normalized = normalized.replaceAll(value, `:${thing}`);
      return { normalized, error };
    }

    it(`get the result of unknown ids in process: ${name}`, async () => {
      const [annIds, bobIds] = [await createResources("ann"), await createResources("bob")];
      const before = await seenByAnn(annIds);
      // The call names these ids. With absent ids it changes nothing.
      const named = new Set<keyof ResourceIds>();
      const watched = new Proxy(nobody(), {
        get(of, thing) {
          named.add(thing as keyof ResourceIds);
          return Reflect.get(of, thing);
        },
      });
      const by = await callerBob();
      await (async () => await call(nounsOfBob(), watched, by))().catch(() => {});
      for (const choice of [[...named], ...(named.size > 1 ? [...named].map((idName) => [idName]) : [])]) {
        const pick = (of: ResourceIds): ResourceIds => ({
          ...bobIds,
          ...Object.fromEntries(choice.map((idName) => [idName, of[idName]])),
        });
        const [theirs, none] = [await outcome(pick(annIds)), await outcome(pick(nobody()))];
        const about = `${name}, ${choice.join(" and ")}`;
        if (exception) assert.match(theirs.normalized, new RegExp(`^${exception}: `), about);
        else assert.equal(theirs.normalized, none.normalized, about);
      }
      assert.deepEqual(await seenByAnn(annIds), before, "nothing of it has changed");
      const mine = await outcome(bobIds);
      assert.equal(mine.error, undefined, mine.normalized);
    });
  }
});
