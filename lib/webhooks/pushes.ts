/** Push configurations of A2A tasks: the URLs that get a notification when a task ends or is interrupted. */
import type { InternalResource } from "../auth/authorizer.ts";
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { NewPush, PushRow, PushStorage, RunStorage, Scope } from "../storage/mod.ts";
import { checkUrl, type WebhookPolicy } from "./policy.ts";

/** The maximum number of push configurations of a task. */
const MAX_PUSHES = 10;

/** The request of a client for a push configuration. */
export type PushRequest = Pick<NewPush, "task_id" | "config_id" | "url" | "terms">;

/** The push configurations of tasks. They use the policy, the signature and the retries of webhooks. */
export interface Pushes {
  /**
   * Stores a push configuration, or replaces the one with its id. Throws `not_found` (the task) or `invalid` (the URL, or the task has
   * 10).
   */
  setPush(push: Omit<PushRow, "push_id" | "host">): Promise<void>;
  /** Returns the push configurations of a task, oldest first. */
  listPushes(task: Pick<PushRow, "thread_id" | "task_id">): Promise<readonly PushRow[]>;
  /** Deletes a push configuration if it exists. Throws `not_found` (the task). */
  removePush(push: Pick<PushRow, "thread_id" | "task_id" | "config_id">): Promise<void>;
  /** Notifies the URLs of a task that it was cancelled while it was interrupted. */
  notifyCancelled(task: Pick<PushRow, "thread_id" | "task_id">): Promise<void>;
}

/**
 * Validates the URL and returns a push configuration with a new id and its host. Stores nothing. Throws `webhook_refused`, also
 * for a loopback path and with webhooks disabled.
 */
export function createPush(policy: WebhookPolicy, environment: Pick<Environment, "uuid">, push: PushRequest): NewPush {
  const verdict = checkUrl(policy, push.url);
  if (verdict.verdict !== "accept") throw refusedUrlError(verdict.verdict === "reject" ? verdict.reason : "disabled");
  const { destination } = verdict;
  if (destination.kind === "loopback") throw refusedUrlError("not_absolute");
  return { ...push, push_id: environment.uuid(), host: `${destination.host}:${destination.port}` };
}

export const refusedUrlError = (reason: string): ServiceError =>
  new ServiceError("webhook_refused", `Invalid webhook URL: ${reason}`);

interface PushOptions {
  readonly storage: PushStorage & Pick<RunStorage, "getRun">;
  readonly environment: Environment;
  readonly policy: WebhookPolicy;
}

/** Creates the internal operations of push configurations. */
export function createPushes({ storage, environment, policy }: PushOptions): InternalResource<Pushes> {
  /** Throws `not_found` if the first run of the task does not exist or the scope excludes it. */
  async function requireTask(scope: Scope, task_id: string): Promise<void> {
    if (!(await storage.getRun(scope, task_id))) throw new ServiceError("not_found", "Task not found");
  }

  return {
    /**
     * Stores a push configuration, or replaces the one with its id. Throws `webhook_refused` for its URL, `not_found` without
     * the task, `invalid` if the task has too many, and `conflict` if the newest run of the task was deleted.
     */
    async setPush(scope, { last_run, thread_id, ...push }) {
      const row: PushRow = { ...createPush(policy, environment, push), ...push, last_run, thread_id };
      if (await storage.setPush(scope, row, environment.now())) return;
      await requireTask(scope, row.task_id);
      const otherPushes = (await storage.listPushes(scope, row.task_id)).filter(
        (stored) => stored.config_id !== row.config_id,
      );
      if (otherPushes.length >= MAX_PUSHES) {
        throw new ServiceError("invalid", `The task has ${MAX_PUSHES} push configurations already: delete one first`);
      }
      throw new ServiceError("conflict", "The newest run of the task was deleted: read the task and try again");
    },
    listPushes: (scope, { task_id }) => storage.listPushes(scope, task_id),
    /**
     * Deletes a push configuration; has no effect if there is none with this id. Throws `not_found` if the task does not exist
     * or is not visible.
     */
    async removePush(scope, push) {
      await requireTask(scope, push.task_id);
      await storage.removePush(scope, push);
    },
    notifyCancelled: (scope, task) => storage.notifyCancelled(scope, task, environment.now()),
  };
}
