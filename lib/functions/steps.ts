/**
 * The verbs of durable functions over the journal of their call. A verb whose entry is stored returns it; any other is executed, and its
 * entry is committed together with what the function has shown before.
 */
import type { Environment } from "../environment.ts";
import type { Job } from "../executor/contract.ts";
import type { Coroutine } from "../executor/coroutine.ts";
import type { OutsideEvent, StepKind } from "../executor/journal.ts";
import { parseSchema } from "../executor/schema-problems.ts";
import { type Duration, durationOf, labelOf, nameOf, type StepName, timeOf } from "../executor/step-names.ts";
import type { Json, JsonObject } from "../json.ts";
import { endAttempt } from "./ends.ts";
import { Entries } from "./entries.ts";
import { copyJson } from "./plain.ts";
import { Replay, type Verb } from "./replay.ts";
import { Tries, type TryOptions } from "./tries.ts";
import type { AskOptions, StepContext, StepOptions, WaitAddress, WaitOptions } from "./verbs.ts";
import { Waits } from "./waits.ts";
import { type Inside, loadInside } from "./work.ts";

export interface StepsOptions extends TryOptions {
  readonly job: Job;
  readonly signal: AbortSignal;
  readonly strict: boolean;
  readonly yielded: number;
  /** The call begins here. */
  readonly isNew: boolean;
}

const FINISH_MS = 50;

/** The time at which a wait or an ask ends by itself. */
const dueAt = (timeout: Duration | undefined, label: string, { now }: Pick<Environment, "now">): number | null =>
  timeout === undefined ? null : now() + durationOf(timeout, `${label}: timeout`);

/** The steps of one attempt. */
export class Steps {
  readonly #options: StepsOptions;
  readonly #inside: Inside | null;
  readonly #replay: Replay;
  readonly #waits: Waits;
  readonly #entries: Entries;
  readonly #tries: Tries;
  #over: string | null = null;

