#!/usr/bin/env node
// Greenroom, a server written by hand and the peer on one machine in one call, interleaved; prints ratios. See README.md.
import { spawnSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { measureCosts, noteCosts, showCosts } from "./costs.mjs";
import { measureRound, otherParts, roundParts } from "./parts.mjs";
import { createServerStarter, program, scratch } from "./servers.mjs";
import { createRows, formatTable, show } from "./table.mjs";

const PARTS = [...roundParts, ...Object.keys(otherParts), "costs"];
const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    "no-peer": { type: "boolean", default: false },
    runtime: { type: "string", default: "bun" }, // of every server but the peer
    workers: { type: "string", default: "100" }, // runs at once, of Greenroom and of the peer
    json: { type: "string" },
    only: { type: "string", default: PARTS.join() },
    profile: { type: "string" }, // a folder for CPU profiles of Greenroom
  },
});
const { quick, runtime, workers, profile } = options;
const parts = options.only.split(",");
if (runtime !== "bun" && runtime !== "node") throw new Error("--runtime: bun or node");
if (parts.some((part) => !PARTS.includes(part))) throw new Error(`--only: some of ${PARTS.join()}`);
const size = quick
  ? { quick, rounds: 2, peerRounds: 1, seconds: 1, runs: 6_000, memorySeconds: 15, starts: 3, suspended: 1_000 }
  : { quick, rounds: 3, peerRounds: 2, seconds: 4, runs: 30_000, memorySeconds: 60, starts: 9, suspended: 10_000 };

const peers = join(import.meta.dirname, "peers");
const withPeer = !options["no-peer"];
if (withPeer && !existsSync(join(peers, "node_modules"))) {
  console.error("Installing the peer in bench/peers");
  const { status } = spawnSync("npm", ["install", "--no-package-lock", "--no-audit", "--no-fund"], {
    cwd: peers,
    stdio: "inherit",
    timeout: 180_000,
  });
  if (status !== 0) throw new Error("The peer cannot be installed; leave it out with --no-peer");
}

if (parts.includes("start")) {
  const { status } = spawnSync("npm", ["run", "build"], { cwd: join(import.meta.dirname, ".."), timeout: 180_000 });
  if (status !== 0) throw new Error("npm run build failed");
}

const deadline = setTimeout(
  () => {
    console.error("Took too long");
    process.exit(1);
  },
  (quick ? 30 : 60) * 60_000,
);
deadline.unref();

// figures[figure][system] is the list of what each round measured.
const figures = {};
function note(system, measured) {
  for (const [figure, value] of Object.entries(measured)) {
    figures[figure] ??= {};
    figures[figure][system] ??= [];
    figures[figure][system].push(value);
  }
}

const serve = createServerStarter({ runtime, workers, profile });
const began = performance.now();
const progress = (what) => console.error(`${what}: ${Math.round((performance.now() - began) / 1000)} s`);
const load = [loadavg()[0]];
note("machine", await program(runtime, "commits.mjs", scratch));
const rounds = parts.some((part) => roundParts.includes(part)) ? size.rounds : 0;
for (let number = 0; number < rounds; number += 1) {
  const names = ["hand", "greenroom", ...(withPeer && number < size.peerRounds ? ["peer"] : [])];
  await measureRound({ serve, note, size, parts, names });
  progress(`round ${number + 1} of ${rounds}`);
}
for (const [name, measure] of Object.entries(otherParts)) {
  if (!parts.includes(name)) continue;
  await measure({ serve, note, size, runtime, withPeer });
  progress(name);
}
const costs = parts.includes("costs") ? await measureCosts({ runtime, serve, size }) : undefined;
if (costs) noteCosts(costs, note);
note("machine", await program(runtime, "commits.mjs", scratch));
load.push(loadavg()[0]);

const rows = createRows(figures, runtime);
if (rows.length > 0) console.log(formatTable(rows));
if (costs) console.log(showCosts(costs));
const machine = (figure) => figures[figure].machine.map(show).join(", ");
console.log(`
All servers but the peer on ${runtime}; peer: @langchain/langgraph-api 1.5.1 on Node${withPeer ? "" : " (left out)"}
* the smallest HTTP server. ${runtime === "node" ? "On Node the least may be missed by a factor of 1.3." : ""}
Before and after: fsync of 4 KiB ${machine("fsync_ms")} ms; commit with synchronous=FULL ${machine("commit_ms")} ms; load average ${load.map((value) => value.toFixed(1)).join(", ")}
${cpus().length} cores; took ${Math.round((performance.now() - began) / 1000)} s`);
if (options.json) {
  const machine_of = { cores: cpus().length, model: cpus()[0]?.model };
  const text = JSON.stringify({ runtime, quick, machine: machine_of, load, rows, costs, figures }, null, 1);
  writeFileSync(options.json, text);
}
process.exit(rows.some(({ verdict }) => verdict === "FAILED") ? 1 : 0);
