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
import { userNamed } from "../../../support/users.ts";
import { AGENT, CALLS, CRON, type Things } from "../../auth/authorized-calls.ts";
import { customWorld, owning, type World } from "../../auth/custom-auth.harness.ts";

const ROUTES = await loadAllRoutes();

interface Row {
  /** The answer for one's own, and for what is not there. */
  readonly own: number;
  readonly absent: number;
  readonly query?: (its: Things) => string;
  readonly body?: (its: Things) => unknown;
  /** Why the answers for another's and for nobody's differ, and what the first one is. */
  readonly exception?: readonly [status: number, why: string];
}

const found = (own: number, rest: Partial<Row> = {}): Row => ({ own, absent: 404, ...rest });
const empty = (rest: Partial<Row>): Row => ({ own: 200, absent: 200, ...rest });
/** Nothing that a caller names. */
const same = (status: number, body?: unknown): Row => ({ own: status, absent: status, body: () => body });
const open = same(200);
const notBuilt = same(501);
const CLAIMED = [409, "an id that a client has made is taken, whatever if_exists says"] as const;

const ROWS: Readonly<Record<string, Row>> = {
  "POST /runs/crons/search": empty({ body: ({ thread_id, mark }) => ({ thread_id, metadata: { mark } }) }),
  "POST /runs/crons/count": empty({ body: ({ assistant_id }) => ({ assistant_id }) }),
  "POST /runs/crons": found(200, { body: ({ assistant_id }) => ({ ...CRON, assistant_id }) }),
  "GET /runs/crons/:cron_id": found(200),
  "PATCH /runs/crons/:cron_id": found(200, { body: () => ({ enabled: false }) }),
  "DELETE /runs/crons/:cron_id": found(204),
  "POST /threads/:thread_id/runs/crons": found(200, { body: ({ assistant_id }) => ({ ...CRON, assistant_id }) }),

  "POST /runs/stream": found(200, { body: ({ assistant_id }) => ({ ...AGENT, assistant_id }) }),
  "POST /runs/wait": found(200, { body: ({ assistant_id }) => ({ ...AGENT, assistant_id }) }),
  "POST /runs/batch": found(200, { body: ({ assistant_id }) => [AGENT, { ...AGENT, assistant_id }] }),
  "POST /runs/cancel": found(204, { body: ({ thread_id, run_id }) => ({ thread_id, run_ids: [run_id] }) }),
  "POST /runs": found(200, { body: ({ assistant_id }) => ({ ...AGENT, assistant_id }) }),
  "GET /runs/:stateless_run_id/stream": found(200),
  "POST /threads/:thread_id/runs/stream": found(200, { body: ({ assistant_id }) => ({ ...AGENT, assistant_id }) }),
  "POST /threads/:thread_id/runs/wait": found(200, { body: ({ checkpoint_id }) => ({ ...AGENT, checkpoint_id }) }),
  "POST /threads/:thread_id/runs": found(200, { body: () => AGENT }),
  "GET /threads/:thread_id/runs": found(200),
  "GET /threads/:thread_id/runs/:run_id": found(200),
  "DELETE /threads/:thread_id/runs/:run_id": found(204),
  "POST /threads/:thread_id/runs/:run_id/cancel": found(202),
  "GET /threads/:thread_id/runs/:run_id/join": found(200),
  "GET /threads/:thread_id/runs/:run_id/steps": found(200),
  "POST /threads/:thread_id/events/:name": { own: 404, absent: 404, body: () => ({ sent: true }) },
  "POST /greenroom/events/:address": same(404, { sent: true }),
  "GET /threads/:thread_id/runs/:run_id/stream": found(200),
  "GET /threads/:thread_id/stream": found(200),

  "POST /threads/search": empty({ body: ({ thread_id, mark }) => ({ ids: [thread_id], metadata: { mark } }) }),
  "POST /threads/count": empty({ body: ({ mark }) => ({ metadata: { mark } }) }),
  "POST /threads/prune": empty({ body: ({ thread_id }) => ({ thread_ids: [thread_id] }) }),
  "POST /threads": {
    own: 200,
    absent: 200,
    body: ({ thread_id }) => ({ thread_id, if_exists: "do_nothing" }),
    exception: CLAIMED,
  },
  "POST /threads/:thread_id/copy": found(200, { absent: 409 }),
  "GET /threads/:thread_id/state": found(200),
  "POST /threads/:thread_id/state": found(200, {
    body: ({ checkpoint_id }) => ({ values: { said: 2 }, checkpoint_id }),
  }),
  "PATCH /threads/:thread_id/state": found(204, { body: () => ({ metadata: { a: 1 } }) }),
  "POST /threads/:thread_id/state/checkpoint": found(200, {
    body: ({ checkpoint_id }) => ({ checkpoint: { checkpoint_id } }),
  }),
  "GET /threads/:thread_id/state/:checkpoint_id": found(200),
  "GET /threads/:thread_id/history": found(200),
  "POST /threads/:thread_id/history": found(200, { body: () => ({ limit: 5 }) }),
  "GET /threads/:thread_id": found(200),
  "PATCH /threads/:thread_id": found(200, { body: () => ({ metadata: { a: 1 } }) }),
  "DELETE /threads/:thread_id": found(204),

  "POST /assistants/search": empty({ body: ({ mark }) => ({ metadata: { mark } }) }),
  "POST /assistants/count": empty({ body: ({ mark }) => ({ metadata: { mark } }) }),
  "POST /assistants": {
    own: 200,
    absent: 200,
    body: ({ assistant_id }) => ({ graph_id: "agent", assistant_id, if_exists: "do_nothing" }),
    exception: CLAIMED,
  },
  "POST /assistants/:assistant_id/versions": found(200, { body: () => ({}) }),
  "POST /assistants/:assistant_id/latest": found(200, { body: () => ({ version: 1 }) }),
  "GET /assistants/:assistant_id/graph": found(200),
  "GET /assistants/:assistant_id/schemas": found(200),
  "GET /assistants/:assistant_id/subgraphs": found(200),
  "GET /assistants/:assistant_id/subgraphs/:namespace": found(200),
  "GET /assistants/:assistant_id": found(200),
  "PATCH /assistants/:assistant_id": found(200, { body: () => ({ name: "new" }) }),
  "DELETE /assistants/:assistant_id": found(204, { query: () => "?delete_threads=true" }),

  "PUT /store/items": {
    own: 204,
    absent: 204,
    body: ({ key }) => ({ namespace: ["walk"], key, value: { owner: "bob" } }),
    exception: [403, "a put over what a handler hides is refused"],
  },
  "GET /store/items": found(200, { query: ({ key }) => `?namespace=walk&key=${key}` }),
  "DELETE /store/items": { own: 204, absent: 204, body: ({ key }) => ({ namespace: ["walk"], key }) },
  "POST /store/items/search": empty({ body: ({ mark }) => ({ namespace_prefix: ["walk"], filter: { mark } }) }),
  "POST /store/namespaces": empty({ body: ({ mark }) => ({ prefix: ["walk", mark] }) }),

  "GET /greenroom/runs": empty({ query: ({ thread_id }) => `?thread_id=${thread_id}` }),
  "GET /greenroom/runs/stats": open,
  "GET /greenroom/runs/:run_id": found(200),
  "POST /greenroom/runs/:run_id/again": found(200),
  "GET /greenroom/threads": empty({ query: ({ mark }) => `?metadata={"mark":"${mark}"}` }),
  "GET /greenroom/inbox": empty({ query: ({ assistant_id }) => `?assistant_id=${assistant_id}` }),
  "GET /greenroom/webhooks": empty({ query: ({ thread_id }) => `?thread_id=${thread_id}` }),
  "GET /greenroom/webhooks/:run_id": found(200),
  "POST /greenroom/webhooks/:run_id/send": found(202),
  "GET /greenroom/crons/preview": { ...open, query: () => "?schedule=@yearly" },
  "GET /greenroom/crons/:cron_id": found(200),
  "POST /greenroom/crons/:cron_id/run": found(200),
  "GET /greenroom/feedback/scores": { ...open, query: () => "?start=2026-01-01&end=2028-01-01" },
  "GET /greenroom/feedback/links": open,
  "DELETE /greenroom/feedback/links/:token_id": found(204),
  "GET /greenroom/server": same(403),

  "GET /ok": open,
  "GET /ready": open,
  "GET /metrics": open,
  "GET /info": open,
  "GET /openapi.json": open,
  "GET /api/v1/info": open,
  "GET /api/v1/workspaces": open,
  "POST /api/v1/feedback/tokens": found(200, { body: ({ trace_id }) => ({ run_id: trace_id, feedback_key: "k" }) }),
  "GET /api/v1/feedback/tokens": empty({ query: ({ trace_id }) => `?run_id=${trace_id}` }),
  "GET /api/v1/feedback/stats": empty({ query: ({ trace_id }) => `?run=${trace_id}` }),
  "GET /api/v1/feedback": empty({ query: ({ trace_id }) => `?run=${trace_id}` }),
  "POST /api/v1/feedback": found(200, { body: ({ trace_id }) => ({ run_id: trace_id, key: "k", score: 1 }) }),
  "GET /api/v1/feedback/:id": found(200),
  "PATCH /api/v1/feedback/:id": found(200, { body: () => ({ score: 2 }) }),
  "DELETE /api/v1/feedback/:id": found(200),
  "GET /api/v1/orgs/current/billing/granular-usage": { own: 200, absent: 403, query: usageOf },
  "GET /api/v1/orgs/current/billing/granular-usage/export": { own: 200, absent: 403, query: usageOf },

  "GET /threads/:thread_id/storage": found(200),
  // A stream waits for its thread.
  "POST /threads/:thread_id/stream/events": empty({ body: () => ({ channels: ["values"] }) }),
  "GET /threads/:thread_id/stream/events": same(426),
  "POST /threads/:thread_id/commands": empty({ body: () => ({ id: 1, method: "state.get" }) }),
  "POST /ag-ui/:assistant_id": {
    own: 200,
    absent: 404,
    body: ({ thread_id: threadId }) => ({
      ...{ threadId, runId: "r1" },
      messages: [{ id: "u1", role: "user", content: "Hi" }],
    }),
    exception: [404, "an absent thread is created"],
  },
  "POST /ai/:assistant_id/chat": {
    own: 200,
    absent: 404,
    body: ({ thread_id: id }) => ({
      ...{ id, trigger: "submit-message" },
      messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] }],
    }),
    exception: [404, "an absent chat is begun"],
  },
  "GET /ai/:assistant_id/chat/:thread_id/stream": { own: 204, absent: 204 },
  "POST /ai/:assistant_id/chat/:thread_id/stop": found(204),
  "GET /ai/:assistant_id/chat/:thread_id": { own: 200, absent: 204 },
  "GET /docs": notBuilt,
  "POST /ui/:assistant_id": notBuilt,
  // Its calls are walked in mcp.test.ts.
  "POST /mcp": same(406),
  "GET /mcp": same(405),
  "DELETE /mcp": same(405),
  "GET /.well-known/oauth-protected-resource": same(404),
  "GET /.well-known/oauth-protected-resource/mcp": same(404),
  // Its calls are walked in a2a.test.ts.
  "POST /a2a/:assistant_id": found(200, {
    body: ({ run_id: id }) => ({ jsonrpc: "2.0", id: 1, method: "GetTask", params: { id } }),
  }),
  "GET /a2a/:assistant_id/.well-known/agent-card.json": found(200),
  "GET /.well-known/agent-card.json": found(200, { query: ({ assistant_id }) => `?assistant_id=${assistant_id}` }),
};

