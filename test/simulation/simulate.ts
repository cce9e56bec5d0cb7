/** Runs one seed. */
import { loadSchedules } from "../../lib/crons/lazy-schedule.ts";
// Loaded late otherwise: in real time, which a replay of the seed has not.
import "../../lib/crons/mod.ts";
import "../../lib/feedback/mod.ts";
import "../../lib/functions/execute.ts";
import "../../lib/functions/open-durable-call.ts";
import "../../lib/steps/journal.ts";
import "../../lib/steps/mod.ts";
import "../../lib/traces/mod.ts";
import "../../lib/traces/recording.ts";
import { loadClaimedDelivery } from "../../lib/webhooks/sender.ts";
import { Database } from "./database.ts";
import { createPlan } from "./plan.ts";
import { makeSteady } from "./steady.ts";
import { type Outcome, World } from "./world.ts";

export interface SimulateOptions {
  /** Faults to leave out. */
  readonly without?: readonly string[];
  /** The number of times that the load is halved. */
  readonly halve?: number;
  /** The maximum clock skew of the machines. Leases are counted by each process's own clock: what is found then is no fault. */
  readonly skew_ms?: number;
  /** The number of the last events that are printed. */
  readonly trace?: number;
  /** Violations that count for nothing, by their text. */
  readonly ignore?: RegExp;
}

let open: Promise<Database> | undefined;

/** The outcome depends on the seed and the options alone. Seeds run one after the other: they share a database. */
export async function simulate(seed: number, options: SimulateOptions = {}): Promise<Outcome> {
  open ??= Database.open();
  const database = await open;
  // Loading takes real ticks of the event loop, which no seed decides.
  await Promise.all([loadSchedules(), loadClaimedDelivery()]);
  database.clear();
  const plan = createPlan(seed, options.without, options.halve, options.skew_ms);
  const world = new World(plan, database, options.trace ?? 200, options.ignore ?? null);
  const restore = makeSteady(seed);
  try {
    return await world.run();
  } finally {
    restore();
  }
}
