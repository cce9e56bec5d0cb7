/** The invariants of design/reliability.md §7.3, checked after the faults against what clients and agents wrote down. */
import type { Client } from "../client.ts";
import type { Inspection } from "../database.ts";
import { type Disturbance, measureDisturbance } from "../disturbances.ts";
import { findOverlaps, type Line } from "../executions.ts";
import { checkFeedback, checkTraces, checkWebhooks } from "../platform.ts";
import type { Receivers } from "../receivers.ts";
import type { Report } from "../report.ts";
import { checkEvents, type EventWatch } from "./event-streams.ts";
import type { Create, Facts } from "./facts.ts";
import { checkSpans, type SpanWatch } from "./spans.ts";
import { checkStreams, each, type RunSeen } from "./streams.ts";

export interface Evidence {
  readonly facts: Facts;
  readonly lines: readonly Line[];
  readonly client: Client;
  readonly database: Inspection;
  readonly receivers: Receivers;
  /** The times at which a process ended for any reason but SIGTERM. */
  readonly deaths: readonly number[];
  /** How long after it was stopped a run may still end in another process, which has to hear of it; pauses do not count. Default 0. */
  readonly heard_ms?: number;
  /** Readers of thread events. */
  readonly events?: EventWatch;
  /** The spans that were stored before kills. */
  readonly spans?: SpanWatch;
}

interface ThreadSeen {
  readonly thread_id: string;
  readonly status: string;
  /** Oldest first. */
  readonly runs: readonly RunSeen[];
  readonly messages: readonly { readonly content: string }[];
  readonly history: string;
}

const TERMINAL = new Set(["success", "error", "timeout", "interrupted"]);

export async function checkInvariants(report: Report, evidence: Evidence): Promise<void> {
  const { facts, lines, database, receivers } = evidence;
  const threads = new Map<string, ThreadSeen>();
  await each([...facts.threads.keys()], async (thread_id) => {
    threads.set(thread_id, await readThread(evidence.client, thread_id));
  });
  const runsById = new Map<string, RunSeen>();
  for (const { runs } of threads.values()) for (const run of runs) runsById.set(run.run_id, run);
  const acknowledged = facts.creates.filter((create) => create.run_id !== undefined);
  const removed = acknowledged.filter(({ run_id = "" }) => !runsById.has(run_id));

  const counts = new Map<string, number>();
  for (const { status } of runsById.values()) counts.set(status, (counts.get(status) ?? 0) + 1);
  report.note(
    "runs by status",
    [...counts, ["rolled back", removed.length]].map(([what, n]) => `${what} ${n}`).join(", "),
  );
  report.none("I1 acknowledged runs lost", findLost(evidence, removed, runsById));
  report.none("I1 runs not terminal", findStuck(runsById));
  report.none("I1 creates that made more than one run", findDoubled(facts, runsById));
  report.none("I2 threads with two runs executing", findOverlaps(lines));
  report.none(
    "I2 writes of an execution that was not the last",
    findLateWrites(evidence, acknowledged, runsById, threads),
  );
  report.none("I3 rolled-back runs visible or left behind", await findLeftovers(evidence, removed, threads));
  report.none("I3, 9.1 runs that outlived their stop", findOutlived(evidence, runsById));
  report.none("I4 threads whose messages are not those of their runs", checkContents(facts, threads));
  report.none("I5 threads with a wrong status", checkStatuses(facts, threads));
  const streams = await checkStreams(evidence, acknowledged, runsById);
  report.none("I6 frames lost or doubled", streams.frames);
  report.none("I6 streams with a wrong end", streams.ends);
  report.none("I6 readers that differ", streams.differ);
  if (evidence.events) {
    const { order, missing, differ, ends, size } = await checkEvents(
      evidence.events,
      evidence.client,
      database,
      runsById,
    );
    report.none("I6 thread events doubled or out of order", order);
    report.none("I6 thread events lost", missing);
    report.none("I6 thread events that differ", differ);
    report.none("I6 runs without exactly one end in their thread's events", ends);
    report.none("errors of readers of thread events that no fault explains", evidence.events.problems);
    report.note("thread events: histories, connections, events", size);
  }
  const tried = [1, 2, 3].map((attempt) => lines.filter((line) => line.mark === "begin" && line.attempt === attempt));
  report.note("function runs begun by attempt 1, 2, 3", tried.map(({ length }) => length).join(", "));
  report.none("I12 attempts that no kill explains", checkAttempts(evidence, acknowledged));
  report.none("I14 runs with another context than their version's", checkVersions(acknowledged, lines));
  report.note("I6 histories, connections, frames", streams.size);
  const webhookRuns = acknowledged.map(({ run_id = "", webhook, keyed }) => ({
    run_id,
    webhook,
    keyed,
    rolledBack: !runsById.has(run_id),
  }));
  checkWebhooks(report, { database, receivers, runs: webhookRuns });
  checkTraces(report, { database, lines });
  await checkSpans(report, evidence, runsById);
  checkFeedback(report, { database, submitted: facts.submitted, keyed: webhookRuns.filter(({ keyed }) => keyed) });
}

