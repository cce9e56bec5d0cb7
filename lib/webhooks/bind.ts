/** Webhook deliveries as one caller may use them: those of the threads that the caller sees. */
import type { Binding, Directory } from "../auth/binding.ts";
import type { Webhooks } from "./deliver.ts";

export const bindWebhooks = (webhooks: Directory<Webhooks>, { authorize }: Binding): Webhooks => ({
  async list(query = {}) {
    const { value, scope } = await authorize("threads:search", query);
    return await webhooks.list(scope, value);
  },
  async get(run_id) {
    const { scope } = await authorize("threads:read", { thread_id: null, run_id });
    return await webhooks.get(scope, run_id);
  },
  async redeliver(run_id) {
    const change = { thread_id: null, action: "send", metadata: { run_ids: [run_id] } };
    const { scope } = await authorize("threads:update", change);
    await webhooks.redeliver(scope, run_id);
  },
  async setPush(push) {
    const { thread_id, task_id } = push;
    const change = { thread_id, action: "push", metadata: { run_ids: [task_id] } };
    await webhooks.setPush((await authorize("threads:update", change)).scope, push);
  },
  async listPushes(task) {
    const { thread_id, task_id: run_id } = task;
    return await webhooks.listPushes((await authorize("threads:read", { thread_id, run_id })).scope, task);
  },
  async removePush(push) {
    const { thread_id, task_id } = push;
    const change = { thread_id, action: "push", metadata: { run_ids: [task_id] } };
    await webhooks.removePush((await authorize("threads:update", change)).scope, push);
  },
  async tellCancelled(task) {
    const { thread_id, task_id } = task;
    const change = { thread_id, action: "push", metadata: { run_ids: [task_id] } };
    await webhooks.tellCancelled((await authorize("threads:update", change)).scope, task);
  },
});
