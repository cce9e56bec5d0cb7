/** What callers, hosts and operators keep secret appears nowhere: not in answers, frames, logs, payloads or rows. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { Annotation, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { staticIdentity } from "../../lib/auth/static-keys.ts";
import type { LogRecord } from "../../lib/environment.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { combine, type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { createService, type Service, type ServiceOptions } from "../../lib/service.ts";
import type { WebhookOptions } from "../../lib/webhooks/options.ts";
import type { OutboundRequest } from "../../lib/webhooks/system-transport.ts";
import { createTemporaryFolder } from "../support/programs.ts";
import { until } from "../support/until.ts";

/** Texts that occur nowhere else. */
const CANARY = {
  static_key: "canary-static-key-5f0c1e7ab2d94c6e",
  wrong_key: "canary-wrong-key-13579bdf02468ace",
  authorization: "canary-authorization-aa11",
  cookie: "canary-cookie-bb22",
  token_header: "canary-token-header-cc33",
  env_token: "canary-env-token-dd44",
  env_unused: "canary-env-unused-ee55",
  url_query: "canary-url-query-ff66",
  openai_api_key: "canary-openai-0a1b",
  nested_api_key: "canary-nested-1b2c",
  github_token: "canary-github-2c3d",
  x_api_key: "canary-x-api-key-3d4e",
  context_api_key: "canary-context-4e5f",
  auth_user: "canary-auth-user-5f60",
};
/** 32 bytes that can be told apart in base64 and as they are. */
const SIGNING = "canary-signing-secret-6071-8293-";
const SECRET_TEXT = `whsec_${btoa(SIGNING)}`;

/** The canaries that columns may contain. A run stores its request as sent, because it needs the credentials until it ends. */
const REQUEST = ["openai_api_key", "nested_api_key", "github_token", "x_api_key", "context_api_key"];
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  "runs.kwargs": REQUEST,
  "webhook_deliveries.kwargs": REQUEST,
  "runs.webhook": ["url_query"],
  "webhook_deliveries.url": ["url_query"],
};

type Secrets = Readonly<Record<string, string>>;

/** Everything that was said, by place. */
class Heard {
  readonly texts: [place: string, text: string][] = [];
  add(source: string, text: string): void {
    this.texts.push([source, text]);
  }
  /** Where secrets were heard, as `place: name`. */
  leaks(secrets: Secrets): string[] {
    const leaks = this.texts.flatMap(([source, text]) => {
      const allowed = ALLOWED[source] ?? [];
      const names = Object.keys(secrets).filter((name) => text.includes(secrets[name] as string));
      return names.filter((name) => !allowed.includes(name)).map((name) => `${source}: ${name}`);
    });
    return [...new Set(leaks)].sort();
  }
}

const stringify = (value: unknown): string =>
  JSON.stringify(value, (_key, inner: unknown) =>
    inner instanceof Error ? { ...inner, message: inner.message, stack: inner.stack, cause: inner.cause } : inner,
  ) ?? "";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

interface World extends AsyncDisposable {
  readonly service: Service;
  readonly heard: Heard;
  /** The names of the secrets that graphs received in their request. */
  readonly reached: Set<string>;
  readonly sentRequests: OutboundRequest[];
  readonly path: string;
  /** Sends a request with every credential that a client may send by mistake; what is answered is heard. */
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<string>;
}

/** The secrets of a graph's request: where they have to arrive. */
function seenBy(reached: Set<string>, from: unknown): void {
  const text = JSON.stringify(from);
  for (const name of REQUEST) if (text.includes(CANARY[name as keyof typeof CANARY])) reached.add(name);
}

