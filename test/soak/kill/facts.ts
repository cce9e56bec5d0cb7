/**
 * The knowledge of the clients: each request is written to the disk before it is sent, and each response before it is used. So a soak that
 * was cut off can be judged from the file.
 */
import { closeSync, existsSync, fsync, openSync, readFileSync, write } from "node:fs";
import { promisify } from "node:util";
import type { Plan } from "../agents.ts";
import type { Frame } from "../client.ts";
import type { Submitted } from "../platform.ts";

/** A create that was sent. */
export interface Create {
  readonly key: string;
  readonly thread_id: string;
  readonly graph: "agent" | "graph";
  readonly strategy: "enqueue" | "reject" | "interrupt" | "rollback";
  readonly plan: Plan;
  /** Uses the assistant that changes all the time. */
  readonly versioned: boolean;
  /** The newest version of that assistant that was acknowledged before this was sent. */
  readonly version_from: number;
  readonly framed: boolean;
  /** The URL that is notified of its end. */
  readonly webhook?: string;
  /** It asks for a feedback link. */
  readonly keyed: boolean;
  readonly sent_at: number;
  /** The time of the 2xx; undefined while it is not known whether there is a run. */
  acknowledged_at?: number;
  run_id?: string;
  /** The newest version that was sent before the acknowledgement. */
  version_to?: number;
  /** A 4xx came: there is no run. */
  refused?: number;
  /** It was sent a second time with the same key, because the first answer was lost. */
  repeated?: boolean;
}

/** A cancel that was sent. */
export interface Stop {
  readonly stop_id: string;
  readonly run_id: string;
  readonly thread_id: string;
  readonly action: "interrupt" | "rollback";
  readonly sent_at: number;
  acknowledged_at?: number;
  /** The status of the answer; undefined while it is not known. */
  status?: number;
}

/** The frames that one client received of a run's stream, over all its connections. */
export interface History {
  readonly run_id: string;
  readonly key: string;
  readonly frames: Frame[];
  connections: number;
  /** The stream was followed to its `end`, or to the end of the run by a 404. */
  outcome?: "end" | "gone";
}

/** A line of the file. A later line about the same create, stop or thread replaces the earlier one. */
type Fact =
  | { readonly port: number }
  | { readonly thread: string; readonly graph: "agent" | "graph" }
  | { readonly create: Create }
  | { readonly stop: Stop }
  | { readonly history: History }
  | { readonly submitted: Submitted }
  | { readonly death: number };

export class Facts {
  readonly threads: Map<string, "agent" | "graph"> = new Map();
  readonly creates: Create[] = [];
  readonly stops: Stop[] = [];
  readonly histories: History[] = [];
  /** Feedback that was acknowledged. */
  readonly submitted: Submitted[] = [];
  /** The times at which a server process ended for any reason but SIGTERM. */
  readonly deaths: number[] = [];
  /** The port of the servers, which links of runs name. */
  port: number | undefined;
  /** The assistant's versions: sent, and acknowledged. */
  version_sent = 0;
  version_acknowledged = 0;
  readonly #fd: number;
  #queue: { readonly text: string; readonly done: () => void }[] = [];
  /** Settles when the queue is on the disk; undefined while nothing is being written. */
  #flushing: Promise<void> | undefined;

  /** Continues the file. Reads what is in it. */
  constructor(file: string) {
    if (existsSync(file)) this.#read(readFileSync(file, "utf8"));
    this.#fd = openSync(file, "a");
  }

  #read(text: string): void {
    const creates = new Map<string, Create>();
    const stops = new Map<string, Stop>();
    // What follows the last line break was cut off: nothing was sent because of it.
    for (const line of text.split("\n").slice(0, -1)) {
      const fact = JSON.parse(line) as Fact;
      if ("port" in fact) this.port = fact.port;
      else if ("thread" in fact) this.threads.set(fact.thread, fact.graph);
      else if ("create" in fact) creates.set(fact.create.key, fact.create);
      else if ("stop" in fact) stops.set(fact.stop.stop_id, fact.stop);
      else if ("history" in fact) this.histories.push(fact.history);
      else if ("submitted" in fact) this.submitted.push(fact.submitted);
      else this.deaths.push(fact.death);
    }
    this.creates.push(...creates.values());
    this.stops.push(...stops.values());
  }

  async setPort(port: number): Promise<void> {
    this.port = port;
    await this.#keep({ port });
  }

  async addThread(thread: string, graph: "agent" | "graph"): Promise<void> {
    this.threads.set(thread, graph);
    await this.#keep({ thread, graph });
  }

  /** Records a create that is about to be sent. Resolves once it is on the disk. */
  async addCreate(create: Create): Promise<void> {
    this.creates.push(create);
    await this.#keep({ create });
  }

  /** A create was answered, or is sent again. Resolves once that is on the disk. */
  async updateCreate(create: Create): Promise<void> {
    await this.#keep({ create });
  }

  /** Records a cancel that is about to be sent. Resolves once it is on the disk. */
  async addStop(stop: Stop): Promise<void> {
    this.stops.push(stop);
    await this.#keep({ stop });
  }

  async updateStop(stop: Stop): Promise<void> {
    await this.#keep({ stop });
  }

  /** A reader has followed its run to the end. */
  async finishHistory(history: History): Promise<void> {
    await this.#keep({ history });
  }

  async addSubmitted(submitted: Submitted): Promise<void> {
    this.submitted.push(submitted);
    await this.#keep({ submitted });
  }

  async addDeath(death: number): Promise<void> {
    this.deaths.push(death);
    await this.#keep({ death });
  }

  /** Resolves once the fact is on the disk. */
  async #keep(fact: Fact): Promise<void> {
    await new Promise<void>((done) => {
      this.#queue.push({ text: `${JSON.stringify(fact)}\n`, done });
      void this.flush();
    });
  }

  async #writeQueue(): Promise<void> {
    while (this.#queue.length > 0) {
      const group = this.#queue;
      this.#queue = [];
      await promisify(write)(this.#fd, group.map(({ text }) => text).join(""));
      await promisify(fsync)(this.#fd);
      for (const { done } of group) done();
    }
    this.#flushing = undefined;
  }

  /** Resolves once every fact that was added is on the disk, also those whose caller does not wait for it. */
  async flush(): Promise<void> {
    if (this.#queue.length > 0) this.#flushing ??= this.#writeQueue();
    await this.#flushing;
  }

  /** Closes the file. Call `flush` first: what is not on the disk is lost. */
  close(): void {
    closeSync(this.#fd);
  }
}