async function readThread(client: Client, thread_id: string): Promise<ThreadSeen> {
  const at = `/threads/${thread_id}`;
  // The status first: a run that ends in between would make it look wrong, but none does when all have ended.
  const { status } = await client.get("GET", at);
  const runs: RunSeen[] = await client.get("GET", `${at}/runs?limit=1000`);
  const { values } = await client.get("GET", `${at}/state`);
  const history = await client.get("GET", `${at}/history?limit=1000`);
  return {
    thread_id,
    status,
    runs: runs.toReversed(),
    messages: values?.messages ?? [],
    history: JSON.stringify(history),
  };
}

/** Returns the runs that are gone although nothing rolled them back. */
function findLost({ facts }: Evidence, removed: readonly Create[], runsById: ReadonlyMap<string, RunSeen>): string[] {
  return removed
    .filter((create) => !mayBeRolledBack(facts, create, runsById))
    .map(({ run_id, key, thread_id }) => `run ${run_id} (${key}) of thread ${thread_id}`);
}

function mayBeRolledBack(facts: Facts, create: Create, runsById: ReadonlyMap<string, RunSeen>): boolean {
  const stopped = facts.stops.some(({ run_id, action }) => run_id === create.run_id && action === "rollback");
  if (stopped) return true;
  return facts.creates.some(
    (laterCreate) =>
      laterCreate !== create &&
      laterCreate.thread_id === create.thread_id &&
      laterCreate.strategy === "rollback" &&
      laterCreate.refused === undefined &&
      // Its batch came after this run was made.
      (laterCreate.acknowledged_at ?? Number.POSITIVE_INFINITY) >= create.sent_at &&
      (laterCreate.run_id === undefined ||
        runsById.has(laterCreate.run_id) ||
        laterCreate.acknowledged_at !== undefined),
  );
}

function findStuck(runsById: ReadonlyMap<string, RunSeen>): string[] {
  return [...runsById.values()]
    .filter(({ status }) => !TERMINAL.has(status))
    .map(({ run_id, status, created_at }) => `run ${run_id} is ${status}, made ${created_at}`);
}

function findDoubled(facts: Facts, runsById: ReadonlyMap<string, RunSeen>): string[] {
  const requestedKeys = new Set(facts.creates.map(({ key }) => key));
  const by = new Map<string, string[]>();
  for (const { run_id, metadata } of runsById.values()) {
    const key = metadata.soak?.key ?? "none";
    by.set(key, [...(by.get(key) ?? []), run_id]);
  }
  const problems = [...by]
    .filter(([key, runs]) => runs.length > 1 || !requestedKeys.has(key))
    .map(([key, runs]) => `${key}: ${runs.join(", ")}`);
  for (const { key, refused } of facts.creates) {
    // A repeated create may be refused as rolled back; a run that is there must not have been refused.
    if (refused !== undefined && by.has(key)) problems.push(`${key}: refused with ${refused}, but there is a run`);
  }
  return problems;
}

interface MessageParts {
  readonly step: string;
  readonly key: string;
  readonly token: string;
}

function parseMessage({ content }: { readonly content: string }): MessageParts {
  const [step = "", key = "", token = ""] = content.split(" ");
  return { step, key, token };
}

/** Returns the steps in the state of a successful run that an execution before its last one wrote. */
function findLateWrites(
  { lines }: Evidence,
  acknowledged: readonly Create[],
  runsById: ReadonlyMap<string, RunSeen>,
  threads: ReadonlyMap<string, ThreadSeen>,
): string[] {
  const problems: string[] = [];
  const last = new Map<string, string>();
  const newest = new Map<string, number>();
  for (const { mark, run, token, attempt } of lines) {
    // A process that stood still may begin an attempt that another one has followed with the next.
    if (mark !== "begin" || attempt < (newest.get(run) ?? 0)) continue;
    newest.set(run, attempt);
    last.set(run, token);
  }
  const runs = new Map(acknowledged.map((create) => [create.key, create]));
  for (const { thread_id, messages } of threads.values()) {
    for (const message of messages) {
      const { step, key, token } = parseMessage(message);
      const create = runs.get(key);
      if (step.startsWith("late") && create?.graph === "agent") {
        problems.push(`thread ${thread_id}: ${message.content} was written after its run was told to stop`);
      }
      // A graph goes on from its checkpoint: what earlier attempts wrote counts.
      if (create?.graph !== "agent" || step === "in" || runsById.get(create.run_id ?? "")?.status !== "success")
        continue;
      const token_now = last.get(create.run_id ?? "");
      if (token !== token_now) problems.push(`thread ${thread_id}: ${message.content}, but ${token_now} executed last`);
    }
  }
  return problems;
}

