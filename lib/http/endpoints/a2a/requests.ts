/** The messages of A2A's clients: a schema for each, whose output the handlers take. */
import * as v from "valibot";
import type { Part, TaskState } from "../../../a2a/wire.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { parseRfc3339 } from "../../../rfc3339.ts";
import { UUID } from "../../../storage/identity.ts";
import { anyJson, anyObject } from "../../parse.ts";
import { anyList, lenient, type Reads, withDefault } from "../fields.ts";
import { blockOfFile } from "../states.ts";

export type RpcId = string | number;

const rpcId = v.union([v.string(), v.pipe(v.number(), v.finite())]);

/** What is known of a message that may be malformed. */
export const rpcHead: Reads<{ readonly id: RpcId | null; readonly method: string }> = v.object({
  id: v.fallback(v.nullable(rpcId), null),
  method: v.fallback(v.string(), ""),
});

/** A request of JSON-RPC. */
export const rpcCall: Reads<{ readonly id: RpcId; readonly method: string; readonly params: Json }> = v.object({
  jsonrpc: v.literal("2.0"),
  id: rpcId,
  method: v.string(),
  params: withDefault(anyJson, {}),
});

const string = v.string("must be a text");
const text = v.pipe(string, v.nonEmpty("must not be empty"));

/** A value as text, also where it is none. */
const asText = (sent: unknown): string => (v.is(v.string(), sent) ? sent : JSON.stringify(sent));

/** The id of a task, which need not be one. Null: absent. */
const taskId: Reads<string | null> = v.pipe(
  withDefault<unknown>(v.unknown(), null),
  v.transform((id) => (id === null || id === "" ? null : asText(id))),
);

/** The answers of a data part to several questions, by the ids of these. */
export const sentAnswers: Reads<readonly { readonly id: string; readonly value: Json }[]> = v.pipe(
  v.array(v.object({ id: v.pipe(v.union([v.string(), v.number()]), v.transform(String)), value: anyJson })),
  v.nonEmpty(),
);

/** Which messages are shown with a task. */
export interface HistoryOptions {
  readonly historyLength?: number | null | undefined;
  readonly historyScope?: "context" | "task" | null | undefined;
}

export const SCOPES = ["context", "task"] as const;
export const WRONG_SCOPE = "historyScope must be context or task";
const WRONG_LENGTH = "historyLength must be a whole number from 0";
/** The most messages of a history, and as many as are shown by default. */
export const MOST_MESSAGES = 10;

const history = {
  historyscope: v.optional(v.never("Unknown history option 'historyscope'; use 'historyScope'")),
  historyLength: v.nullish(
    v.pipe(
      v.number(WRONG_LENGTH),
      v.integer(WRONG_LENGTH),
      v.minValue(0, WRONG_LENGTH),
      v.maxValue(MOST_MESSAGES, `historyLength cannot exceed ${MOST_MESSAGES}`),
    ),
  ),
  historyScope: v.nullish(v.picklist(SCOPES, WRONG_SCOPE)),
};

/** Where a client wants to be told how a task goes on. */
export interface PushConfig {
  readonly id: string | undefined;
  readonly url: string;
  readonly token: string | undefined;
  readonly scheme: string | undefined;
  readonly credentials: string | undefined;
}

