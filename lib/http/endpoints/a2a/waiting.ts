/** The stream of a task that waits for input: the task, and its updates once it continues. */

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
  /** The run that raised the interrupt. */
  readonly interrupted_run_id: string;
  /** Reads the state again; null once the task is deleted. */
  readCurrent(): Promise<ProtocolRequestState | null>;
}

/**
 * Streams a task that waits for input: the task, then the events of the run that resumes it, or its final status. Ends without a last
 * event if the service stops.
 */
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

  /** Returns the status of a deleted task: CANCELED, as of now. */
  const createDeletedStatus = (): A2aTaskStatus => ({
    state: "CANCELED",
    timestamp: formatIsoTime(service.environment.now()),
  });

  /**
   * Joins the run that resumes the task, and keeps its reader in `runFrames`. Stops watching the thread. Drops the
   * first frame, because the task was emitted before. Leaves the run if this stream was closed meanwhile.
   */
  async function startRunFrames({ newestRun }: ProtocolRequestState): Promise<Reader<Frame>> {
    const stream = await resources.runs.joinStream(newestRun.thread_id, newestRun.run_id);
    runFrames = createTaskFrames(context, header, stream, { initialTask, run_id: newestRun.run_id });
    watch.close();
    if (isClosed) runFrames.leave();
    // Drops its first frame, which is the initial task.
    await runFrames.next();
    return runFrames;
  }

  /**
   * Waits for the next change of the thread. Returns the frames of a new run, which it joins, or the final status,
   * after which the stream is left. Returns null if the task still waits.
   */
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

  /**
   * Returns the initial task, then the frames of the run or the final status, whichever comes first. Returns no frames
   * once it was left or the service stops. Leaves and throws for other errors.
   */
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
      // When the service stops, the body ends without a last event, and clients subscribe again.
      if (!(error instanceof ServiceError && error.reason === "server_stopping")) throw error;
    }
    return [];
  }

  /** Ends the stream: stops watching the thread, and leaves the run if one was joined. */
  function leave(): void {
    isClosed = true;
    watch.close();
    runFrames?.leave();
  }

  return createReader(next, leave);
}
