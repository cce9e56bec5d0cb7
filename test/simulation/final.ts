/** The checks after everything has ended. */
import type { Json } from "../../lib/json.ts";
import type { Service } from "../../lib/service.ts";
import { createMessages, stripPadding } from "./agent.ts";
import { checkMessages, readStateMessages } from "./message-events.ts";
import { type RunNote, type ThreadNote, TRACE_TABLES } from "./oracle/notes.ts";
import { SWEPT_MS } from "./plan.ts";
import { checkDeliveries, checkTokens, checkTraces } from "./platform/final.ts";
import { passHours } from "./platform/hours.ts";
import { checkRunTrace, checkStoredSpans } from "./platform/spans.ts";
import { Dice } from "./random.ts";
import { pump, Reader } from "./stream.ts";
import { checkThreadEvents } from "./thread-events.ts";
import { ThreadReader } from "./thread-reader.ts";
import type { World } from "./world.ts";

export async function runFinalChecks(world: World): Promise<void> {
  const { scheduler, plan } = world;
  const pass = async (ms: number): Promise<boolean> =>
    !(await scheduler.run(scheduler.now + ms, () => world.violations.length > 0));
  // A rollback leaves hidden threads to the sweeper.
  if (!(await pass(SWEEP_MS))) return;
  checkRows(world);
  checkThreadEvents(world);
  checkClients(world);
  const dice = new Dice(world.plan.seed, "final");
  let done = false;
  const node = world.reachable(dice);
  if (!node) return world.violation("I13", "no machine is up at the end");
  const check = async (): Promise<void> => {
    for (const thread of world.oracle.threads.values()) {
      if (thread.state.hidden === 1) continue;
      const [state, row] = await node.request((service: Service) =>
        Promise.all([service.threads.state(thread.thread_id), service.threads.get(thread.thread_id)]),
      );
      checkContent(world, thread, state.values);
      checkMessages(world, thread, readStateMessages(state.values));
      checkStatus(world, thread, row.status);
      await checkThreadStream(world, thread, dice);
    }
    for (const run of world.oracle.runs.byId.values()) {
      if (run.fate === "present" && run.framed) await checkReplay(world, run, dice);
      if (run.fate === "present" && run.claims.length > 0) {
        checkRunTrace(world, run, await node.request((service) => service.traces.get(null, run.run_id)));
      }
    }
  };
  check().then(
    () => {
      done = true;
    },
    (error: unknown) => {
      world.show(String((error as Error).stack ?? error));
      world.violation("final", `what is left cannot be read: ${String(error)}`);
    },
  );
  const answered = await world.scheduler.run(world.scheduler.now + 60_000, () => done || world.violations.length > 0);
  if (!answered) world.violation("final", "the last questions are not answered");
  checkDeliveries(world);
  checkTraces(world);
  checkStoredSpans(world);
  checkTokens(world);
  if (plan.hours) await passHours(world);
  if (world.violations.length > 0 || plan.retention.frames_ms !== SWEPT_MS) return;
  if (await pass(SWEPT_MS + 2 * SWEEP_MS)) checkSwept(world);
}

/** A time that is longer than the interval of the retention, in milliseconds. */
const SWEEP_MS = 6_000;

/** Checks that the rows with a limited lifetime are deleted. */
function checkSwept(world: World): void {
  for (const source of [
    "run_frames",
    "idempotency_keys",
    ...TRACE_TABLES,
    "runs where stateless = 1",
    "threads where hidden = 1 and not exists (select 1 from runs r where r.thread_id = threads.thread_id)",
  ]) {
    const [row] = world.database.query(`select count(*) as count from ${source}`);
    if (Number(row?.count) > 0) world.violation("retention", `${row?.count} rows are left of ${source}`);
  }
}

