/** The calls of agents in process, over the resources of a service or of one of its callers. */

import { nullIfNotFound, ServiceError, STATUS } from "../errors.ts";
import type { ThreadState } from "../executor/contract.ts";
import { waitUnlessAborted } from "../handles/abort.ts";
import { createAgentHandle } from "../handles/handle.ts";
import { isRefusal } from "../handles/refusals.ts";
import type { AgentHandles, ReceivedFrame, ReceivedState, RunRequest, RunTransport } from "../handles/transport.ts";
import type { RunRef } from "../handles/types.ts";
import type { Json } from "../json.ts";
import type { RunCreate, RunWait } from "../runs/mod.ts";
import type { Frame } from "../streams/frames.ts";
import type { Reader } from "../streams/log.ts";
import type { Resources } from "./resources.ts";

const toRunCreate = (request: RunRequest): RunCreate => request as RunCreate;

/** Resolves with the result of a run. Leaves the wait and rejects with the reason of the signal when that aborts. */
const waitForResult = async ({ result, leave }: RunWait, signal: AbortSignal | undefined): Promise<Json> =>
  await waitUnlessAborted(result, signal, leave);

/**
 * Yields the frames of a run with decoded data until its end, and then leaves the reader. Throws the reason of the signal when
 * that aborts.
 */
async function* readFrames(
  reader: Reader<Frame>,
  signal: AbortSignal | undefined,
): AsyncGenerator<ReceivedFrame, void, undefined> {
  try {
    for (;;) {
      const frames = await waitUnlessAborted(reader.next(), signal, () => reader.leave());
      if (frames.length === 0) return;
      for (const { id, event, data } of frames) {
        yield { id: typeof id === "number" ? id : null, event, data: JSON.parse(data) as Json };
      }
    }
  } finally {
    reader.leave();
  }
}

const toReceivedState = ({ values, next, interrupts }: ThreadState): ReceivedState => ({ values, next, interrupts });

const toRef = ({ run_id, thread_id }: RunRef): RunRef => ({ run_id, thread_id });

/**
 * Creates the transport of runs within the process. Reads of a missing run return null; `readState` of a missing thread rejects.
 * A signal that aborts ends the wait, not the run.
 */
function createServiceTransport({ runs, threads }: Pick<Resources, "runs" | "threads">): RunTransport {
  return {
    /** Creates a thread and resolves with its id. Rejects with the reason of a signal that has aborted before. */
    async createThread(graph_id, signal) {
      signal?.throwIfAborted();
      return (await threads.create({ metadata: { graph_id } })).thread_id;
    },
    deleteThread: (thread_id) => threads.delete(thread_id),
    isRefusal: (error) => error instanceof ServiceError && isRefusal(STATUS[error.code], error.code),
    /**
     * Creates a run and resolves with its ids, without waiting for it. Rejects with the reason of a signal that has aborted
     * before.
     */
    async create(thread_id, request, signal) {
      signal?.throwIfAborted();
      return toRef(await runs.create(thread_id, toRunCreate(request)));
    },
    async wait(thread_id, request, signal) {
      signal?.throwIfAborted();
      const pending = await runs.wait(thread_id, toRunCreate(request));
      return { run: toRef(pending.run), result: await waitForResult(pending, signal) };
    },
    async stream(thread_id, request, signal) {
      signal?.throwIfAborted();
      const { run, frames } = await runs.stream(thread_id, toRunCreate(request));
      return { run: toRef(run), frames: readFrames(frames, signal) };
    },
    async join({ thread_id, run_id }, signal) {
      const pending = await runs.join(thread_id, run_id).catch(nullIfNotFound);
      return pending && (await waitForResult(pending, signal));
    },
    async findEnd({ thread_id, run_id }) {
      const run = await runs.get(thread_id, run_id).catch(nullIfNotFound);
      return run && { status: run.status, cancel_reason: run.cancel_reason };
    },
    async findState({ thread_id, run_id }) {
      const query = { limit: 1, metadata: { run_id } };
      const [state] = (await threads.history(thread_id, query).catch(nullIfNotFound)) ?? [];
      return state ? toReceivedState(state) : null;
    },
    readState: async (thread_id) => toReceivedState(await threads.state(thread_id)),
  };
}

/** Creates the handles of agents over the resources of a service or of a caller. */
export function createAgentHandles(resources: Pick<Resources, "runs" | "threads">): AgentHandles {
  const transport = createServiceTransport(resources);
  return { getHandle: (name) => createAgentHandle(transport, name) };
}
