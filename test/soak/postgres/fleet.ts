/** Three servers on one database, one of each runtime, and what happens to them: killed, told to stop, or paused, over and over. */
import { stripVTControlCharacters } from "node:util";
import type { Disturbance } from "../disturbances.ts";
import type { Executions } from "../executions.ts";
import {
  configure,
  createSite,
  freePort,
  RUNTIMES,
  type Runtime,
  type Server,
  type Site,
  signal,
  sleep,
  startServer,
} from "../servers.ts";

export interface FleetOptions {
  /** The database's URL. */
  readonly database: string;
  /** The file that agents append to. */
  readonly log: string;
  readonly executions: Executions;
  /** Sections of the servers' configuration. */
  readonly settings: object;
  /** The longest time between two faults of one server. */
  readonly most_between_ms: number;
  /** The database must be there while this goes on. */
  whileUp<Result>(work: () => Promise<Result>): Promise<Result>;
}

/** A process that was killed, and how long its leases were. */
export interface Killed {
  readonly pid: number;
  readonly at: number;
  readonly lease_ms: number;
}

/** With a short lease a pause can outlast it; with the other one its runs wait longer for another process. */
const SHORT_LEASE_MS = 3_000;
const LONG_LEASE_MS = 8_000;
const GRACE_MS = 10_000;
/** The time for which a fault of one process affects the others: it may have held locks. */
const FELT_MS = 3_000;
const HIT_EVERY_MS = 250;
const STARTS = 3;

interface ServerSlot {
  readonly runtime: Runtime;
  readonly site: Site;
  readonly port: number;
  server: Server;
  lease_ms: number;
}

export class Fleet {
  readonly killed: Killed[] = [];
  /** The times at which a run may have lost the process that executed it, or that process its lease. */
  readonly hits: number[] = [];
  readonly disturbances: Disturbance[] = [];
  terms = 0;
  stops = 0;
  /** Ends of a process that nobody asked for, and stops that took too long. */
  readonly wrong: string[] = [];
  readonly #options: FleetOptions;
  readonly #slots: readonly ServerSlot[];

  static async start(options: FleetOptions): Promise<Fleet> {
    const slots: ServerSlot[] = [];
    // One after the other: the first one makes the tables.
    for (const runtime of RUNTIMES) {
      const baseSite = createSite({ lease_ms: SHORT_LEASE_MS }, options.settings);
      const site = { ...baseSite, database: options.database, executions: options.log };
      const port = await freePort();
      const server = await startServer({ runtime, site, port });
      slots.push({ runtime, site, port, server, lease_ms: SHORT_LEASE_MS });
    }
    return new Fleet(options, slots);
  }

  constructor(options: FleetOptions, slots: readonly ServerSlot[]) {
    this.#options = options;
    this.#slots = slots;
  }

  get urls(): readonly string[] {
    return this.#slots.map(({ server }) => server.url);
  }

  get faults(): number {
    return this.killed.length + this.terms + this.stops;
  }

  /** Does something to each server again and again, until it is enough. */
  async disturb(enough: () => boolean): Promise<void> {
    await Promise.all(
      this.#slots.map(async (slot) => {
        while (!enough()) {
          await sleep(200 + Math.random() * (this.#options.most_between_ms - 200));
          if (!enough()) await this.#fault(slot);
        }
      }),
    );
  }

  /** Checks that no process ended by itself after the last fault. */
  async check(): Promise<void> {
    for (const slot of this.#slots) await this.#crashed(slot);
  }

  async end(): Promise<void> {
    await this.check();
    await Promise.all(this.#slots.map(({ server }) => server.end("SIGTERM")));
  }

  async #fault(slot: ServerSlot): Promise<void> {
    if (await this.#crashed(slot)) return;
    const roll = Math.random();
    if (roll < 0.6) {
      const { pid } = slot.server;
      await slot.server.end("SIGKILL");
      this.killed.push({ pid, at: Date.now(), lease_ms: slot.lease_ms });
      this.hits.push(Date.now());
      await this.#replace(slot);
    } else if (roll < 0.8) await this.#terminate(slot);
    else await this.#pause(slot);
  }

  async #pause({ server, lease_ms }: ServerSlot): Promise<void> {
    this.stops += 1;
    await this.disturbed(async () => {
      signal(server.pid, "SIGSTOP");
      this.#options.executions.paused(server.pid);
      await sleep(2 * Math.min(lease_ms, SHORT_LEASE_MS));
      this.#options.executions.resumed(server.pid);
      signal(server.pid, "SIGCONT");
    });
  }

  /** While this goes on, and for some time afterwards, any process may lose its rights. */
  async disturbed(work: () => Promise<void>): Promise<void> {
    const disturbance = { from: Date.now(), to: Number.POSITIVE_INFINITY };
    this.disturbances.push(disturbance);
    try {
      await work();
    } finally {
      disturbance.to = Date.now() + FELT_MS;
      for (let at = disturbance.from; at < disturbance.to; at += HIT_EVERY_MS) this.hits.push(at);
    }
  }

  async #terminate(slot: ServerSlot): Promise<void> {
    const { server } = slot;
    this.terms += 1;
    const from = Date.now();
    const late = setTimeout(() => void server.end("SIGKILL"), 2 * GRACE_MS);
    const how = await server.end("SIGTERM");
    clearTimeout(late);
    const took = Date.now() - from;
    if (how !== 0 || took > GRACE_MS + 1_500) {
      this.wrong.push(`${server.runtime}: SIGTERM ended it with ${how} after ${took} ms`);
    }
    await this.#replace(slot);
  }

  async #crashed(slot: ServerSlot): Promise<boolean> {
    const { server } = slot;
    if (!server.hasEnded()) return false;
    this.hits.push(Date.now());
    const output = stripVTControlCharacters(server.output());
    this.wrong.push(`${server.runtime}: ended by itself with ${await server.ended}: ${output.slice(-800)}`);
    await this.#replace(slot);
    return true;
  }

  /** Starts the next server in the place of one that is gone. */
  async #replace(slot: ServerSlot): Promise<void> {
    this.#options.executions.killed(slot.server.pid);
    slot.lease_ms = Math.random() < 1 / 3 ? LONG_LEASE_MS : SHORT_LEASE_MS;
    configure(slot.site, { lease_ms: slot.lease_ms });
    const { runtime, site, port } = slot;
    const start = async (): Promise<void> => {
      slot.server = await this.#options.whileUp(async () => {
        for (let tries = 1; ; tries++) {
          try {
            return await startServer({ runtime, site, port });
          } catch (error) {
            // On a busy machine the database may take its time; whoever supervises a server starts it again.
            if (tries === STARTS || !/cannot be reached/.test(String(error))) throw error;
          }
        }
      });
    };
    const alone = this.#slots.every(({ server }) => server.hasEnded());
    await (alone ? this.disturbed(start) : start());
  }
}
