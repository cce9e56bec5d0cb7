/** Clients that create runs, of every kind, again where they must, and twice where they may. */
import type { JsonObject } from "../../../lib/json.ts";
import type { RunCreate } from "../../../lib/runs/mod.ts";
import type { MultitaskStrategy } from "../../../lib/storage/mod.ts";
import { GRAPHS, type Script, type Step } from "../agent.ts";
import type { RunNote } from "../oracle/notes.ts";
import type { Fault } from "../plan.ts";
import { createWebhookUrl } from "../platform/receiver.ts";
import { Reader } from "../stream.ts";
import type { Caller, Removal, RequestedRun, Unwilling } from "./caller.ts";
import { awaitResult, follow } from "./follow.ts";
import { cancelRun } from "./stop.ts";

function createScript(caller: Caller): Script {
  const { plan } = caller.world;
  const { dice } = caller;
  const has = (fault: Fault, share: number): boolean => plan.faults.has(fault) && dice.chance(share);
  const count = dice.between(1, 4);
  const asks = dice.chance(0.15) ? dice.below(count) : -1;
  const fails = has("agent_throws", 0.25) ? dice.below(count) : -1;
  const hangs = has("agent_hangs", 0.15) ? dice.below(count) : -1;
  const steps = Array.from({ length: count }, (_, i): Step => {
    const end = i === fails ? "throw" : i === asks ? "ask" : undefined;
    return {
      ms: i === hangs ? null : dice.pick([0, 5, 60, 400, dice.chance(0.2) ? 2_500 : 150]),
      events: dice.chance(0.05) ? 200 : dice.below(5),
      ...(end ? { end } : {}),
      padding: dice.below(plan.padding + 1),
    };
  });
  return { tag: `${caller.name}.${++caller.count}`, steps, deaf: has("agent_ignores_stop", 0.4) };
}

export function planRun(
  caller: Caller,
  thread_id: string | null,
  keyed: boolean = caller.dice.chance(0.75),
): RequestedRun {
  const { dice } = caller;
  const script = createScript(caller);
  const json = script as unknown as JsonObject;
  const { plan } = caller.world;
  const strategy: MultitaskStrategy = dice.chance(plan.conflict)
    ? dice.pick(["reject", "interrupt", "rollback", "rollback"])
    : "enqueue";
  const request: RunCreate = {
    assistant_id: dice.pick(GRAPHS),
    ...(thread_id !== null && dice.chance(0.15)
      ? // At a breakpoint the value is dropped.
        { command: { resume: json }, context: { script: json } }
      : { input: json }),
    multitask_strategy: strategy,
    stream_mode: dice.pick([["custom"], ["custom", "values"], ["values"]]),
    stream_resumable: dice.chance(0.6),
    ...(thread_id === null ? {} : { if_not_exists: "create" }),
    ...(dice.chance(0.15) ? { after_seconds: dice.pick([0, 0.5, 3]) } : {}),
    ...(dice.chance(0.2) ? { on_disconnect: "cancel" } : {}),
    ...(dice.chance(0.3) ? { durability: dice.pick(["sync", "exit"] as const) } : {}),
    ...(thread_id === null && dice.chance(0.3) ? { on_completion: "keep" } : {}),
    ...(dice.chance(plan.hooks.share) ? { webhook: createWebhookUrl(dice, script.tag) } : {}),
    ...(dice.chance(plan.feedback) ? { feedback_keys: dice.pick([["score"], ["score", "note", "score"]]) } : {}),
  };
  const route = thread_id === null ? "/runs" : `/threads/${thread_id}/runs`;
  const origin = keyed ? { idempotency: { route, key: script.tag, body_hash: script.tag } } : {};
  const { tag } = script;
  const requestedRun: RequestedRun = {
    tag,
    script,
    thread_id,
    request,
    origin,
    run_id: null,
    unknown: false,
    refused: false,
  };
  caller.requestedRuns.push(requestedRun);
  return requestedRun;
}

export async function create(caller: Caller): Promise<void> {
  const roll = caller.dice.below(100);
  if (roll < 4) return await createBatch(caller);
  const thread_id = caller.dice.chance(0.15) ? null : caller.dice.pick(caller.threads);
  const requestedRun = planRun(caller, thread_id);
  const kind = roll < 45 ? "create" : roll < 75 ? "stream" : "wait";
  await submit(caller, requestedRun, kind);
}

/** Returns a function that is true for runs that the create may have removed; null if it removes none. */
function findRemovals({ thread_id, request }: RequestedRun): ((run: RunNote) => boolean) | null {
  if (request.multitask_strategy !== "rollback" || thread_id === null) return null;
  return (run) => run.thread.thread_id === thread_id;
}

