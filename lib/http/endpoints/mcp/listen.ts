/** `subscriptions/listen`: what becomes of tasks, as notifications. */
import { ServiceError } from "../../../errors.ts";
import type { JsonObject } from "../../../json.ts";
import type { Frame } from "../../../runs/mod.ts";
import { createReader } from "../../../streams/log.ts";
import type { RequestContext } from "../../route.ts";
import { eventStream } from "../../sse.ts";
import { watchThreads } from "../watch.ts";
import { messageFrame } from "./progress.ts";
import { canPoll, capabilityMissing, RpcError, type RpcRequest, resultOf, SSE_HEADERS, TASKS } from "./protocol.ts";
import { readTask } from "./tasks.ts";

const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";

const ENDED: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** The tasks that a client asks for; null if it asks for none. Errors: what does not fit. */
function tasksOf(request: RpcRequest<"subscriptions/listen">): readonly string[] | null {
  const { taskIds } = request.params.notifications;
  if (taskIds === undefined) return null;
  if (!canPoll(request)) throw capabilityMissing({ extensions: { [TASKS]: {} } });
  return [...new Set(taskIds)];
}

/** The stream ends when all tasks have ended, and when the server stops. Tasks that are absent or foreign are left out. */
export async function listen(context: RequestContext, request: RpcRequest<"subscriptions/listen">): Promise<Response> {
  const wanted = tasksOf(request);
  // The tasks that go on, with what was said of them last.
  const watched = new Map<string, { readonly thread_id: string; readonly said: string }>();
  const ready: Frame[] = [];
  let isDone = false;

  const notify = (method: string, params: JsonObject): void => {
    const _meta = { [SUBSCRIPTION]: request.id };
    ready.push(messageFrame({ jsonrpc: "2.0", method: `notifications/${method}`, params: { ...params, _meta } }));
  };

  /** Says what a task is, if that has changed. False for one that is not there. */
  async function look(taskId: string): Promise<boolean> {
    await context.tick();
    const found = await readTask(context, request, taskId).catch((error: unknown) => {
      if (error instanceof RpcError) return null;
      throw error;
    });
    const before = watched.get(taskId);
    watched.delete(taskId);
    if (!found) return false;
    const { thread_id, head, state } = found;
    const said = JSON.stringify(state);
    if (before?.said !== said) notify("tasks", { ...head, ...state });
    if (!ENDED.has(state.status)) watched.set(taskId, { thread_id, said });
    return true;
  }

  const taskIds: string[] = [];
  for (const taskId of wanted ?? []) if (await look(taskId)) taskIds.push(taskId);
  const states = ready.splice(0);
  notify("subscriptions/acknowledged", { notifications: wanted ? { taskIds } : {} });
  ready.push(...states);
  const watch = watchThreads(context, [...new Set([...watched.values()].map(({ thread_id }) => thread_id))]);

  function end(): void {
    isDone = true;
    watch.close();
    ready.push(messageFrame(resultOf(request, {}, { [SUBSCRIPTION]: request.id }), true));
  }

  async function lookAtChanges(): Promise<void> {
    const changed = await watch.next();
    if (isDone) return;
    for (const [id, { thread_id }] of [...watched]) if (changed.includes(thread_id)) await look(id);
  }

  async function next(): Promise<readonly Frame[]> {
    try {
      while (ready.length === 0 && !isDone) {
        if (watched.size === 0) end();
        else await lookAtChanges();
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
  return eventStream(context, frames, { headers: SSE_HEADERS });
}
