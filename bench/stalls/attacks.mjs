// Attacks by one API key, each on a server of its own. Another key reads a state of 7 MB all the while; see attack.mjs for what is measured.
import { connect } from "node:net";

const MB = 1024 * 1024;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const STATE_BYTES = 7 * MB;

/** A thread with `runs` runs. Each leaves three states of 7 MB in its history. */
async function createThread(client, runs, metadata = {}) {
  const { thread_id } = await client.json("POST", "/threads", { metadata });
  for (let n = 0; n < runs; n++) {
    const input = { data: `${n}${"x".repeat(STATE_BYTES)}` };
    await client.json("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "store", input });
  }
  return thread_id;
}

/** Sends one request on a connection of its own. `reads` false: takes the first bytes of the answer, then nothing. */
function send(client, method, path, { body = "", reads = true, headers = {} } = {}) {
  const lines = {
    host: "127.0.0.1",
    "x-api-key": client.key,
    connection: "close",
    ...(body ? { "content-type": "application/json", "content-length": Buffer.byteLength(body) } : {}),
    ...headers,
  };
  const head = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`);
  const call = { status: 0, length: 0, socket: undefined, closed: undefined };
  call.closed = new Promise((resolve) => {
    const socket = connect(client.port, "127.0.0.1", () => {
      socket.write(`${method} ${path} HTTP/1.1\r\n${head.join("")}\r\n`);
      if (body) socket.write(body);
    });
    call.socket = socket;
    socket.on("data", (bytes) => {
      if (call.status === 0)
        call.status = Number(/^HTTP\/1\.1 (\d{3})/.exec(bytes.toString("latin1", 0, 20))?.[1] ?? -1);
      call.length += bytes.length;
      if (!reads && call.status === 200) socket.pause();
    });
    socket.on("error", () => {});
    socket.on("close", () => resolve());
  });
  return call;
}

const sendMany = (count, make) => Array.from({ length: count }, (_, n) => make(n));

/** Opens clients that read nothing for `hold_ms` and then disconnect. */
async function holdUnread(calls, hold_ms) {
  await pause(hold_ms);
  const statuses = calls.map(({ status }) => status);
  for (const { socket } of calls) socket.destroy();
  // What the server goes on doing for clients that have left is measured as well.
  await pause(5_000);
  return statuses;
}

async function readAll(calls) {
  await Promise.all(calls.map(({ closed }) => closed));
  return calls.map(({ status }) => status);
}

export const attacks = [
  {
    name: "150 clients read nothing of a history of 84 MB",
    async prepare(client) {
      const thread_id = await createThread(client, 4);
      const path = `/threads/${thread_id}/history?limit=1000`;
      return () =>
        holdUnread(
          sendMany(150, () => send(client, "GET", path, { reads: false })),
          20_000,
        );
    },
  },
  {
    name: "500 clients read nothing of a state of 7 MB",
    async prepare(client) {
      const path = `/threads/${await createThread(client, 1)}/state`;
      return () =>
        holdUnread(
          sendMany(500, () => send(client, "GET", path, { reads: false })),
          30_000,
        );
    },
  },
  {
    name: "500 clients change a thread of 7 MB and read nothing",
    async prepare(client) {
      const path = `/threads/${await createThread(client, 1)}`;
      return () =>
        holdUnread(
          sendMany(500, () => send(client, "PATCH", path, { reads: false, body: '{"metadata":{"a":1}}' })),
          30_000,
        );
    },
  },
  {
    name: "40 clients read a history of 84 MB",
    async prepare(client) {
      const path = `/threads/${await createThread(client, 4)}/history?limit=1000`;
      return () => readAll(sendMany(40, () => send(client, "GET", path)));
    },
  },
  {
    name: "20 inputs of 8 MB",
    async prepare(client) {
      const threads = [];
      for (let n = 0; n < 20; n++) threads.push((await client.json("POST", "/threads", {})).thread_id);
      const input = { data: "x".repeat(8 * MB - 64 * 1024) };
      const body = JSON.stringify({ assistant_id: "store", input });
      return () => readAll(threads.map((id) => send(client, "POST", `/threads/${id}/runs/wait`, { body })));
    },
  },
  {
    name: "10 searches over 12 states of 7 MB",
    async prepare(client) {
      for (let n = 0; n < 12; n++) await createThread(client, 1, { kind: "large" });
      const body = '{"metadata":{"kind":"large"},"limit":12}';
      return () => readAll(sendMany(10, () => send(client, "POST", "/threads/search", { body })));
    },
  },
  {
    name: "a batch of 50 tools/list with 1,000 assistants as tools",
    async prepare(client) {
      for (let n = 0; n < 1_000; n++) {
        const assistant = { graph_id: "echo", name: `tool ${n}`, metadata: { mcp: { tool: true } } };
        await client.json("POST", "/assistants", assistant);
      }
      const message = (id) => `{"jsonrpc":"2.0","id":${id},"method":"tools/list","params":{}}`;
      const body = `[${Array.from({ length: 50 }, (_, id) => message(id)).join(",")}]`;
      const headers = { accept: "application/json, text/event-stream" };
      return () => readAll([send(client, "POST", "/mcp", { body, headers })]);
    },
  },
  {
    name: "ListTasks with 60 tasks of 100 KB in one context",
    async prepare(client) {
      const rpc = (method, params) => JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
      const headers = { "a2a-version": "1.0" };
      const contextId = crypto.randomUUID();
      for (let n = 0; n < 60; n++) {
        const message = { messageId: `m${n}`, contextId, role: "ROLE_USER", parts: [{ text: "x".repeat(100_000) }] };
        const [status] = await readAll([
          send(client, "POST", "/a2a/chat", { body: rpc("SendMessage", { message }), headers }),
        ]);
        if (status !== 200) throw new Error(`SendMessage: ${status}`);
      }
      const body = rpc("ListTasks", { contextId, pageSize: 100, includeArtifacts: true });
      return () => readAll([send(client, "POST", "/a2a/chat", { body, headers })]);
    },
  },
];
