/** The methods for push configurations: the URLs to which updates of a task are sent. */
import type { A2aVersion } from "../../../a2a/json.ts";
import type { Json, JsonObject } from "../../../json.ts";
import type { ServiceInternals } from "../../../service.ts";
import type { PushRow } from "../../../storage/mod.ts";
import type { PushRequest } from "../../../webhooks/pushes.ts";
import { parseInput } from "../fields.ts";
import { A2aError, type A2aRequestContext, invalidParamsError, taskNotFoundError } from "./protocol.ts";
import { type A2aMethod, type PushConfig, pushConfig } from "./requests.ts";
import { requireTask } from "./task.ts";

export const arePushNotificationsEnabled = ({ options }: Pick<ServiceInternals, "options">): boolean =>
  !options.http?.disable_webhooks;

/** Throws an A2aError if webhooks are disabled. */
export function requirePushNotifications(service: Pick<ServiceInternals, "options">): void {
  if (!arePushNotificationsEnabled(service)) throw new A2aError("push", "Push Notification is not supported");
}

/** Converts a configuration to its stored form. `id` is used if the configuration has none. */
export function toPushRequest(config: PushConfig, version: A2aVersion, id: string): PushRequest {
  const { url, token, scheme, credentials } = config;
  return {
    config_id: config.id ?? id,
    url,
    terms: {
      version,
      ...(token === undefined ? {} : { token }),
      ...(scheme === undefined ? {} : { scheme }),
      ...(credentials === undefined ? {} : { credentials }),
    },
  };
}

/**
 * Returns a configuration in the format of the version. Omits the token and the credentials, because every caller who
 * can read the task can read this.
 */
function toPushConfigJson(
  { config_id: id, task_id: taskId, url, terms: { scheme } }: PushRow,
  version: A2aVersion,
): JsonObject {
  if (version === "1.0") return { taskId, id, url, ...(scheme === undefined ? {} : { authentication: { scheme } }) };
  const authentication: JsonObject = scheme === undefined ? {} : { authentication: { schemes: [scheme] } };
  return { taskId, pushNotificationConfig: { id, url, ...authentication } };
}

type PushMethod = Extract<A2aMethod, `${string}TaskPushNotificationConfig${string}`>;

/**
 * Handles the methods for push configurations: creates or replaces, reads or deletes one, or lists all. Returns JSON in
 * the format of the version, null for a deletion. Throws an A2aError if push is disabled, or the task or configuration
 * does not exist, and `webhook_refused`.
 */
export async function handlePushMethod({
  context,
  request,
  assistant_id,
}: A2aRequestContext<PushMethod>): Promise<Json> {
  requirePushNotifications(context.service);
  const { resources } = context;
  const { version } = request;
  const { task } = request.params;
  const protocolRequest = await requireTask(resources, task, assistant_id);
  const { run_id: task_id, thread_id } = protocolRequest.firstRun;
  const listConfigs = async (): Promise<readonly PushRow[]> =>
    await resources.webhooks.listPushes({ thread_id, task_id });

  switch (request.method) {
    case "CreateTaskPushNotificationConfig": {
      const config = parseInput(pushConfig, request.params.configInput, invalidParamsError, "pushNotificationConfig");
      const push = toPushRequest(config, version, version === "1.0" ? context.service.environment.uuid() : task_id);
      // Repeats if the task got a newer run meanwhile.
      for (let { newestRun } = protocolRequest, last = ""; newestRun.run_id !== last; ) {
        last = newestRun.run_id;
        await resources.webhooks.setPush({ ...push, task_id, thread_id, last_run: last });
        ({ newestRun } = await requireTask(resources, task, assistant_id));
      }
      return await requireConfig(push.config_id);
    }
    case "GetTaskPushNotificationConfig":
      return await requireConfig(request.params.config);
    case "ListTaskPushNotificationConfigs": {
      const configs = (await listConfigs()).map((push) => toPushConfigJson(push, version));
      return version === "1.0" ? { configs, nextPageToken: "" } : configs;
    }
    case "DeleteTaskPushNotificationConfig": {
      const { config: config_id } = request.params;
      if (config_id === "") throw new A2aError("params", "The id of the configuration is required");
      await resources.webhooks.removePush({ thread_id, task_id, config_id });
      return null;
    }
  }

  /**
   * Returns a stored configuration of the task as JSON; for an empty id the first one. Throws an A2aError if there is
   * none.
   */
  async function requireConfig(id: string): Promise<JsonObject> {
    const push = (await listConfigs()).find(({ config_id }) => id === "" || config_id === id);
    if (push) return toPushConfigJson(push, version);
    throw taskNotFoundError(`${task_id}, push configuration ${id}`);
  }
}
