/** Calls each route of a service whose clock, ids and randomness are the same in every run. */
import type { AgentFunction } from "../../../../../lib/functions/mod.ts";
import { testClock, testIds, testService } from "../../../../suite/kit.ts";

/** A request and its response as text. Ids of the service are replaced by `#1`, `#2` … in the order of their first appearance. */
export interface Exchange {
  readonly request: string;
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const THREAD = "11111111-1111-4111-8111-111111111111";
const OTHER = "22222222-2222-4222-8222-222222222222";
const CALL = "44444444-4444-4444-8444-444444444444";
const V2 = "33333333-3333-4333-8333-333333333333";
const ABSENT = "99999999-9999-4999-8999-999999999999";
const human = (content: string, id: string): object => ({ messages: [{ role: "human", content, id }] });

/** The recorded headers, which depend on neither the runtime nor its server. */
const SHOWN =
  /^(?:content-type|content-location|location|cache-control|x-accel-buffering|x-pagination-[a-z]+|retry-after|allow|vary)$/;

const agents: Record<string, AgentFunction> = {
  async *chat({ messages }) {
    yield "Hello ";
    yield `${JSON.stringify(messages.at(-1)?.content)} ${messages.length}`;
  },
  fails() {
    throw Object.assign(new Error("It broke"), { name: "Broken", stack: "" });
  },
  async *ask({ command, interrupt }) {
    if (command?.resume === undefined) yield interrupt({ question: "ok?" });
    else yield `Answered ${JSON.stringify(command.resume)}`;
  },
  async *parcel({ step, wait }) {
    const order = await step("order", () => 5);
    const parcel = await wait("parcel", { schema: { properties: { code: { type: "integer" } } } });
    yield `Order ${order} is shipped as ${parcel?.code}`;
  },
};

type Send = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<string>;

/** Waits for the end of a run, so that later exchanges do not depend on it. */
async function joined(send: Send, run: string): Promise<void> {
  const { thread_id, run_id } = JSON.parse(run) as { thread_id: string; run_id: string };
  await send("GET", `/threads/${thread_id}/runs/${run_id}/join`);
}

/** Records runs of a thread, double texting, joins, states and their history. */
async function recordRuns(send: Send): Promise<void> {
  await send("POST", "/threads", { thread_id: THREAD, metadata: { topic: "a" } });
  await send("POST", "/threads", { thread_id: THREAD });
  await send("POST", "/threads", { thread_id: THREAD, if_exists: "do_nothing" });
  const modes = [
    "values",
    "updates",
    "messages",
    "messages-tuple",
    "events",
    "custom",
    "debug",
    "tasks",
    "checkpoints",
  ];
  await send("POST", `/threads/${THREAD}/runs/stream`, {
    assistant_id: "chat",
    input: human("Hi", "m1"),
    stream_mode: modes,
    stream_resumable: true,
    metadata: { kind: "first" },
    feedback_keys: ["score"],
  });
  const waited = await send("POST", `/threads/${THREAD}/runs/wait`, {
    assistant_id: "chat",
    input: human("And", "m2"),
  });
  void waited;
  await send("POST", `/threads/${THREAD}/runs/wait`, { assistant_id: "fails", input: human("Oh", "m3") });
  const { run_id } = JSON.parse(
    await send("POST", `/threads/${THREAD}/runs`, {
      assistant_id: "chat",
      input: human("Later", "m4"),
      after_seconds: 900,
    }),
  ) as { run_id: string };
  for (const path of [
    `/threads/${THREAD}/runs`,
    `/threads/${THREAD}/runs/${run_id}`,
    `/threads/${THREAD}/runs?status=pending&select=run_id`,
  ])
    await send("GET", path);
  await send("POST", `/threads/${THREAD}/runs/${run_id}/cancel?action=interrupt&wait=1`);
  await send("GET", `/threads/${THREAD}/runs/${run_id}/join`);
  await send("GET", `/threads/${THREAD}/runs/${run_id}/stream`);
  await send("DELETE", `/threads/${THREAD}/runs/${run_id}`);
  await send("DELETE", `/threads/${THREAD}/runs/${run_id}`);
  await send("POST", `/threads/${THREAD}/runs`, { assistant_id: "nobody", input: {} });
  await send("POST", `/threads/${THREAD}/runs`, { assistant_id: 5, stream_mode: "nope" });
  await send("POST", `/threads/${ABSENT}/runs`, { assistant_id: "chat", input: {} });
  for (const path of ["", "/state", "/history?limit=2", "/storage"]) await send("GET", `/threads/${THREAD}${path}`);
  await send("POST", `/threads/${THREAD}/history`, { limit: 3 });
  await send("POST", `/threads/${THREAD}/state`, { values: human("Put", "m5"), as_node: "chat" });
  await send("PATCH", `/threads/${THREAD}/state`, { metadata: { reviewed: true } });
  const { checkpoint } = JSON.parse(await send("GET", `/threads/${THREAD}/state`)) as {
    checkpoint: { checkpoint_id: string };
  };
  await send("GET", `/threads/${THREAD}/state/${checkpoint.checkpoint_id}`);
  await send("POST", `/threads/${THREAD}/state/checkpoint`, { checkpoint });
  await send("PATCH", `/threads/${THREAD}`, { metadata: { topic: "b" } });
  await send("POST", `/threads/${THREAD}/copy`);
  for (const [path, body] of [
    ["/threads/search", { metadata: { topic: "b" }, limit: 1 }],
    ["/threads/search", { status: "error", select: ["thread_id", "status"] }],
    ["/threads/search", { limit: "many" }],
    ["/threads/count", { status: "idle" }],
    ["/threads/prune", { thread_ids: [ABSENT], strategy: "keep_latest" }],
  ] as const)
    await send("POST", path, body);
  await send("POST", "/runs/wait", { assistant_id: "chat", input: human("Alone", "m6") });
  await send("POST", "/runs/stream", {
    assistant_id: "chat",
    input: human("Alone", "m7"),
    stream_mode: "messages-tuple",
  });
  await send("POST", "/runs", { assistant_id: "chat", input: human("Alone", "m8"), after_seconds: 900 });
  await send("POST", "/runs/batch", [{ assistant_id: "chat", input: human("Batch", "m9"), after_seconds: 900 }]);
  await send("POST", "/runs/cancel", { status: "pending" });
  await send("GET", `/runs/${ABSENT}/stream`);
}

/** Records an interrupt and its resume. */
async function interrupts(send: Send): Promise<void> {
  await send("POST", `/threads/${OTHER}/runs/wait`, {
    assistant_id: "ask",
    input: human("Do it", "q1"),
    if_not_exists: "create",
  });
  await send("GET", `/threads/${OTHER}/state`);
  await send("GET", "/greenroom/inbox");
  await send("POST", `/threads/${OTHER}/runs/stream`, {
    assistant_id: "ask",
    command: { resume: "yes" },
    stream_mode: ["values", "updates"],
  });
  await send("POST", `/threads/${OTHER}/runs/wait`, { assistant_id: "ask", command: { resume: 1, unknown: 2 } });
  await send("POST", `/threads/${OTHER}/runs/wait`, "{");
  await send("POST", `/threads/${OTHER}/runs/wait`, []);
}

async function recordAssistants(send: Send): Promise<void> {
  const { assistant_id: id } = JSON.parse(
    await send("POST", "/assistants", {
      graph_id: "chat",
      name: "One",
      context: { model_name: "m" },
      metadata: { a: 1 },
    }),
  ) as { assistant_id: string };
  await send("POST", "/assistants", { graph_id: "none" });
  await send("GET", `/assistants/${id}`);
  await send("GET", "/assistants/chat");
  await send("PATCH", `/assistants/${id}`, { context: { model_name: "n" } });
  await send("POST", `/assistants/${id}/versions`, {});
  await send("POST", `/assistants/${id}/latest`, { version: 1 });
  await send("POST", `/assistants/${id}/latest`, { version: 9 });
  await send("POST", "/assistants/search", { graph_id: "chat", limit: 1 });
  await send("POST", "/assistants/count", {});
  for (const path of ["graph", "schemas", "subgraphs", "subgraphs/x"]) await send("GET", `/assistants/${id}/${path}`);
  await send("DELETE", `/assistants/${id}`);
  await send("GET", `/assistants/${id}`);
}

async function recordCrons(send: Send): Promise<void> {
  const { cron_id } = JSON.parse(
    await send("POST", "/runs/crons", {
      assistant_id: "chat",
      schedule: "0 9 * * MON-FRI",
      input: human("Cron", "c1"),
      timezone: "Europe/Berlin",
    }),
  ) as { cron_id: string };
  await send("POST", `/threads/${THREAD}/runs/crons`, {
    assistant_id: "chat",
    schedule: "@daily",
    input: human("Cron", "c2"),
  });
  await send("POST", "/runs/crons", { assistant_id: "chat", schedule: "often" });
  await send("GET", `/runs/crons/${cron_id}`);
  await send("PATCH", `/runs/crons/${cron_id}`, { enabled: false });
  await send("POST", "/runs/crons/search", { limit: 5 });
  await send("POST", "/runs/crons/count", {});
  await send("GET", "/greenroom/crons/preview?schedule=@hourly&limit=2");
  await joined(send, await send("POST", `/greenroom/crons/${cron_id}/run`));
  await send("GET", `/greenroom/crons/${cron_id}`);
  await send("DELETE", `/runs/crons/${cron_id}`);
  await send("DELETE", `/runs/crons/${cron_id}`);
}

async function recordStore(send: Send): Promise<void> {
  await send("PUT", "/store/items", { namespace: ["a", "b"], key: "k", value: { n: 1 } });
  await send("PUT", "/store/items", { namespace: "a", key: 1 });
  await send("GET", "/store/items?namespace=a.b&key=k");
  await send("POST", "/store/items/search", { namespace_prefix: ["a"], filter: { n: 1 } });
  await send("POST", "/store/namespaces", { prefix: ["a"] });
  await send("DELETE", "/store/items", { namespace: ["a", "b"], key: "k" });
  await send("GET", "/store/items?namespace=a.b&key=k");
}

async function platform(send: Send): Promise<void> {
  const run_id = (
    JSON.parse(await send("GET", "/greenroom/runs?limit=50")) as { items: { run_id: string }[] }
  ).items.at(-1)?.run_id;
  await send("GET", `/greenroom/runs/${run_id}`);
  await send("GET", "/greenroom/runs/stats");
  await joined(send, await send("POST", `/greenroom/runs/${run_id}/again`, {}));
  for (const path of [
    "/greenroom/threads",
    "/greenroom/webhooks",
    `/greenroom/webhooks/${ABSENT}`,
    "/greenroom/feedback/links",
  ])
    await send("GET", path);
  await send("POST", `/greenroom/webhooks/${ABSENT}/send`);
  const [workspace] = JSON.parse(await send("GET", "/api/v1/workspaces")) as { id: string }[];
  const usage = `start_time=2026-01-01T00:00:00Z&end_time=2026-01-02T00:00:00Z&workspace_ids=${workspace?.id}`;
  for (const by of ["workspace", "project", "user", "api_key", "none"])
    await send("GET", `/api/v1/orgs/current/billing/granular-usage?${usage}&group_by=${by}`);
  await send("GET", `/api/v1/orgs/current/billing/granular-usage/export?${usage}`);
  await send("GET", "/api/v1/orgs/current/billing/granular-usage");
  const link = JSON.parse(await send("POST", "/api/v1/feedback/tokens", { run_id, feedback_key: "score" })) as {
    id: string;
    url: string;
  };
  const token = new URL(link.url).pathname;
  await send("POST", token, { score: 1, comment: "Good" });
  await send("GET", `${token}?score=0.5`);
  await send("POST", token, { score: "high" });
  await send("GET", `/api/v1/feedback/tokens/${ABSENT}`);
  await send("GET", `/api/v1/feedback/tokens?run_id=${run_id}`);
  const { id } = JSON.parse(await send("POST", "/api/v1/feedback", { run_id, key: "own", score: 1 })) as { id: string };
  await send("GET", `/api/v1/feedback?run=${run_id}`);
  await send("GET", `/api/v1/feedback/stats?run=${run_id}`);
  await send("GET", `/api/v1/feedback/${id}`);
  await send("PATCH", `/api/v1/feedback/${id}`, { score: 0 });
  await send("DELETE", `/api/v1/feedback/${id}`);
  await send("GET", "/greenroom/feedback/scores?start=2026-01-01&end=2026-01-02");
  await send("DELETE", `/greenroom/feedback/links/${link.id}`);
  for (const path of ["/ok", "/ready", "/api/v1/info", "/nowhere", "/greenroom/server"]) await send("GET", path);
  await send("PUT", "/threads");
  await send("POST", "/a2a/chat", {});
}

/** Records a durable function that waits for an external event. */
async function durable(send: Send): Promise<void> {
  await send("POST", "/threads", { thread_id: CALL });
  const { run_id } = JSON.parse(await send("POST", `/threads/${CALL}/runs`, { assistant_id: "parcel", input: {} }));
  await send("GET", `/threads/${CALL}/runs/${run_id}`);
  await send("POST", `/threads/${CALL}/events/parcel`, { code: "none" });
  await send("POST", `/threads/${CALL}/events/parcel`, { code: 7 });
  await send("GET", `/threads/${CALL}/runs/${run_id}/join`);
  await send("GET", `/threads/${CALL}/runs/${run_id}/steps`);
  await send("POST", `/threads/${CALL}/events/parcel`, { code: 8 });
  await send("GET", `/threads/${CALL}/runs/${CALL}/steps`);
  await send("POST", `/threads/${V2}/events/parcel`, { code: 7 });
  await send("POST", "/greenroom/events/unknown", { code: 7 });
}

/** Records the event protocol: a run and a resumed interrupt, replayed from the start and from the middle. */
async function events(send: Send, read: (path: string, body: object, until: RegExp) => Promise<string>): Promise<void> {
  const all = {
    channels: ["lifecycle", "values", "updates", "messages", "tools", "input", "checkpoints", "tasks", "custom"],
  };
  const command = (id: number, method: string, params: object): Promise<string> =>
    send("POST", `/threads/${V2}/commands`, { id, method, params });
  const ended = (count: number): RegExp =>
    new RegExp(`(?:"event":"(?:completed|interrupted|failed)"[\\s\\S]*){${count}}\n\n`);
  await command(1, "run.start", { assistant_id: "chat", input: human("Hi", "e1") });
  await read(`/threads/${V2}/stream/events`, all, ended(1));
  await command(2, "run.start", { assistant_id: "ask", input: human("Do", "e2") });
  const text = await read(`/threads/${V2}/stream/events`, all, ended(2));
  await command(3, "input.respond", { namespace: [], interrupt_id: "unknown", response: "yes" });
  const [, interrupt_id] = /"interrupt_id":"([^"]+)"/.exec(text) ?? [];
  await command(4, "input.respond", { namespace: [], interrupt_id, response: "yes" });
  await read(`/threads/${V2}/stream/events`, all, ended(3));
  const [, since] = /"seq":(\d+)/.exec(text) ?? [];
  await read(`/threads/${V2}/stream/events`, { channels: ["lifecycle"], since: Number(since) }, ended(2));
  await command(5, "state.get", {});
  await command(6, "no.such", {});
  await command(7, "run.start", {});
  await send("POST", `/threads/${V2}/stream/events`, { channels: [] });
  await send("DELETE", `/threads/${V2}`);
  await send("GET", `/threads/${V2}`);
  await durable(send);
}

