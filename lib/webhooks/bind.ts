/** Webhook deliveries as one caller may use them: those of the threads that the caller sees. */
import type { Binding, Directory } from "../auth/binding.ts";
import type { Scope } from "../storage/mod.ts";
import type { Webhooks } from "./deliver.ts";

export function bindWebhooks(webhooks: Directory<Webhooks>, { authorize }: Binding): Webhooks {
  /** The permission to change what a thread's run sends. */
  async function toChange(action: "send" | "push", thread_id: string | null, run_id: string): Promise<Scope> {
    const { scope } = await authorize("threads:update", { thread_id, action, metadata: { run_ids: [run_id] } });
    return scope;
  }

  return {
    async list(query = {}) {
      const { value, scope } = await authorize("threads:search", query);
      return await webhooks.list(scope, value);
    },
    async get(run_id) {
      const { scope } = await authorize("threads:read", { thread_id: null, run_id });
      return await webhooks.get(scope, run_id);
    },
    async redeliver(run_id) {
      await webhooks.redeliver(await toChange("send", null, run_id), run_id);
    },
    async setPush(push) {
      await webhooks.setPush(await toChange("push", push.thread_id, push.task_id), push);
    },
    async listPushes(task) {
      const { thread_id, task_id: run_id } = task;
      return await webhooks.listPushes((await authorize("threads:read", { thread_id, run_id })).scope, task);
    },
    async removePush(push) {
      await webhooks.removePush(await toChange("push", push.thread_id, push.task_id), push);
    },
    async tellCancelled(task) {
      await webhooks.tellCancelled(await toChange("push", task.thread_id, task.task_id), task);
    },
  };
}
