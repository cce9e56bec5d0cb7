/** Push configurations: the methods by which clients say where they want to be told how a task goes on. */
import type { A2aVersion } from "../../../a2a/wire.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { ServiceInternals } from "../../../service.ts";
import type { PushRow } from "../../../storage/mod.ts";
import type { PushRequest } from "../../../webhooks/pushes.ts";
import { isText } from "../messages.ts";
import { type Called, noTask, RpcError, type RpcRequest } from "./protocol.ts";
import { callOf } from "./task.ts";

/** Whether this server tells clients anything. */
export const canPush = ({ options }: Pick<ServiceInternals, "options">): boolean => !options.http?.disable_webhooks;

/** Errors: one where webhooks are disabled. */
export function requirePush(service: Pick<ServiceInternals, "options">): void {
  if (!canPush(service)) throw new RpcError("push", "Push Notification is not supported");
}

const LONGEST = 4096;
const HEADER = /^[\x20-\x7e]+$/;
const SCHEME = /^[\w!#$%&'*+.^`|~-]+$/;

/** A member that is a text, or absent. Errors: any other value. */
function textIn(members: JsonObject, name: string, fits: RegExp): string | undefined {
  const value = members[name] ?? "";
  if (value === "") return;
  if (typeof value === "string" && value.length <= LONGEST && fits.test(value)) return value;
  throw new RpcError("params", `${name}: must be a text of at most ${LONGEST} characters that a header can have`);
}

/** The URL and the credentials of a configuration. 0.3 lists schemes; the first one is used. */
export function readPush(config: Json, version: A2aVersion, id: string): PushRequest {
  if (!isObject(config)) throw new RpcError("params", "The push configuration must be an object");
  const { url, authentication = null } = config;
  if (!isText(url)) throw new RpcError("params", "url: is required");
  const given = authentication ?? {};
  if (!isObject(given)) throw new RpcError("params", "authentication: must be an object");
  const [first] = Array.isArray(given.schemes) ? given.schemes : [];
  const scheme = textIn(first === undefined ? given : { scheme: first }, "scheme", SCHEME);
  const credentials = textIn(given, "credentials", HEADER);
  const token = textIn(config, "token", HEADER);
  return {
    config_id: textIn(config, "id", HEADER) ?? id,
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

/** The id of the task, and of the configuration; empty where it is not named. */
function idsOf({ method, params, version }: RpcRequest): { readonly task: Json; readonly config: string } {
  const isSet = method === "CreateTaskPushNotificationConfig";
  const legacy = version === "0.3";
  const task = params[legacy && !isSet ? "id" : "taskId"] ?? null;
  const config = params[legacy ? "pushNotificationConfigId" : "id"] ?? "";
  if (typeof config !== "string") throw new RpcError("params", "The id of the configuration must be a text");
  return { task, config };
}

/** The methods of push configurations. */
export async function pushMethod({ context, request, assistant_id }: Called): Promise<Json> {
  requirePush(context.service);
  const { nouns } = context;
  const { version, params } = request;
  const { task, config } = idsOf(request);
  const call = await callOf(nouns, task, assistant_id);
  const { run_id: task_id, thread_id } = call.first;
  const all = async (): Promise<readonly PushRow[]> => await nouns.webhooks.listPushes({ thread_id, task_id });

  switch (request.method) {
    case "CreateTaskPushNotificationConfig": {
      const given = version === "1.0" ? params : (params.pushNotificationConfig ?? null);
      const push = readPush(given, version, version === "1.0" ? context.service.environment.uuid() : task_id);
      // The task may have gone on meanwhile.
      for (let { newest } = call, last = ""; newest.run_id !== last; ) {
        last = newest.run_id;
        await nouns.webhooks.setPush({ ...push, task_id, thread_id, last_run: last });
        ({ newest } = await callOf(nouns, task, assistant_id));
      }
      return await found(push.config_id);
    }
    case "GetTaskPushNotificationConfig":
      return await found(config);
    case "ListTaskPushNotificationConfigs": {
      const configs = (await all()).map((push) => shown(push, version));
      return version === "1.0" ? { configs, nextPageToken: "" } : configs;
    }
    default:
      if (config === "") throw new RpcError("params", "The id of the configuration is required");
      await nouns.webhooks.removePush({ thread_id, task_id, config_id: config });
      return null;
  }

  async function found(id: string): Promise<JsonObject> {
    const push = (await all()).find(({ config_id }) => id === "" || config_id === id);
    if (push) return shown(push, version);
    throw noTask(`${task_id}, push configuration ${id}`);
  }
}
