/**
 * The verbs of durable functions over the journal of their call. A verb whose entry is stored settles with it; any other is executed,
 * and its entry is committed together with what the function has shown before.
 */
import type { Environment } from "../environment.ts";
import type { ExecutorEvent, Interrupt, Job } from "../executor/contract.ts";
import type { JournalEntry, OpenJournal, OutsideEvent, StepKind, WaitingFor } from "../executor/journal.ts";
import { misfit } from "../executor/schema-check.ts";
import { durationOf, labelOf, nameOf, timeOf } from "../executor/step-names.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Call } from "./call.ts";
import { continuedJob } from "./continued-job.ts";
import type { Emitted } from "./drive.ts";
import { streamOf } from "./drive.ts";
import type { DrivenJob } from "./mod.ts";
import { copyJson } from "./plain.ts";
import {
  type AskOptions,
  type Duration,
  ReplayMismatch,
  type StepContext,
  StepError,
  type StepName,
  type StepOptions,
  type WaitAddress,
  type WaitOptions,
} from "./verbs.ts";

interface StepsOptions {
  readonly job: Job;
  readonly call: Call;
  readonly journal: OpenJournal;
  readonly emitted: Emitted;
  readonly signal: AbortSignal;
  readonly strict: boolean;
  /** How many values the function had yielded at the newest state. */
  readonly yields: number;
  /** The call begins here: the function has yielded what it has yielded. */
  readonly isNew: boolean;
  readonly environment: Pick<Environment, "now" | "timer" | "defer" | "random" | "uuid" | "log">;
}

/** What the journal has of one use of a verb. */
interface Recorded {
  settled?: { readonly idx: number; readonly entry: JournalEntry };
  begun?: JournalEntry;
  readonly failed: JournalEntry[];
}

/** A use of a verb. */
interface Verb {
  readonly kind: JournalEntry["kind"];
  readonly name: string;
  readonly occurrence: number;
  readonly call: number;
  readonly recorded: Recorded;
}

/** A verb that waits. */
interface Open {
  readonly verb: Verb;
  readonly until: number | null;
  /** Its time has come. */
  due(): void;
  /** Of a wait: an event has come. */
  give?(event: OutsideEvent): void;
  readonly ask?: Interrupt;
}

/** A function that does nothing for this time, and waits for a verb, is suspended. */
const IDLE_MS = 50;
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

const keyOf = (kind: string, name: string, occurrence: number): string => `${kind} ${occurrence} ${name}`;
const errorOf = (error: unknown): { name: string; message: string } =>
  error instanceof Error ? { name: error.name, message: error.message } : { name: "Error", message: String(error) };

/** Where asynchronous code runs: in a step or not. Absent where the runtime cannot tell. */
interface Inside {
  run<Result>(label: string, work: () => Result): Result;
  getStore(): string | undefined;
}

let inside: Promise<Inside | null> | undefined;

/** Imports a module of the runtime; the comments keep bundlers from resolving it. */
const builtin = <Module>(name: string): Promise<Module> =>
  import(/* webpackIgnore: true */ /* @vite-ignore */ name) as Promise<Module>;

function loadInside(): Promise<Inside | null> {
  inside ??= builtin<{ readonly AsyncLocalStorage: new () => Inside }>("node:async_hooks").then(
    ({ AsyncLocalStorage }) => new AsyncLocalStorage(),
    () => null,
  );
  return inside;
}

export async function openSteps(options: StepsOptions): Promise<Steps> {
  return new Steps(options, await loadInside());
}

/** The steps of one attempt. */
export class Steps {
  readonly #options: StepsOptions;
  readonly #inside: Inside | null;
  readonly #recorded = new Map<string, Recorded>();
  readonly #byCall = new Map<number, JournalEntry>();
  readonly #uses = new Map<string, number>();
  #calls = 0;
  /** Stored entries that verbs wait for: each tick of the event loop settles the oldest. */
  readonly #replays = new Map<number, () => void>();
  #replaying = false;
  /** The newest entry that has settled, and the newest stored one. */
  #reached = -1;
  readonly #last: number;
  /** Entries that no verb has asked for yet. */
  #left: number;
  #disordered = false;
  readonly #target: number;
  readonly #open = new Set<Open>();
  /** Work that must end before the attempt may. */
  #busy = 0;
  readonly #rejecters = new Set<(reason: unknown) => void>();
  readonly #consumed = new Set<number>();
  #watching: Promise<void> | null = null;
  #cancelIdle: (() => void) | null = null;
  #cancelTimer = (): void => {};
  #over: string | null = null;
  #mismatch: ReplayMismatch | null = null;

