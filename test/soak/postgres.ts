/** Three servers, one of each runtime, on one Postgres: killed, stopped and paused under load. The checks are those of `kill`. */
import { join } from "node:path";
import { startPostgres, type TestPostgres } from "../support/postgres-server.ts";
import { connect, createBalancedClient } from "./client.ts";
import { inspect } from "./database.ts";
import { type Disturbance, measureDisturbance } from "./disturbances.ts";
import { followExecutions, type Line } from "./executions.ts";
import { Facts } from "./kill/facts.ts";
import { checkInvariants } from "./kill/invariants.ts";
import { COULD_START, watchWaits } from "./kill/liveness.ts";
import { startLoad } from "./kill/load.ts";
import { awaitDeliveries, UNSENT } from "./platform.ts";
import { ask, copyTo, cutSignals, forgetClaims } from "./postgres/database.ts";
import { Fleet, type Killed } from "./postgres/fleet.ts";
import { startReceivers } from "./receivers.ts";
import { quantile, type Report } from "./report.ts";
import { createSite, sleep, until } from "./servers.ts";

export interface PostgresOptions {
  /** It goes on until there were so many kills, stops and pauses, and acknowledged runs, or the time is over. */
  readonly faults: number;
  readonly runs: number;
  readonly most_ms: number;
  /** Less than this share of both has put too little to the test. */
  readonly least_share: number;
  readonly most_between_ms: number;
  readonly creators: number;
  readonly followers: number;
  readonly think_ms: number;
  /** The interval at which every session that brings signals is ended. */
  readonly cut_ms: number;
  /** The interval at which the database server is restarted as after a crash. */
  readonly restart_ms: number;
  /** Goal for the time from the end of a dead process's lease to the next start of its run. */
  readonly most_takeover_ms: number;
  readonly most_wait_ms: number;
  /** True: deliveries that a dead process had claimed are due again at once, not a minute later. */
  readonly hurried: boolean;
}

export const SHORT: PostgresOptions = {
  faults: 12,
  runs: 70,
  most_ms: 45_000,
  least_share: 0.5,
  most_between_ms: 3_500,
  creators: 8,
  followers: 4,
  think_ms: 40,
  cut_ms: 2_000,
  restart_ms: 10_000,
  most_takeover_ms: 6_000,
  most_wait_ms: 5_000,
  hurried: true,
};

export const LONG: PostgresOptions = {
  faults: 250,
  runs: 1_500,
  most_ms: 40 * 60_000,
  least_share: 0.8,
  most_between_ms: 8_000,
  creators: 10,
  followers: 8,
  think_ms: 60,
  cut_ms: 2_000,
  restart_ms: 60_000,
  most_takeover_ms: 3_000,
  most_wait_ms: 2_000,
  hurried: false,
};

const CALM_MS = 5_000;
const QUIET_MS = 90_000;
/** A lease may have to run out. */
const SETTLE_MS = 13_000;
const CLAIMED_MS = 60_000;
const SENT_MS = 3_000;
/** A signal, or the next renewal of the longest lease. */
const HEARD_MS = 4_000;

export async function postgres(report: Report, options: PostgresOptions): Promise<void> {
  const server = await startPostgres({ ownServer: true });
  try {
    await soak(report, options, server);
  } finally {
    await server.stop();
  }
}