async function open(folder: string, options: Partial<ServiceOptions>): Promise<World> {
  const path = join(folder, "secrets.db");
  const heard = new Heard();
  const reached = new Set<string>();
  const sentRequests: OutboundRequest[] = [];
  const graph = new StateGraph(Log)
    .addNode("node", (_state, config: LangGraphRunnableConfig) => {
      seenBy(reached, [config.configurable, config.context]);
      return { log: ["node"] };
    })
    .addEdge(START, "node")
    .compile();
  const functions = {
    async *good(job: FunctionJob) {
      seenBy(reached, [job.config, job.context]);
      job.emit("told");
      yield "a token";
      yield { kept: true };
    },
    bad: () => Promise.reject(new TypeError("it failed")),
    asks: async function* (job: FunctionJob) {
      yield job.interrupt("really?");
    },
  };
  const service = await createService({
    ...options,
    storage: nodeSqlite(path),
    executor: combine(fromFunctions(functions), langgraph({ graph })),
    public_base_url: "https://agents.example.com",
    auth: { mode: "api_key" },
    env: { SERVICE_WEBHOOK_TOKEN: CANARY.env_token, SERVICE_WEBHOOK_SIGNING: SECRET_TEXT, OTHER: CANARY.env_unused },
    webhooks: {
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of the options
      headers: { Authorization: "Bearer ${{ env.SERVICE_WEBHOOK_TOKEN }}" },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of the options
      signing_secret: "${{ env.SERVICE_WEBHOOK_SIGNING }}",
      delivery: { schedule_ms: [0] },
      transport: {
        resolve: async (host) => (host.startsWith("private") ? ["10.0.0.1"] : ["93.184.215.14"]),
        send: async (request) => {
          sentRequests.push(request);
          if (request.url.includes("/broken")) throw new Error(`could not send to ${request.url}`);
          const status = request.url.includes("/fails") ? 500 : request.url.includes("/gone") ? 410 : 204;
          return { status, retry_after: null, address: "93.184.215.14" };
        },
      },
    },
    environment: { log: (record: LogRecord) => heard.add("log", stringify(record)) },
  });
  const handler = createHandler(service);
  return {
    service,
    heard,
    reached,
    sentRequests,
    path,
    async ask(method, requestPath, body, headers) {
      const url = `https://agents.example.com${requestPath}`;
      const all = {
        authorization: `Bearer ${CANARY.authorization}`,
        cookie: `session=${CANARY.cookie}`,
        "x-access-token": CANARY.token_header,
        "x-service-key": CANARY.wrong_key,
        ...headers,
      };
      const init = body === undefined ? {} : { body: JSON.stringify(body) };
      const response = await handler(new Request(url, { method, headers: all, ...init }));
      const text = await response.text();
      heard.add(`${method} ${requestPath.replace(/[0-9a-f-]{36}/g, "{id}")} ${response.status}`, text);
      heard.add(`${method} headers`, stringify([...response.headers]));
      return text;
    },
    [Symbol.asyncDispose]: () => service.stop(0),
  };
}

const MODES = ["values", "updates", "messages-tuple", "tasks", "checkpoints", "debug", "custom", "events"];

function request(assistant_id: string, hook: string, runFields: object = {}): object {
  return {
    assistant_id,
    input: { log: ["in"] },
    config: {
      configurable: {
        openai_api_key: CANARY.openai_api_key,
        "x-api-key": CANARY.x_api_key,
        github_token: CANARY.github_token,
        models: [{ name: "m", apiKey: CANARY.nested_api_key }],
        langgraph_auth_user: { identity: CANARY.auth_user },
      },
    },
    context: { ANTHROPIC_API_KEY: CANARY.context_api_key },
    webhook: `https://hooks.example.com/${hook}?token=${CANARY.url_query}`,
    feedback_keys: ["liked"],
    stream_mode: MODES,
    stream_resumable: true,
    ...runFields,
  };
}