/** Records a client of AG-UI. */
async function recordAgui(send: Send): Promise<void> {
  const messages = [{ id: "u1", role: "user", content: "Hi" }];
  const run = (agent: string, bodyFields: object) =>
    send("POST", `/ag-ui/${agent}`, { threadId: "t-1", runId: "r-1", ...bodyFields });
  await run("chat", { messages });
  await run("chat", { messages, runId: "r-2" });
  await run("none", { messages, threadId: "t-2" });
  await run("chat", {});
}

/** Records a chat of the AI SDK. */
async function recordChat(send: Send): Promise<void> {
  const userMessage = (id: string, text: string) => ({ id, role: "user", parts: [{ type: "text", text }] });
  const chat = (agent: string, bodyFields: object) =>
    send("POST", `/ai/${agent}/chat`, { id: "chat-1", trigger: "submit-message", ...bodyFields });
  await chat("chat", { messages: [userMessage("u1", "Hi")] });
  await chat("none", { messages: [userMessage("u1", "Hi")] });
  await chat("none", { messages: [userMessage("u2", "Hi")] });
  await chat("chat", { messages: [] });
  await chat("chat", { messages: [userMessage("u1", "Hi")], trigger: "other" });
  await chat("chat", { messages: [{ id: "a1", role: "assistant", parts: [] }] });
  for (const id of ["chat-1", "none"]) {
    await send("GET", `/ai/chat/chat/${id}/stream`);
    await send("POST", `/ai/chat/chat/${id}/stop`);
    await send("GET", `/ai/chat/chat/${id}`);
  }
}