async function soak(report: Report, options: PostgresOptions, server: TestPostgres): Promise<void> {
  const { url } = await server.database();
  const receivers = await startReceivers();
  const site = createSite();
  const executions = followExecutions(site.executions);
  const facts = new Facts(join(site.path, "facts.log"));
  const postgresDatabase = ask(url);
  const gate = createGate();
  const fleet = await Fleet.start({
    database: url,
    log: site.executions,
    executions,
    settings: { webhooks: receivers.settings, public_base_url: "http://soak.invalid" },
    most_between_ms: options.most_between_ms,
    whileUp: gate.together,
  });
  const client = createBalancedClient(fleet.urls.map(connect));
  const load = await startLoad({ client, facts, webhook: receivers.url, ...options });
  const acknowledged = (): number => facts.creates.filter(({ run_id }) => run_id !== undefined).length;
  const deadline = Date.now() + options.most_ms;
  let over = false;
  let cuts = 0;
  let restarts = 0;
  const enough = (): boolean =>
    (fleet.faults >= options.faults && acknowledged() >= options.runs) || Date.now() > deadline;
  const every = async (ms: number, work: () => Promise<void>): Promise<void> => {
    for (let next = Date.now() + ms; !over; await sleep(50)) {
      if (Date.now() < next) continue;
      await work();
      next = Date.now() + ms;
    }
  };
  const disturbanceLoops = [
    // It fails while the server restarts.
    every(options.cut_ms, async () => {
      cuts += await cutSignals(postgresDatabase).catch(() => 0);
    }),
    every(options.restart_ms, () =>
      gate.alone(async () => {
        // Sessions that are refused while it starts must not pass for a failed start: its own log reports when it is up.
        await fleet.disturbed(async () => {
          await server.restart("immediate").catch(() => {});
          await until("Postgres is up", () => postgresDatabase.rows("select 1").then(Boolean, () => false));
        });
        restarts += 1;
      }),
    ),
  ];
  await fleet.disturb(enough);
  over = true;
  await Promise.all(disturbanceLoops);

  const could = COULD_START.replace("?", "$1");
  const liveness = watchWaits(
    async (now) => (await postgresDatabase.rows(could, now)).map(({ run_id }) => String(run_id)),
    SETTLE_MS,
  );
  await sleep(CALM_MS);
  await fleet.check();
  const quiet_from = Date.now();
  await load.finish();
  const count = async (sql: string): Promise<number> => Number((await postgresDatabase.rows(sql))[0]?.n);
  const active = "select count(*) as n from runs where status in ('pending', 'running')";
  while ((await count(active)) > 0 && Date.now() < quiet_from + QUIET_MS) await sleep(100);
  const longest = liveness.stop();
  await fleet.check();
  const quiet_ms = Date.now() - quiet_from;
  const ended_at = Date.now();
  if (options.hurried) {
    await sleep(SENT_MS);
    await forgetClaims(postgresDatabase, CLAIMED_MS, SENT_MS);
  }
  await awaitDeliveries(() => count(UNSENT));
  const told_ms = Date.now() - ended_at;

  report.atLeast("SIGKILLs, SIGTERMs and SIGSTOPs", fleet.faults, options.least_share * options.faults);
  report.note("of them SIGKILL, SIGTERM, SIGSTOP", `${fleet.killed.length}, ${fleet.terms}, ${fleet.stops}`);
  report.note("restarts of Postgres, signal sessions cut", `${restarts}, ${cuts}`);
  report.atLeast("acknowledged runs", acknowledged(), options.least_share * options.runs);
  report.none("processes that ended by themselves, or too late", fleet.wrong);
  report.none("clients' errors that no fault explains", load.problems);
  report.note("last client to the end of the last run", `${(quiet_ms / 1000).toFixed(1)} s`);
  report.note("end of the last run to the last webhook", `${(told_ms / 1000).toFixed(1)} s`);
  const lines = executions.lines();
  const copy = join(site.path, "copy.db");
  await copyTo(copy, postgresDatabase);
  using database = inspect(copy);
  await checkInvariants(report, { facts, lines, client, database, receivers, deaths: fleet.hits, heard_ms: HEARD_MS });
  report.atMost("I13 longest wait of a run that could start", longest, options.most_wait_ms, "ms");
  const takeovers = listTakeoverTimes(lines, fleet.killed, fleet.disturbances);
  report.note("runs taken over from a dead process", takeovers.length);
  report.note("end of its lease to the next start p50", `${quantile(takeovers, 0.5)} ms`);
  if (takeovers.length > 0) {
    report.atMost("end of its lease to the next start p99", quantile(takeovers, 0.99), options.most_takeover_ms, "ms");
  }

  client.close();
  await fleet.end();
  executions.close();
  facts.close();
  receivers.close();
  await postgresDatabase.close();
}

interface Gate {
  together<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Runs `work` while nothing else goes on. */
  alone(work: () => Promise<void>): Promise<void>;
}

function createGate(): Gate {
  const working = new Set<Promise<unknown>>();
  let alone: Promise<void> | undefined;
  return {
    async together(work) {
      while (alone) await alone.catch(() => {});
      const mine = work();
      working.add(mine);
      return await mine.finally(() => working.delete(mine));
    },
    async alone(work) {
      alone = Promise.allSettled(working).then(work);
      await alone.finally(() => {
        alone = undefined;
      });
    },
  };
}

/**
 * Returns, for every run that executed in a process that was killed, the time from the end of that process's lease until the run executed
 * again, without the times of other disturbances.
 */
function listTakeoverTimes(
  lines: readonly Line[],
  killed: readonly Killed[],
  disturbances: readonly Disturbance[],
): number[] {
  const by_pid = new Map(killed.map((kill) => [kill.pid, kill]));
  const open = new Map<number, Map<string, string>>();
  const expectedSince = new Map<string, number>();
  const times: number[] = [];
  for (const { mark, pid, run, token, at } of lines) {
    if (mark === "killed") {
      const death = by_pid.get(pid);
      if (death)
        for (const executed of open.get(pid)?.values() ?? []) expectedSince.set(executed, death.at + death.lease_ms);
      open.delete(pid);
    } else if (mark === "begin") {
      open.set(pid, (open.get(pid) ?? new Map<string, string>()).set(token, run));
      const from = expectedSince.get(run);
      if (from !== undefined) times.push(Math.max(0, at - from - measureDisturbance(from, at, disturbances)));
      expectedSince.delete(run);
    } else if (mark === "end") open.get(pid)?.delete(token);
  }
  return times;
}
