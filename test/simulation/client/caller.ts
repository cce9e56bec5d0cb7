/** The base of every simulated client: it waits, repeats a request until a machine answers it, and records its requests. */
import { ServiceError } from "../../../lib/errors.ts";
import type { RunCreate, RunOrigin } from "../../../lib/runs/mod.ts";
import type { Service } from "../../../lib/service.ts";
import type { Script } from "../agent.ts";
import { ConnectionLost, type Process } from "../node.ts";
import type { RunNote } from "../oracle/notes.ts";
import { Dice } from "../random.ts";
import type { World } from "../world.ts";

/** The knowledge of a client about a run that it requested. */
export interface RequestedRun {
  readonly tag: string;
  readonly script: Script;
  readonly thread_id: string | null;
  request: RunCreate;
  readonly origin: RunOrigin;
  /** The id of the run that a response has returned; null without a response. */
  run_id: string | null;
  /** A try that may have taken effect was not answered. */
  unknown: boolean;
  /** True: the request was refused, so there must be no such run. */
  refused: boolean;
}

/** Feedback that was sent with a token. */
export interface Submitted {
  readonly run: RunNote;
  readonly token_id: string;
  readonly key: string;
  /** Names it in the record. */
  readonly comment: string;
  /** The ids of the created records, by the responses. */
  readonly ids: string[];
  /** A try that may have taken effect was not answered. */
  unknown: boolean;
}

/** A request that removes runs, from when it was sent until it is known to be over. */
export interface Removal {
  readonly covers: (run: RunNote) => boolean;
}

/** The maximum time of a request for any storage fault, without the stalls of its process. */
const ANSWER_MS = 60_000;

/** `again`: nothing was done, and another try may succeed. `unknown`: it is not known whether the request took effect. */
export type Unwilling = "refused" | "again" | "unknown";

const REFUSED = new Set(["bad_request", "not_found", "conflict", "gone", "invalid", "not_built"]);
const AGAIN = new Set(["unavailable", "storage_full"]);

function verdict(error: unknown): Unwilling {
  if (error instanceof ConnectionLost) return error.refused ? "again" : "unknown";
  if (!(error instanceof ServiceError)) return "unknown";
  return REFUSED.has(error.code) ? "refused" : AGAIN.has(error.code) ? "again" : "unknown";
}

export class Caller {
  readonly name: string;
  readonly world: World;
  readonly dice: Dice;
  /** The threads that all clients share. */
  readonly threads: readonly string[];
  readonly requestedRuns: RequestedRun[] = [];
  readonly removals: Set<Removal> = new Set();
  readonly submitted: Submitted[] = [];
  /** Streams and waits that it has open, and whatever else it does beside its requests. */
  streams = 0;
  count = 0;
  doing = "nothing";

  constructor(world: World, name: string, threads: readonly string[]) {
    this.world = world;
    this.name = name;
    this.dice = new Dice(world.plan.seed, name);
    this.threads = threads;
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.world.scheduler.at(ms, null, resolve));
  }

  /**
   * Sends a request until it has an answer. `repeat`: also when it is not known whether it took effect. Undefined when there
   * is none.
   */
  async ask<Answer>(
    what: string,
    ask: (service: Service, process: Process) => Promise<Answer>,
    repeat: boolean,
    onError: (error: Unwilling) => void = () => {},
  ): Promise<Answer | undefined> {
    this.doing = what;
    for (let tries = 0; tries < 12 || this.world.quiet; tries++) {
      const node = this.world.reachable(this.dice);
      if (node) {
        const { process } = node;
        const answered = this.#expectAnswer(what, process);
        try {
          return await node.request((service) => ask(service, process)).finally(answered);
        } catch (error) {
          const answer = verdict(error);
          this.world.note(`${this.name} ${what}: ${answer}`);
          if (answer === "unknown") this.world.show(`  ${String(error)}`);
          onError(answer);
          if (answer === "refused" || (answer === "unknown" && !repeat)) return undefined;
        }
      }
      await this.sleep(this.dice.between(50, 600));
    }
    return undefined;
  }

  /** Notes a violation when no answer comes in time. Call the result when the answer is there. */
  #expectAnswer(what: string, process: Process): () => void {
    const { scheduler } = this.world;
    const latest = scheduler.now + ANSWER_MS - process.still_ms;
    let cancel = (): void => {};
    const check = (): void => {
      const remainingMs = latest + process.still_ms - scheduler.now;
      if (remainingMs > 0) cancel = scheduler.at(remainingMs, process, check);
      else this.world.violation("answer", `${this.name} ${what}: ${process.name} has not answered for ${ANSWER_MS} ms`);
    };
    check();
    return () => cancel();
  }

  /** Asks for something that may remove runs. */
  async askToRemove<Answer>(
    what: string,
    covers: (run: RunNote) => boolean,
    ask: (service: Service) => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const removal: Removal = { covers };
    this.removals.add(removal);
    let unknown = false;
    const answer = await this.ask(what, ask, this.dice.chance(0.5), (error) => {
      unknown ||= error === "unknown";
    });
    // A request that was not answered may still take effect.
    if (!unknown) this.removals.delete(removal);
    return answer;
  }

  /** Returns a run whose id some client has received, more often a late one; null if there is none. */
  pickKnownRun(): (RequestedRun & { readonly run: RunNote }) | null {
    const knownRuns = this.world.clients.flatMap(({ requestedRuns }) =>
      requestedRuns.filter(({ run_id }) => run_id !== null),
    );
    if (knownRuns.length === 0) return null;
    const requestedRun = knownRuns[
      Math.max(this.dice.below(knownRuns.length), this.dice.below(knownRuns.length))
    ] as RequestedRun;
    return { ...requestedRun, run: this.world.oracle.runs.byId.get(requestedRun.run_id as string) as RunNote };
  }

  /** Returns true if one of its requests may have removed this run while it was active. */
  mayRemove(run: RunNote): boolean {
    for (const removal of this.removals) if (removal.covers(run)) return true;
    return false;
  }
}