/** Records the trace of a run of the function `chat`, which is ended when it is read. */
async function recordTraces(send: Send): Promise<void> {
  const run = JSON.parse(await send("POST", "/threads", { metadata: { topic: "trace" } })) as { thread_id: string };
  const { thread_id } = run;
  await send("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "chat", input: human("Trace", "t1") });
  const { run_id } = (
    JSON.parse(await send("GET", `/threads/${thread_id}/runs`)) as { readonly run_id: string }[]
  )[0] as { readonly run_id: string };
  for (const path of [`/threads/${thread_id}/runs/${run_id}/trace`, `/greenroom/traces/${run_id}`]) {
    await send("GET", path);
    await send("GET", `${path}?content=false`);
    await send("GET", `${path}?content=maybe`);
    await send("GET", `${path}/stream`);
  }
  await send("GET", `/greenroom/traces?thread_id=${thread_id}&failed=false&node=none&limit=2`);
  await send("GET", `/greenroom/traces?thread_id=${thread_id}`);
  await send("GET", "/greenroom/traces?limit=0&source=nowhere");
  await send("DELETE", `/threads/${thread_id}/runs/${run_id}/trace`);
  await send("GET", `/threads/${thread_id}/runs/${run_id}/trace`);
  await send("DELETE", `/threads/${ABSENT}/runs/${run_id}/trace`);
}

/** Ids of spans and traces, and the times of spans. */
const TRACE_MEMBERS = /"(?:span_id|parent_id|trace_id)":"[0-9a-f]+"|"[a-z_]+_ms":-?[\d.]+/g;

const TIMES = /"timestamp":\d+|"(?:created|started|ended)_at":"[^"]*"/g;