export async function submit(
  caller: Caller,
  requestedRun: RequestedRun,
  kind: "create" | "stream" | "wait",
): Promise<void> {
  const { tag, thread_id, request, origin } = requestedRun;
  const what = `${kind} ${tag} ${request.multitask_strategy} ${thread_id === null ? "stateless" : ""}`;
  caller.world.note(`${caller.name} ${what}`);
  const covers = findRemovals(requestedRun);
  const removal: Removal | null = covers && { covers };
  if (removal) caller.removals.add(removal);
  const noteError = (error: Unwilling): void => {
    if (error === "unknown") requestedRun.unknown = true;
    if (error === "refused") requestedRun.refused = true;
  };
  const repeat = origin.idempotency !== undefined;
  if (kind === "create") {
    const run = await caller.ask(what, (service) => service.runs.create(thread_id, request, origin), repeat, noteError);
    if (run) noteAcknowledged(caller, requestedRun, run.run_id);
  } else if (kind === "stream") {
    const stream = await caller.ask(
      what,
      async (service, process) => ({ ...(await service.runs.stream(thread_id, request, origin)), process }),
      repeat,
      noteError,
    );
    if (stream) {
      noteAcknowledged(caller, requestedRun, stream.run.run_id);
      const reader = new Reader(caller.world, `${caller.name} of ${tag}`, stream.run.run_id);
      follow(caller, reader, stream.run, stream.frames, stream.process, request.on_disconnect === "cancel");
    }
  } else {
    const wait = await caller.ask(
      what,
      async (service, process) => {
        const { run, result, leave } = await service.runs.wait(thread_id, request, origin);
        return { run, result: result.then((value) => value), leave, process };
      },
      repeat,
      noteError,
    );
    if (wait) {
      noteAcknowledged(caller, requestedRun, wait.run.run_id);
      awaitResult(caller, wait.run, wait.result, wait.leave, wait.process);
    }
  }
  if (removal && !requestedRun.unknown) caller.removals.delete(removal);
}

async function createBatch(caller: Caller): Promise<void> {
  const batch = Array.from({ length: caller.dice.between(1, 3) }, () => planRun(caller, null, false));
  const what = `batch ${batch.map(({ tag }) => tag).join(" ")}`;
  caller.world.note(`${caller.name} ${what}`);
  const keyed = caller.dice.chance(0.5);
  const origin = keyed ? { idempotency: { route: "/runs/batch", key: what, body_hash: what } } : {};
  const runs = await caller.ask(
    what,
    (service) =>
      service.runs.createBatch(
        batch.map(({ request }) => request),
        origin,
      ),
    keyed,
    (error) => {
      for (const requestedRun of batch) if (error === "unknown") requestedRun.unknown = true;
    },
  );
  if (!runs) return;
  for (const [i, run] of runs.entries()) noteAcknowledged(caller, batch[i] as RequestedRun, run.run_id);
}

/** Records a 2xx, and checks that the run is stored and is the requested one. */
export function noteAcknowledged(caller: Caller, requestedRun: RequestedRun, run_id: string): void {
  const { world } = caller;
  requestedRun.run_id = run_id;
  world.note(`${caller.name} knows ${requestedRun.tag}`);
  const run = world.oracle.runs.byId.get(run_id);
  if (run?.tag !== requestedRun.tag)
    world.violation("I1", `${requestedRun.tag} was acknowledged, and is ${run ? run.tag : "not stored"}`);
  if (world.quiet || !run) return;
  if (caller.dice.chance(0.1)) void stopLater(caller, requestedRun.thread_id, run_id);
}

/** Some run is cancelled while it is about to start. */
async function stopLater(caller: Caller, thread_id: string | null, run_id: string): Promise<void> {
  caller.streams++;
  await caller.sleep(caller.dice.below(30));
  await cancelRun(caller, thread_id, run_id, caller.dice.pick(["interrupt", "rollback"]), caller.dice.chance(0.5));
  caller.streams--;
}

/** A run is rolled back, and its thread gets another one: soon, or once whatever holds the thread may be over. */
export async function replaceLater(caller: Caller): Promise<void> {
  const requestedRun = caller.pickKnownRun();
  if (!requestedRun || requestedRun.thread_id === null) return;
  await cancelRun(caller, requestedRun.thread_id, requestedRun.run_id as string, "rollback", false);
  await caller.sleep(caller.dice.below(2 * caller.world.plan.lease_ms));
  await submit(caller, planRun(caller, requestedRun.thread_id), "create");
}

/** A create that was answered is sent again, or its key is used for something else. */
export async function repeat(caller: Caller): Promise<void> {
  const { world } = caller;
  const requestedRun = caller.dice.pick([
    ...caller.requestedRuns.filter(({ run_id, origin }) => run_id !== null && origin.idempotency),
    null,
  ]);
  if (!requestedRun) return;
  const { tag, thread_id, request, origin, run_id } = requestedRun;
  const hasOtherBody = caller.dice.chance(0.3);
  const { idempotency } = origin;
  // Only the hash of the body tells a server that it is another one.
  const again = hasOtherBody && idempotency ? { idempotency: { ...idempotency, body_hash: "other" } } : origin;
  const what = `create ${tag} again${hasOtherBody ? " with another body" : ""}`;
  world.note(`${caller.name} ${what}`);
  let refused = false;
  const before = world.oracle.runs.byId.get(run_id as string)?.fate;
  const run = await caller.ask(
    what,
    (service) => service.runs.create(thread_id, request, again),
    true,
    (error) => {
      refused ||= error === "refused";
    },
  );
  if (run && hasOtherBody) world.violation("R4", `${what} was answered`);
  if (run && run.run_id !== run_id) world.violation("R4", `${what} gave another run`);
  if (run && before !== "present") world.violation("R4", `${what} was answered, and the run was ${before}`);
  const runNote = world.oracle.runs.byId.get(run_id as string);
  if (refused && !hasOtherBody && runNote?.fate === "present") world.violation("R4", `${what} was refused`);
}
