/** Clients that stop and delete runs. */

import type { CancelTarget } from "../../../lib/runs/run-stopper.ts";
import type { Service } from "../../../lib/service.ts";
import type { StopAction } from "../../../lib/storage/mod.ts";
import type { RunNote } from "../oracle/notes.ts";
import type { Caller } from "./caller.ts";

export async function cancel(caller: Caller): Promise<void> {
  const knownRun = caller.pickKnownRun();
  if (!knownRun) return;
  const action: StopAction = caller.dice.pick(["interrupt", "rollback"]);
  await cancelRun(caller, knownRun.thread_id, knownRun.run_id as string, action, caller.dice.chance(0.4));
}

export async function cancelRun(
  caller: Caller,
  thread_id: string | null,
  run_id: string,
  action: StopAction,
  wait: boolean,
): Promise<void> {
  const { world } = caller;
  const run = world.oracle.runs.byId.get(run_id) as RunNote;
  const what = `cancel ${run.tag} ${action}${wait ? " and wait" : ""}`;
  world.note(`${caller.name} ${what}`);
  let done = false;
  const ask = async (service: Service): Promise<true> => {
    await service.runs.cancel(thread_id, run_id, { action, wait });
    return true;
  };
  if (action === "rollback") done = (await caller.askToRemove(what, ({ tag }) => tag === run.tag, ask)) ?? false;
  else done = (await caller.ask(what, ask, true)) ?? false;
  if (!done) return;
  const active = run.fate === "present" && (run.state.status === "pending" || run.state.status === "running");
  if (active && (wait || action === "rollback")) {
    world.violation("answer", `${what} was answered, and it is ${run.state.status}`);
  } else if (active && run.state.cancelled !== 1) {
    world.violation("answer", `${what} was answered, and nothing says that it is to stop`);
  }
}

export async function cancelMany(caller: Caller): Promise<void> {
  const { world } = caller;
  const action: StopAction = caller.dice.pick(["interrupt", "rollback"]);
  const thread_id = caller.dice.pick(caller.threads);
  const status = caller.dice.pick(["pending", "running", "all"] as const);
  const named = world.clients
    .flatMap(({ requestedRuns }) => requestedRuns)
    .filter((requestedRun) => requestedRun.thread_id === thread_id && requestedRun.run_id !== null)
    .map(({ run_id }) => run_id as string)
    .filter(() => caller.dice.chance(0.5));
  const target: CancelTarget = caller.dice.chance(0.5) && named.length > 0 ? { thread_id, run_ids: named } : { status };
  const what = `cancel many ${"status" in target ? status : `${named.length} named`} ${action}`;
  world.note(`${caller.name} ${what}`);
  const ask = (service: Service): Promise<void> => service.runs.cancelMany(target, action);
  const covers = (run: RunNote): boolean => "status" in target || target.run_ids.includes(run.run_id);
  if (action === "rollback") await caller.askToRemove(what, covers, ask);
  else await caller.ask(what, ask, true);
}

export async function deleteRun(caller: Caller): Promise<void> {
  const knownRun = caller.pickKnownRun();
  if (!knownRun || knownRun.thread_id === null) return;
  const { run } = knownRun;
  const what = `delete ${run.tag}`;
  caller.world.note(`${caller.name} ${what}`);
  await caller.askToRemove(
    what,
    ({ tag }) => tag === run.tag,
    (service) => service.runs.delete(run.thread.thread_id, run.run_id),
  );
}