/** Returns the body without the times and ids that differ: runs of the event protocol and steps execute while the clock moves. */
function readBody(path: string, text: string): string {
  const omitted = path.includes("/trace") ? TRACE_MEMBERS : path.includes(V2) || path.endsWith("/steps") ? TIMES : null;
  return omitted ? text.replace(omitted, (member) => member.replace(/:.*/, ":0")) : text;
}

/** Records all exchanges and returns them. */
export async function converse(): Promise<Exchange[]> {
  const clock = testClock();
  const exchanges: Exchange[] = [];
  await using test = await testService({
    agents,
    public_base_url: "http://greenroom",
    environment: { ...clock, uuid: testIds(), random: () => 0.5, runtime: "test" },
  });
  const numberedIds = new Map<string, string>();
  // Ids are numbered by their position in the exchanges, so that another id inside the service changes nothing.
  const steady = (text: string): string =>
    text.replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, (id) => {
      if (/^(\d)\1{7}-/.test(id) && !id.startsWith("00000000")) return id;
      if (!numberedIds.has(id)) numberedIds.set(id, `#${numberedIds.size + 1}`);
      return numberedIds.get(id) as string;
    });

  async function call(
    method: string,
    path: string,
    body: unknown,
    take: (response: Response) => Promise<string>,
  ): Promise<string> {
    // Without this step a background run would end at a time that the event loop decides.
    if (!path.endsWith("/join")) await clock.advance(1_000);
    const bodyText = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
    const headers: Record<string, string> = bodyText === undefined ? {} : { "content-type": "application/json" };
    const response = await test.fetch(`http://greenroom${path}`, {
      method,
      headers,
      ...(bodyText === undefined ? {} : { body: bodyText }),
    });
    const text = await take(response);
    const stableHeaders = [...response.headers]
      .filter(([name]) => SHOWN.test(name))
      .map(([name, value]) => [name, steady(value)]);
    exchanges.push({
      request: steady(`${method} ${path}${bodyText === undefined ? "" : ` ${bodyText}`}`),
      status: response.status,
      headers: Object.fromEntries(stableHeaders),
      body: readBody(path, steady(text)),
    });
    return text;
  }
  const send: Send = (method, path, body) => call(method, path, body, (response) => response.text());
  /** Reads an open stream up to this text. */
  const read = (path: string, body: object, end: RegExp): Promise<string> =>
    call("POST", path, body, async (response) => {
      let text = "";
      const decoder = new TextDecoder();
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      while (!end.test(text)) {
        const { value, done } = await reader.read();
        if (done) break;
        text += decoder.decode(value, { stream: true });
      }
      await reader.cancel();
      return text.replace(/^: heartbeat\n+/gm, "");
    });
  for (const part of [recordAssistants, recordRuns, interrupts, recordStore, recordCrons, platform]) await part(send);
  await events(send, read);
  await recordChat(send);
  await recordAgui(send);
  await recordTraces(send);
  return exchanges;
}
