/** `subscriptions/listen`: streams the state of tasks as notifications. */
import { ServiceError } from "../../../errors.ts";
import type { JsonObject } from "../../../json.ts";
import type { Frame } from "../../../runs/mod.ts";
import { createReader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import { createEventStreamResponse } from "../../sse.ts";
import { watchThreads } from "../watch.ts";
import { createMessageFrame } from "./progress.ts";
import {
  canPoll,
  McpError,
  type McpRequest,
  missingCapabilityError,
  SSE_HEADERS,
  TASKS_EXTENSION,
  toResultMessage,
} from "./protocol.ts";
import { readTask } from "./tasks.ts";

const SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId";

const TERMINAL_STATUSES: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/**
 * Returns the tasks that a client subscribes to, each once. Returns null if it names none. Throws an McpError for a
 * client that cannot poll tasks.
 */
function readTaskIds(request: McpRequest<"subscriptions/listen">): readonly string[] | null {
  const { taskIds } = request.params.notifications;
  if (taskIds === undefined) return null;
  if (!canPoll(request)) throw missingCapabilityError({ extensions: { [TASKS_EXTENSION]: {} } });
  return [...new Set(taskIds)];
}

/**
 * Streams an acknowledgement with the found tasks, then their states, and each change of a state, until all have ended
 * or the server stops; the last frame is the result. Omits tasks that are absent or hidden from the caller.
 */
export async function subscribeToTasks(
  context: RequestContext,
  request: McpRequest<"subscriptions/listen">,
): Promise<Response> {
  const requestedIds = readTaskIds(request);
  // The unfinished tasks, with the state that was notified last.
  const watched = new Map<string, { readonly thread_id: string; readonly stateJson: string }>();
  const ready: Frame[] = [];
  let isDone = false;

  /** Appends a notification of the subscription to the ready frames. */
  const notify = (method: string, params: JsonObject): void => {
    const _meta = { [SUBSCRIPTION_ID]: request.id };
    ready.push(createMessageFrame({ jsonrpc: "2.0", method: `notifications/${method}`, params: { ...params, _meta } }));
  };

  /**
   * Reads a task and adds a notification if its state has changed. Watches it from then on, unless it has ended.
   * Returns false for a task that is absent or hidden. Rejects with other errors.
   */
  async function checkTask(taskId: string): Promise<boolean> {
    await context.waitForNextTick();
    const task = await readTask(context, request, taskId).catch((error: unknown) => {
      if (error instanceof McpError) return null;
      throw error;
    });
    const lastNotified = watched.get(taskId);
    watched.delete(taskId);
    if (!task) return false;
    const { thread_id, header, state } = task;
    const stateJson = JSON.stringify(state);
    if (lastNotified?.stateJson !== stateJson) notify("tasks", { ...header, ...state });
    if (!TERMINAL_STATUSES.has(state.status)) watched.set(taskId, { thread_id, stateJson });
    return true;
  }

  const taskIds: string[] = [];
  for (const taskId of requestedIds ?? []) if (await checkTask(taskId)) taskIds.push(taskId);
  const states = ready.splice(0);
  notify("subscriptions/acknowledged", { notifications: requestedIds ? { taskIds } : {} });
  ready.push(...states);
  const watch = watchThreads(context, [...new Set([...watched.values()].map(({ thread_id }) => thread_id))]);

  /** Ends the subscription: queues the result of the request as the last frame and closes the watch. */
  function end(): void {
    isDone = true;
    watch.close();
    ready.push(createMessageFrame(toResultMessage(request, {}, { [SUBSCRIPTION_ID]: request.id }), true));
  }

  /**
   * Waits for a change of a thread, then checks the watched tasks on the threads that changed. Does nothing once the subscription
   * has ended.
   */
  async function checkChangedTasks(): Promise<void> {
    const changed = await watch.next();
    if (isDone) return;
    for (const [id, { thread_id }] of [...watched]) if (changed.includes(thread_id)) await checkTask(id);
  }

  /**
   * Returns the ready notifications; waits for changes until all tasks have ended or the server stops, and then returns the
   * result.
   */
  async function next(): Promise<readonly Frame[]> {
    try {
      while (ready.length === 0 && !isDone) {
        if (watched.size === 0) end();
        else await checkChangedTasks();
      }
    } catch (error) {
      if (!(error instanceof ServiceError && error.reason === "server_stopping")) throw error;
      end();
    }
    return ready.splice(0);
  }

  const frames = createReader(next, () => {
    isDone = true;
    watch.close();
  });
  return createEventStreamResponse(context, frames, { headers: SSE_HEADERS });
}
