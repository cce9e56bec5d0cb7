// What each layer costs, from LangGraph alone to a handler on a file, in one process. Prints JSON: figures by layer and round.
//   bun|node bench/layers.mjs FOLDER ROUNDS SECONDS
import { join } from "node:path";
import process from "node:process";
import { langgraph } from "../adapters/langgraph/mod.ts";
import { createHandler } from "../lib/http/handler.ts";
import { createService, fromFunctions } from "../lib/mod.ts";
import { quantiles } from "./load.mjs";
import { echo, echoWithSaver } from "./peers/graphs.mjs";

const [, , folder, rounds, seconds] = process.argv;
const open =
  "Bun" in globalThis
    ? (await import("../adapters/sqlite/bun.ts")).bunSqlite
    : (await import("../adapters/sqlite/node.ts")).nodeSqlite;
const input = () => ({ messages: [{ role: "user", content: "hello" }] });
const reply = () => ({ messages: [{ type: "ai", content: "echo: hello" }] });
const services = [];

async function openService(executor, path) {
  const service = await createService({
    storage: open(path),
    executor,
    worker: { concurrency: 100 },
    environment: { log() {} },
  });
  services.push(service);
  const request = { assistant_id: "echo", input: input() };
  const body = JSON.stringify(request);
  const headers = { "content-type": "application/json" };
  const handler = createHandler(service);
  return {
    direct: async () => (await service.runs.wait(null, { ...request, input: input() })).result,
    handled: async () =>
      (await handler(new Request("http://127.0.0.1/runs/wait", { method: "POST", headers, body }))).text(),
  };
}
const functions = () => fromFunctions({ echo: reply });
const graphs = () => langgraph({ echo });
const saver = echoWithSaver();

async function stream() {
  const configurable = { thread_id: crypto.randomUUID() };
  for await (const _ of await saver.stream(input(), { configurable, durability: "exit", streamMode: "values" }));
}

const [functionInMemory, functionOnFile] = [
  await openService(functions(), ":memory:"),
  await openService(functions(), join(folder, "functions.db")),
];
const [graphInMemory, graphOnFile] = [
  await openService(graphs(), ":memory:"),
  await openService(graphs(), join(folder, "graphs.db")),
];
const layers = {
  "graph.invoke alone": () => echo.invoke(input()),
  "graph.stream, saver in memory": stream,
  "function, in process, :memory:": functionInMemory.direct,
  "function, createHandler, :memory:": functionInMemory.handled,
  "function, in process, file": functionOnFile.direct,
  "function, createHandler, file": functionOnFile.handled,
  "LangGraph, in process, :memory:": graphInMemory.direct,
  "LangGraph, in process, file": graphOnFile.direct,
  "LangGraph, createHandler, file": graphOnFile.handled,
};

/** Runs an operation with `clients` loops for `ms`. Returns the median time of one, and the CPU of this process for each. */
async function loop(clients, operation, ms) {
  const times = [];
  const before = process.cpuUsage();
  const began = performance.now();
  const runUntilEnd = async () => {
    while (performance.now() - began < ms) {
      const from = performance.now();
      await operation();
      times.push(performance.now() - from);
    }
  };
  await Promise.all(Array.from({ length: clients }, runUntilEnd));
  const { user, system } = process.cpuUsage(before);
  return { p50_us: quantiles(times).p50 * 1000, cpu_us: (user + system) / times.length };
}

const ms = Number(seconds) * 1000;
// Until the compiler has little left to do.
for (const operation of Object.values(layers)) await loop(64, operation, 4000);
const figures = {};
for (let round = 0; round < Number(rounds); round += 1) {
  for (const [name, operation] of Object.entries(layers)) {
    const many = await loop(64, operation, ms);
    const single = await loop(1, operation, ms / 2);
    figures[name] ??= { cpu_us: [], lone_us: [], lone_cpu_us: [] };
    figures[name].cpu_us.push(many.cpu_us);
    figures[name].lone_us.push(single.p50_us);
    figures[name].lone_cpu_us.push(single.cpu_us);
  }
}
for (const service of services) await service.stop(0);
console.log(JSON.stringify(figures));
process.exit();