  constructor(options: StepsOptions, inside: Inside | null) {
    this.#options = options;
    this.#inside = inside;
    const { journal, signal, call } = options;
    let [settled, last] = [0, -1];
    for (const [idx, entry] of journal.entries.entries()) {
      if (entry.kind === "pause") continue;
      const key = keyOf(entry.kind, entry.name, entry.occurrence);
      const recorded = this.#recorded.get(key) ?? { failed: [] };
      this.#recorded.set(key, recorded);
      if (entry.call > 0) this.#byCall.set(entry.call, entry);
      if (entry.event !== undefined) this.#consumed.add(entry.event);
      if (entry.phase === "begun") recorded.begun ??= entry;
      else if (entry.phase === "failed") recorded.failed.push(entry);
      else if (entry.phase !== "dropped") {
        recorded.settled = { idx, entry };
        last = idx;
        settled++;
      }
    }
    this.#left = settled;
    this.#last = last;
    const newest = journal.entries.at(-1);
    this.#target = options.isNew ? 0 : Math.max(options.yields, newest?.position.yields ?? 0);
    call.durable = journal;
    signal.addEventListener("abort", () => this.#stop(signal.reason), { once: true });
  }

  /** The job as the call's start had it. */
  jobOf(own: DrivenJob): DrivenJob {
    return continuedJob(own, this.#options.journal.origin);
  }

  // ------------------------------------------------------------------- replay

  /** A yielded value was stored already: it is neither shown nor stored again. */
  skips(): boolean {
    this.touch();
    const { call } = this.#options;
    if (call.yields >= this.#target) return false;
    call.yields++;
    if (call.yields === this.#target) this.#restoreReply();
    return true;
  }

  /** What the function emits was shown already. */
  isReplaying(): boolean {
    this.touch();
    return this.#reached < this.#last || this.#options.call.yields < this.#target;
  }

  /** The reply goes on where the newest entry has it. */
  #restoreReply(): void {
    const position = this.#options.journal.entries.at(-1)?.position;
    if (position?.reply && position.yields === this.#target) this.#options.call.reply = { ...position.reply };
  }

  #replay<Value>({ idx, entry }: NonNullable<Recorded["settled"]>, verb: Verb): Promise<Value> {
    this.#left--;
    if (entry.call !== verb.call) this.#disordered = true;
    return this.#guarded((resolve: (value: Value) => void, reject) => {
      this.#busy++;
      this.#replays.set(idx, () => {
        this.#busy--;
        this.#passed(idx, entry);
        if (entry.phase === "error") {
          const cause = Object.assign(new Error(entry.error?.message), { name: entry.error?.name ?? "Error" });
          reject(new StepError(labelOf(verb.name), cause.message, cause));
        } else if (entry.phase === "timeout") resolve(null as Value);
        else resolve((entry.value === undefined ? undefined : structuredClone(entry.value)) as Value);
      });
      this.#replayNext();
    });
  }

  #replayNext(): void {
    if (this.#replaying || this.#replays.size === 0) return;
    this.#replaying = true;
    this.#options.environment.defer(() => {
      this.#replaying = false;
      const first = Math.min(...this.#replays.keys());
      const settle = this.#replays.get(first);
      this.#replays.delete(first);
      settle?.();
      this.#replayNext();
    });
  }

  #passed(idx: number, { position }: JournalEntry): void {
    this.touch();
    if (idx <= this.#reached) return;
    this.#reached = idx;
    const { call } = this.#options;
    if (call.yields === position.yields || call.yields >= this.#target) return;
    call.yields = position.yields;
    if (call.yields === this.#target) this.#restoreReply();
  }

  /** Numbers the use of a verb. Throws before anything is stored. */
  #begin(kind: StepKind, given: StepName): Verb {
    const { signal, strict, journal } = this.#options;
    const name = nameOf(given);
    if (this.#over) throw new Error(`${labelOf(name)}: ${this.#over}`);
    signal.throwIfAborted();
    const outer = this.#inside?.getStore();
    if (outer !== undefined)
      throw new Error(`${labelOf(name)}: a ${kind} inside the step ${outer}; call it outside of steps`);
    this.touch();
    const used = keyOf(kind, name, 0);
    const occurrence = (this.#uses.get(used) ?? 0) + 1;
    this.#uses.set(used, occurrence);
    const call = ++this.#calls;
    const key = keyOf(kind, name, occurrence);
    const recorded = this.#recorded.get(key) ?? { failed: [] };
    if (strict) this.#compare(kind, name, occurrence, call, recorded, journal);
    return { kind, name, occurrence, call, recorded };
  }

  #compare(kind: string, name: string, occurrence: number, call: number, recorded: Recorded, _: OpenJournal): void {
    const there = this.#byCall.get(call);
    const own = recorded.settled?.entry ?? recorded.begun ?? recorded.failed[0];
    const same = !there || (there.kind === kind && there.name === name && there.occurrence === occurrence);
    if (!this.#mismatch && same && (!own || own.call === call)) return;
    this.#mismatch ??= new ReplayMismatch(
      `call ${call} is ${kind} ${labelOf(name)}; the journal has ${there ? `${there.kind} ${labelOf(there.name)}` : `it as call ${own?.call}`}`,
    );
    throw this.#mismatch;
  }

  // ------------------------------------------------------------------ entries

  /** A promise that rejects when the run must stop. */
  #guarded<Value>(start: (resolve: (value: Value) => void, reject: (reason: unknown) => void) => void): Promise<Value> {
    return new Promise((resolve, reject) => {
      const done = (): void => void this.#rejecters.delete(reject);
      this.#rejecters.add(reject);
      start(
        (value) => {
          done();
          resolve(value);
        },
        (reason) => {
          done();
          reject(reason);
        },
      );
    });
  }

  /** What the driver does between the values of the function. */
  #effect<Value>(run: () => AsyncGenerator<ExecutorEvent, Value>): Promise<Value> {
    return this.#guarded((resolve, reject) => {
      this.#busy++;
      const steps = this;
      this.#options.emitted.push({
        kind: "effect",
        async *run() {
          try {
            resolve(yield* run());
          } catch (error) {
            reject(error);
          } finally {
            steps.#busy--;
            steps.touch();
          }
        },
      });
    });
  }

  /** Stores an entry with all that was shown before it; resolves when that is committed. */
  async #add(
    verb: Verb,
    part: Pick<JournalEntry, "phase"> & Partial<JournalEntry>,
    message?: JsonObject,
  ): Promise<JournalEntry> {
    const { call, journal } = this.#options;
    const { kind, name, occurrence } = verb;
    this.#busy++;
    try {
      const { entry, stored } = await this.#effect(async function* () {
        if (message) yield* call.said(message);
        yield* call.commitStep();
        const position = { yields: call.yields, reply: call.reply && { ...call.reply } };
        const entry = journal.append({ kind, name, occurrence, call: verb.call, position, ...part });
        if (kind === "step" && part.phase !== "failed") yield* shownEnd(call, journal.call_id, entry);
        // The next event is taken while this one is stored.
        return { entry, stored: journal.commit() };
      });
      await this.#guarded<void>((resolve, reject) => void stored.then(resolve, reject));
      return entry;
    } finally {
      this.#busy--;
      this.touch();
    }
  }

  // --------------------------------------------------------------------- step

  async step(given: StepName, work: (context: StepContext) => unknown, options: StepOptions = {}): Promise<unknown> {
    const verb = this.#begin("step", given);
    if (typeof work !== "function") throw new TypeError(`${labelOf(verb.name)}: the second argument is no function`);
    const { settled } = verb.recorded;
    if (settled) return await this.#replay(settled, verb);
    const value = await this.#execute(verb, options, work);
    return value === undefined ? undefined : structuredClone(value);
  }

  /** Tries the work of a step until it succeeds or has no retries left. */
  async #execute(verb: Verb, options: StepOptions, work: (context: StepContext) => unknown): Promise<Json | undefined> {
    const { retries = 0, timeout, backoff = FIRST_PAUSE_MS, retry = () => true } = options;
    const { journal, environment, call } = this.#options;
    const label = labelOf(verb.name);
    const limit = timeout === undefined ? null : durationOf(timeout, `${label}: timeout`);
    const first = durationOf(backoff, `${label}: backoff`);
    const { failed } = verb.recorded;
    let attempt = (failed.at(-1)?.attempt ?? 0) + 1;
    let next = failed.at(-1)?.until ?? null;
    this.#busy++;
    try {
      const key = await journal.id(verb.kind, verb.name, verb.occurrence);
      if (verb.kind === "step") void this.#effect(() => shownStart(call, journal.call_id, verb)).catch(() => {});
      for (;;) {
        if (next !== null) await this.#until(verb, next);
        const began = environment.now();
        const outcome = await this.#try(verb, limit, (signal) => work({ key, attempt, signal }));
        if ("value" in outcome) {
          const { value, message } = outcome;
          const done = { attempt, began, ...(value === undefined ? {} : { value }) };
          await this.#add(verb, { phase: "done", ...done }, message);
          return value;
        }
        const { error } = outcome;
        const pause = Math.min(LONGEST_PAUSE_MS, first * 2 ** (attempt - 1)) * (1 - environment.random() / 4);
        const again = attempt <= retries && retry(error);
        next = again ? environment.now() + Math.ceil(pause) : null;
        const entry = { attempt, began, error: errorOf(error), until: next };
        await this.#add(verb, { phase: again ? "failed" : "error", ...entry });
        if (!again) throw new StepError(label, errorOf(error).message, error);
        attempt++;
      }
    } finally {
      this.#busy--;
      this.touch();
    }
  }

  /** One try. A stop of the run rejects once the work has ended; a timeout does not wait for it. */
  async #try(
    verb: Verb,
    limit: number | null,
    work: (signal: AbortSignal) => unknown,
  ): Promise<{ readonly value: Json | undefined; readonly message?: JsonObject } | { readonly error: unknown }> {
    const { signal, environment } = this.#options;
    const label = labelOf(verb.name);
    const own = new AbortController();
    const onAbort = (): void => own.abort(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    let cancel = (): void => {};
    const late = new Promise<never>((_, reject) => {
      if (limit === null) return;
      cancel = environment.timer(Math.min(limit, LONGEST_TIMER_MS), () => {
        const error = Object.assign(new Error(`took longer than ${limit} ms`), { name: "TimeoutError" });
        own.abort(error);
        reject(error);
      });
    });
    const run = async (): Promise<unknown> => work(own.signal);
    const started = (this.#inside ? this.#inside.run(label, run) : run()).then(async (value) => {
      const stream = streamOf(value);
      return stream ? await this.#speak(stream, own.signal) : { value };
    });
    try {
      const outcome = await Promise.race([started, late]);
      signal.throwIfAborted();
      const { value, ...message } = outcome;
      return { ...message, value: value === undefined ? undefined : copyJson(value, `result of ${label}`) };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      return { error };
    } finally {
      cancel();
      started.catch(() => {});
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Shows the tokens of a stream as they come. */
  async #speak(
    stream: AsyncIterable<unknown>,
    signal: AbortSignal,
  ): Promise<{ readonly value: string; readonly message: JsonObject }> {
    const { call, environment } = this.#options;
    const id = environment.uuid();
    let text = "";
    for await (const part of stream) {
      signal.throwIfAborted();
      if (typeof part !== "string") throw new TypeError("a stream in a step must have texts only");
      text += part;
      await this.#effect(async function* () {
        if (!signal.aborted) yield* call.spoken(id, part);
      });
    }
    return { value: text, message: { type: "ai", content: text, id } };
  }

  // -------------------------------------------------------- sleep, wait, ask

  async sleep(given: StepName, until: Duration | Date): Promise<void> {
    const verb = this.#begin("sleep", given);
    const { settled, begun } = verb.recorded;
    if (settled) return await this.#replay(settled, verb);
    const { environment } = this.#options;
    const due = begun?.until ?? timeOf(until, environment.now(), labelOf(verb.name));
    if (!begun) {
      if (due <= environment.now()) return;
      await this.#add(verb, { phase: "begun", until: due });
    }
    await this.#until(verb, due);
    await this.#add(verb, { phase: "done" });
  }

  /** Waits for a time without being busy. */
  #until(verb: Verb, until: number): Promise<void> {
    // A step that waits for its next try does not work.
    const pausing = verb.kind === "step" || verb.kind === "begin";
    if (pausing) this.#busy--;
    return this.#guarded<void>((resolve) => this.#wait({ verb, until, due: resolve })).finally(() => {
      if (pausing) this.#busy++;
    });
  }

  #wait(open: Open): Open {
    const own = {
      ...open,
      due: () => {
        this.#open.delete(own);
        open.due();
      },
    };
    this.#open.add(own);
    this.#arm();
    this.touch();
    return own;
  }

  async wait(given: StepName, { timeout, schema, begin }: WaitOptions<JsonObject> = {}): Promise<Json> {
    const verb = this.#begin("wait", given);
    const { settled, begun } = verb.recorded;
    if (settled) return await this.#replay(settled, verb);
    const label = labelOf(verb.name);
    const due = this.#due(timeout, label);
    const kept = schema === undefined ? {} : { schema: copyJson(schema, `${label}: schema`) as JsonObject };
    const entry = begun ?? (await this.#add(verb, { phase: "begun", until: due, ...kept }));
    const until = entry.until ?? null;
    const outcome = this.#guarded<OutsideEvent | null>((resolve) => {
      this.#wait({ verb, until, due: () => resolve(null), give: resolve });
    });
    this.#busy++;
    this.#watching ??= this.#options.journal.watch(() => this.#takeEvents());
    await this.#watching;
    this.#busy--;
    this.#takeEvents();
    if (begin) {
      outcome.catch(() => {});
      await this.#handOut(verb, begin);
    }
    const event = await outcome;
    if (!event) {
      await this.#add(verb, { phase: "timeout" });
      return null;
    }
    await this.#add(verb, { phase: "done", value: event.payload, event: event.seq });
    return structuredClone(event.payload);
  }

  /** Hands the address of a wait to whoever sends the event. Each try has an address of its own, committed before. */
  async #handOut(wait: Verb, begin: (address: WaitAddress) => unknown): Promise<void> {
    const { journal } = this.#options;
    const { name, occurrence } = wait;
    const recorded = this.#recorded.get(keyOf("begin", name, occurrence)) ?? { failed: [] };
    if (recorded.settled) return;
    const verb: Verb = { kind: "begin", name, occurrence, call: 0, recorded };
    await this.#execute(verb, {}, async ({ key }) => {
      const address = await journal.address(name, occurrence);
      await journal.commit();
      await begin({ ...address, key });
    });
  }

  /** Gives the events that have come to the waits that they are for. */
  #takeEvents(): void {
    this.touch();
    for (const event of this.#options.journal.events()) {
      if (this.#consumed.has(event.seq)) continue;
      const fits = ({ verb }: Open): boolean =>
        verb.kind === "wait" &&
        verb.name === event.name &&
        (event.occurrence === null || event.occurrence === verb.occurrence);
      const open = [...this.#open].find((one) => one.give && fits(one));
      if (!open) continue;
      this.#consumed.add(event.seq);
      const schema = open.verb.recorded.begun?.schema ?? this.#schemaOf(open.verb);
      const problem = schema ? misfit(schema, event.payload) : null;
      if (problem !== null) {
        const error = { name: "DoesNotFit", message: problem };
        void this.#add(open.verb, { phase: "dropped", event: event.seq, error }).catch(() => {});
        continue;
      }
      this.#open.delete(open);
      open.give?.(event);
    }
  }

  #schemaOf({ name, occurrence }: Verb): JsonObject | undefined {
    return this.#options.journal.entries.findLast(
      (entry) =>
        entry.kind === "wait" && entry.phase === "begun" && entry.name === name && entry.occurrence === occurrence,
    )?.schema;
  }

  async ask(given: StepName, value: unknown, { timeout, schema }: AskOptions<JsonObject> = {}): Promise<Json> {
    const verb = this.#begin("ask", given);
    const { settled, begun } = verb.recorded;
    if (settled) return await this.#replay(settled, verb);
    const { job, journal } = this.#options;
    const label = labelOf(verb.name);
    if (job.stateless) throw new Error(`${label}: a stateless run cannot ask; run it on a thread`);
    const due = this.#due(timeout, label);
    const shown = copyJson(value ?? null, `value of ${label}`);
    const response = schema === undefined ? undefined : (copyJson(schema, `${label}: schema`) as JsonObject);
    const { name, occurrence } = verb;
    const id = (begun?.value as string) ?? (await journal.id("ask", name, occurrence)).replaceAll("-", "");
    const kept = response ? { schema: response } : {};
    const entry = begun ?? (await this.#add(verb, { phase: "begun", until: due, value: id, ...kept }));
    const ask = { id, value: shown, ...(response ? { response_schema: response } : {}), name: label };
    await this.#guarded<void>((resolve) => this.#wait({ verb, until: entry.until ?? null, due: resolve, ask }));
    await this.#add(verb, { phase: "timeout" });
    return null;
  }

  #due(timeout: Duration | undefined, label: string): number | null {
    return timeout === undefined ? null : this.#options.environment.now() + durationOf(timeout, `${label}: timeout`);
  }

  // ----------------------------------------------------------------- suspending

  /** Something happened. */
  touch(): void {
    this.#cancelIdle?.();
    this.#cancelIdle = null;
    if (this.#busy > 0 || this.#open.size === 0 || this.#over) return;
    this.#cancelIdle = this.#options.environment.timer(IDLE_MS, () => {
      this.#cancelIdle = null;
      this.#rest();
    });
  }

  #nearest(): number | null {
    let nearest: number | null = null;
    for (const { until } of this.#open) if (until !== null && (nearest === null || until < nearest)) nearest = until;
    return nearest;
  }

  /** One timer for all waits. */
  #arm(): void {
    this.#cancelTimer();
    const { environment } = this.#options;
    const nearest = this.#nearest();
    if (nearest === null || this.#over) return;
    const delay = Math.min(Math.max(0, nearest - environment.now()), LONGEST_TIMER_MS);
    this.#cancelTimer = environment.timer(delay, () => {
      const now = environment.now();
      const due = [...this.#open].filter(({ until }) => until !== null && until <= now);
      for (const open of due.sort((a, b) => (a.until as number) - (b.until as number))) open.due();
      this.#arm();
    });
  }

  /** The function does nothing but wait: ends the attempt, unless something is due soon. */
  #rest(): void {
    const { environment, journal, emitted } = this.#options;
    const asks = (): Interrupt[] => [...this.#open].flatMap(({ ask }) => ask ?? []);
    const nearest = this.#nearest();
    if (asks().length === 0 && nearest !== null && nearest - environment.now() <= journal.limits.linger_ms) return;
    const steps = this;
    emitted.push({
      kind: "effect",
      async *run() {
        if (steps.#busy > 0 || steps.#open.size === 0) return;
        emitted.left = true;
        const due_at = steps.#nearest();
        const open = asks();
        const { call } = steps.#options;
        yield* open.length > 0 ? call.completeReply() : [];
        yield* call.commitStep();
        const place = { kind: "pause" as const, name: "", occurrence: 0, call: 0, phase: "done" as const };
        journal.append({ ...place, until: due_at, position: { yields: call.yields, reply: call.reply } });
        if (open.length > 0) {
          await journal.pause(due_at);
          yield* call.pauseFor(open, journal.call_id);
        } else await journal.suspend(due_at, steps.#waitingFor());
      },
    });
  }

  #waitingFor(): WaitingFor[] {
    return [...this.#open].map(({ verb: { kind, name }, until }) => ({
      kind: kind as StepKind,
      name: labelOf(name),
      until: until === null ? null : new Date(until).toISOString(),
    }));
  }

  /** The run must stop: open verbs reject, and nothing more is stored. */
  #stop(reason: unknown): void {
    this.close("the run was stopped");
    for (const reject of [...this.#rejecters]) reject(reason);
    this.#rejecters.clear();
  }

  // ----------------------------------------------------------------------- end

  /** The function has returned: waits for steps that it did not await, and drops what is open. */
  async *finish(): AsyncGenerator<ExecutorEvent> {
    const { emitted, signal } = this.#options;
    this.#over = "the call has ended";
    this.#open.clear();
    if (this.#mismatch) throw this.#mismatch;
    while (this.#busy > 0 && !signal.aborted) {
      const next = emitted.list.shift();
      if (next?.kind === "effect") yield* next.run();
      else if (!next)
        await new Promise<void>((resolve) => {
          emitted.wake = resolve;
          this.#options.environment.timer(IDLE_MS, resolve);
        });
    }
    signal.throwIfAborted();
    this.#warn();
  }

  #warn(): void {
    if (this.#left <= 0 && !this.#disordered) return;
    const { job, environment } = this.#options;
    const { run_id, thread_id, graph_id } = job;
    const message = "a durable function took another way than its journal: steps were removed or reordered";
    environment.log({ level: "warn", message, run_id, thread_id, graph_id, unused_entries: this.#left });
  }

  close(why = "the call has ended"): void {
    this.#over ??= why;
    this.#cancelIdle?.();
    this.#cancelIdle = null;
    this.#cancelTimer();
  }
}

async function* shownStart(call: Call, call_id: string, { name, occurrence }: Verb): AsyncGenerator<ExecutorEvent> {
  const id = `${call_id}:${occurrence}:${name}`;
  yield* call.show("tasks", { id, name: labelOf(name), input: null, triggers: [], interrupts: [] });
}

function shownEnd(call: Call, call_id: string, { name, occurrence, value, error }: JournalEntry): ExecutorEvent[] {
  const id = `${call_id}:${occurrence}:${name}`;
  const outcome: JsonObject = error ? { error: error.message, result: null } : { result: value ?? null };
  return call.show("tasks", { id, name: labelOf(name), ...outcome, interrupts: [] });
}
