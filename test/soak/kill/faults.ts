/** The faults of the server process: it is killed, terminated, or paused for longer than its lease, over and over. */
import { stripVTControlCharacters } from "node:util";
import type { Disturbance } from "../disturbances.ts";
import type { Executions } from "../executions.ts";
import { configure, RUNTIMES, type Server, type Site, signal, sleep, startServer } from "../servers.ts";

export interface FaultOptions {
  readonly site: Site;
  readonly port: number;
  readonly executions: Executions;
  /** The longest time between two faults. */
  readonly most_between_ms: number;
  /** The old process is dead, and the new one has not started. */
  between?(): void;
  /** Called before a kill, and when a process has ended for any other reason but SIGTERM. */
  onDeath(at: number): Promise<void>;
}

/** A process was replaced by the next. */
export interface Restart {
  readonly killed_pid: number;
  readonly listening_at: number;
  readonly by_kill: boolean;
}

/**
 * Two kinds of life: with a short lease a pause can outlast it, with a long one only adoption gets the runs of a dead
 * process going again in time.
 */
const SHORT_LEASE_MS = 2_000;
const LONG_LEASE_MS = 10_000;
const GRACE_MS = 10_000;

export class Faults {
  /** The times at which a process was killed. */
  readonly kills: number[] = [];
  readonly restarts: Restart[] = [];
  /** The times for which a process was paused. */
  readonly pauses: Disturbance[] = [];
  terms = 0;
  /** Ends of a process that nobody asked for, and stops that took too long. */
  readonly wrong: string[] = [];
  readonly #options: FaultOptions;
  #server: Server;
  #lease_ms: number;

  static async start(options: FaultOptions): Promise<Faults> {
    const { site, port } = options;
    configure(site, { lease_ms: SHORT_LEASE_MS });
    return new Faults(options, await startServer({ runtime: "bun", site, port }), SHORT_LEASE_MS);
  }

  constructor(options: FaultOptions, server: Server, lease_ms: number) {
    this.#options = options;
    this.#server = server;
    this.#lease_ms = lease_ms;
  }

  get url(): string {
    return this.#server.url;
  }

  /** Lets the server be for a while, and then does something to it. */
  async next(): Promise<void> {
    await sleep(200 + Math.random() * (this.#options.most_between_ms - 200));
    if (await this.#crashed()) return;
    if (this.#lease_ms === SHORT_LEASE_MS && Math.random() < 0.45) {
      const from = Date.now();
      signal(this.#server.pid, "SIGSTOP");
      await sleep(2 * this.#lease_ms);
      signal(this.#server.pid, "SIGCONT");
      this.pauses.push({ from, to: Date.now() });
    } else if (Math.random() < 0.25) await this.#terminate();
    else {
      this.kills.push(Date.now());
      await this.#options.onDeath(Date.now());
      await this.#server.end("SIGKILL");
      await this.#replace(true);
    }
  }

  /** Injects no more faults. An end of the process that nobody requested still counts. */
  async calm(ms: number): Promise<void> {
    await sleep(ms);
    await this.#crashed();
  }

  async end(): Promise<void> {
    await this.#crashed();
    await this.#server.end("SIGTERM");
  }

  async #terminate(): Promise<void> {
    this.terms += 1;
    const from = Date.now();
    const late = setTimeout(() => void this.#server.end("SIGKILL"), 2 * GRACE_MS);
    const how = await this.#server.end("SIGTERM");
    clearTimeout(late);
    const took = Date.now() - from;
    if (how !== 0 || took > GRACE_MS + 1_500) {
      this.wrong.push(`${this.#server.runtime}: SIGTERM ended it with ${how} after ${took} ms`);
    }
    await this.#replace(false);
  }

  async #crashed(): Promise<boolean> {
    if (!this.#server.hasEnded()) return false;
    await this.#options.onDeath(Date.now());
    const { runtime, ended } = this.#server;
    const output = stripVTControlCharacters(this.#server.output());
    this.wrong.push(`${runtime}: ended by itself with ${await ended}: ${output.slice(-800)}`);
    await this.#replace(false);
    return true;
  }

  /** Starts a server of the next runtime on the same file and port. */
  async #replace(by_kill: boolean): Promise<void> {
    const { site, port, executions } = this.#options;
    const killed_pid = this.#server.pid;
    executions.killed(killed_pid);
    this.#options.between?.();
    this.#lease_ms = Math.random() < 1 / 3 ? SHORT_LEASE_MS : LONG_LEASE_MS;
    configure(site, { lease_ms: this.#lease_ms });
    const runtime = RUNTIMES[(this.restarts.length + 1) % RUNTIMES.length] ?? "bun";
    this.#server = await startServer({ runtime, site, port });
    this.restarts.push({ killed_pid, listening_at: this.#server.listening_at, by_kill });
  }
}