/** Checks that no row is orphaned, and that no thread lock is held for ever. */
function checkRows(world: World): void {
  const { database, oracle } = world;
  const none = (what: string, sql: string): void => {
    const [row] = database.query(`select count(*) as count from ${sql}`);
    if (Number(row?.count) > 0) world.violation("orphans", `${row?.count} ${what}`);
  };
  const noThread = (table: string): string =>
    `${table} x where not exists (select 1 from threads t where t.deployment = x.deployment and t.thread_id = x.thread_id)`;
  for (const table of ["runs", "checkpoints", "checkpoint_writes", "channel_values"]) {
    none(`rows of ${table} have no thread`, noThread(table));
  }
  none(
    "rows of run_frames have no run",
    "run_frames f where not exists (select 1 from runs r where r.run_id = f.run_id)",
  );
  none(
    "writes have no checkpoint",
    `checkpoint_writes w where not exists (select 1 from checkpoints c where c.deployment = w.deployment
      and c.thread_id = w.thread_id and c.ns = w.ns and c.checkpoint_id = w.checkpoint_id)`,
  );
  none(
    "values belong to no checkpoint",
    `channel_values v where not exists (select 1 from checkpoints c where c.deployment = v.deployment
      and c.thread_id = v.thread_id and c.ns = v.ns and json_extract(c.versions, '$.' || v.channel) = v.version)
      and not exists (select 1 from channel_values e where e.deployment = v.deployment and e.thread_id = v.thread_id
        and e.ns = v.ns and e.channel = v.channel and e.extends_version = v.version)`,
  );
  none(
    "heads name no checkpoint",
    `threads t where t.hidden = 0 and t.head is not null and not exists (select 1 from checkpoints c where c.deployment = t.deployment
      and c.thread_id = t.thread_id and c.ns = '' and c.checkpoint_id = t.head)`,
  );
  none(
    "hidden threads have no run",
    "threads t where hidden = 1 and not exists (select 1 from runs r where r.thread_id = t.thread_id)",
  );
  none(`slots are taken: nothing executes any more`, `threads where slot_until > ${world.scheduler.now}`);
  none("runs of one number", "(select 1 from runs group by deployment, thread_id, seq having count(*) > 1)");
  for (const run of oracle.runs.byId.values()) {
    if (run.fate !== "present") oracle.runs.checkNothingLeft(run);
    if (run.fate === "present" && run.temporary && run.saved > 0) {
      none(`checkpoints of ${run.tag}, which leaves none`, `checkpoints where run_id = '${run.run_id}'`);
    }
  }
}

/** Checks the responses that clients have received. */
function checkClients(world: World): void {
  const countByTag = new Map<string, number>();
  for (const run of world.oracle.runs.byId.values()) countByTag.set(run.tag, (countByTag.get(run.tag) ?? 0) + 1);
  for (const client of world.clients) {
    for (const { tag, run_id, refused, unknown } of client.requestedRuns) {
      const count = countByTag.get(tag) ?? 0;
      if (count > 1) world.violation("R4", `${tag} was made ${count} times`);
      if (refused && !unknown && count > 0) world.violation("R4", `${tag} was refused, and was made`);
      if (run_id !== null && count === 0) world.violation("I1", `${tag} was acknowledged, and never was`);
    }
  }
}

/** Checks I4: the state consists of what the runs that were not rolled back have left, in the order of their ends. */
function checkContent(world: World, thread: ThreadNote, values: Json): void {
  const messages = ((values as { messages?: Json[] } | null)?.messages ?? []).map(stripPadding);
  let at = 0;
  const refuse = (run: RunNote, text: string): void =>
    world.violation("I4", `${thread.name} has ${messages.join()}: ${run.tag} (${run.state.status}) ${text}`);
  for (const run of thread.ended) {
    const all = createMessages(run.script);
    let count = 0;
    while (at + count < messages.length && messages[at + count] === `${run.tag}/${count}`) count++;
    // A run that ended otherwise has kept the steps it had stored.
    if (run.state.status === "success" ? count !== all.length : count > all.length)
      refuse(run, `left ${count} messages of ${all.length}`);
    at += count;
  }
  if (at !== messages.length)
    world.violation("I4", `${thread.name} has ${messages.join()}: from ${messages[at]} on nothing explains them`);
}

/** Checks I5, the status of a thread. */
function checkStatus(world: World, thread: ThreadNote, status: string): void {
  const last = thread.ended.findLast((run) => run.claims.length > 0);
  const expected = new Set<string>();
  if (!last) expected.add("idle");
  // An answer that was late leaves the thread as it was, and one that failed leaves its question open.
  else if (last.targets.length > 0 && last.state.status !== "success")
    for (const restStatus of ["idle", "interrupted", "error"]) expected.add(restStatus);
  else if (last.state.status === "error" || last.state.status === "timeout") expected.add("error");
  else if (last.state.status === "success")
    expected.add(last.script.steps.some(({ end }) => end === "ask") ? "interrupted" : "idle");
  else for (const restStatus of ["idle", "interrupted", "error"]) expected.add(restStatus);
  if (!expected.has(status)) {
    world.violation("I5", `${thread.name} is ${status} after ${last?.tag} (${last?.state.status})`);
  }
}