const LONGEST = 4096;
const HEADER = /^[\x20-\x7e]*$/;
const SCHEME = /^[\w!#$%&'*+.^`|~-]*$/;

/** A text for a header. Empty counts as absent. */
function headerText(fits: RegExp): Reads<string | undefined> {
  const msg = `must be a text of at most ${LONGEST} characters that a header can have`;
  return v.pipe(
    v.nullish(v.string(msg), ""),
    v.maxLength(LONGEST, msg),
    v.regex(fits, msg),
    v.transform((sent) => sent || undefined),
  );
}

const authentication = v.object(
  {
    scheme: headerText(SCHEME),
    // 0.3 lists them; the first one is used.
    schemes: v.pipe(
      lenient(anyList),
      v.transform((list): unknown => list?.[0]),
      headerText(SCHEME),
    ),
    credentials: headerText(HEADER),
  },
  "must be an object",
);

export const pushConfig: Reads<PushConfig> = v.pipe(
  v.object({ id: headerText(HEADER), url: text, token: headerText(HEADER), authentication: v.nullish(authentication) }),
  v.transform(({ authentication: given, ...config }) => ({
    ...config,
    scheme: given?.schemes ?? given?.scheme,
    credentials: given?.credentials,
  })),
);

/** A part of a message in the form of 1.0, and what the agent gets of it: a block, or data. */
interface ReadPart {
  readonly part: Part;
  readonly block?: JsonObject;
  readonly data?: JsonObject;
}

export const UNKNOWN_PART = "must have text, data, raw or url";
const MEMBERS = ["data", "text", "raw", "url"] as const;

/** A file of 0.3 as a part of 1.0. */
function modernFile({ bytes = null, uri = "", mimeType, name }: JsonObject): Part {
  const about = { ...(mimeType ? { mediaType: mimeType } : {}), ...(name ? { filename: name } : {}) };
  return bytes === null ? { url: uri, ...about } : { raw: bytes, ...about };
}

const file = { mediaType: lenient(text), filename: lenient(text), part: anyObject };

const sentPart: Reads<ReadPart> = v.pipe(
  anyObject,
  v.rawTransform(({ dataset: { value }, addIssue, NEVER }): unknown => {
    const part = value.kind === "file" && isObject(value.file) ? modernFile(value.file) : value;
    const type = MEMBERS.find((name) => part[name] !== undefined && part[name] !== null);
    if (type !== undefined && (part.kind === undefined || part.kind === type)) return { ...part, type, part };
    addIssue({ message: UNKNOWN_PART });
    return NEVER;
  }),
  v.variant("type", [
    v.object({ type: v.literal("data"), data: anyObject, part: anyObject }),
    v.object({ type: v.literal("text"), text: string, part: anyObject }),
    v.object({ type: v.literal("raw"), raw: text, ...file }),
    v.object({
      type: v.literal("url"),
      url: v.pipe(string, v.regex(/^https?:\/\//i, "must be a URL of http or https")),
      ...file,
    }),
  ]),
  v.transform((read): ReadPart => {
    const { part } = read;
    if (read.type === "data") return { part, data: read.data };
    if (read.type === "text") return { part, block: { type: "text", text: read.text } };
    const { mediaType = "application/octet-stream", filename } = read;
    const source: JsonObject =
      read.type === "raw" ? { source_type: "base64", data: read.raw } : { source_type: "url", url: read.url };
    return { part, block: blockOfFile(mediaType, source, filename) };
  }),
);

/** A message of a client. */
export interface SentMessage {
  readonly messageId: string;
  readonly contextId: string | null;
  readonly taskId: string | null;
  readonly parts: readonly Part[];
  readonly text: string;
  /** Texts and files as LangChain's blocks. */
  readonly blocks: readonly JsonObject[];
  /** The members of all data parts. */
  readonly data: JsonObject;
  readonly metadata: JsonObject;
}

const MESSAGE_ID = "must be a text, 1 to 255 characters";
const PARTS = "must be a list of at least one part";

const message: Reads<SentMessage> = v.pipe(
  v.object(
    {
      messageId: v.pipe(v.string(MESSAGE_ID), v.nonEmpty(MESSAGE_ID), v.maxLength(255, MESSAGE_ID)),
      role: v.picklist(["ROLE_USER", "user"], "must be ROLE_USER (in 0.3: user)"),
      contextId: v.pipe(
        v.nullish(string, ""),
        v.check((id) => id === "" || UUID.test(id), "Failed to create run: Invalid thread ID"),
      ),
      taskId,
      parts: v.pipe(v.array(sentPart, PARTS), v.nonEmpty(PARTS)),
      metadata: lenient(anyObject),
    },
    "must be an object",
  ),
  v.transform(({ messageId, contextId, taskId: task, parts, metadata = {} }) => {
    const blocks = parts.flatMap(({ block }) => (block ? [block] : []));
    const texts = blocks.flatMap(({ type, text: said }) => (type === "text" ? [said as string] : []));
    return {
      ...{ messageId, contextId: contextId.toLowerCase() || null, taskId: task?.toLowerCase() ?? null },
      ...{ parts: parts.map(({ part }) => part), text: texts.join("\n"), blocks },
      data: Object.fromEntries(parts.flatMap(({ data = {} }) => Object.entries(data))),
      metadata,
    };
  }),
);

/** What a client wants of the answer to its message. */
export interface SendConfiguration extends HistoryOptions {
  readonly taskPushNotificationConfig?: PushConfig | null | undefined;
  readonly pushNotificationConfig?: PushConfig | null | undefined;
  readonly returnImmediately?: boolean | undefined;
  readonly blocking?: boolean | undefined;
}

interface SendParams {
  readonly message: SentMessage;
  readonly configuration: SendConfiguration;
}

const send: Reads<SendParams> = v.pipe(
  v.object({
    message,
    metadata: lenient(anyObject),
    configuration: v.nullish(
      v.object(
        {
          ...history,
          taskPushNotificationConfig: v.nullish(pushConfig),
          pushNotificationConfig: v.nullish(pushConfig),
          returnImmediately: lenient(v.boolean()),
          blocking: lenient(v.boolean()),
        },
        "must be an object",
      ),
    ),
  }),
  v.transform(({ message: sent, metadata, configuration }) => ({
    message: { ...sent, metadata: { ...metadata, ...sent.metadata } },
    configuration: configuration ?? {},
  })),
);

interface TaskParams {
  readonly id: string | null;
}

/** Which tasks a client lists. */
export interface ListParams extends HistoryOptions {
  /** Null: of all states. */
  readonly status: TaskState | null;
  readonly pageSize: number;
  readonly contextId: string | null;
  readonly statusTimestampAfter: number;
  readonly pageToken: string;
  readonly includeArtifacts?: boolean | undefined;
}

const STATES: readonly TaskState[] = [
  ...(["SUBMITTED", "WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "REJECTED"] as const),
  "AUTH_REQUIRED",
];
const NO_STATE = ["", "TASK_STATE_UNSPECIFIED"];
const WRONG_STATE = "must be a state such as TASK_STATE_WORKING";
const stateOf = (name: string): TaskState | null => STATES.find((state) => name === `TASK_STATE_${state}`) ?? null;

const PAGE = 50;
const MOST_TASKS = 100;
const PAGE_SIZE = `must be a whole number, 1 to ${MOST_TASKS}`;
const TIME = "must be a time of RFC 3339";

const listed: Reads<ListParams> = v.object({
  status: v.pipe(
    v.nullish(v.string(WRONG_STATE), ""),
    v.check((name) => NO_STATE.includes(name) || stateOf(name) !== null, WRONG_STATE),
    v.transform(stateOf),
  ),
  pageSize: v.pipe(
    v.nullish(v.number(PAGE_SIZE), PAGE),
    v.integer(PAGE_SIZE),
    v.minValue(0, PAGE_SIZE),
    v.maxValue(MOST_TASKS, PAGE_SIZE),
    v.transform((size) => size || PAGE),
  ),
  statusTimestampAfter: v.pipe(
    v.nullish(v.string(TIME), ""),
    v.transform((time) => (time === "" ? Number.NEGATIVE_INFINITY : parseRfc3339(time))),
    v.number(TIME),
  ),
  contextId: v.pipe(
    v.nullish(string, ""),
    v.transform((id) => id || null),
  ),
  ...history,
  includeArtifacts: lenient(v.boolean()),
  pageToken: v.nullish(string, ""),
});

/** The task of a push configuration, and the id of the configuration; empty where it is not named. */
export interface PushParams {
  readonly task: string | null;
  readonly config: string;
}

/** A new configuration. `given` is read once the task is known. */
export interface CreatePushParams {
  readonly task: string | null;
  readonly given: Json;
}

/** The parameters of each method, by its name since 1.0. */
export interface RpcParams {
  readonly SendMessage: SendParams;
  readonly SendStreamingMessage: SendParams;
  readonly GetTask: TaskParams & HistoryOptions;
  readonly ListTasks: ListParams;
  readonly CancelTask: TaskParams;
  readonly SubscribeToTask: TaskParams;
  readonly GetExtendedAgentCard: object;
  readonly CreateTaskPushNotificationConfig: CreatePushParams;
  readonly GetTaskPushNotificationConfig: PushParams;
  readonly ListTaskPushNotificationConfigs: PushParams;
  readonly DeleteTaskPushNotificationConfig: PushParams;
}

export type A2aMethod = keyof RpcParams;

const configId = v.nullish(v.string("The id of the configuration must be a text"), "");

const push: Reads<PushParams> = v.pipe(
  v.object({ taskId, id: configId }),
  v.transform(({ taskId: task, id: config }) => ({ task, config })),
);
const legacyPush: Reads<PushParams> = v.pipe(
  v.object({ id: taskId, pushNotificationConfigId: configId }),
  v.transform(({ id: task, pushNotificationConfigId: config }) => ({ task, config })),
);
/** In 1.0 the parameters are the configuration. */
const createPush: Reads<CreatePushParams> = v.pipe(
  anyObject,
  v.transform((given) => ({ task: v.parse(ofTask, given).taskId, given })),
);
const ofTask = v.object({ taskId });
const createLegacyPush: Reads<CreatePushParams> = v.pipe(
  v.object({ taskId, pushNotificationConfig: withDefault(anyJson, null) }),
  v.transform(({ taskId: task, pushNotificationConfig: given }) => ({ task, given })),
);

const task: Reads<TaskParams> = v.object({ id: taskId });

type Params = { readonly [Method in A2aMethod]: Reads<RpcParams[Method]> };

const modern: Params = {
  SendMessage: send,
  SendStreamingMessage: send,
  GetTask: v.object({ id: taskId, ...history }),
  ListTasks: listed,
  CancelTask: task,
  SubscribeToTask: task,
  GetExtendedAgentCard: v.object({}),
  CreateTaskPushNotificationConfig: createPush,
  GetTaskPushNotificationConfig: push,
  ListTaskPushNotificationConfigs: push,
  DeleteTaskPushNotificationConfig: push,
};

/** The schemas of the parameters in each version. */
export const rpcParams: Readonly<Record<"1.0" | "0.3", Params>> = {
  "1.0": modern,
  "0.3": {
    ...modern,
    CreateTaskPushNotificationConfig: createLegacyPush,
    GetTaskPushNotificationConfig: legacyPush,
    ListTaskPushNotificationConfigs: legacyPush,
    DeleteTaskPushNotificationConfig: legacyPush,
  },
};