/** One of everything that a client of a deployment with this key can do, and everything that can go wrong. */
async function everything({ service, ask: anonymous, heard, sentRequests }: World, key: string): Promise<void> {
  const ask: World["ask"] = (method, path, body, headers) =>
    anonymous(method, path, body, { "x-api-key": key, ...headers });
  const parseJson = async (answer: Promise<string>): Promise<Record<string, string>> => JSON.parse(await answer);
  for (const graph of ["good", "graph", "bad", "asks"]) {
    const { thread_id } = await parseJson(ask("POST", "/threads", { metadata: { graph } }));
    const at = `/threads/${thread_id}`;
    for (const hook of ["in", "fails"]) {
      await ask("POST", `${at}/runs/wait`, request(graph, hook));
      await ask("POST", `${at}/runs/stream`, request(graph, hook, { stream_subgraphs: true }));
    }
    // A later run goes on from what the thread has kept.
    await ask("POST", `${at}/runs/wait`, { assistant_id: graph, stream_mode: MODES, input: null });
    const { run_id } = await parseJson(
      ask("POST", `${at}/runs`, request(graph, "gone"), { "idempotency-key": "once" }),
    );
    await ask("POST", `${at}/runs`, request(graph, "gone"), { "idempotency-key": "once" });
    for (const path of ["", "/join", "/stream"]) await ask("GET", `${at}/runs/${run_id}${path}`);
    await ask("GET", `${at}/runs`);
    for (const path of ["", "/state", "/history"]) await ask("GET", `${at}${path}`);
    await ask("POST", `${at}/history`, { limit: 100 });
    const { token } = { token: (await parseJson(ask("GET", `/api/v1/feedback/tokens?run_id=${run_id}`)))[0] };
    const { id } = token as unknown as { id: string };
    await anonymous("POST", `/api/v1/feedback/tokens/${id}`, { score: 1, comment: "c" });
    await anonymous("POST", `/api/v1/feedback/tokens/${id}`, { score: "no" });
    await ask("POST", "/api/v1/feedback", { key: "k", run_id, score: 1 });
    await ask("GET", `/api/v1/feedback?run=${run_id}`);
    await ask("GET", `/api/v1/feedback/stats?run=${run_id}`);
  }
  for (const hook of ["broken", "in"]) {
    await ask("POST", "/runs/wait", request("good", hook));
    await ask("POST", "/runs/stream", request("graph", hook));
    await ask("POST", "/runs/batch", [request("good", hook), request("graph", hook)]);
  }
  const query = `?token=${CANARY.url_query}`;
  const refused = [
    `http://127.0.0.1/${query}`,
    `https://u:${CANARY.url_query}@h.example.com/`,
    `//h.example.com/${query}`,
  ];
  for (const webhook of refused) await ask("POST", "/runs", request("good", "", { webhook }));
  await ask("POST", "/runs/wait", request("good", "", { webhook: `https://private.example.com/${query}` }));
  await ask("POST", "/threads/search", { limit: 100 });
  await ask("POST", "/assistants/search", {});
  await ask("POST", "/runs", { ...request("nowhere", "in"), input: 1 });
  await ask("POST", "/runs", request("good", "in", { config: { configurable: { ANTHROPIC_API_KEY: "another" } } }));
  await ask("POST", "/runs", request("good", "in", { multitask_strategy: CANARY.openai_api_key.length }));
  await ask("POST", "/nowhere", {});
  await ask("PUT", "/threads", {});
  for (const path of ["/info", "/ok", "/ready", "/metrics", "/metrics?format=json", "/openapi.json", "/"]) {
    await ask("GET", path);
  }
  await ask("GET", "/api/v1/info");
  const { workspace_id } = service.deployment;
  const day = 86_400_000;
  const [start, end] = [-1, 1].map((days) => encodeURIComponent(new Date(Date.now() + days * day).toISOString()));
  const usageQuery = `start_time=${start}&end_time=${end}&workspace_ids=${workspace_id}&group_by=api_key`;
  await ask("GET", `/api/v1/orgs/current/billing/granular-usage?${usageQuery}`);
  await ask("GET", `/api/v1/orgs/current/billing/granular-usage/export?${usageQuery}`);
  await ask("GET", "/api/v1/workspaces");
  // Who is not known.
  for (const wrong of [CANARY.wrong_key, `${key}0`, ` ${key.slice(1)}`]) {
    await ask("GET", "/threads/search", undefined, { "x-api-key": wrong });
    await ask("GET", "/api/v1/feedback", undefined, { "x-api-key": wrong });
    await ask("POST", "/runs/stream", request("good", "in"), { "x-api-key": wrong });
  }
  await ask("GET", "/api/v1/feedback", undefined, { "x-tenant-id": CANARY.token_header });
  await anonymous("POST", "/runs", request("good", "in"));

  const { webhooks, accounts } = service;
  await until(
    async () =>
      (await service.metrics()).webhooks.sending === 0 &&
      (await webhooks.list({ state: ["pending"] })).items.length === 0,
  );
  const { items: deliveries } = await webhooks.list({ limit: 1000 });
  assert.ok(
    deliveries.some(({ state }) => state === "failed") && deliveries.some(({ state }) => state === "delivered"),
  );
  heard.add("deliveries", stringify(deliveries));
  for (const { run_id } of deliveries) {
    heard.add("delivery", stringify(await webhooks.get(run_id)));
  }
  heard.add(
    "accounts",
    stringify([await accounts.listKeys(), await accounts.listUsers(), await accounts.listAgents()]),
  );
  for (const { url, body, headers } of sentRequests) {
    heard.add("payload", body);
    const otherHeaders = headers.filter(([name]) => name !== "Authorization");
    heard.add("payload headers", stringify(otherHeaders));
    assert.ok(url.includes(CANARY.url_query) && headers.some(([, value]) => value === `Bearer ${CANARY.env_token}`));
  }
}

/** Adds every row of every table by column, and searches the database file for secrets outside all rows. */
function hearDatabase(heard: Heard, path: string, secrets: Secrets): void {
  const database = new DatabaseSync(path);
  const tables = database.prepare("select name from sqlite_master where type = 'table'").all();
  assert.ok(tables.length > 10);
  for (const { name } of tables) {
    for (const row of database.prepare(`select * from "${name}"`).all()) {
      for (const [column, value] of Object.entries(row)) {
        const text = value instanceof Uint8Array ? new TextDecoder().decode(value) : String(value);
        heard.add(`${name}.${column}`, text);
      }
    }
  }
  database.close();
  const anywhere = new Set(Object.values(ALLOWED).flat());
  const file = readFileSync(path).toString("latin1");
  for (const [name, secret] of Object.entries(secrets)) {
    if (!anywhere.has(name)) assert.equal(file.includes(secret), false, `the database file holds ${name}`);
  }
}

