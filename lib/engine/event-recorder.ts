/** Records the events of a run for the event protocol of threads: its lifecycle, and the events of its executor. */
import type { Environment } from "../environment.ts";
import { type ExecutorEvent, type GraphInfo, type Job, ResumeError } from "../executor/contract.ts";
import { getAnswerCount, listInterruptIds } from "../executor/job-request.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import {
  type ClaimedRun,
  type EventMethod,
  type EventPage,
  type Scope,
  type Storage,
  type TerminalStatus,
  type ThreadEvent,
  toEventSeq,
} from "../storage/mod.ts";
import { toRefusedResume } from "../streams/run-subscription.ts";
import { decodeStoredEvent, encodeEvent, type NewEvent } from "../streams/thread-event.ts";
import { EventDeriver, type YieldedEvent } from "./event-deriver.ts";
import { OpenEvents } from "./open-events.ts";

interface EventRecorderOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly graph: GraphInfo;
  readonly claimed: ClaimedRun;
  readonly job: Job;
  record(event: Omit<ThreadEvent, "seq">, isEnd?: boolean): void;
  /** Repeats a failing storage call for a limited time. */
  retry<Result>(call: () => Promise<Result>): Promise<Result>;
}

interface RecordedEnd {
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  /** True if the run stopped at interrupts or a breakpoint. */
  readonly isWaiting: boolean;
  /** The error of the executor; undefined if it returned. */
  readonly failure: unknown;
}

/** The number of turns of the thread in which events of earlier attempts are read. */
const MAX_RECOVERED_TURNS = 100;
const RECOVERED_METHODS: ReadonlySet<EventMethod> = new Set(["lifecycle", "messages", "input.requested"]);

