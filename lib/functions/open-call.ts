/** Opens the call of a durable function: its code is loaded when a function first uses a verb, or continues a call. */
import type { Environment } from "../environment.ts";
import type { Job } from "../executor/contract.ts";
import type { CallOrigin, JournalEntry, OpenJournal } from "../executor/journal.ts";
import { answersById } from "../executor/kwargs.ts";
import { misfit } from "../executor/schema-check.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Call } from "./call.ts";
import type { Emitted } from "./drive.ts";
import type { Head } from "./mod.ts";
import { openSteps, type Steps } from "./steps.ts";

interface Opening {
  readonly job: Job;
  readonly call: Call;
  readonly head: Head;
  readonly emitted: Emitted;
  readonly signal: AbortSignal;
  readonly strict: boolean;
  readonly yields: number;
  readonly environment: Environment;
  readonly continued: { readonly call_id: string; readonly at?: number } | null;
  /** The run has put a state. */
  readonly stored: boolean;
}

/** Null: the call that the run continues is gone. */
export async function openCall(opening: Opening): Promise<Steps | null> {
  const { job, call, continued, emitted, stored } = opening;
  if (!job.journal) throw new Error("step, sleep, wait and ask need a service: this executor has no journal");
  const journal = await job.journal.open(continued, () => originOf(job, call));
  if (!journal) return null;
  if (continued && !job.resumed) await takeAnswers(opening, journal);
  const steps = await openSteps({ ...opening, journal, isNew: !continued });
  // The next attempt continues from a state of this run.
  emitted.push({
    kind: "effect",
    async *run() {
      yield* call.commitStep();
      if ((!stored && !call.hasState) || job.durability === "exit") yield call.snapshot();
    },
  });
  return steps;
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
async function takeAnswers({ job, head, environment }: Opening, journal: OpenJournal): Promise<void> {
  const resume = job.command?.resume;
  if (resume === undefined) return;
  const asks = journal.entries.filter(({ kind, phase }) => kind === "ask" && phase === "begun");
  const settled = new Set(journal.entries.filter(({ kind, phase }) => kind === "ask" && phase !== "begun").map(keyOf));
  const open = asks.filter((entry) => !settled.has(keyOf(entry)));
  const shown = new Set(head.interrupts.map(({ id }) => id));
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
    const position = { yields: journal.entries.at(-1)?.position.yields ?? 0, reply: null };
    journal.append({ kind: "ask", name, occurrence, call: number, phase: "done", value, position });
  }
}

const keyOf = ({ name, occurrence }: JournalEntry): string => `${occurrence} ${name}`;