/** Runs that are gone, but can still be seen somewhere. */
async function findLeftovers(
  { client, database }: Evidence,
  removed: readonly Create[],
  threads: ReadonlyMap<string, ThreadSeen>,
): Promise<string[]> {
  const problems = database.listRemaining(removed.map(({ run_id = "" }) => run_id));
  await each(removed, async ({ run_id, thread_id, key }) => {
    const at = `/threads/${thread_id}/runs/${run_id}`;
    for (const path of [at, `${at}/join`, `${at}/stream`]) {
      const { status } = await client.call("GET", path);
      if (status !== 404) problems.push(`GET ${path}: ${status}`);
    }
    const thread = threads.get(thread_id) as ThreadSeen;
    const word = new RegExp(`${key}\\b`);
    if (word.test(JSON.stringify(thread.messages))) problems.push(`${key} is in the state of thread ${thread_id}`);
    if (word.test(thread.history)) problems.push(`${key} is in the history of thread ${thread_id}`);
  });
  return [...problems, ...database.mentions(removed.map(({ key }) => key))];
}

/** Returns the runs that existed when all runs of their thread were stopped, and that went on all the same. */
function findOutlived({ facts, lines, heard_ms = 0 }: Evidence, runsById: ReadonlyMap<string, RunSeen>): string[] {
  const problems: string[] = [];
  const pauses = groupPauses(lines);
  const done = new Map<string, number>();
  for (const { mark, run, at } of lines) done.set(run, mark === "end" ? at : Number.POSITIVE_INFINITY);
  const check = (run_id: string | undefined, action: string, acknowledged_at: number, by: string): void => {
    const run = runsById.get(run_id ?? "");
    if (!run || run.status === "interrupted") return;
    const updated_at = Date.parse(run.updated_at);
    const still_ms = heard_ms > 0 ? measureDisturbance(acknowledged_at, updated_at, pauses.get(run.run_id) ?? []) : 0;
    if (updated_at <= acknowledged_at + heard_ms + still_ms) return;
    // An attempt that was the last allowed one may still end as exhausted.
    if (run.status === "error" && action === "interrupt") return;
    // It had done all its work, and only its end was not stored: it ends by itself.
    if (
      run.status === "success" &&
      action === "interrupt" &&
      (done.get(run.run_id) ?? Number.POSITIVE_INFINITY) <= acknowledged_at
    )
      return;
    if (action === "interrupt" || TERMINAL.has(run.status)) {
      problems.push(`run ${run_id} ended as ${run.status} at ${run.updated_at}, after its ${action} by ${by}`);
    }
  };
  for (const { run_id, action, status = 0, acknowledged_at = 0 } of facts.stops) {
    if (status >= 200 && status < 300) check(run_id, action, acknowledged_at, "a cancel");
  }
  for (const stop of facts.creates) {
    if (stop.acknowledged_at === undefined || (stop.strategy !== "interrupt" && stop.strategy !== "rollback")) continue;
    for (const earlier of facts.creates) {
      if (earlier.thread_id !== stop.thread_id || earlier === stop) continue;
      if ((earlier.acknowledged_at ?? Number.POSITIVE_INFINITY) >= stop.sent_at) continue;
      check(earlier.run_id, stop.strategy, stop.acknowledged_at, stop.key);
    }
  }
  return problems;
}

/** Returns the pauses of the processes that executed a run, by run. */
function groupPauses(lines: readonly Line[]): Map<string, Disturbance[]> {
  const executes = new Map<string, number>();
  const still = new Map<number, Disturbance>();
  const problems = new Map<string, Disturbance[]>();
  for (const { mark, pid, run, at } of lines) {
    if (mark === "begin") executes.set(run, pid);
    else if (mark === "paused") {
      const pause = { from: at, to: Number.POSITIVE_INFINITY };
      still.set(pid, pause);
      for (const [run, by] of executes) if (by === pid) problems.set(run, [...(problems.get(run) ?? []), pause]);
    } else if (mark === "resumed") {
      const pause = still.get(pid);
      if (pause) pause.to = at;
    }
  }
  return problems;
}

