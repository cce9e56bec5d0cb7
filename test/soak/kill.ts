/** Kills, stops and pauses the server under load, and checks afterwards that nothing was lost, doubled or stuck. */
import { connect } from "./client.ts";
import { inspect } from "./database.ts";
import { measureDisturbance } from "./disturbances.ts";
import { followExecutions, type Line } from "./executions.ts";
import { watchEvents } from "./kill/event-streams.ts";
import { Facts } from "./kill/facts.ts";
import { Faults, type Restart } from "./kill/faults.ts";
import { getKillFiles, logProgress } from "./kill/files.ts";
import { checkInvariants } from "./kill/invariants.ts";
import { watchLiveness } from "./kill/liveness.ts";
import { startLoad } from "./kill/load.ts";
import { watchSpans } from "./kill/spans.ts";
import { awaitDeliveries, forgetClaims, UNSENT } from "./platform.ts";
import { startReceivers } from "./receivers.ts";
import { quantile, type Report } from "./report.ts";
import { createSite, freePort, sleep } from "./servers.ts";

export interface KillOptions {
  /** It goes on until there were so many kills and acknowledged runs, or the time is over and there was a share of both. */
  readonly kills: number;
  readonly runs: number;
  readonly most_ms: number;
  /** Less than this share of both, or no run that was executed again, has put too little to the test, however long it took. */
  readonly least_share: number;
  /** The longest time between two faults. */
  readonly most_between_ms: number;
  readonly creators: number;
  readonly followers: number;
  readonly think_ms: number;
  /** Goal for the time from a restarted server to the run that its predecessor executed. */
  readonly most_restart_ms: number;
  /** Goal for the wait of a run that could start, some time after the last fault. */
  readonly most_wait_ms: number;
  /** True: deliveries that a dead process had claimed are due again at once, not a minute later. */
  readonly hurried: boolean;
}

export const SHORT: KillOptions = {
  kills: 8,
  runs: 150,
  most_ms: 60_000,
  // A slow machine gets through less in its time.
  least_share: 0.3,
  most_between_ms: 1_500,
  creators: 8,
  followers: 4,
  think_ms: 20,
  // On a machine that does other things too; a run that waits for its lease would take twice as long.
  most_restart_ms: 5_000,
  most_wait_ms: 5_000,
  hurried: true,
};

export const LONG: KillOptions = {
  kills: 300,
  runs: 20_000,
  most_ms: 60 * 60_000,
  least_share: 1,
  most_between_ms: 1_500,
  creators: 12,
  followers: 8,
  think_ms: 40,
  most_restart_ms: 1_000,
  most_wait_ms: 1_000,
  hurried: false,
};

/** The options for so many kills and acknowledged runs, within a time that grows with them. */
export function withCounts(options: KillOptions, { kills, runs }: { kills?: number; runs?: number }): KillOptions {
  if (kills === undefined && runs === undefined) return options;
  const goal = { kills: kills ?? options.kills, runs: runs ?? options.runs };
  const factor = Math.max(1, goal.kills / options.kills, goal.runs / options.runs);
  return { ...options, ...goal, most_ms: factor * options.most_ms, least_share: 1 };
}

/** How long clients go on after the last fault, and how long the last runs may then take. */
const CALM_MS = 5_000;
const QUIET_MS = 60_000;
/** After a fault without a kill a lease may have to run out. */
const SETTLE_MS = 3_000;

