/**
 * The order on the disk: every create that is acknowledged must have been synced before its 2xx left. Watched from outside,
 * by strace: a write to the log (WAL) that holds a run's id, then an fsync of that file, then the answer that names the run.
 */
import { spawnSync } from "node:child_process";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect } from "./client.ts";
import { createKeyMaker } from "./database.ts";
import type { Report } from "./report.ts";
import { createSite, RUNTIMES, type Runtime, signal, startServer } from "./servers.ts";

export interface FsyncOptions {
  readonly runtimes: readonly Runtime[];
  readonly acknowledged: number;
  readonly at_once: number;
}

export const SHORT: FsyncOptions = { runtimes: ["bun"], acknowledged: 200, at_once: 16 };
export const LONG: FsyncOptions = { runtimes: RUNTIMES, acknowledged: 10_000, at_once: 64 };

const CALLS = "fsync,fdatasync,pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg";
/** A page of the log and its head. */
const SHOWN_BYTES = 4_200;

export async function fsync(report: Report, options: FsyncOptions): Promise<void> {
  if (spawnSync("strace", ["-V"]).status !== 0) {
    throw new Error("strace is not installed: apt-get install strace (Debian, Ubuntu), dnf install strace (Fedora)");
  }
  for (const runtime of options.runtimes) await watch(report, runtime, options);
}

async function watch(report: Report, runtime: Runtime, options: FsyncOptions): Promise<void> {
  const site = createSite({ concurrency: 0 });
  const trace = join(site.path, `strace-${runtime}`);
  // -D: strace is the child, so that the server keeps the id it was started with.
  const under = ["strace", "-D", "-f", "-y", "-s", String(SHOWN_BYTES), "-e", `trace=${CALLS}`, "-o", trace];
  const server = await startServer({ runtime, site, under });
  const client = connect(server.url);
  const newKey = createKeyMaker();
  const runs: string[] = [];
  let started = 0;
  const loop = async (): Promise<void> => {
    while (started < options.acknowledged) {
      started += 1;
      const thread_id = crypto.randomUUID();
      const body = { assistant_id: "echo", if_not_exists: "create", metadata: { key: newKey() } };
      const { run_id } = await client.get("POST", `/threads/${thread_id}/runs`, body, { timeout_ms: 120_000 });
      runs.push(run_id);
    }
  };
  try {
    await Promise.all(Array.from({ length: options.at_once }, loop));
  } finally {
    client.close();
    signal(server.pid, "SIGTERM");
    await server.ended;
  }
  const { problems, commits } = await follow(trace, runs);
  report.atLeast(`${runtime}: acknowledged creates`, runs.length, options.acknowledged);
  report.none(`${runtime}: acknowledged before they were on the disk`, problems);
  report.atLeast(`${runtime}: creates per fsync of the log (group commit)`, runs.length / commits, 1.5);
}

/** Follows each run's id through the trace. */
async function follow(trace: string, runs: readonly string[]): Promise<{ problems: string[]; commits: number }> {
  const runIdSet = new Set(runs);
  const state = new Map<string, "written" | "synced">();
  const answered = new Set<string>();
  const problems: string[] = [];
  const unfinished = new Map<string, string>();
  let commits = 0;
  const ids = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;
  for await (const line of createInterface({ input: createReadStream(trace) })) {
    const [, pid = "", text = ""] = /^(\d+)\s+(.*)$/.exec(line) ?? [];
    // A call of one thread may be cut in two by one of another: a write counts where it begins, a sync where it ends.
    if (text.endsWith("<unfinished ...>")) unfinished.set(pid, text);
    const resumed = /^<\.\.\. (\w+) resumed>/.exec(text);
    const call = resumed ? (unfinished.get(pid) ?? "") : text;
    const [, name = "", file = ""] = /^(\w+)\(\d+<((?:[^>]|->)*)>/.exec(call) ?? [];
    if (/^f(?:data)?sync$/.test(name)) {
      if (!file.endsWith("-wal") || !/= 0$/.test(text)) continue;
      commits += 1;
      for (const [id, at] of state) if (at === "written") state.set(id, "synced");
    } else if (resumed) {
      // Counted where it began.
    } else if (file.endsWith("-wal")) {
      for (const [id] of text.matchAll(ids)) if (runIdSet.has(id) && !state.has(id)) state.set(id, "written");
    } else if (/^(?:TCP|socket|UNIX)/.test(file) && text.includes("HTTP/1.1 2")) {
      for (const [id] of text.matchAll(ids)) {
        if (!runIdSet.has(id) || answered.has(id)) continue;
        answered.add(id);
        if (state.get(id) !== "synced")
          problems.push(`run ${id}: ${state.get(id) ?? "not even written"} when its 2xx left`);
      }
    }
  }
  const unseen = runs.filter((id) => !answered.has(id));
  if (unseen.length > 0)
    problems.push(`${unseen.length} answers were not seen in the trace, such as that of ${unseen[0]}`);
  return { problems, commits };
}