/** Returns the steps that a run leaves in its thread if it is not stopped. */
function listSteps({ plan }: Create): string[] {
  const steps = Array.from({ length: plan.steps ?? 1 }, (_, step) => `s${step}`);
  return ["in", ...steps, ...(plan.ask ? [] : ["out"])];
}

/** The messages of a thread are those of its runs, in their order, each once. */
function checkContents(facts: Facts, threads: ReadonlyMap<string, ThreadSeen>): string[] {
  const creates = new Map(facts.creates.map((create) => [create.key, create]));
  const problems: string[] = [];
  for (const { thread_id, runs, messages } of threads.values()) {
    const remainingMessages = messages.map(parseMessage);
    // What follows the first that is wrong is out of place too.
    let right = true;
    for (const run of runs) {
      const create = creates.get(run.metadata.soak?.key ?? "");
      if (!create || !right) break;
      const expected = listSteps(create);
      let count = 0;
      while (
        count < expected.length &&
        remainingMessages[0]?.key === create.key &&
        remainingMessages[0].step === expected[count]
      ) {
        remainingMessages.shift();
        count += 1;
      }
      if (run.status !== "success" || count === expected.length) continue;
      problems.push(
        `thread ${thread_id}: ${create.key} (run ${run.run_id}) left ${count} of ${expected.length} messages`,
      );
      right = false;
    }
    const unexpected = remainingMessages.map(({ step, key }) => `${step} ${key}`).slice(0, 6);
    if (right && unexpected.length > 0)
      problems.push(`thread ${thread_id}: unexpected or out of order: ${unexpected.join(", ")}`);
  }
  return problems;
}

function checkStatuses(facts: Facts, threads: ReadonlyMap<string, ThreadSeen>): string[] {
  const creates = new Map(facts.creates.map((create) => [create.key, create]));
  return [...threads.values()].flatMap(({ thread_id, status, runs }) => {
    if (runs.some((run) => !TERMINAL.has(run.status))) {
      return status === "busy" ? [] : [`thread ${thread_id} is ${status}, but a run is active`];
    }
    const allowed = new Set<string>();
    for (const run of runs.toReversed()) {
      if (run.status === "interrupted") {
        // It stopped with nodes left to do, or never began and left the thread as it was.
        allowed.add("interrupted").add("idle");
        continue;
      }
      const asks = creates.get(run.metadata.soak?.key ?? "")?.plan.ask;
      allowed.add(run.status === "success" ? (asks ? "interrupted" : "idle") : "error");
      break;
    }
    if (allowed.size === 0) allowed.add("idle");
    return allowed.has(status) ? [] : [`thread ${thread_id} is ${status}, not ${[...allowed].join(" or ")}`];
  });
}

/** Attempts are charged for nothing but a kill that hit the run. */
function checkAttempts({ lines, deaths }: Evidence, acknowledged: readonly Create[]): string[] {
  const runs = new Map(acknowledged.map((create) => [create.run_id, create]));
  const highest = new Map<string, Line>();
  for (const line of lines) {
    if (line.mark !== "begin" || line.attempt <= (highest.get(line.run)?.attempt ?? 0)) continue;
    highest.set(line.run, line);
  }
  return [...highest.values()].flatMap(({ run, attempt, at }) => {
    const sent_at = runs.get(run)?.sent_at;
    if (sent_at === undefined) return [];
    const hits = deaths.filter((died_at) => died_at >= sent_at && died_at <= at).length;
    return attempt > Math.min(3, 1 + hits) ? [`run ${run}: attempt ${attempt} with ${hits} kills`] : [];
  });
}

function checkVersions(acknowledged: readonly Create[], lines: readonly Line[]): string[] {
  const executed = new Map<string, Set<number>>();
  for (const { mark, run, version } of lines) {
    if (mark === "begin") executed.set(run, (executed.get(run) ?? new Set()).add(version));
  }
  return acknowledged.flatMap(({ run_id = "", versioned, version_from, version_to = Number.NaN }) => {
    const problems = [...(executed.get(run_id) ?? [])];
    if (!versioned || problems.length === 0) return [];
    const [version = -1] = problems;
    if (problems.length === 1 && version >= version_from && version <= version_to) return [];
    return [`run ${run_id}: versions ${problems.join(", ")}, but ${version_from} to ${version_to} were active`];
  });
}
