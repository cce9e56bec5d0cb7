// What a user would write without Greenroom: an HTTP server, LangGraph.js and SQLite. A run is two commits with synchronous=FULL, its
// start and its end; commits that come together share one. Its threads are in memory. It has no recovery, cancellation or validation.
//   bun|node bench/handwritten.mjs FILE     serves POST /runs/wait, POST /runs/stream, POST /threads, their runs and GET /ok
import http from "node:http";
import { burst, echo, tokens } from "./peers/graphs.mjs";

const graphs = { echo, tokens, burst };
const { Database, DatabaseSync = Database } = await import(globalThis.Bun ? "bun:sqlite" : "node:sqlite");
const db = new DatabaseSync(process.argv[2]);
db.exec("pragma journal_mode = wal");
db.exec("pragma synchronous = full");
db.exec("create table if not exists runs (id text primary key, input text, status text, output text)");
const insert = db.prepare("insert into runs values (?, ?, ?, null)");
const update = db.prepare("update runs set status = ?, output = ? where id = ?");

let queue = [];
function commit(write) {
  return new Promise((resolve) => {
    if (queue.push([write, resolve]) > 1) return;
    setImmediate(() => {
      const group = queue;
      queue = [];
      db.exec("begin");
      for (const [write] of group) write();
      db.exec("commit");
      for (const [, resolve] of group) resolve();
    });
  });
}

async function begin(input) {
  const id = crypto.randomUUID();
  await commit(() => insert.run(id, JSON.stringify(input), "running"));
  return id;
}

async function wait({ assistant_id, input }) {
  const id = await begin(input);
  const state = JSON.stringify(await graphs[assistant_id].invoke(input));
  await commit(() => update.run("success", state, id));
  return state;
}

const threads = new Map();

function begunThread() {
  const thread_id = crypto.randomUUID();
  threads.set(thread_id, []);
  return JSON.stringify({ thread_id });
}

/** Runs the graph on a thread. The messages so far are in a Map, and the state is written whole. */
async function turn(thread_id, { assistant_id, input }) {
  const id = await begin(input);
  const { messages } = await graphs[assistant_id].invoke({
    messages: [...threads.get(thread_id), ...input.messages],
  });
  threads.set(thread_id, messages);
  const state = JSON.stringify({ messages });
  await commit(() => update.run("success", state, id));
  return state;
}

/** Returns the response as JSON; undefined for a stream. */
async function answer(path, requestBody) {
  if (path === "/runs/wait") return await wait(requestBody);
  if (path === "/threads") return begunThread();
  const [, thread_id] = /^\/threads\/([^/]+)\/runs\/wait$/.exec(path) ?? [];
  return thread_id && (await turn(thread_id, requestBody));
}

async function stream({ assistant_id, input }, send) {
  const id = await begin(input);
  const event = (name, data) => send(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  event("metadata", { run_id: id });
  for await (const chunk of await graphs[assistant_id].stream(input, { streamMode: "messages" }))
    event("messages", chunk);
  await commit(() => update.run("success", "{}", id));
}

const json = { "content-type": "application/json" };
const sse = { "content-type": "text/event-stream" };

function listenOnBun() {
  const encoder = new TextEncoder();
  const fetch = async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/ok") return Response.json({ ok: true });
    const requestBody = await request.json();
    const text = await answer(pathname, requestBody);
    if (text) return new Response(text, { headers: json });
    const body = new ReadableStream({
      async start(out) {
        await stream(requestBody, (text) => out.enqueue(encoder.encode(text)));
        out.close();
      },
    });
    return new Response(body, { headers: sse });
  };
  return Bun.serve({ port: 0, hostname: "127.0.0.1", idleTimeout: 0, fetch }).port;
}

async function listenOnNode() {
  const server = http.createServer(async (request, response) => {
    if (request.url === "/ok") return response.writeHead(200, json).end('{"ok":true}');
    const parts = [];
    for await (const part of request) parts.push(part);
    const requestBody = JSON.parse(Buffer.concat(parts).toString());
    const text = await answer(request.url, requestBody);
    if (text) return response.writeHead(200, json).end(text);
    response.writeHead(200, sse);
    await stream(requestBody, (text) => response.write(text));
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server.address().port;
}

console.log(`listening on http://127.0.0.1:${globalThis.Bun ? listenOnBun() : await listenOnNode()}`);