/** Checks I6: a run whose frames are stored can be read again whole, by every reader and from every position. */
async function checkReplay(world: World, run: RunNote, dice: Dice): Promise<void> {
  const seenFrames = world.frames.byRun.get(run.run_id) ?? new Map<number, string>();
  const last = run.state.end_frame as number;
  const after = dice.chance(0.7) ? 0 : dice.below(last);
  const reader = new Reader(world, "the last reader", run.run_id, after);
  const node = world.reachable(dice);
  if (!node) return;
  const { process } = node;
  const stream = await node.request((service) => service.runs.joinStream(run.thread.thread_id, run.run_id, { after }));
  const texts: string[] = [];
  await new Promise<void>((resolve, reject) => {
    world.scheduler.at(0, process, () => {
      pump(process, stream.frames, {
        frame: (frame) => {
          reader.see(frame);
          texts.push(frame.event === "custom" ? frame.data : "");
        },
        closed: resolve,
        failed: reject,
      });
    });
  });
  if (!reader.ended) world.violation("I6", `${run.tag} is read without an end`);
  if (reader.last !== last) world.violation("I6", `${run.tag} is read up to frame ${reader.last}, its end is ${last}`);
  for (const id of seenFrames.keys()) {
    if (id > last) world.violation("I6", `frame ${id} of ${run.tag} was shown, and its end is frame ${last}`);
  }
  // They may have been swept meanwhile.
  if (after === 0 && run.framed) checkEvents(world, run, texts);
}

/** Checks I6: a thread's stream from its beginning has every run and all stored frames, over any number of connections. */
async function checkThreadStream(world: World, thread: ThreadNote, dice: Dice): Promise<void> {
  const { scheduler } = world;
  const node = world.reachable(dice);
  if (!node) return;
  const { process } = node;
  const reader = new ThreadReader(world, `the last reader of ${thread.name}`, thread.thread_id);
  for (let connection = dice.below(2); connection < 2; connection++) {
    const frames = await node.request((service) => service.threads.stream(thread.thread_id, { after: reader.at }));
    let few = connection === 0 ? dice.below(20) : Number.POSITIVE_INFINITY;
    await new Promise<void>((resolve, reject) => {
      scheduler.at(0, process, () => {
        const leave = pump(process, frames, {
          frame(frame) {
            // What is read after the connection is gone is lost.
            if (few-- > 0) reader.see(frame);
            else done();
          },
          closed: () => reject(new Error(`the stream of ${thread.name} was closed`)),
          failed: reject,
        });
        // Each run is a read of its own.
        const cancel = scheduler.at(1_600 + 20 * thread.runs.length, process, () => done());
        const done = (): void => {
          cancel();
          leave();
          resolve();
        };
      });
    });
  }
  for (const run of thread.runs) {
    if (run.fate !== "present") continue;
    const ids = reader.framesByRun.get(run.state.seq) ?? [];
    const last = run.state.end_frame as number;
    if (!reader.done.has(run.run_id)) world.violation("I6", `${reader.name} was not told that ${run.tag} is done`);
    else if (ids.at(-1) !== last)
      world.violation("I6", `${reader.name} has ${run.tag} up to frame ${ids.at(-1)}, its end is ${last}`);
    const missing = last - (run.state.status === "error" || run.state.status === "timeout" ? 1 : 0) - ids.length;
    if (run.framed && missing !== 0) world.violation("I6", `${reader.name} lacks ${missing} frames of ${run.tag}`);
  }
}

/** Of each claim's events a beginning is kept, in order; of the one that ended the run with success all. */
function checkEvents(world: World, run: RunNote, texts: readonly string[]): void {
  const events = texts.filter(Boolean).map((text) => JSON.parse(text) as { claim: number; n: number });
  const eventCounts = new Map<number, number>();
  for (const { claim, n } of events) {
    if (n !== (eventCounts.get(claim) ?? 0))
      world.violation(
        "I6",
        `event ${n} of claim ${claim} of ${run.tag} follows event ${(eventCounts.get(claim) ?? 0) - 1}`,
      );
    eventCounts.set(claim, n + 1);
  }
  if (run.state.status !== "success" || !run.lastExecution || !run.shows) return;
  const storedCount = eventCounts.get(run.state.claims) ?? 0;
  if (storedCount !== run.lastExecution.emittedCount)
    world.violation("I6", `${run.tag} has shown ${run.lastExecution.emittedCount} events, and ${storedCount} are kept`);
}