/** Returns null for threads whose events have no reader. */
export const createEventRecorder = (options: EventRecorderOptions): EventRecorder | null =>
  (options.job.events ?? "none") === "none" ? null : new EventRecorder(options);

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  /** Null for executors that yield events. */
  readonly #deriver: EventDeriver | null;
  readonly #open = new OpenEvents();
  /** The ids of recorded interrupts. */
  readonly #requested = new Set<Json>();
  /** True if the start of the run is recorded. */
  #hasStarted = false;
  /** True if the events of earlier attempts were read. */
  #hasReadEarlier: boolean;

  constructor(options: EventRecorderOptions) {
    const { job, graph, claimed } = options;
    this.#options = options;
    this.#deriver = graph.protocol_events ? null : new EventDeriver(job.events === "all", job.durability !== "exit");
    this.#hasReadEarlier = claimed.run.claims === 1;
  }

  /**
   * Records the start of the run. After a crash, closes events that earlier attempts have left open. Returns a promise only if it
   * must read.
   */
  recordStart(): Promise<void> | undefined {
    return this.#recordAfterEarlier(() => this.#appendStart());
  }

  /** Records the events that follow from an event of the executor. */
  record(event: ExecutorEvent): void {
    if (event.type === "event") this.#recordYielded(event);
    else for (const derived of this.#deriver?.derive(event) ?? []) this.#recordYielded(derived);
  }

  /**
   * Records interrupts that wait for another resume value, because the run that resumed them has failed. Each interrupt is
   * recorded once.
   */
  recordRequests(interrupts: readonly JsonObject[]): void {
    for (const { id = null, value = null } of interrupts) {
      const data = { interrupt_id: id, payload: value, value };
      this.#recordYielded({ method: "input.requested", namespace: [], data });
    }
  }

  /**
   * Closes what is open, and records the end of the run, which is its last event. Returns a promise only if it must read events
   * of earlier attempts first; it rejects if the storage keeps failing.
   */
  recordEnd(end: RecordedEnd): Promise<void> | undefined {
    // Nothing was read if the run was stopped before this attempt began.
    return this.#recordAfterEarlier(() => this.#appendEnd(end));
  }

  /**
   * Calls `record`, the first time after reading the events that earlier attempts have stored. Returns undefined if it was called at once.
   * Rejects if the storage keeps failing; the next call then reads again.
   */
  #recordAfterEarlier(record: () => void): Promise<void> | undefined {
    if (!this.#hasReadEarlier) return this.#readEarlier().then(record);
    record();
    return undefined;
  }

  /**
   * Reads the events of earlier attempts of this run, page by page, to find what they left open. Goes back `MAX_RECOVERED_TURNS`
   * turns at most. A failed read leaves `#hasReadEarlier` false, and is repeated before the end.
   */
  async #readEarlier(): Promise<void> {
    const { storage, scope, claimed, retry } = this.#options;
    const { thread_id, claim_number } = claimed.run;
    let after: number | null = Math.max(0, toEventSeq(claim_number - MAX_RECOVERED_TURNS, 0));
    while (after !== null) {
      const query: { readonly after: number; readonly methods: typeof RECOVERED_METHODS } = {
        after,
        methods: RECOVERED_METHODS,
      };
      const page: EventPage = await retry(() => storage.readEvents(scope, thread_id, query));
      for (const event of page.events) {
        if (event.run_id === claimed.run.run_id) this.#recover(decodeStoredEvent(event));
      }
      after = page.has_more ? page.read_to : null;
    }
    // A failed read is repeated before the end.
    this.#hasReadEarlier = true;
  }

  /**
   * Takes over an event of an earlier attempt: what it opened or closed, the interrupt it requested, and that the run has
   * started.
   */
  #recover(event: NewEvent): void {
    const { method, namespace, data } = event;
    this.#open.follow(event);
    if (method === "input.requested" && isObject(data)) this.#requested.add(data.interrupt_id ?? null);
    if (namespace.length === 0) this.#hasStarted = true;
  }

  /**
   * Closes as interrupted what earlier attempts left open, and records `running` unless one of them did, and the interrupts that
   * the run resumes.
   */
  #appendStart(): void {
    const { claimed, job } = this.#options;
    this.#closeOpen({ event: "interrupted" }, "The run was interrupted, and starts again");
    if (!this.#hasStarted) this.#recordRoot("lifecycle", { event: "running", graph_name: claimed.run.graph_id });
    const interrupt_ids = job.resumed ? [] : findResumedInterruptIds(job, claimed.thread.interrupts);
    if (interrupt_ids.length > 0) this.#recordRoot("input.answered", { interrupt_ids });
  }

  /**
   * Closes open messages and subgraphs, and records the end of the run: `failed`, `interrupted` (also if tasks wait), or
   * `completed`.
   */
  #appendEnd({ status, error, isWaiting, failure }: RecordedEnd): void {
    const completed = status === "interrupted" || isWaiting ? "interrupted" : "completed";
    const event = error ? "failed" : completed;
    const message = typeof error?.message === "string" ? error.message : undefined;
    this.#closeOpen({ event }, message ?? "The run was stopped");
    const data: JsonObject = {
      event,
      graph_name: this.#options.claimed.run.graph_id,
      ...(message === undefined ? {} : { error: message }),
      ...(failure instanceof ResumeError ? toRefusedResume(failure) : {}),
    };
    this.#recordRoot("lifecycle", data, true);
  }

  #closeOpen(lifecycle: JsonObject, message: string): void {
    for (const event of this.#open.close(lifecycle, message)) this.#record(event);
  }

  /** Records an event and what it opens or closes. A second request of the same interrupt is dropped. */
  #recordYielded(event: YieldedEvent): void {
    this.#open.follow(event);
    if (event.method === "input.requested") {
      const { interrupt_id = null } = isObject(event.data) ? event.data : {};
      if (this.#requested.has(interrupt_id)) return;
      this.#requested.add(interrupt_id);
    }
    this.#record(event);
  }

  #recordRoot(method: EventMethod, data: Json, isEnd = false): void {
    this.#record({ method, namespace: [], data }, isEnd);
  }

  /** Encodes the event with the time and records it. `isEnd` marks the last event of the run. */
  #record(event: NewEvent, isEnd = false): void {
    const { record, environment } = this.#options;
    record(encodeEvent(event, environment.now()), isEnd);
  }
}

/**
 * Returns the ids of the interrupts that a run resumes; none unless all of them are pending on its thread with the number of answers that
 * the run expects. Interrupts without an id are checked, and not returned.
 */
function findResumedInterruptIds({ resume_targets = [] }: Job, interrupts: JsonObject): string[] {
  const pending = new Set(
    Object.values(interrupts)
      .flatMap((list) => (Array.isArray(list) ? list : []))
      .flatMap((interrupt) => (isObject(interrupt) ? [`${getAnswerCount(interrupt)} ${interrupt.id}`] : [])),
  );
  const isPending = resume_targets.every(({ interrupt_id, answered }) => pending.has(`${answered} ${interrupt_id}`));
  return isPending ? listInterruptIds(resume_targets) : [];
}
