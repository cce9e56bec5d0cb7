/**
 * Real processes under real faults. Prints one table row per figure and ends with 1 on any violation.
 *
 *   npm run soak -- NAME... [--long] [--keep]     NAME: answers, kill, postgres, claims, rollback, webhooks, readers, fsync, reconnect,
 *                                                 pauses, steps, or ci for all short forms. `--seed N` repeats the calls of steps
 *   npm run soak -- kill --kills N --runs N       until there were so many kills and acknowledged runs
 *   npm run soak -- judge FOLDER                  checks what a soak `kill` left that was cut off, from its files
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import * as answers from "./answers.ts";
import * as claims from "./claims.ts";
import * as fsync from "./fsync.ts";
import { judge } from "./kill/judge.ts";
import * as kill from "./kill.ts";
import * as pauses from "./pauses.ts";
import * as postgres from "./postgres.ts";
import * as readers from "./readers.ts";
import * as reconnect from "./reconnect.ts";
import { Report } from "./report.ts";
import * as rollback from "./rollback.ts";
import { cleanUp } from "./servers.ts";
import * as steps from "./steps.ts";
import * as webhooks from "./webhooks.ts";

type Program = (report: Report, long: boolean) => Promise<void>;

const programs: Record<string, Program> = {
  kill: (report, long) => kill.kill(report, kill.withCounts(long ? kill.LONG : kill.SHORT, counts)),
  postgres: (report, long) => postgres.postgres(report, long ? postgres.LONG : postgres.SHORT),
  answers: (report, long) => answers.answers(report, long ? answers.LONG : answers.SHORT),
  claims: (report, long) => claims.claims(report, long ? claims.LONG : claims.SHORT),
  fsync: (report, long) => fsync.fsync(report, long ? fsync.LONG : fsync.SHORT),
  pauses: (report, long) => pauses.pauses(report, long ? pauses.LONG : pauses.SHORT),
  readers: (report, long) => readers.readers(report, long ? readers.LONG : readers.SHORT),
  reconnect: (report, long) => reconnect.reconnect(report, long ? reconnect.LONG : reconnect.SHORT),
  rollback: (report, long) => rollback.rollback(report, long ? rollback.LONG : rollback.SHORT),
  steps: (report, long) => steps.steps(report, long ? steps.LONG : steps.SHORT, seed),
  webhooks: (report, long) => webhooks.webhooks(report, long ? webhooks.LONG : webhooks.SHORT),
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    long: { type: "boolean", default: false },
    keep: { type: "boolean", default: false },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    kills: { type: "string" },
    runs: { type: "string" },
  },
});
const seed = Number(values.seed);

function fail(text: string): never {
  console.error(text);
  process.exit(2);
}
function readCount(name: "kills" | "runs"): number | undefined {
  const text = values[name];
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,6}$/.test(text)) fail(`--${name} must be a whole number from 1 on`);
  if (!positionals.includes("kill")) fail(`--${name} is for the soak kill: npm run soak -- kill --${name} ${text}`);
  return Number(text);
}
const counts = { kills: readCount("kills"), runs: readCount("runs") };
// Lanes take about as long and run side by side: most of these is waiting for processes to start.
const LANES = [["kill", "readers"], ["postgres"]];
const unlisted = Object.keys(programs).filter((name) => !LANES.flat().includes(name));
const [first, folder = "", ...extraArgs] = positionals;
const judges = first === "judge";
if (judges && (folder === "" || extraArgs.length > 0))
  fail("Name the folder of one soak: npm run soak -- judge FOLDER");
if (judges) programs.judge = (report) => judge(report, resolve(folder));
const lanes = judges ? [["judge"]] : positionals.includes("ci") ? [...LANES, unlisted] : [positionals];
const names = lanes.flat();
const unknown = names.filter((name) => !(name in programs));
if (names.length === 0 || unknown.length > 0) {
  fail(`Name what to run: ${Object.keys(programs).join(", ")}, or ci for the short form of each`);
}

let failed = false;
// The files of a kill soak that is cut off are what it can be judged from.
let cut = false;
process.on("exit", () => cleanUp((values.keep && failed) || (cut && names.includes("kill"))));
for (const name of ["SIGINT", "SIGTERM"] as const) {
  process.on(name, () => {
    cut = true;
    process.exit(1);
  });
}

console.log("| soak | figure | value | goal | |");
console.log("| --- | --- | --- | --- | --- |");
async function run(name: string): Promise<void> {
  const report = new Report(name);
  const from = performance.now();
  try {
    await (programs[name] as Program)(report, values.long);
  } catch (error) {
    report.none("ended early", [(error as Error).stack ?? String(error)]);
  }
  report.note("took", `${((performance.now() - from) / 1000).toFixed(0)} s`);
  report.print();
  failed ||= report.failed;
}
await Promise.all(
  lanes.map(async (lane) => {
    for (const name of lane) await run(name);
  }),
);
process.exit(failed ? 1 : 0);
