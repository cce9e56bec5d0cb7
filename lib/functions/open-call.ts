/** Opens the call of a durable function: its code is loaded when a function first uses a verb, or continues a call. */
import type { Environment } from "../environment.ts";
import type { Job } from "../executor/contract.ts";
import type { CallOrigin, JournalEntry, OpenJournal } from "../executor/journal.ts";
import { answersById } from "../executor/kwargs.ts";
import { messagesOf } from "../executor/messages.ts";
import { misfit } from "../executor/schema-check.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Call } from "./call.ts";
import type { Emitted } from "./drive.ts";
import type { ContinuedCall, DrivenJob, Head } from "./head.ts";
import { Steps } from "./steps.ts";

interface CallToOpen {
  readonly job: Job;
  readonly call: Call;
  readonly head: Head;
  readonly emitted: Emitted;
  readonly signal: AbortSignal;
  readonly strict: boolean;
  readonly environment: Environment;
  /** The job as the function gets it in a new call. */
  readonly own: DrivenJob;
  readonly continued: ContinuedCall | null;
  /** The run has put a state. */
  readonly stored: boolean;
}

/** Null: the call that the run continues is gone. */
export async function openCall(asked: CallToOpen): Promise<{ readonly steps: Steps; readonly own: DrivenJob } | null> {
  const { job, call, head, own, continued, emitted, stored } = asked;
  if (!job.journal) throw new Error("step, sleep, wait and ask need a service: this executor has no journal");
  const journal = await job.journal.open(continued, () => originOf(job, call));
  if (!journal) return null;
  if (continued && !job.resumed) await takeAnswers(asked, journal);
  const yielded = head.call?.yielded ?? 0;
  const steps = await Steps.open({ ...asked, journal, yielded, isNew: !continued });
  // The next attempt continues from a state of this run.
  emitted.push({
    kind: "effect",
    *run() {
      yield* call.commitStep();
      if ((!stored && !call.hasState) || job.durability === "exit") yield call.state([job.graph_id], []);
    },
  });
  return { steps, own: continued ? continuedJob(own, journal.origin) : own };
}

/** An earlier attempt had paused the call, and the end of its run was not stored. */
export async function pauseAgain({ journal }: Job, { call_id }: ContinuedCall): Promise<void> {
  const paused = await journal?.open({ call_id }, () => {
    throw new Error("A call that was paused has begun");
  });
  await paused?.pauseAgain();
}

/** What the function gets in every attempt; the user is that of the run. */
function originOf({ input, context, config, metadata }: Job, call: Call): CallOrigin {
  const {
    langgraph_auth_user: _user,
    langgraph_auth_user_id: _id,
    langgraph_auth_permissions: _may,
    ...own
  } = {
    ...config.configurable,
  } as JsonObject;
  const values = call.initial;
  const kept = { ...config, configurable: own } as unknown as JsonObject;
  return { input: input ?? null, values, context, config: kept, metadata };
}

/** Stores the answers that the run brings: each settles its ask. */
async function takeAnswers({ job, head, environment }: CallToOpen, journal: OpenJournal): Promise<void> {
  const resume = job.command?.resume;
  if (resume === undefined) return;
  const asks = journal.entries.filter(({ kind, phase }) => kind === "ask" && phase === "begun");
  const answered = new Set(journal.entries.filter(({ kind, phase }) => kind === "ask" && phase !== "begun").map(keyOf));
  const open = asks.filter((entry) => !answered.has(keyOf(entry)));
  const shown = new Set(head.interrupt_ids);
  const ids = new Set(open.map(({ value }) => value as string).filter((id) => shown.size === 0 || shown.has(id)));
  const answers = answersById(resume, ids) ?? (ids.size === 1 ? { [[...ids][0] as string]: resume } : {});
  const { run_id, thread_id } = job;
  for (const { name, occurrence, call: number, value: id, schema } of open) {
    if (!Object.hasOwn(answers, id as string)) continue;
    const value = answers[id as string] as Json;
    const problem = schema ? misfit(schema, value) : null;
    if (problem !== null) {
      const message = "an answer does not fit the schema of its ask, which stays open";
      environment.log({ level: "warn", message, run_id, thread_id, ask: name, problem });
      continue;
    }
    const position = { yielded: journal.entries.at(-1)?.position.yielded ?? 0, reply: null };
    journal.append({ kind: "ask", name, occurrence, call: number, phase: "done", value, position });
  }
}

const keyOf = ({ name, occurrence }: JournalEntry): string => `${occurrence} ${name}`;

/** The job of a call: what its start had, for the user of this run. */
function continuedJob(own: DrivenJob, { input, values, context, config, metadata }: CallOrigin): DrivenJob {
  const state = structuredClone(values);
  const { configurable: start, ...rest } = config as { readonly configurable?: JsonObject };
  const auth = Object.entries(own.config.configurable).filter(([name]) => name.startsWith("langgraph_auth_"));
  const configurable = { ...start, run_id: own.run_id, ...Object.fromEntries(auth) };
  return {
    ...own,
    input: input ?? undefined,
    command: null,
    state,
    messages: messagesOf(state) as JsonObject[],
    context: structuredClone(context),
    config: { ...structuredClone(rest), configurable } as DrivenJob["config"],
    metadata: structuredClone(metadata),
  };
}
