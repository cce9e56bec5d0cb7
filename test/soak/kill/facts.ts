/** What clients know: everything that was sent, and everything that was acknowledged, on the disk before it is used. */
import { closeSync, fsync, openSync, write } from "node:fs";
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
  /** Where its end is to be told. */
  readonly webhook?: string;
  /** It asks for a feedback link. */
  readonly keyed: boolean;
  readonly sent_at: number;
  /** When the 2xx came; undefined while it is not known whether there is a run. */
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
  readonly run_id: string;
  readonly thread_id: string;
  readonly action: "interrupt" | "rollback";
  readonly sent_at: number;
  acknowledged_at?: number;
  /** The status of the answer; undefined while it is not known. */
  status?: number;
}

/** What one client saw of a run's stream, over all its connections. */
export interface History {
  readonly run_id: string;
  readonly key: string;
  readonly frames: Frame[];
  connections: number;
  /** The stream was followed to its `end`, or to the end of the run by a 404. */
  outcome?: "end" | "gone";
}

export class Facts {
  readonly threads: Map<string, "agent" | "graph"> = new Map();
  readonly creates: Create[] = [];
  readonly stops: Stop[] = [];
  readonly histories: History[] = [];
  /** Feedback that was acknowledged. */
  readonly submitted: Submitted[] = [];
  /** The assistant's versions: sent, and acknowledged. */
  version_sent = 0;
  version_acknowledged = 0;
  readonly #fd: number;
  #queue: { readonly text: string; readonly done: () => void }[] = [];
  #writing = false;

  constructor(file: string) {
    this.#fd = openSync(file, "a");
  }

  /** Resolves once the fact is on the disk. */
  async keep(fact: object): Promise<void> {
    await new Promise<void>((done) => {
      this.#queue.push({ text: `${JSON.stringify(fact)}\n`, done });
      void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    if (this.#writing) return;
    this.#writing = true;
    while (this.#queue.length > 0) {
      const group = this.#queue;
      this.#queue = [];
      await promisify(write)(this.#fd, group.map(({ text }) => text).join(""));
      await promisify(fsync)(this.#fd);
      for (const { done } of group) done();
    }
    this.#writing = false;
  }

  close(): void {
    closeSync(this.#fd);
  }
}