function usageOf({ workspace_id }: Things): string {
  const range = "start_time=2026-01-01T00:00:00Z&end_time=2026-01-02T00:00:00Z";
  return `?${range}&workspace_ids=${workspace_id}&group_by=workspace`;
}

/** The routes that a caller's identity decides, and those that answer 501: all but the links of feedback. */
const routes = (): string[] =>
  ROUTES.filter(({ public_headers }) => !public_headers).map(({ method, path }) => {
    const named = path
      .replace(":chat_id", ":thread_id")
      .replace(/^\/runs\/:run_id\/stream$/, "/runs/:stateless_run_id/stream")
      .replace(/^\/greenroom\/feedback\/links\/:id$/, "/greenroom/feedback/links/:token_id");
    return `${method.toUpperCase()} ${named}`;
  });

const PERMISSIONS = ["organization:read", "workspaces:read", "feedback:create", "feedback:read", "feedback:delete"];

/** Whose is what: by metadata, and by a member of the store's values. */
const handler = (context: AuthContext): unknown =>
  context.resource === "store" && context.action === "list_namespaces" ? true : owning(context);

interface Answer {
  readonly status: number;
  /** All that a client sees, without what differs from call to call. */
  readonly shown: string;
}

describe("another tenant's things", () => {
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

  const nobody = (): Things => {
    const { uuid } = serviceInternals(world.it.service).environment;
    const [run_id, stateless_run_id, trace_id] = [uuid(), uuid(), uuid()];
    const rest = {
      assistant_id: uuid(),
      cron_id: uuid(),
      trace_id,
      id: uuid(),
      token_id: uuid(),
      workspace_id: uuid(),
    };
    return { thread_id: uuid(), run_id, stateless_run_id, checkpoint_id: uuid(), key: uuid(), mark: uuid(), ...rest };
  };

  /** New things of a tenant. What the platform keeps is Bob's where it is in the deployment's workspace. */
  async function thingsOf(who: "ann" | "bob"): Promise<Things> {
    const make = async (method: string, path: string, body?: unknown): Promise<JsonObject> => {
      const answer = await world.ask(who, method, path, body);
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
      return answer.body;
    };
    const mark = `${who}-${++count}`;
    const metadata = { mark };
    const thread_id = (await make("POST", "/threads", { metadata })).thread_id as string;
    const told = { ...AGENT, webhook: "https://hooks.example/in?key=secret" };
    const run_id = (await make("POST", `/threads/${thread_id}/runs`, told)).run_id as string;
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
    const place = count % 4 < 2 ? `/threads/${thread_id}/runs` : "/runs";
    const trace_id = (await make("POST", place, { ...AGENT, on_completion: "keep" })).run_id as string;
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

  async function ask(route: string, row: Row, its: Things, method?: string): Promise<Answer> {
    const [verb = "", path = ""] = route.split(" ");
    const place = path
      .replace("*", "x")
      .replace(/:(\w+)/g, (_, name: string) => (name === "namespace" ? "x" : its[name as keyof Things]));
    const sent = row.body?.(its);
    const response = await world.it.fetch(`http://greenroom${place}${row.query?.(its) ?? ""}`, {
      method: method ?? (verb === "ALL" ? "POST" : verb),
      headers: { authorization: "Bearer bob" },
      ...(sent === undefined ? {} : { body: JSON.stringify(sent) }),
    });
    const { status, headers } = response;
    if (status === 200 && headers.get("content-type") === "text/event-stream") {
      await response.body?.cancel();
      return { status, shown: "" };
    }
    const plain = [...headers].filter(([name]) => name !== "x-request-id" && name !== "date");
    let shown = `${status} ${JSON.stringify(plain.sort())} ${await response.text()}`;
    shown = shown.replace(/(_uptime_seconds) [\d.]+/, "$1").replace(/"since":.*"minutes":\[.*\]/, "");
    for (const [name, value] of Object.entries(its)) shown = shown.replaceAll(value, `:${name}`);
    return { status, shown };
  }

  /** What a row names of somebody's things. */
  function namedBy(route: string, { body, query }: Row, its: Things): (keyof Things)[] {
    const named = new Set(Array.from(route.matchAll(/:(\w+)/g), ([, name]) => name as keyof Things));
    const watched = new Proxy(its, {
      get(of, name) {
        named.add(name as keyof Things);
        return Reflect.get(of, name);
      },
    });
    body?.(watched);
    query?.(watched);
    named.delete("namespace" as keyof Things);
    return [...named];
  }

  /** All that Ann sees of hers. */
  async function seenByAnn({ thread_id, run_id, assistant_id, cron_id, key, trace_id, id }: Things): Promise<string[]> {
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

  it("are walked on every route", () => {
    const served = routes();
    assert.ok(served.length > 70, `only ${served.length} routes were found`);
    assert.deepEqual([...served].sort(), Object.keys(ROWS).sort());
  });

  for (const [route, row] of Object.entries(ROWS)) {
    it(`are as nobody's: ${route}`, async () => {
      const [others, own] = [await thingsOf("ann"), await thingsOf("bob")];
      const before = await seenByAnn(others);
      const names = namedBy(route, row, own);
      const choices = names.length > 1 ? [names, ...names.map((name) => [name])] : [names];
      for (const [i, choice] of choices.entries()) {
        const absent = nobody();
        const pick = (of: Things): Things => ({
          ...own,
          ...Object.fromEntries(choice.map((name) => [name, of[name]])),
        });
        const about = `${route}, ${choice.join(" and ")}`;
        const [theirs, none] = [await ask(route, row, pick(others)), await ask(route, row, pick(absent))];
        if (i === 0) assert.equal(none.status, row.absent, `${about}: ${none.shown}`);
        if (row.exception) {
          const [status, why] = row.exception;
          assert.equal(theirs.status, status, `${about}: ${why}`);
        } else {
          assert.equal(theirs.shown, none.shown, about);
        }
        for (const [name, value] of Object.entries(others)) {
          const isNamed = choice.includes(name as keyof Things) || row.exception;
          assert.ok(isNamed || !theirs.shown.includes(value), `${about} shows another's ${name}: ${theirs.shown}`);
        }
        if (route.startsWith("GET ")) {
          const heads = [await ask(route, row, pick(others), "HEAD"), await ask(route, row, pick(absent), "HEAD")];
          assert.equal(heads[0]?.shown, heads[1]?.shown, `HEAD ${about}`);
        }
      }
      if (/^\w+ \/greenroom\/.*:\w*id\b/.test(route)) {
        const codeOf = ({ shown }: Answer) => shown.match(/^\d+|"code":"\w+"/g);
        const malformed = Object.fromEntries(Object.keys(own).map((name) => [name, "no-id"])) as unknown as Things;
        const [of, none] = [await ask(route, row, malformed), await ask(route, row, nobody())];
        assert.deepEqual(codeOf(of), codeOf(none), "an id that is no UUID is as nobody's");
      }
      assert.deepEqual(await seenByAnn(others), before, "nothing of it has changed");
      const mine = await ask(route, row, own);
      assert.equal(mine.status, row.own, mine.shown);
      const alike = /^POST \/(?:store\/namespaces|threads\/:thread_id\/stream\/events)/.test(route);
      if (row.absent === 200 && names.length > 0 && !row.exception && !alike) {
        assert.notEqual(mine.shown, (await ask(route, row, nobody())).shown, "one's own is found");
      }
    });
  }

  /** Bob's nouns in process, which are made for each call as for each request; with the calls that only requests have. */
  function nounsOfBob() {
    const { service } = world.it;
    const user = { ...userNamed("bob"), permissions: PERMISSIONS };
    const { access, authorizeRequest } = serviceInternals(service);
    const { runs, protocol } = authorizeRequest(() => access.user(user)).resources;
    const nouns = service.as({ user });
    return { ...nouns, runs: { ...runs, ...nouns.runs }, protocol };
  }

  const callerBob = () =>
    world.it.service.caller(new Request("http://greenroom/", { headers: { authorization: "Bearer bob" } }));

  it("are walked in every call of service.as and of requests", () => {
    const calls = Object.entries(nounsOfBob()).flatMap(([noun, verbs]) =>
      Object.keys(verbs).map((verb) => `${noun}.${verb}`),
    );
    assert.ok(calls.length > 70, `only ${calls.length} calls were found`);
    assert.deepEqual(calls.sort(), Object.keys(CALLS).sort());
  });

  for (const [name, row] of Object.entries(CALLS)) {
    const { call, exception } = typeof row === "function" ? { call: row, exception: undefined } : row;

    /** What a caller in process learns, without what differs from call to call. */
    async function outcome(its: Things): Promise<{ readonly shown: string; readonly error: unknown }> {
      const by = await callerBob();
      let error: unknown;
      let shown: string;
      try {
        shown = `${JSON.stringify(await call(nounsOfBob(), its, by))}`;
      } catch (thrown) {
        error = thrown;
        const { code, message } = thrown as { readonly code?: string; readonly message: string };
        shown = `${code}: ${message}`;
      }
      for (const [thing, value] of Object.entries(its)) shown = shown.replaceAll(value, `:${thing}`);
      return { shown, error };
    }

    it(`are as nobody's in process: ${name}`, async () => {
      const [others, own] = [await thingsOf("ann"), await thingsOf("bob")];
      const before = await seenByAnn(others);
      // What the call names: asked with things that are nobody's, it changes nothing.
      const named = new Set<keyof Things>();
      const watched = new Proxy(nobody(), {
        get(of, thing) {
          named.add(thing as keyof Things);
          return Reflect.get(of, thing);
        },
      });
      const by = await callerBob();
      await (async () => await call(nounsOfBob(), watched, by))().catch(() => {});
      for (const choice of [[...named], ...(named.size > 1 ? [...named].map((one) => [one]) : [])]) {
        const pick = (of: Things): Things => ({ ...own, ...Object.fromEntries(choice.map((one) => [one, of[one]])) });
        const [theirs, none] = [await outcome(pick(others)), await outcome(pick(nobody()))];
        const about = `${name}, ${choice.join(" and ")}`;
        if (exception) assert.match(theirs.shown, new RegExp(`^${exception}: `), about);
        else assert.equal(theirs.shown, none.shown, about);
      }
      assert.deepEqual(await seenByAnn(others), before, "nothing of it has changed");
      const mine = await outcome(own);
      assert.equal(mine.error, undefined, mine.shown);
    });
  }
});
