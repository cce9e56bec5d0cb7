// The requests of stalls.mjs. `prepare` does what comes before, and gives what sends the one that is measured.

/** Just below the limit on bodies. */
const LARGEST = 8 * 1024 * 1024 - 64 * 1024;
/** As many values as a body may hold by default. */
const VALUES = 20_000;

const body = (text) => Buffer.from(text);
const of = (value) => body(JSON.stringify(value));
const many = (count, make) => Array.from({ length: count }, (_, i) => make(i)).join(",");
const members = (count, make = (i) => i) => `{${many(count, (i) => `"k${i}":${make(i)}`)}}`;
/** So many members that the body is as large as it may be. */
const FULL = Math.floor(LARGEST / 14);

const post = (path, make) => async (client) => {
  const requestBody = typeof make === "function" ? await make(client) : make;
  return () => client.ask("POST", path, requestBody);
};
const thread = async (client, body = {}) => (await client.json("POST", "/threads", body)).thread_id;
const onThread =
  (path, make, method = "POST") =>
  async (client) => {
    const id = await thread(client);
    const requestBody = await make(client, id);
    return () => client.ask(method, `/threads/${id}${path}`, requestBody);
  };
const wait = (assistant_id, otherMembers) =>
  onThread("/runs/wait", () => body(`{"assistant_id":"${assistant_id}",${otherMembers}}`));
const string = `"${"x".repeat(LARGEST)}"`;
const escapes = `"${"\\u00e9".repeat(LARGEST / 6)}"`;
const quotes = `"${'\\"'.repeat(LARGEST / 2)}"`;
const numbers = `[${many(Math.floor(LARGEST / 4), () => "123")}]`;
const messages = (count) => `[${many(count, (i) => `{"role":"user","content":"message ${i}","id":"m${i}"}`)}]`;
const deep = (levels) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

/** Creates a thread whose state has so many members. */
const filled = async (client, values) => {
  const id = await thread(client);
  const answer = await client.ask(
    "POST",
    `/threads/${id}/runs/wait`,
    body(`{"assistant_id":"echo","input":${values}}`),
  );
  if (answer.status >= 400) throw new Error(`The state was not made: ${answer.status} ${answer.text}`);
  return id;
};
const reading =
  (values, path, method = "GET", requestBody = undefined) =>
  async (client) => {
    const id = await filled(client, values);
    return () => client.ask(method, `/threads/${id}${path}`, requestBody);
  };

const rpc = (method, params) => body(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`);
const MCP = { accept: "application/json, text/event-stream" };
const sendMessage = (parts) => rpc("SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":${parts}}}`);
/** A list of messages for one turn: all but the last are history. */
const turns = (count, content) => `[${many(count, (i) => `{"id":"u${i}","role":"user",${content}}`)}]`;
const agui = (messages, otherMembers = '"state":{}') =>
  body(`{"threadId":"${crypto.randomUUID()}","runId":"r",${otherMembers},"messages":${messages}}`);
const chat = (messages) => body(`{"id":"${crypto.randomUUID()}","trigger":"submit-message","messages":${messages}}`);
const mcp = (make) => async (client) => () => client.ask("POST", "/mcp", make(), MCP);
const call = (args) => rpc("tools/call", `{"name":"echo","arguments":${args}}`);

const AGENT_PROTOCOLS = [
  ["mcp, arguments with as many keys as a body may hold", mcp(() => call(members(VALUES - 20)))],
  ["mcp, arguments of one string", mcp(() => call(`{"a":${string}}`))],
  ["mcp, a batch of calls", mcp(() => body(`[${many(50, () => String(call(members(300))))}]`))],
  ["a2a, many parts", post("/a2a/echo", sendMessage(`[${many(6_000, () => '{"text":"a"}')}]`))],
  [
    "a2a, data with as many keys as a body may hold",
    post("/a2a/echo", sendMessage(`[{"data":${members(VALUES - 30)}}]`)),
  ],
  ["a2a, one text", post("/a2a/echo", sendMessage(`[{"text":${string}}]`))],
  ["a2a, one file", post("/a2a/echo", sendMessage(`[{"raw":${string},"mediaType":"image/png"}]`))],
  [
    "ag-ui, many messages",
    async (client) => () => client.ask("POST", "/ag-ui/echo", agui(turns(4_000, '"content":"a"'))),
  ],
  [
    "ag-ui, a state with as many keys as a body may hold",
    async (client) => () =>
      client.ask("POST", "/ag-ui/echo", agui(turns(1, '"content":"a"'), `"state":${members(VALUES - 30)}`)),
  ],
  [
    "ag-ui, one message",
    async (client) => () => client.ask("POST", "/ag-ui/echo", agui(turns(1, `"content":${string}`))),
  ],
  [
    "ai, many messages",
    async (client) => () =>
      client.ask("POST", "/ai/echo/chat", chat(turns(2_500, '"parts":[{"type":"text","text":"a"}]'))),
  ],
  [
    "ai, one message",
    async (client) => () =>
      client.ask("POST", "/ai/echo/chat", chat(turns(1, `"parts":[{"type":"text","text":${string}}]`))),
  ],
  [
    "ai, one file",
    async (client) => () => {
      const url = `"data:image/png;base64,${"a".repeat(LARGEST)}"`;
      const parts = `"parts":[{"type":"file","mediaType":"image/png","url":${url}}]`;
      return client.ask("POST", "/ai/echo/chat", chat(turns(1, parts)));
    },
  ],
  ["event for a run, one string", onThread("/events/done", () => body(`{"a":"${"x".repeat(250_000)}"}`))],
];

