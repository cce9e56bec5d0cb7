/** A task that waits for its client, as a stream: the task, and what follows once it goes on. */

import { isOver, type Status, type Task } from "../../../a2a/wire.ts";
import { ServiceError } from "../../../errors.ts";
import { isoTime } from "../../../rfc3339.ts";
import type { Frame } from "../../../runs/mod.ts";
import { createReader, type Reader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import type { CallState } from "../calls.ts";
import { watchThreads } from "../watch.ts";
import type { RequestHead } from "./protocol.ts";
import { frameOf, taskFrames } from "./stream.ts";
import { readTask } from "./task.ts";

interface Resting {
  readonly opening: Task;
  /** The run that has asked. */
  readonly asked: string;
  /** How the task stands now; null once it is gone. */
  look(): Promise<CallState | null>;
}

export function waitingFrames(
  context: RequestContext,
  head: RequestHead,
  { opening, asked, look }: Resting,
): Reader<Frame> {
  const { nouns, service } = context;
  const ids = { taskId: opening.id, contextId: opening.contextId };
  const watch = watchThreads(context, [opening.contextId]);
  let following: Reader<Frame> | undefined;
  let isShown = false;
  let isLeft = false;

  /** A task that is deleted has ended too. */
  const gone = (): Status => ({ state: "CANCELED", timestamp: isoTime(service.environment.now()) });

  async function follow({ newest }: CallState): Promise<Reader<Frame>> {
    const stream = await nouns.runs.joinStream(newest.thread_id, newest.run_id);
    following = taskFrames(context, head, stream, { opening, run_id: newest.run_id });
    watch.close();
    if (isLeft) following.leave();
    // Its first frame is the task as it was.
    await following.next();
    return following;
  }

  /** Waits for the next change of the thread. Returns the frames that it brings; null while the task goes on waiting. */
  async function framesOfChange(): Promise<readonly Frame[] | null> {
    await watch.next();
    const call = await look();
    if (call && call.newest.run_id !== asked) return await (await follow(call)).next();
    const status = call ? (await readTask(nouns, call, { scope: "task", length: 0 })).status : gone();
    if (!isOver(status)) return null;
    leave();
    return [{ ...frameOf(head, { statusUpdate: { ...ids, status } }), last: true }];
  }

  async function next(): Promise<readonly Frame[]> {
    if (following) return await following.next();
    if (!isShown) {
      isShown = true;
      return [frameOf(head, { task: opening })];
    }
    try {
      while (!isLeft) {
        const frames = await framesOfChange();
        if (frames) return frames;
      }
    } catch (error) {
      leave();
      // The service stops: the body breaks off, and clients subscribe again.
      if (!(error instanceof ServiceError && error.reason === "server_stopping")) throw error;
    }
    return [];
  }

  function leave(): void {
    isLeft = true;
    watch.close();
    following?.leave();
  }

  return createReader(next, leave);
}