  private constructor(options: StepsOptions, inside: Inside | null) {
    this.#options = options;
    this.#inside = inside;
    const { journal, signal, call } = options;
    this.#replay = new Replay(options);
    this.#waits = new Waits({
      ...options,
      dropped: (verb, { seq }, problem) => {
        const error = { name: "DoesNotFit", message: problem };
        this.#entries.add(verb, { phase: "dropped", event: seq, error }).catch(() => {});
      },
      idle: () => this.#rest(),
    });
    this.#entries = new Entries(options, this.#replay, this.#waits);
    this.#tries = new Tries(options, inside, this.#entries, this.#waits);
    call.durable = journal;
    call.reported = Math.max(0, ...journal.entries.map(({ spent }) => spent ?? 0));
    options.emitted.isInStep = () => inside?.getStore() !== undefined;
    signal.addEventListener("abort", () => this.#stop(signal.reason), { once: true });
  }

  static async open(options: StepsOptions): Promise<Steps> {
    return new Steps(options, await loadInside());
  }

  /** A yielded value was stored already. */
  skips(): boolean {
    this.#waits.touch();
    return this.#replay.skips();
  }

  /** What the function emits was shown already. */
  isReplaying(): boolean {
    this.#waits.touch();
    return this.#replay.isBehind();
  }

  // ------------------------------------------------------------------ entries

  /** Numbers the use of a verb. Throws before anything is stored. */
  #use(kind: StepKind, given: StepName): Verb {
    const name = nameOf(given);
    const refuse = (why: string): never => {
      throw new Error(`${labelOf(name)}: ${why}`);
    };
    if (this.#over) refuse(this.#over);
    this.#options.signal.throwIfAborted();
    const outer = this.#inside?.getStore();
    if (outer !== undefined) refuse(`a ${kind} inside the step ${outer}; call it outside of steps`);
    this.#waits.touch();
    return this.#replay.use(kind, name);
  }

  // --------------------------------------------------------------------- step

  async step(given: StepName, work: (context: StepContext) => unknown, options: StepOptions = {}): Promise<unknown> {
    const verb = this.#use("step", given);
    if (typeof work !== "function") throw new TypeError(`${labelOf(verb.name)}: the second argument is no function`);
    const { outcome } = verb.recorded;
    if (outcome) return await this.#entries.stored(outcome, verb);
    const value = await this.#tries.execute(verb, options, work);
    return value === undefined ? undefined : structuredClone(value);
  }

  // -------------------------------------------------------- sleep, wait, ask

  async sleep(given: StepName, until: Duration | Date): Promise<void> {
    const verb = this.#use("sleep", given);
    const { outcome, begun } = verb.recorded;
    if (outcome) return await this.#entries.stored(outcome, verb);
    const now = this.#options.environment.now();
    const due = begun?.until ?? timeOf(until, now, labelOf(verb.name));
    if (!begun && due <= now) return;
    if (!begun) await this.#entries.add(verb, { phase: "begun", until: due });
    await this.#entries.until(verb, due);
    await this.#entries.add(verb, { phase: "done" });
  }

  async wait(given: StepName, { timeout, schema, begin }: WaitOptions<JsonObject> = {}): Promise<Json> {
    const verb = this.#use("wait", given);
    const { outcome, begun } = verb.recorded;
    if (outcome) return await this.#entries.stored(outcome, verb);
    const label = labelOf(verb.name);
    const until = dueAt(timeout, label, this.#options.environment);
    const kept = schema === undefined || begun ? {} : { schema: parseSchema(schema, label) };
    const entry = begun ?? (await this.#entries.add(verb, { phase: "begun", until, ...kept }));
    const came = this.#entries.guarded<OutsideEvent | null>((resolve) => {
      const due = (): void => resolve(null);
      this.#waits.add({ verb, until: entry.until ?? null, due, give: resolve, schema: entry.schema });
    });
    came.catch(() => {});
    await this.#waits.watch();
    if (begin) await this.#handOut(verb, begin);
    const event = await came;
    const got = event ? { phase: "done" as const, value: event.payload, event: event.seq } : null;
    await this.#entries.add(verb, got ?? { phase: "timeout" });
    return event ? structuredClone(event.payload) : null;
  }

  /** Hands the address of a wait to the sender of the event. Each try has an address of its own, committed before. */
  async #handOut({ name, occurrence }: Verb, begin: (address: WaitAddress) => unknown): Promise<void> {
    const { journal } = this.#options;
    const recorded = this.#replay.of("begin", name, occurrence);
    if (recorded.outcome) return;
    const verb: Verb = { kind: "begin", name, occurrence, call: 0, recorded };
    await this.#tries.execute(verb, {}, async ({ key }) => {
      const address = await journal.address(name, occurrence);
      await journal.commit();
      await begin({ ...address, key });
    });
  }

  async ask(given: StepName, value: unknown, { timeout, schema }: AskOptions<JsonObject> = {}): Promise<Json> {
    const verb = this.#use("ask", given);
    const { outcome, begun } = verb.recorded;
    if (outcome) return await this.#entries.stored(outcome, verb);
    const { job, journal } = this.#options;
    const label = labelOf(verb.name);
    if (job.stateless) throw new Error(`${label}: a stateless run cannot ask; run it on a thread`);
    const until = dueAt(timeout, label, this.#options.environment);
    const shown = copyJson(value ?? null, `value of ${label}`);
    // A call that has begun keeps its schema: an earlier version of the function may have had one that is refused now.
    const declared = schema === undefined || begun ? undefined : parseSchema(schema, label);
    const response = begun ? begun.schema : declared;
    const fresh = async (): Promise<string> =>
      (await this.#waits.during(journal.id("ask", verb.name, verb.occurrence))).replaceAll("-", "");
    const id = (begun?.value as string | undefined) ?? (await fresh());
    const kept = response ? { schema: response } : {};
    const entry = begun ?? (await this.#entries.add(verb, { phase: "begun", until, value: id, ...kept }));
    const ask = { id, value: shown, ...(response ? { response_schema: response } : {}), name: label };
    await this.#entries.until(verb, entry.until ?? null, ask);
    await this.#entries.add(verb, { phase: "timeout" });
    return null;
  }

  // ---------------------------------------------------------------------- ends

  /** The function does nothing but wait: ends the attempt, unless something is due soon. */
  #rest(): void {
    const { environment, journal } = this.#options;
    const waits = this.#waits;
    const nearest = waits.nearest();
    const isSoon = nearest !== null && nearest - environment.now() <= journal.limits.linger_ms;
    if (!isSoon || waits.asks().length > 0) endAttempt(this.#options, waits, this.#replay);
  }

  /** The run must stop: open verbs reject, and nothing more is stored. */
  #stop(reason: unknown): void {
    this.close("the run was stopped");
    this.#entries.reject(reason);
  }

  /** The function has returned: waits for steps that it did not await, and drops what is open. */
  *finish(): Coroutine {
    const { call, emitted, signal, environment, job } = this.#options;
    this.close();
    this.#replay.check();
    while (this.#waits.isBusy() && !signal.aborted) {
      const next = emitted.list.shift();
      if (next?.kind === "effect") yield* next.run();
      else if (next?.kind === "usage") yield* call.spend(next);
      else if (!next) {
        const waiting = emitted.wait();
        environment.timer(FINISH_MS, emitted.wake);
        yield waiting;
      }
    }
    signal.throwIfAborted();
    const difference = this.#replay.difference();
    if (!difference) return;
    const { run_id, thread_id, graph_id } = job;
    const message = "a durable function took another way than its journal: steps were removed or reordered";
    environment.log({ level: "warn", message, run_id, thread_id, graph_id, ...difference });
  }

  close(why = "the call has ended"): void {
    this.#over ??= why;
    this.#waits.close();
  }
}
