/** Many processes claim the runs of one Postgres: each run is executed once, and on one thread one at a time. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { postgres } from "../../adapters/postgres/mod.ts";
import { createService, type Executor } from "../../lib/mod.ts";
import { startPostgres } from "../support/postgres-server.ts";
import { findOverlaps, followExecutions } from "./executions.ts";
import { ask } from "./postgres/database.ts";
import type { Report } from "./report.ts";
import { createSite, sleep } from "./servers.ts";

export interface ClaimsOptions {
  readonly runs: number;
  readonly processes: number;
  /** Half of the runs share this many threads; the others have one of their own. */
  readonly threads: number;
  /** The maximum number of runs that are executed a second time, after their lease has expired. */
  readonly most_again: number;
  readonly most_ms: number;
}

export const SHORT: ClaimsOptions = { runs: 400, processes: 3, threads: 20, most_again: 6, most_ms: 3 * 60_000 };
export const LONG: ClaimsOptions = { runs: 50_000, processes: 8, threads: 500, most_again: 0, most_ms: 60 * 60_000 };

const BATCH = 50;
const AT_ONCE = 16;

export async function claims(report: Report, options: ClaimsOptions): Promise<void> {
  const server = await startPostgres({ ownServer: true });
  try {
    await claiming(report, options, (await server.database()).url);
  } finally {
    await server.stop();
  }
}

async function claiming(report: Report, options: ClaimsOptions, url: string): Promise<void> {
  const site = createSite();
  const executions = followExecutions(site.executions);
  const database = ask(url);
  const deadline = Date.now() + options.most_ms;
  // Makes the runs and executes none.
  const executor: Executor = {
    graphs: () => [{ graph_id: "trivial" }],
    async *execute() {},
  };
  const maker = await createService({
    storage: postgres({ url, pool_size: 8 }),
    executor,
    worker: { concurrency: 0 },
    limits: { pending_per_thread: 100_000, pending: 1_000_000 },
  });
  const request = { assistant_id: "trivial", input: {} };
  const threads = await Promise.all(
    Array.from({ length: options.threads }, async () => (await maker.threads.create()).thread_id),
  );
  const shared = Math.ceil(options.runs / 2 / BATCH);
  const alone = Math.ceil(options.runs / 2 / BATCH);
  const work = [
    ...Array.from({ length: shared }, (_, i) => async () => {
      for (let n = 0; n < BATCH; n++) {
        await maker.runs.create(threads[(i * BATCH + n) % threads.length] as string, request);
      }
    }),
    ...Array.from({ length: alone }, () => async () => {
      await maker.runs.createBatch(
        Array.from({ length: BATCH }, () => ({ ...request, on_completion: "keep" as const })),
      );
    }),
  ];
  const making_from = Date.now();
  const make = async (): Promise<void> => {
    for (let next = work.pop(); next; next = work.pop()) await next();
  };
  const runCount = (shared + alone) * BATCH;
  const count = async (what: string): Promise<number> =>
    Number((await database.rows(`select count(*) as n from runs where ${what}`))[0]?.n);
  // Half of them wait when the workers come; the others are made while they work.
  const half = work.splice(0, work.length / 2);
  await Promise.all(Array.from({ length: AT_ONCE }, make));
  const make_ms = Date.now() - making_from;
  // As autovacuum does within a minute: until then the server's plans are for empty tables.
  await database.rows("analyze");
  const children: ChildProcess[] = [];
  try {
    const claiming_from = Date.now();
    await Promise.all(Array.from({ length: options.processes }, () => startWorker(url, site.executions, children)));
    work.push(...half);
    await Promise.all(Array.from({ length: AT_ONCE }, make));
    while ((await count("status in ('pending', 'running')")) > 0 && Date.now() < deadline) await sleep(200);
    const claim_ms = Date.now() - claiming_from;
    report.note("runs made a second, no worker there", ((runCount / 2 / make_ms) * 1000).toFixed(0));
    report.note("runs executed a second, while as many are made", ((runCount / claim_ms) * 1000).toFixed(0));
    report.atMost("runs that have not ended in time", await count("status in ('pending', 'running')"), 0);
    report.atMost("runs that failed", await count("status not in ('pending', 'running', 'success')"), 0);
    const lines = executions.lines();
    const begins = lines.filter(({ mark }) => mark === "begin");
    const claimed = new Map<string, number>();
    for (const { run, attempt } of begins) {
      const claim = `run ${run}, attempt ${attempt}`;
      claimed.set(claim, (claimed.get(claim) ?? 0) + 1);
    }
    const executed = new Set(begins.map(({ run }) => run));
    report.atLeast("runs executed", executed.size, options.runs);
    report.atLeast("processes that executed some", new Set(begins.map(({ pid }) => pid)).size, options.processes);
    report.none(
      "double claims",
      [...claimed].filter(([, n]) => n > 1).map(([claim, n]) => `${claim}: ${n} times`),
    );
    // A process that had no core for as long as its lease has lost it: that is no fault of the claims.
    report.atMost("runs executed again", begins.length - executed.size, options.most_again);
    report.none("threads with two runs executing", findOverlaps(lines));
    report.none("workers that did not stop", await stopped(children));
  } finally {
    for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
    await maker.stop(0);
    await database.close();
    executions.close();
  }
}

/** Resolves once it claims. */
function startWorker(url: string, file: string, children: ChildProcess[]): Promise<void> {
  const program = join(import.meta.dirname, "claims/worker.ts");
  const child = spawn(process.execPath, ["--no-warnings", "--conditions=greenroom-source", program, url, file], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  return new Promise((resolve, reject) => {
    child.stdout.on("data", () => resolve());
    child.on("exit", (code) => reject(new Error(`A worker ended with ${code}`)));
    child.on("error", reject);
  });
}

async function stopped(children: readonly ChildProcess[]): Promise<string[]> {
  const ends = await Promise.all(
    children.map(async (child) => {
      const ended = new Promise<number | string>((done) => child.on("exit", (code, name) => done(code ?? name ?? "")));
      if (child.exitCode !== null || child.signalCode !== null) return `pid ${child.pid} ended by itself`;
      const late = setTimeout(() => child.kill("SIGKILL"), 30_000);
      child.kill("SIGTERM");
      const how = await ended;
      clearTimeout(late);
      return how === 0 ? "" : `pid ${child.pid} ended with ${how}`;
    }),
  );
  return ends.filter((text) => text !== "");
}
