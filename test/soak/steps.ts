/** Durable functions in real processes that are killed: on SQLite with Bun and Node by turns, and on Postgres with one of each. */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Dice } from "../simulation/random.ts";
import { startPostgres } from "../support/postgres-server.ts";
import { connect, createBalancedClient } from "./client.ts";
import type { Report } from "./report.ts";
import { createSite, freePort, type Runtime, type Server, type Site, sleep, startServer } from "./servers.ts";
import type { StepEffect } from "./steps/agent.ts";
import { type Call, createCallScript, take } from "./steps/calls.ts";
import { checkCall, checkEffects, type Faults } from "./steps/checks.ts";

export interface StepsOptions {
  /** The number of kills on each of the two databases. */
  readonly kills: number;
  /** The longest time between two kills of one server. */
  readonly most_between_ms: number;
  /** Calls that are open at once. */
  readonly calls: number;
}

export const SHORT: StepsOptions = { kills: 3, most_between_ms: 2_500, calls: 3 };
export const LONG: StepsOptions = { kills: 150, most_between_ms: 2_500, calls: 6 };

const LEASE_MS = 2_000;
/** The maximum time of a call after the last kill. */
const LAST_MS = 120_000;

interface ServerSlot {
  readonly runtimes: readonly Runtime[];
  readonly site: Site;
  readonly port: number;
  server: Server;
  starts: number;
}

/** `seed` decides the calls, not what the machine makes of them. */
export async function steps(report: Report, options: StepsOptions, seed: number): Promise<void> {
  report.note("seed", seed);
  const server = await startPostgres({ ownServer: true });
  try {
    const { url } = await server.database();
    await Promise.all([
      soak(report, options, "sqlite", seed, undefined, [["bun", "node"]]),
      soak(report, options, "postgres", seed + 1, url, [["bun"], ["node"]]),
    ]);
  } finally {
    await server.stop();
  }
}

/** Creates a folder with a configuration that hosts the durable function. */
function prepareSite(database: string | undefined, executions: string | undefined): Site {
  const site = createSite();
  const path = `${join(import.meta.dirname, "steps/agent.ts")}:agent`;
  const graphs = { durable: { path, max_attempts: 1_000 } };
  writeFileSync(site.config, JSON.stringify({ graphs, worker: { concurrency: 20, lease_ms: LEASE_MS } }));
  return { ...site, database: database ?? site.database, executions: executions ?? site.executions };
}

async function soak(
  report: Report,
  options: StepsOptions,
  name: string,
  seed: number,
  database: string | undefined,
  runtimes: readonly (readonly Runtime[])[],
): Promise<void> {
  const dice = new Dice(seed, name);
  const slots: ServerSlot[] = [];
  let log: string | undefined;
  for (const list of runtimes) {
    const site = prepareSite(database, log);
    log ??= site.executions;
    const port = await freePort();
    const server = await startServer({ runtime: list[0] as Runtime, site, port });
    slots.push({ runtimes: list, site, port, server, starts: 1 });
  }
  const calm_site = prepareSite(undefined, undefined);
  const calm = await startServer({ runtime: "node", site: calm_site });
  const disturbed = createBalancedClient(slots.map(({ server }) => connect(server.url)));
  const undisturbed = connect(calm.url);
  const kills = dice.uuid();
  const wrong: string[] = [];
  const calls: { readonly call: Call; readonly calm: Call }[] = [];
  let killed = 0;
  let count = 0;

  async function loop(): Promise<void> {
    while (killed < options.kills) {
      const callDice = new Dice(seed, `${name} ${++count}`);
      const script = createCallScript(callDice, `${name[0]}${count}`);
      const pair = Promise.all([
        take(disturbed, callDice, script, "durable"),
        take(undisturbed, new Dice(seed, `calm ${count}`), script, "durable"),
      ]);
      const late = (async () => {
        while (killed < options.kills) await sleep(1_000);
        await sleep(LAST_MS);
        return null;
      })();
      const both = await Promise.race([pair, late]).catch((error: Error) => error);
      if (both === null || both instanceof Error) wrong.push(`${script.tag}: ${both?.message ?? "did not end"}`);
      else calls.push({ call: both[0], calm: both[1] });
    }
  }

  async function disturb(slot: ServerSlot, at: number): Promise<void> {
    const disturbanceDice = new Dice(seed, `${kills} ${at}`);
    while (killed < options.kills) {
      await sleep(disturbanceDice.between(100, options.most_between_ms));
      const { pid } = slot.server;
      if (slot.server.hasEnded()) wrong.push(`pid ${pid} ended by itself: ${slot.server.output().slice(-800)}`);
      await slot.server.end("SIGKILL");
      killed++;
      appendFileSync(
        log as string,
        `\n${JSON.stringify({ mark: "killed", pid, name: "", chain: 0, at: 0 } satisfies StepEffect)}\n`,
      );
      const runtime = slot.runtimes[slot.starts++ % slot.runtimes.length] as Runtime;
      slot.server = await startServer({ runtime, site: slot.site, port: slot.port });
    }
  }

  await Promise.all([...Array.from({ length: options.calls }, loop), ...slots.map(disturb)]);
  const deeds = readEffects(log as string);
  const faults: Faults = { repeated: [], models: [], state: [], frames: [], events: [] };
  const repeats = checkEffects(
    deeds,
    calls.map(({ call }) => call),
    faults,
  );
  for (const { call, calm } of calls) await checkCall(disturbed, undisturbed, call, calm, faults);
  report.atLeast(`${name}: SIGKILLs`, killed, options.kills);
  report.atLeast(`${name}: calls taken to their end`, calls.length, options.calls);
  report.note(`${name}: steps begun again after a kill`, repeats);
  report.note(
    `${name}: runs, connections`,
    `${sum(calls, ({ call }) => call.runs.length)}, ${sum(calls, connections)}`,
  );
  report.none(`${name}: calls that failed, processes that ended`, wrong);
  report.none(`${name}: steps repeated after their successor began, or without a kill`, faults.repeated);
  report.none(`${name}: streaming steps called again after they were finished`, faults.models);
  report.none(`${name}: final states unlike those of undisturbed calls`, faults.state);
  report.none(`${name}: v1 readers that did not see it once and in order`, faults.frames);
  report.none(`${name}: v2 readers that did not see it once and in order`, faults.events);
  disturbed.close();
  undisturbed.close();
  await Promise.all([calm, ...slots.map(({ server }) => server)].map((running) => running.end("SIGTERM")));
}

function connections({ call }: { readonly call: Call }): number {
  return call.v2.connections + sum(call.v1, ({ connections: count }) => count);
}

function sum<Item>(items: readonly Item[], of: (item: Item) => number): number {
  return items.reduce((total, item) => total + of(item), 0);
}

/** A process that is killed as it writes may leave a part of a line. */
function readEffects(file: string): StepEffect[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return line === "" ? [] : [JSON.parse(line) as StepEffect];
      } catch {
        return [];
      }
    });
}
