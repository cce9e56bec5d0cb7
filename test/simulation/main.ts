/**
 * The simulation's command line.
 *
 *   node test/simulation/main.ts --seeds 50000 --jobs 2      the long form: seeds 1 to 50,000 in two processes
 *   node test/simulation/main.ts --seed 1234 --trace         one seed, with the last 200 things that happened
 *   node test/simulation/main.ts --seed 1234 --shrink        which faults, and how much of the load, its failure needs
 *   node test/simulation/main.ts --planted --jobs 2          plants faults in copies of the code and shows what finds each
 *
 *   node test/simulation/main.ts --durable --seeds 3000      durable functions: steps, sleeps, waits and asks
 *
 * The same on Bun and Deno. `--from N` is the first seed, `--hashes` prints the hash of every seed, `--stop` ends at the first
 * failure, `--counts` tells how often what happened, `--all` shows the whole trace, `--without crash,pause` leaves faults out,
 * `--halve 1` halves the load, `--skew 5000` sets the machines' clocks apart, `--ignore REGEX` takes violations for none, `--only REGEX` chooses planted faults.
 */
import { spawn } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { simulateDurable } from "./durable/simulate.ts";
import { createPlan } from "./plan.ts";
import { type SimulateOptions, simulate } from "./simulate.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "1" },
    step: { type: "string", default: "1" },
    jobs: { type: "string", default: "1" },
    seed: { type: "string" },
    trace: { type: "boolean", default: false },
    all: { type: "boolean", default: false },
    shrink: { type: "boolean", default: false },
    planted: { type: "boolean", default: false },
    only: { type: "string", default: "." },
    without: { type: "string", default: "" },
    halve: { type: "string", default: "0" },
    hashes: { type: "boolean", default: false },
    counts: { type: "boolean", default: false },
    stop: { type: "boolean", default: false },
    ignore: { type: "string" },
    skew: { type: "string", default: "0" },
    durable: { type: "boolean", default: false },
  },
});

const options: SimulateOptions = {
  without: values.without.split(",").filter(Boolean),
  halve: Number(values.halve),
  skew_ms: Number(values.skew),
  trace: values.all ? 1_000_000 : 200,
  ...(values.ignore ? { ignore: new RegExp(values.ignore) } : {}),
};
const jobs = Number(values.jobs);

/** Runs seeds in this process; gives the number of those that failed. */
async function run(from: number, count: number, step: number): Promise<number> {
  const totals: Record<string, number> = {};
  let failed = 0;
  for (let i = 0, seed = from; i < count; i++, seed += step) {
    const { hash, violations, trace, counts } = values.durable
      ? { hash: "", ...(await simulateDurable(seed)) }
      : await simulate(seed, options);
    if (values.hashes) console.log(`${seed} ${hash}`);
    for (const [name, n] of Object.entries(counts)) totals[name] = (totals[name] ?? 0) + n;
    if (values.all || (values.trace && (values.seed || violations.length > 0))) console.log(trace.join("\n"));
    const [first] = violations;
    if (!first) continue;
    failed++;
    console.log(`seed ${seed} FAILED: ${first.rule}: ${first.text}`);
    if (values.stop) break;
  }
  if (values.counts) {
    for (const [name, n] of Object.entries(totals).sort()) console.log(`${String(n).padStart(9)} ${name}`);
  }
  return failed;
}

/** Runs the seeds in several processes, each with every nth seed. */
async function runInParts(from: number, count: number): Promise<number> {
  const ownArgs = process.argv.slice(2).filter((arg, i, all) => arg !== "--jobs" && all[i - 1] !== "--jobs");
  const flags = process.versions["deno"] ? ["run", "-A", "--no-check"] : [];
  const part = (i: number): Promise<number> => {
    const share = [
      "--from",
      String(from + i),
      "--step",
      String(jobs),
      "--seeds",
      String(Math.ceil((count - i) / jobs)),
    ];
    const child = spawn(process.execPath, [...flags, fileURLToPath(import.meta.url), ...ownArgs, ...share], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let failed = 0;
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => child.kill());
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      failed += text.match(/^seed \d+ FAILED/gm)?.length ?? 0;
      process.stdout.write(text.replace(/^\d+ seeds in .*\n/gm, ""));
    });
    return new Promise((resolve) =>
      child.on("close", (code) => resolve(failed + (code !== 0 && failed === 0 ? 1 : 0))),
    );
  };
  const parts = await Promise.all(Array.from({ length: jobs }, (_, i) => part(i)));
  return parts.reduce((sum, failed) => sum + failed, 0);
}

/** Leaves faults out one by one, then halves the load, for as long as the seed still fails. */
async function shrink(seed: number): Promise<void> {
  const without: string[] = [...(options.without ?? [])];
  const fails = async (also: readonly string[], halve: number): Promise<boolean> =>
    (await simulate(seed, { ...options, without: also, halve })).violations.length > 0;
  if (!(await fails(without, 0))) return console.log(`seed ${seed} does not fail`);
  for (const fault of createPlan(seed, without).faults) {
    if (await fails([...without, fault], 0)) without.push(fault);
  }
  let halve = 0;
  while (halve < 4 && (await fails(without, halve + 1))) halve++;
  console.log(`needed: ${[...createPlan(seed, without).faults].join(", ") || "no fault"}, load halved ${halve} times`);
  console.log(`--seed ${seed} --without ${without.join(",")} --halve ${halve} --trace`);
}

if (values.planted) {
  const { showPlanted } = await import("./planted.ts");
  const allFound = await showPlanted(Number(values.seeds), jobs, new RegExp(values.only));
  process.exitCode = allFound ? 0 : 1;
} else if (values.shrink) {
  await shrink(Number(values.seed));
} else {
  const from = Number(values.seed ?? values.from);
  const count = values.seed ? 1 : Number(values.seeds);
  const started = performance.now();
  const failed = jobs > 1 ? await runInParts(from, count) : await run(from, count, Number(values.step));
  const seconds = (performance.now() - started) / 1000;
  const speed = Math.round((count / seconds) * 60);
  console.log(`${count} seeds in ${seconds.toFixed(1)} s (${speed} per minute), ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}

// Calls that a killed machine never answers keep a process alive.
process.stdout.write("", () => process.exit());
