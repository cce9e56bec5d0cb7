// Layers one by one and what each promise costs: `npm run bench -- --only costs`.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { cpuMs, median } from "./load.mjs";
import { program, scratch } from "./servers.mjs";
import { align } from "./table.mjs";

/** The layers of one process, then the same over HTTP. */
export async function measureCosts({ runtime, serve, size }) {
  const folder = join(scratch, "costs");
  mkdirSync(folder, { recursive: true });
  const rounds = Math.min(3, size.rounds);
  const layers = await program(runtime, "layers.mjs", folder, String(rounds), String(size.seconds / 2));
  const over = {
    "function, over HTTP, file": "greenroom without LangGraph",
    "LangGraph, over HTTP, file": "greenroom",
  };
  for (const [layer, name] of Object.entries({ ...over, "by hand, over HTTP, file": "hand" })) {
    const { client, pid, stop } = await serve(name);
    const figures = { cpu_us: [], lone_us: [], lone_cpu_us: [] };
    const loop = async (clients, seconds) => {
      const before = cpuMs(pid);
      const { n, p50 } = await client.closedLoop(clients, seconds, client.wait);
      return { p50_us: p50 * 1000, cpu_us: ((cpuMs(pid) - before) / n) * 1000 };
    };
    await client.closedLoop(16, 8, client.wait, 1500);
    for (let round = 0; round < rounds; round += 1) {
      figures.cpu_us.push((await loop(64, size.seconds)).cpu_us);
      const single = await loop(1, size.seconds / 2);
      figures.lone_us.push(single.p50_us);
      figures.lone_cpu_us.push(single.cpu_us);
    }
    await stop();
    layers[layer] = figures;
  }
  const promises = await program(runtime, "promises.mjs", folder, size.quick ? "300" : "2000");
  return { layers, promises };
}

/** Returns the rows of the main table that this measurement adds. */
export function noteCosts({ layers, promises }, note) {
  noteSpans(promises, note);
  const memory = layers["function, in process, :memory:"].cpu_us;
  const file = layers["function, in process, file"].cpu_us;
  for (const [i, us] of memory.entries()) note("greenroom", { function_cpu_ms: us / 1000, file_ratio: file[i] / us });
}

/** The bytes that the trace of a run may have, and those of each of its spans. */
const BYTES_OF_TRACE = 500;
const BYTES_OF_SPAN = 300;

/** Adds the cost of spans: their time beside that of events, and their bytes beside those that they may have. */
function noteSpans({ runs, spans: { us, events_us, span_us, count } }, note) {
  note("greenroom", { spans_time_ratio: us / events_us, span_us });
  const [, many] = Object.entries(runs).find(([name]) => name.endsWith(" spans"));
  for (const [number, run] of [
    [1, runs["a stateless run"]],
    [count, many],
  ]) {
    const { bytes } = run.promises["spans are kept"];
    note("greenroom", { spans_bytes_share: bytes / (BYTES_OF_TRACE + BYTES_OF_SPAN * number) });
  }
}

export function showCosts({ layers, promises }) {
  const us = (list) =>
    `${Math.round(median(list))} (${Math.round(Math.min(...list))}..${Math.round(Math.max(...list))})`;
  const table = [["Layer, µs per run (min..max)", "64 at once, CPU", "one at a time, wall", "one at a time, CPU"]];
  for (const [name, { cpu_us, lone_us, lone_cpu_us }] of Object.entries(layers))
    table.push([name, us(cpu_us), us(lone_us), us(lone_cpu_us)]);
  const blocks = [align(table)];
  const row = (name, { statements, bytes, us }) => [
    `  ${name}`,
    statements.toFixed(2),
    Math.round(bytes),
    us.toFixed(1),
  ];
  for (const [name, run] of Object.entries(promises.runs)) {
    const inside = Object.entries(run.promises).toSorted(([, a], [, b]) => b.us - a.us);
    const head = `One after the other: ${name}, ${Math.round(run.us)} µs, ${Math.round(run.cpu_us)} of CPU`;
    blocks.push(align([[head, "calls", "bytes", "µs"], ...inside.map(([promise, of]) => row(promise, of))]));
  }
  const { renewal, checks } = promises;
  const { "no check": without, ...checked } = checks;
  const lines = Object.entries(checked).map(([name, cost]) => [`  ${name}`, "", "", (cost - without).toFixed(1)]);
  const head = [`Others (a request without checks: ${without.toFixed(1)} µs of CPU)`, "calls", "bytes", "µs"];
  blocks.push(align([head, row("one renewal of a lease, every third of lease_ms", renewal), ...lines]));
  return `\n${blocks.join("\n\n")}`;
}
