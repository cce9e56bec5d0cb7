/** Clients that read, change, watch and delete threads. */
import type { Json } from "../../../lib/json.ts";
import type { Frame } from "../../../lib/streams/frames.ts";
import type { Reader as FrameReader } from "../../../lib/streams/log.ts";
import { createMessages, stripPadding } from "../agent.ts";
import type { Process } from "../node.ts";
import type { RunNote } from "../oracle/notes.ts";
import { pump } from "../stream.ts";
import { ThreadReader } from "../thread-reader.ts";
import type { Caller } from "./caller.ts";

/** Reads a thread's stream for a while, over disconnects and crashes. */
export async function watchThread(caller: Caller): Promise<void> {
  const { world } = caller;
  const reader = new ThreadReader(world, `${caller.name} on a thread`, caller.dice.pick(caller.threads));
  caller.streams++;
  const until = world.scheduler.now + caller.dice.between(500, 8_000);
  const formatPosition = (): string => `${reader.at.seq}-${reader.at.frame}`;
  const read = async (): Promise<void> => {
    while (world.scheduler.now < until && !world.quiet) {
      const opened = await caller.ask(
        `watch a thread from ${formatPosition()}`,
        async (service, process) => ({
          frames: await service.threads.stream(reader.thread_id, { after: reader.at }),
          process,
        }),
        true,
      );
      if (!opened) break;
      world.note(`${reader.name} reads from ${formatPosition()} at ${opened.process.name}`);
      await readThread(caller, reader, opened.frames, opened.process, until);
    }
    caller.streams--;
  };
  void read();
}

/** Reads until the stream ends, or is left. */
function readThread(
  caller: Caller,
  reader: ThreadReader,
  frames: FrameReader<Frame>,
  process: Process,
  until: number,
): Promise<void> {
  const { world } = caller;
  const { scheduler } = world;
  return new Promise((resolve) => {
    let over = false;
    const end = (): void => {
      over = true;
      process.connections.delete(end);
      resolve();
    };
    if (!process.alive) {
      resolve();
      return;
    }
    process.connections.add(end);
    scheduler.at(0, process, () => {
      if (over) return;
      const leave = pump(process, frames, {
        frame: (frame) => {
          if (!over) reader.see(frame);
        },
        closed: end,
        failed: end,
      });
      scheduler.at(Math.min(until - scheduler.now, caller.dice.below(3_000)), process, () => {
        if (over) return;
        leave();
        end();
      });
    });
  });
}

export async function deleteThread(caller: Caller): Promise<void> {
  const thread_id = caller.dice.pick(caller.threads);
  caller.world.note(`${caller.name} deletes a thread`);
  await caller.askToRemove(
    "delete thread",
    (run) => run.thread.thread_id === thread_id,
    (service) => service.threads.delete(thread_id),
  );
}

export async function touchThread(caller: Caller): Promise<void> {
  const thread_id = caller.dice.pick(caller.threads);
  const n = caller.dice.below(1_000);
  caller.world.note(`${caller.name} changes a thread's metadata`);
  await caller.ask("update thread", (service) => service.threads.update(thread_id, { metadata: { n } }), true);
}

/** Checks I3: a read does not return a run that was removed before the read began. */
export async function look(caller: Caller): Promise<void> {
  const { world } = caller;
  const thread_id = caller.dice.pick(caller.threads);
  const removedIds = new Set(world.oracle.runs.removedIds);
  const tags = new Set(
    [...removedIds]
      .filter((id) => world.oracle.runs.byId.get(id)?.fate === "rolled_back")
      .map((id) => world.oracle.runs.byId.get(id)?.tag),
  );
  const checkMessages = (values: Json | undefined): void => {
    for (const message of readStateMessages(values)) {
      const tag = message.split("/")[0];
      if (tags.has(tag)) world.violation("I3", `${message} is shown, and its run was rolled back`);
    }
  };
  const roll = caller.dice.below(5);
  if (roll < 2) {
    const thread = world.oracle.threads.get(thread_id);
    const done = thread?.ended.filter((run) => run.state.status === "success" && run.fate === "present") ?? [];
    const state = await caller.ask("state", (service) => service.threads.state(thread_id), true);
    checkMessages(state?.values);
    if (!state || world.oracle.threads.get(thread_id) !== thread) return;
    // I4, at any time: what was there before the question is in the answer.
    const stateMessages = new Set(readStateMessages(state.values));
    const missing = done.flatMap((run) => createMessages(run.script)).filter((message) => !stateMessages.has(message));
    if (missing.length > 0) world.violation("I4", `${thread?.name} is shown without ${missing.join()}`);
  } else if (roll === 2) {
    const history = await caller.ask("history", (service) => service.threads.history(thread_id, { limit: 50 }), true);
    for (const state of history ?? []) checkMessages(state.values);
  } else if (roll === 3) {
    const runs = await caller.ask("list", (service) => service.runs.list(thread_id, { limit: 100 }), true);
    for (const { run_id } of runs ?? [])
      if (removedIds.has(run_id)) world.violation("I3", `${run_id} is listed, and is gone`);
  } else {
    const [run_id] = removedIds;
    if (run_id === undefined) return;
    const run = world.oracle.runs.byId.get(run_id) as RunNote;
    const storedRun = await caller.ask("get", (service) => service.runs.get(run.thread.thread_id, run_id), true);
    if (storedRun) world.violation("I3", `${run.tag} is found, and is ${run.fate}`);
  }
}

const readStateMessages = (values: Json | undefined): string[] =>
  ((values as { messages?: Json[] } | null)?.messages ?? []).map(stripPadding);
