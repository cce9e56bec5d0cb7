/** Clients that read a run's frames or wait for its result, over disconnects and crashes. */
import type { Json } from "../../../lib/json.ts";
import type { Run } from "../../../lib/runs/mod.ts";
import type { Frame } from "../../../lib/streams/frames.ts";
import type { Reader as FrameReader } from "../../../lib/streams/log.ts";
import { createMessages, stripPadding } from "../agent.ts";
import type { Process } from "../node.ts";
import type { RunNote } from "../oracle/notes.ts";
import { pump, Reader } from "../stream.ts";
import type { Caller } from "./caller.ts";

type RunIds = Pick<Run, "thread_id" | "run_id">;

/** Reads a stream to its end, over disconnects and crashes. */
export function follow(
  caller: Caller,
  reader: Reader,
  run: RunIds,
  frames: FrameReader<Frame>,
  process: Process,
  cancels: boolean,
): void {
  const { world } = caller;
  const { dice } = caller;
  let over = false;
  caller.streams++;
  reader.connect();
  const end = (again: boolean): void => {
    if (over) return;
    over = true;
    process.connections.delete(lost);
    caller.streams--;
    if (again) void resume(caller, reader, run);
  };
  const lost = (): void => end(true);
  // It may have gone away while the answer was on its way.
  if (!process.alive) {
    lost();
    return;
  }
  process.connections.add(lost);
  const leaveAfter = world.plan.faults.has("disconnect") && !world.quiet ? dice.below(12) : Number.POSITIVE_INFINITY;
  let frameCount = 0;
  let leave = (): void => {};
  const disconnect = (): void => {
    if (over) return;
    world.note(`${reader.name} disconnects after ${reader.last}`);
    leave();
    end(!cancels || dice.chance(0.5));
  };
  if (Number.isFinite(leaveAfter) && dice.chance(0.5)) {
    world.scheduler.at(dice.below(1_500), process, disconnect);
  }
  world.scheduler.at(0, process, () => {
    if (over) return;
    leave = pump(process, frames, {
      frame: (frame) => {
        if (over) return;
        reader.see(frame);
        if (++frameCount === leaveAfter && !reader.ended) disconnect();
      },
      closed: () => {
        if (over) return;
        reader.closed(process);
        end(!reader.ended);
      },
      failed: (error) => {
        if (over) return;
        world.note(`${reader.name} is broken off after ${reader.last}`);
        world.show(`  ${String(error)}`);
        end(true);
      },
    });
  });
}

async function resume(caller: Caller, reader: Reader, run: RunIds): Promise<void> {
  caller.streams++;
  await caller.sleep(caller.dice.below(800));
  const after = reader.last;
  let isGone = false;
  caller.world.note(`${reader.name} goes on after ${after}`);
  const stream = await caller.ask(
    `resume ${reader.name}`,
    async (service, process) => ({
      ...(await service.runs.joinStream(
        run.thread_id,
        run.run_id,
        after > 0 || caller.dice.chance(0.5) ? { after } : {},
      )),
      process,
    }),
    true,
    (error) => {
      isGone = error === "refused";
    },
  );
  caller.streams--;
  if (stream) follow(caller, reader, stream.run, stream.frames, stream.process, false);
  else if (isGone) checkGone(caller, run.run_id, "a stream was not found");
}

function checkGone(caller: Caller, run_id: string, why: string): void {
  const run = caller.world.oracle.runs.byId.get(run_id);
  if (run?.fate === "present") caller.world.violation("answer", `${run.tag}: ${why}`);
}

export function awaitResult(
  caller: Caller,
  run: RunIds,
  result: Promise<Json>,
  leave: () => void,
  process: Process,
): void {
  const { world } = caller;
  let over = false;
  caller.streams++;
  const end = (again: boolean): void => {
    if (over) return;
    over = true;
    process.connections.delete(lost);
    caller.streams--;
    if (again) void rejoin(caller, run);
  };
  const lost = (): void => end(true);
  // It may have gone away while the answer was on its way.
  if (!process.alive) {
    lost();
    return;
  }
  process.connections.add(lost);
  result.then(
    (value) => {
      if (over || !process.alive) return;
      if (!process.stopping) checkResult(caller, run.run_id, value);
      end(false);
    },
    (error: unknown) => {
      if (over || !process.alive) return;
      world.note(`${caller.name} waits in vain`);
      world.show(`  ${String(error)}`);
      end(true);
    },
  );
  if (world.plan.faults.has("disconnect") && !world.quiet && caller.dice.chance(0.4)) {
    world.scheduler.at(caller.dice.below(1_500), process, () => {
      if (over) return;
      world.note(`${caller.name} waits no longer for ${world.oracle.runs.byId.get(run.run_id)?.tag}`);
      leave();
      end(caller.dice.chance(0.5));
    });
  }
}

async function rejoin(caller: Caller, run: RunIds): Promise<void> {
  caller.streams++;
  await caller.sleep(caller.dice.below(800));
  let isGone = false;
  const wait = await caller.ask(
    "join",
    async (service, process) => {
      const { result, leave } = await service.runs.join(run.thread_id, run.run_id);
      return { result: result.then((value) => value), leave, process };
    },
    true,
    (error) => {
      isGone = error === "refused";
    },
  );
  caller.streams--;
  if (wait) awaitResult(caller, run, wait.result, wait.leave, wait.process);
  else if (isGone) checkGone(caller, run.run_id, "a join was not found");
}

/** Wait and join tell the truth: the run is over, and this is what it came to. */
function checkResult(caller: Caller, run_id: string, value: Json): void {
  const { world } = caller;
  const run = world.oracle.runs.byId.get(run_id) as RunNote;
  const refuse = (text: string): void =>
    world.violation(
      "answer",
      `wait for ${run.tag} (${run.state.status}) gave ${JSON.stringify(value).slice(0, 300)}: ${text}`,
    );
  world.note(`${caller.name} has the result of ${run.tag}`);
  const result = value as { __error__?: { error?: string }; messages?: Json[] };
  if (run.fate !== "present") return;
  const { status } = run.state;
  const failed = status === "error" || status === "timeout";
  if (status === "pending" || status === "running") refuse("it has not ended");
  else if (failed !== (result.__error__ !== undefined)) refuse("an error is told if and only if there is one");
  if (status !== "success") return;
  const messages = (result.messages ?? []).map(stripPadding).filter((message) => message.startsWith(`${run.tag}/`));
  const expected = createMessages(run.script);
  if (messages.join() !== expected.join()) refuse(`expected ${expected.join()}`);
}

export async function join(caller: Caller): Promise<void> {
  const run = caller.pickKnownRun()?.run;
  if (!run) return;
  const what = `join ${run.tag}`;
  const runIds: RunIds = { thread_id: run.thread.thread_id, run_id: run.run_id };
  caller.world.note(`${caller.name} ${what}`);
  if (caller.dice.chance(0.3)) {
    await rejoin(caller, runIds);
    return;
  }
  const stream = await caller.ask(
    what,
    async (service, process) => ({ ...(await service.runs.joinStream(runIds.thread_id, runIds.run_id)), process }),
    true,
  );
  if (!stream) return;
  const reader = new Reader(caller.world, `${caller.name} joining ${run.tag}`, run.run_id);
  follow(caller, reader, stream.run, stream.frames, stream.process, false);
}