async function drive(
  options: Partial<ServiceOptions>,
  createKey: (service: Service) => Promise<string>,
): Promise<void> {
  using folder = createTemporaryFolder();
  // Deno ends a test in which nothing but timers of the service is left.
  const alive = setInterval(() => {}, 60_000);
  try {
    const secrets: Record<string, string> = { ...CANARY, signing_text: SECRET_TEXT, signing_bytes: SIGNING };
    let heard: Heard;
    let path: string;
    {
      await using world = await open(folder.path, options);
      const key = await createKey(world.service);
      Object.assign(secrets, { key, key_body: key.slice(0, -5) });
      await everything(world, key);
      ({ heard, path } = world);
      assert.deepEqual([...world.reached].sort(), [...REQUEST].sort(), "graphs get the credentials of their request");
    }
    hearDatabase(heard, path, secrets);
    const allText = heard.texts.map(([, text]) => text).join("\n");
    for (const expected of ["event: feedback", "event: debug", "it failed", "really?", "dns_not_public", '"traces"']) {
      assert.ok(allText.includes(expected), `nothing was heard of ${expected}`);
    }
    assert.deepEqual(heard.leaks(secrets), []);
  } finally {
    clearInterval(alive);
  }
}

describe("a secret", () => {
  it("appears nowhere, with a key of the accounts", async () => {
    await drive({}, async ({ accounts }) => (await accounts.createKey({ kind: "sk", description: "canary" })).key);
  });

  it("appears nowhere, with a key of the host", async () => {
    const identity = staticIdentity({ keys: [{ key: CANARY.static_key, short_key: "own" }] });
    await drive({ identity }, async () => CANARY.static_key);
  });

  it("is not in errors of the start", async () => {
    const heard = new Heard();
    const failing = async (extraOptions: Partial<ServiceOptions>): Promise<void> => {
      const executor = fromFunctions({ echo: () => "done" });
      const options = { storage: nodeSqlite(":memory:"), executor, ...extraOptions };
      await assert.rejects(createService(options), (error: Error) => {
        heard.add("error", `${error.name} ${error.message} ${error.stack} ${stringify(error)}`);
        return error.name === "ConfigError";
      });
    };
    const env = { SERVICE_WEBHOOK_TOKEN: `${CANARY.env_token}\n`, SERVICE_WEBHOOK_X: `a\r\n${CANARY.env_token}` };
    const template = (name: string): string => `\${{ env.${name} }}`;
    const wrong: readonly WebhookOptions[] = [
      { headers: { "X-A": template("SERVICE_WEBHOOK_X"), "X-B": `${CANARY.authorization}${template("OTHER")}` } },
      { headers: { "X-A": `${CANARY.authorization}\0` } },
      { headers: { "X-A": `${CANARY.authorization}\${{ secrets.x }}`, Host: CANARY.cookie } },
      { signing_secret: CANARY.env_unused },
      { signing_secret: [template("SERVICE_WEBHOOK_TOKEN"), `whsec_${CANARY.env_token}`] },
      { env_prefix: `${CANARY.env_token} ` },
      { url: { allowed_domains: [`https://u:${CANARY.authorization}@example.com`] } },
    ];
    for (const webhooks of wrong) {
      await failing({ webhooks, env: { ...env, OTHER: CANARY.env_unused } });
    }
    await failing({ public_base_url: `https://u:${CANARY.authorization}@example.com` });
    await failing({ public_base_url: `https://example.com/?key=${CANARY.url_query}` });
    const short = CANARY.static_key.slice(0, 20);
    for (const keys of [[short], [CANARY.static_key, CANARY.static_key], [`${CANARY.static_key} `]]) {
      assert.throws(
        () => staticIdentity({ keys }),
        (error: Error) => {
          heard.add("keys", `${error.message} ${error.stack}`);
          return true;
        },
      );
    }
    assert.ok(heard.texts.length >= 12);
    assert.deepEqual(heard.leaks({ ...CANARY, short }), []);
  });

  it("is found by this test if it appears", () => {
    const heard = new Heard();
    heard.add("log", `{"url":"https://h.example.com/?token=${CANARY.url_query}"}`);
    heard.add("runs.kwargs", CANARY.openai_api_key);
    heard.add("runs.metadata", CANARY.openai_api_key);
    assert.deepEqual(heard.leaks(CANARY), ["log: url_query", "runs.metadata: openai_api_key"]);
  });
});
