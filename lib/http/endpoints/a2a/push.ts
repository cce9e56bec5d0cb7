/** Push configurations: the methods by which clients say where they want to be told how a task goes on. */
import type { A2aVersion } from "../../../a2a/wire.ts";
import type { Json, JsonObject } from "../../../json.ts";
import type { ServiceInternals } from "../../../service.ts";
import type { PushRow } from "../../../storage/mod.ts";
import type { PushRequest } from "../../../webhooks/pushes.ts";
import { readAs } from "../fields.ts";
import { type Called, noTask, RpcError, wrongParams } from "./protocol.ts";
import { type A2aMethod, type PushConfig, pushConfig } from "./requests.ts";
import { callOf } from "./task.ts";

/** Whether this server tells clients anything. */
export const canPush = ({ options }: Pick<ServiceInternals, "options">): boolean => !options.http?.disable_webhooks;

/** Errors: one where webhooks are disabled. */
export function requirePush(service: Pick<ServiceInternals, "options">): void {
  if (!canPush(service)) throw new RpcError("push", "Push Notification is not supported");
}

/** What is stored of a configuration. `id`: of one that has none. */
export function pushOf(config: PushConfig, version: A2aVersion, id: string): PushRequest {
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

/** Without the token and the credentials, because everybody who can read the task can read this. */
function shown({ config_id: id, task_id: taskId, url, terms: { scheme } }: PushRow, version: A2aVersion): JsonObject {
  if (version === "1.0") return { taskId, id, url, ...(scheme === undefined ? {} : { authentication: { scheme } }) };
  const about: JsonObject = scheme === undefined ? {} : { authentication: { schemes: [scheme] } };
  return { taskId, pushNotificationConfig: { id, url, ...about } };
}

type PushMethod = Extract<A2aMethod, `${string}TaskPushNotificationConfig${string}`>;

/** The methods of push configurations. */
export async function pushMethod({ context, request, assistant_id }: Called<PushMethod>): Promise<Json> {
  requirePush(context.service);
  const { nouns } = context;
  const { version } = request;
  const { task } = request.params;
  const call = await callOf(nouns, task, assistant_id);
  const { run_id: task_id, thread_id } = call.first;
  const all = async (): Promise<readonly PushRow[]> => await nouns.webhooks.listPushes({ thread_id, task_id });

  switch (request.method) {
    case "CreateTaskPushNotificationConfig": {
      const config = readAs(pushConfig, request.params.given, wrongParams, "pushNotificationConfig");
      const push = pushOf(config, version, version === "1.0" ? context.service.environment.uuid() : task_id);
      // The task may have gone on meanwhile.
      for (let { newest } = call, last = ""; newest.run_id !== last; ) {
        last = newest.run_id;
        await nouns.webhooks.setPush({ ...push, task_id, thread_id, last_run: last });
        ({ newest } = await callOf(nouns, task, assistant_id));
      }
      return await found(push.config_id);
    }
    case "GetTaskPushNotificationConfig":
      return await found(request.params.config);
    case "ListTaskPushNotificationConfigs": {
      const configs = (await all()).map((push) => shown(push, version));
      return version === "1.0" ? { configs, nextPageToken: "" } : configs;
    }
    case "DeleteTaskPushNotificationConfig": {
      const { config: config_id } = request.params;
      if (config_id === "") throw new RpcError("params", "The id of the configuration is required");
      await nouns.webhooks.removePush({ thread_id, task_id, config_id });
      return null;
    }
  }

  async function found(id: string): Promise<JsonObject> {
    const push = (await all()).find(({ config_id }) => id === "" || config_id === id);
    if (push) return shown(push, version);
    throw noTask(`${task_id}, push configuration ${id}`);
  }
}
