/** A task that waits for its client, as a stream: the task, and what follows once it goes on. */

import { type A2aTask, type A2aTaskStatus, isTerminal } from "../../../a2a/json.ts";
import { ServiceError } from "../../../errors.ts";
import { formatIsoTime } from "../../../rfc3339.ts";
import type { Frame } from "../../../runs/mod.ts";
import { createReader, type Reader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import type { ProtocolRequestState } from "../protocol-requests.ts";
import { watchThreads } from "../watch.ts";
import type { A2aRequestHeader } from "./protocol.ts";
import { createEventFrame, createTaskFrames } from "./stream.ts";
import { readTask } from "./task.ts";

interface InputRequiredTask {
  readonly initialTask: A2aTask;
  /** The run that has asked. */
  readonly interrupted_run_id: string;
  /** How the task stands now; null once it is gone. */
  readCurrent(): Promise<ProtocolRequestState | null>;
}

export function createInputRequiredFrames(
  context: RequestContext,
  header: A2aRequestHeader,
  { initialTask, interrupted_run_id, readCurrent }: InputRequiredTask,
): Reader<Frame> {
  const { resources, service } = context;
  const ids = { taskId: initialTask.id, contextId: initialTask.contextId };
  const watch = watchThreads(context, [initialTask.contextId]);
  let runFrames: Reader<Frame> | undefined;
  let isTaskEmitted = false;
  let isClosed = false;

  /** A task that is deleted has ended too. */
  const createDeletedStatus = (): A2aTaskStatus => ({
    state: "CANCELED",
    timestamp: formatIsoTime(service.environment.now()),
  });

  async function startRunFrames({ newestRun }: ProtocolRequestState): Promise<Reader<Frame>> {
    const stream = await resources.runs.joinStream(newestRun.thread_id, newestRun.run_id);
    runFrames = createTaskFrames(context, header, stream, { initialTask, run_id: newestRun.run_id });
    watch.close();
    if (isClosed) runFrames.leave();
    // Its first frame is the task as it was.
    await runFrames.next();
    return runFrames;
  }

  /** Waits for the next change of the thread. Returns the frames that it brings; null while the task goes on waiting. */
  async function waitForChange(): Promise<readonly Frame[] | null> {
    await watch.next();
    const protocolRequest = await readCurrent();
    if (protocolRequest && protocolRequest.newestRun.run_id !== interrupted_run_id)
      return await (await startRunFrames(protocolRequest)).next();
    const status = protocolRequest
      ? (await readTask(resources, protocolRequest, { scope: "task", length: 0 })).status
      : createDeletedStatus();
    if (!isTerminal(status)) return null;
    leave();
    return [{ ...createEventFrame(header, { statusUpdate: { ...ids, status } }), last: true }];
  }

  async function next(): Promise<readonly Frame[]> {
    if (runFrames) return await runFrames.next();
    if (!isTaskEmitted) {
      isTaskEmitted = true;
      return [createEventFrame(header, { task: initialTask })];
    }
    try {
      while (!isClosed) {
        const frames = await waitForChange();
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
    isClosed = true;
    watch.close();
    runFrames?.leave();
  }

  return createReader(next, leave);
}