export async function kill(report: Report, options: KillOptions): Promise<void> {
  const site = createSite();
  const files = getKillFiles(site);
  const receivers = await startReceivers(files.posts);
  site.settings = { webhooks: receivers.settings };
  const port = await freePort();
  const facts = new Facts(files.facts);
  await facts.setPort(port);
  const executions = followExecutions(site.executions);
  const between = (): void => {
    if (options.hurried) forgetClaims(site.database);
  };
  const spans = watchSpans(site.database);
  const onDeath = (at: number): Promise<void> => {
    spans.look();
    return facts.addDeath(at);
  };
  const { most_between_ms } = options;
  const faults = await Faults.start({ site, port, executions, between, onDeath, most_between_ms });
  const client = connect(faults.url);
  const load = await startLoad({ client, facts, webhook: receivers.url, ...options });
  const events = watchEvents(client, () => [...facts.threads.keys()], options.followers);
  const acknowledged = (): number => facts.creates.filter(({ run_id }) => run_id !== undefined).length;
  const progress = logProgress(files.progress, () => ({
    kills: faults.kills.length,
    "stops by SIGTERM": faults.terms,
    pauses: faults.pauses.length,
    "creates sent": facts.creates.length,
    "runs acknowledged": acknowledged(),
    "cancels sent": facts.stops.length,
    problems: load.problems.length + faults.wrong.length,
  }));
  console.error(`kill: files and progress.log in ${site.path}. If it is cut off: npm run soak -- judge ${site.path}`);
  const from = Date.now();
  const enough = (share: number): boolean =>
    faults.kills.length >= share * options.kills &&
    acknowledged() >= share * options.runs &&
    restartTimes(executions.lines(), faults).length > 0;
  while (!enough(1)) {
    const took = Date.now() - from;
    if (took > 3 * options.most_ms || (took > options.most_ms && enough(options.least_share))) break;
    await faults.next();
  }

  using database = inspect(site.database);
  const liveness = watchLiveness(database, SETTLE_MS);
  await faults.calm(CALM_MS);
  const quiet_from = Date.now();
  await load.finish();
  await events.finish();
  const active = (): number =>
    Number(database.rows("select count(*) as n from runs where status in ('pending', 'running')")[0]?.n);
  while (active() > 0 && Date.now() < quiet_from + QUIET_MS) await sleep(50);
  const longest = liveness.stop();
  progress.stop();
  await faults.calm(0);
  const quiet_ms = Date.now() - quiet_from;
  const told_ms = await awaitDeliveries(() => Number(database.rows(UNSENT)[0]?.n));

  report.atLeast("SIGKILLs", faults.kills.length, options.least_share * options.kills);
  report.note("SIGTERMs, SIGSTOPs of 2 leases", `${faults.terms}, ${faults.pauses.length}`);
  report.atLeast("acknowledged runs", acknowledged(), options.least_share * options.runs);
  report.none("processes that ended by themselves, or too late", faults.wrong);
  report.none("clients' errors that no fault explains", load.problems);
  report.note("last client to the end of the last run", `${(quiet_ms / 1000).toFixed(1)} s`);
  report.note("end of the last run to the last webhook", `${(told_ms / 1000).toFixed(1)} s`);
  const lines = executions.lines();
  await checkInvariants(report, { facts, lines, client, database, receivers, deaths: facts.deaths, events, spans });
  report.atMost("I13 longest wait of a run that could start", longest, options.most_wait_ms, "ms");
  const starts = restartTimes(lines, faults);
  report.note("runs executed again after a kill", starts.length);
  report.note("restart to re-start p50", `${quantile(starts, 0.5)} ms`);
  report.atMost("restart to re-start p99", quantile(starts, 0.99), options.most_restart_ms, "ms");

  client.close();
  await faults.end();
  executions.close();
  facts.close();
  receivers.close();
}

/**
 * Returns, for every run that executed when its server was killed, the time from the start of the next server until the run executed again,
 * without the stalls of that server.
 */
function restartTimes(lines: readonly Line[], { restarts, pauses }: Pick<Faults, "restarts" | "pauses">): number[] {
  const times: number[] = [];
  const open = new Map<string, Map<string, string>>();
  const expectedSince = new Map<string, number>();
  let restart = 0;
  for (const { mark, pid, run, token, at } of lines) {
    if (mark === "killed") {
      const { by_kill = false, listening_at = 0 }: Partial<Restart> = restarts[restart++] ?? {};
      // A run that waits since an earlier kill was not executing: what delayed it is another restart.
      expectedSince.clear();
      if (by_kill)
        for (const executed of open.get(String(pid))?.values() ?? []) expectedSince.set(executed, listening_at);
      open.delete(String(pid));
    } else if (mark === "begin") {
      const tokens = open.get(String(pid)) ?? new Map<string, string>();
      open.set(String(pid), tokens.set(token, run));
      const from = expectedSince.get(run);
      if (from !== undefined) times.push(Math.max(0, at - from - measureDisturbance(from, at, pauses)));
      expectedSince.delete(run);
    } else if (mark === "end") open.get(String(pid))?.delete(token);
  }
  return times;
}
