/** Judges a kill soak that was cut off, or one that has ended, from the files in its folder. Works on a copy of them. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { connect } from "../client.ts";
import { type Inspection, inspect } from "../database.ts";
import { followExecutions, type Line } from "../executions.ts";
import { awaitDeliveries, forgetClaims, UNSENT } from "../platform.ts";
import { startReceivers } from "../receivers.ts";
import type { Report } from "../report.ts";
import { copySite, sleep, startServer } from "../servers.ts";
import { Facts } from "./facts.ts";
import { getKillFiles } from "./files.ts";
import { checkInvariants } from "./invariants.ts";

/** The maximum time that the runs of the cut soak take to end. */
const QUIET_MS = 60_000;

/** Returns the processes whose command line names the folder. */
function findProcesses(folder: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid) || pid === String(process.pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(`${folder}/greenroom.db`);
    } catch {
      // It has ended meanwhile.
      return false;
    }
  });
}

/** Returns the processes that executed last and whose end is in no line. */
function findSurvivors(lines: readonly Line[]): number[] {
  const alive = new Set<number>();
  for (const { mark, pid } of lines) {
    if (mark === "killed") alive.delete(pid);
    else alive.add(pid);
  }
  return [...alive];
}

/**
 * Starts a server on a copy of the folder, lets the runs end that are left, and checks the invariants of the soak. What clients had in
 * memory only is not judged: streams that were not followed to their end, and what readers of thread events saw.
 */
export async function judge(report: Report, folder: string): Promise<void> {
  if (!existsSync(getKillFiles({ path: folder }).facts)) throw new Error(`${folder} has no facts.log of a kill soak`);
  const using = findProcesses(folder);
  if (using.length > 0) {
    throw new Error(`Processes still use ${folder}. End them, then judge it: kill ${using.join(" ")}`);
  }
  const site = copySite(folder);
  const files = getKillFiles(site);
  const facts = new Facts(files.facts);
  const receivers = await startReceivers(files.posts);
  const executions = followExecutions(site.executions);
  for (const pid of findSurvivors(executions.lines())) executions.killed(pid);
  await facts.addDeath(Date.now());
  forgetClaims(site.database);
  const server = await startServer({ runtime: "node", site, port: facts.port ?? 0 });
  const client = connect(server.url);
  using database = inspect(site.database);
  const until = Date.now() + QUIET_MS;
  while (countActive(database) > 0 && Date.now() < until) await sleep(50);
  await awaitDeliveries(() => Number(database.rows(UNSENT)[0]?.n));

  const unanswered = facts.creates.filter(({ run_id, refused }) => run_id === undefined && refused === undefined);
  report.note("deaths of processes", facts.deaths.length);
  report.note(
    "creates: sent, acknowledged",
    `${facts.creates.length}, ${facts.creates.filter(({ run_id }) => run_id).length}`,
  );
  report.note(
    "creates, cancels without an answer",
    `${unanswered.length}, ${facts.stops.filter(({ status }) => status === undefined).length}`,
  );
  // Without histories of readers: the replays are checked.
  const histories = [...facts.threads.keys()].map((thread_id) => ({ thread_id, events: [], connections: 0 }));
  const events = { histories, problems: [], finish: async () => {} };
  const { deaths } = facts;
  await checkInvariants(report, { facts, lines: executions.lines(), client, database, receivers, deaths, events });

  client.close();
  await server.end("SIGTERM");
  executions.close();
  facts.close();
  receivers.close();
}

const countActive = (database: Inspection): number =>
  Number(database.rows("select count(*) as n from runs where status in ('pending', 'running')")[0]?.n);