export const shapes = [
  [
    "metadata of a thread, as many keys as a body may hold",
    post("/threads", body(`{"metadata":${members(VALUES - 10)}}`)),
  ],
  ["metadata of a thread, 8 MiB of keys", post("/threads", body(`{"metadata":${members(FULL)}}`))],
  [
    "metadata of a thread, 8 MiB of long values",
    post("/threads", body(`{"metadata":${members(40, () => `"${"y".repeat(LARGEST / 41)}"`)}}`)),
  ],
  ["metadata of a thread, one string", post("/threads", body(`{"metadata":{"a":${string}}}`))],
  ["metadata of a thread, one string of escapes", post("/threads", body(`{"metadata":{"a":${escapes}}}`))],
  ["metadata of a thread, one key of 8 MiB", post("/threads", body(`{"metadata":{${string}:1}}`))],
  ["metadata of a thread, one list of numbers", post("/threads", body(`{"metadata":{"a":${numbers}}}`))],
  [
    "metadata of a thread, one list of as many values as a body may hold",
    post("/threads", body(`{"metadata":{"a":[${many(VALUES - 20, (i) => i)}]}}`)),
  ],
  [
    "metadata of a thread, deep under long names",
    post("/threads", body(`{"metadata":${`{"${"n".repeat(160_000)}":`.repeat(60)}1${"}".repeat(60)}}`)),
  ],
  ["metadata of a thread, nested to the limit", post("/threads", body(`{"metadata":${deep(60)}}`))],
  ["metadata of a thread, nested far beyond the limit", post("/threads", body(`{"metadata":${deep(1_000_000)}}`))],
  ["metadata of a thread, brackets alone", post("/threads", body("[".repeat(LARGEST)))],
  ["metadata of a thread, patched", onThread("", () => body(`{"metadata":${members(VALUES - 10)}}`), "PATCH")],
  ["not JSON, 8 MiB", post("/threads", body("x".repeat(LARGEST)))],
  ["quotes alone, 8 MiB", post("/threads", body('"'.repeat(LARGEST)))],
  ["unknown fields, as many as a body may hold", post("/threads", body(members(VALUES - 10)))],

  [
    "search by metadata, as many keys as a body may hold",
    post("/threads/search", body(`{"metadata":${members(VALUES - 10)}}`)),
  ],
  [
    "search by values, as many keys as a body may hold",
    post("/threads/search", body(`{"values":${members(VALUES - 10)}}`)),
  ],
  [
    "search by a list of metadata in a thread that has it",
    async (client) => {
      const list = `[${many(100, (i) => `{"i":${i}}`)}]`;
      const answer = await client.ask("POST", "/threads", body(`{"metadata":{"list":${list}}}`));
      if (answer.status >= 400) throw new Error(answer.text);
      return () => client.ask("POST", "/threads/search", body(`{"metadata":{"list":${list}}}`));
    },
  ],
  [
    "search by ids, as many as a body may hold",
    post(
      "/threads/search",
      of({
        ids: Array.from({ length: VALUES - 10 }, (_, i) => `00000000-0000-4000-8000-${String(i).padStart(12, "0")}`),
      }),
    ),
  ],
  [
    "search, rows of 1 MiB",
    async (client) => {
      for (let i = 0; i < 12; i++)
        await client.ask("POST", "/threads", body(`{"metadata":{"big":"${"z".repeat(1_000_000)}"}}`));
      return () => client.ask("POST", "/threads/search", of({ limit: 10 }));
    },
  ],

  ["input of a function, as many keys as a body may hold", wait("echo", `"input":${members(VALUES - 20)}`)],
  ["input of a function, 8 MiB of keys", wait("echo", `"input":${members(FULL)}`)],
  ["input of a function, one string", wait("echo", `"input":{"a":${string}}`)],
  ["input of a function, one string of escapes", wait("echo", `"input":{"a":${escapes}}`)],
  ["input of a function, one string of quotes", wait("echo", `"input":{"a":${quotes}}`)],
  ["input of a function, many messages", wait("echo", `"input":{"messages":${messages(6_000)}}`)],
  [
    "input of a function, streamed in every mode",
    onThread("/runs/stream", () =>
      body(
        `{"assistant_id":"echo","stream_mode":["values","updates","debug","tasks","checkpoints","events","messages"],"input":${members(VALUES - 40)}}`,
      ),
    ),
  ],
  [
    "input of a function, a large string streamed in every mode",
    onThread("/runs/stream", () =>
      body(
        `{"assistant_id":"echo","stream_mode":["values","updates","debug","tasks","checkpoints","events","messages"],"stream_resumable":true,"input":{"a":${string}}}`,
      ),
    ),
  ],
  ["input of a graph, many messages", wait("chat", `"input":{"messages":${messages(6_000)}}`)],
  ["input of a graph, as many values as a body may hold", wait("keep", `"input":{"data":${members(VALUES - 20)}}`)],
  ["input of a graph, one string", wait("keep", `"input":{"data":${string}}`)],
  [
    "configurable and context, as many keys as a body may hold",
    wait(
      "echo",
      `"input":{},"config":{"configurable":${members(VALUES / 2 - 20)}},"context":${members(VALUES / 2 - 20)}`,
    ),
  ],
  [
    "configurable, keys that end in key",
    wait("echo", `"input":{},"config":{"configurable":${`{${many(VALUES - 40, (i) => `"k${i}_key":1`)}}`}}`),
  ],
  ["metadata of a run", wait("echo", `"input":{},"metadata":${members(VALUES - 20)}`)],
  [
    "command.resume by as many ids as a body may hold",
    async (client) => {
      const id = await thread(client);
      await client.json("POST", `/threads/${id}/runs/wait`, { assistant_id: "ask", input: {} });
      return () =>
        client.ask(
          "POST",
          `/threads/${id}/runs/wait`,
          body(`{"assistant_id":"ask","command":{"resume":${members(VALUES - 20)}}}`),
        );
    },
  ],
  ["command.update by pairs", wait("echo", `"command":{"update":[${many(8_000, (i) => `["k${i}",1]`)}]}`)],
  [
    "command.goto of a function",
    wait("echo", `"command":{"goto":[${many(100, () => '{"node":"echo","input":{"a":1}}')}]}`),
  ],
  [
    "command.goto of a graph",
    wait("keep", `"command":{"goto":[${many(100, () => '{"node":"keep","input":{"data":1}}')}]}`),
  ],
  ["feedback_keys", wait("echo", `"input":{},"feedback_keys":[${many(VALUES - 20, (i) => `"f${i}"`)}]`)],
  ["interrupt_before", wait("echo", `"input":{},"interrupt_before":[${many(VALUES - 20, (i) => `"n${i}"`)}]`)],
  ["stream_mode", wait("echo", `"input":{},"stream_mode":[${many(VALUES - 20, () => `"values"`)}]`)],
  ["batch of runs", post("/runs/batch", body(`[${many(100, () => '{"assistant_id":"echo","input":{}}')}]`))],
  [
    "cancel of runs",
    post(
      "/runs/cancel",
      of({
        thread_id: "00000000-0000-4000-8000-000000000000",
        run_ids: Array.from({ length: VALUES - 20 }, () => "00000000-0000-4000-8000-000000000000"),
      }),
    ),
  ],

  [
    "update of a state, as many keys as a body may hold",
    reading("{}", "/state", "POST", body(`{"values":${members(VALUES - 20)}}`)),
  ],
  [
    "update of a state, a list of changes",
    reading("{}", "/state", "POST", body(`{"values":[${many(8_000, (i) => `{"k${i}":1}`)}]}`)),
  ],
  ["update of a state, one string", reading("{}", "/state", "POST", body(`{"values":{"a":${string}}}`))],
  [
    "supersteps with many updates",
    post(
      "/threads",
      body(
        `{"metadata":{"graph_id":"echo"},"supersteps":[{"updates":[${many(6_000, (i) => `{"values":{"k${i}":1},"as_node":"echo"}`)}]}]}`,
      ),
    ),
  ],
  [
    "supersteps, many",
    post(
      "/threads",
      body(
        `{"metadata":{"graph_id":"echo"},"supersteps":[${many(100, (i) => `{"updates":[{"values":${members(200, () => i)},"as_node":"echo"}]}`)}]}`,
      ),
    ),
  ],
  [
    "messages changed one by one",
    reading(
      `{"messages":${messages(2_000)}}`,
      "/state",
      "POST",
      body(`{"values":[${many(2_000, (i) => `{"messages":[{"role":"user","content":"again","id":"m${i}"}]}`)}]}`),
    ),
  ],
  ["state read, as many keys as a body may hold", reading(members(VALUES - 20), "/state")],
  ["state read, one string", reading(`{"a":${string}}`, "/state")],
  [
    "state read, selected by as many fields as it has",
    async (client) => {
      const id = await filled(client, members(VALUES - 20));
      const { checkpoint } = await client.json("GET", `/threads/${id}/state`);
      const select = Array.from({ length: VALUES - 40 }, (_, i) => `values.k${i}`);
      return () => client.ask("POST", `/threads/${id}/state/checkpoint`, of({ checkpoint, select }));
    },
  ],
  ["history of states with many keys", reading(members(VALUES - 20), "/history?limit=10")],
  ["history of states with a large string", reading(`{"a":${string}}`, "/history?limit=10")],
  [
    "a run on a state with many keys",
    async (client) => {
      const id = await filled(client, members(VALUES - 20));
      return () => client.ask("POST", `/threads/${id}/runs/wait`, body('{"assistant_id":"echo","input":{"k1":2}}'));
    },
  ],
  ["a copy of a thread with many keys", reading(members(VALUES - 20), "/copy", "POST")],

  ...AGENT_PROTOCOLS,

  [
    "store item with many keys",
    async (client) => () =>
      client.ask("PUT", "/store/items", body(`{"namespace":["a"],"key":"k","value":${members(VALUES - 20)}}`)),
  ],
  [
    "store search by many fields",
    post("/store/items/search", body(`{"namespace_prefix":["a"],"filter":${members(VALUES - 20)}}`)),
  ],
  [
    "store namespace with many labels",
    post("/store/namespaces", of({ prefix: Array.from({ length: VALUES - 20 }, () => "a") })),
  ],
  [
    "assistant with many keys",
    post(
      "/assistants",
      body(
        `{"graph_id":"echo","metadata":${members(VALUES / 2 - 20)},"config":{"configurable":${members(VALUES / 2 - 20)}}}`,
      ),
    ),
  ],
  [
    "cron with many keys",
    post(
      "/runs/crons",
      body(
        `{"assistant_id":"echo","schedule":"0 0 1 1 *","input":${members(VALUES / 2 - 40)},"metadata":${members(VALUES / 2 - 40)}}`,
      ),
    ),
  ],
  [
    "cron with a long schedule",
    post("/runs/crons", body(`{"assistant_id":"echo","schedule":"${"*,".repeat(1_000_000)}","input":{}}`)),
  ],
  ["webhook of 8 MiB", wait("echo", `"input":{},"webhook":"https://example.com/${"a".repeat(LARGEST)}"`)],
  ["assistant_id of 8 MiB", post("/runs/wait", body(`{"assistant_id":${string},"input":{}}`))],
  [
    "feedback with many keys",
    post(
      "/api/v1/feedback",
      body(`{"run_id":"00000000-0000-4000-8000-000000000000","key":"k","value":${members(VALUES - 20)}}`),
    ),
  ],
  [
    "usage by the hour over a thousand years",
    async (client) => () =>
      client.ask(
        "GET",
        "/api/v1/orgs/current/billing/granular-usage?start_time=1026-01-01T00:00:00Z&end_time=2026-11-01T00:00:00Z&stride=hour",
      ),
  ],
  [
    "many query parameters",
    async (client) => () =>
      client.ask(
        "GET",
        `/threads/00000000-0000-4000-8000-000000000000/history?${many(2_000, (i) => `limit=${i}`).replaceAll(",", "&")}`,
      ),
  ],
  [
    "many headers",
    async (client) => () =>
      client.ask(
        "GET",
        "/info",
        undefined,
        Object.fromEntries(Array.from({ length: 900 }, (_, i) => [`x-h${i}`, "1"])),
      ),
  ],
].map(([name, prepare]) => ({ name, prepare }));
