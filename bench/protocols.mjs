#!/usr/bin/env node
// 100 streams of 200 tokens at 5 ms on each protocol, beside `/runs/stream` of the same server: CPU of the server for a stream.
//   node bench/protocols.mjs [--runtime bun] [--rounds 5]
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { cpuMs, median } from "./load.mjs";
import { createServerStarter, scratch } from "./servers.mjs";

const { values } = parseArgs({
  options: { runtime: { type: "string", default: "bun" }, rounds: { type: "string", default: "5" } },
});
const LIMIT = 1.3;
const STREAMS = 100;
const rpc = (method, params) => ({ jsonrpc: "2.0", id: 1, method, params });
const meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
const messages = [{ role: "user", content: "hello" }];

/** A request of each protocol that streams the run of the agent `tokens`; MCP tells its progress. */
const PROTOCOLS = {
  "/runs/stream": () => [
    "/runs/stream",
    { assistant_id: "tokens", input: { messages }, stream_mode: ["messages-tuple"] },
  ],
  "AI SDK": () => [
    "/ai/tokens/chat",
    {
      id: randomUUID(),
      trigger: "submit-message",
      messages: [{ id: randomUUID(), role: "user", parts: [{ type: "text", text: "hello" }] }],
    },
  ],
  "AG-UI": () => [
    "/ag-ui/tokens",
    {
      threadId: randomUUID(),
      runId: randomUUID(),
      messages: messages.map((message) => ({ id: randomUUID(), ...message })),
      tools: [],
      context: [],
      state: {},
      forwardedProps: {},
    },
  ],
  A2A: () => [
    "/a2a/tokens",
    rpc("SendStreamingMessage", {
      message: { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text: "hello" }] },
    }),
    { "a2a-version": "1.0" },
  ],
  MCP: () => [
    "/mcp",
    rpc("tools/call", { name: "tokens", arguments: { message: "hello" }, _meta: { ...meta, progressToken: "p" } }),
    {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "tokens",
    },
  ],
};

async function stream(url, make) {
  const [path, body, headers = {}] = make();
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok || !text.includes("t199 ")) throw new Error(`${path}: ${response.status} ${text.slice(0, 300)}`);
  return text.length;
}

const server = await createServerStarter({ runtime: values.runtime, workers: "100" })(
  "greenroom",
  join(scratch, "protocols"),
);
const figures = Object.fromEntries(Object.keys(PROTOCOLS).map((name) => [name, { cpu: [], ratio: [], bytes: 0 }]));
for (let round = 0; round <= Number(values.rounds); round++) {
  let base = 0;
  for (const [name, make] of Object.entries(PROTOCOLS)) {
    const before = cpuMs(server.pid);
    const sizes = await Promise.all(Array.from({ length: STREAMS }, () => stream(server.url, make)));
    const cpu = (cpuMs(server.pid) - before) / STREAMS;
    if (name === "/runs/stream") base = cpu;
    if (round === 0) continue; // the JIT settles
    figures[name].cpu.push(cpu);
    figures[name].ratio.push(cpu / base);
    figures[name].bytes = sizes[0];
  }
}
await server.stop();
console.log(
  `| ${STREAMS} streams of 200 tokens | CPU of a stream | beside /runs/stream | bytes |\n| --- | --- | --- | --- |`,
);
let over = 0;
for (const [name, { cpu, ratio, bytes }] of Object.entries(figures)) {
  const middle = median(ratio);
  if (middle > LIMIT) over += 1;
  const spread = `${Math.min(...ratio).toFixed(2)} to ${Math.max(...ratio).toFixed(2)}`;
  console.log(`| ${name} | ${median(cpu).toFixed(1)} ms | ${middle.toFixed(2)} (${spread}) | ${bytes} |`);
}
console.log(`${over} protocols over ${LIMIT}`);
process.exitCode = over > 0 ? 1 : 0;
