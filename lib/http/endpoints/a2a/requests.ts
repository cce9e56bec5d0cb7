/** The schemas of A2A's requests. The handlers receive their output. */
import * as v from "valibot";
import type { A2aPart, A2aTaskState } from "../../../a2a/json.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { parseRfc3339 } from "../../../rfc3339.ts";
import { UUID } from "../../../storage/identity.ts";
import { anyJson, anyObject } from "../../parse.ts";
import { anyList, type InputSchema, lenient, withDefault } from "../fields.ts";
import { createFileBlock } from "../states.ts";

export type A2aRequestId = string | number;

const rpcId = v.union([v.string(), v.pipe(v.number(), v.finite())]);

/** The header of a message that can be malformed. */
export const requestHeader: InputSchema<{ readonly id: A2aRequestId | null; readonly method: string }> = v.object({
  id: v.fallback(v.nullable(rpcId), null),
  method: v.fallback(v.string(), ""),
});

/** A request of JSON-RPC. */
export const rpcRequest: InputSchema<{ readonly id: A2aRequestId; readonly method: string; readonly params: Json }> =
  v.object({
    jsonrpc: v.literal("2.0"),
    id: rpcId,
    method: v.string(),
    params: withDefault(anyJson, {}),
  });

const string = v.string("must be a text");
const text = v.pipe(string, v.nonEmpty("must not be empty"));

const toText = (input: unknown): string => (v.is(v.string(), input) ? input : JSON.stringify(input));

/** The id of a task. Null if it is absent. Other values are converted to text and match no task. */
const taskId: InputSchema<string | null> = v.pipe(
  withDefault<unknown>(v.unknown(), null),
  v.transform((id) => (id === null || id === "" ? null : toText(id))),
);

/** The resume values in a data part, by interrupt id. */
export const resumeEntries: InputSchema<readonly { readonly id: string; readonly value: Json }[]> = v.pipe(
  v.array(v.object({ id: v.pipe(v.union([v.string(), v.number()]), v.transform(String)), value: anyJson })),
  v.nonEmpty(),
);

/** The options that select the messages of a task. */
export interface HistoryOptions {
  readonly historyLength?: number | null | undefined;
  readonly historyScope?: "context" | "task" | null | undefined;
}

export const SCOPES = ["context", "task"] as const;
export const SCOPE_TEXT = "historyScope must be context or task";
const LENGTH_TEXT = "historyLength must be a whole number from 0";
/** The maximum and the default number of messages in a history. */
export const MAX_HISTORY_MESSAGES = 10;

const history = {
  historyscope: v.optional(v.never("Unknown history option 'historyscope'; use 'historyScope'")),
  historyLength: v.nullish(
    v.pipe(
      v.number(LENGTH_TEXT),
      v.integer(LENGTH_TEXT),
      v.minValue(0, LENGTH_TEXT),
      v.maxValue(MAX_HISTORY_MESSAGES, `historyLength cannot exceed ${MAX_HISTORY_MESSAGES}`),
    ),
  ),
  historyScope: v.nullish(v.picklist(SCOPES, SCOPE_TEXT)),
};

/** A push configuration of a client. */
export interface PushConfig {
  readonly id: string | undefined;
  readonly url: string;
  readonly token: string | undefined;
  readonly scheme: string | undefined;
  readonly credentials: string | undefined;
}

const MAX_HEADER_CHARS = 4096;
const HEADER_PATTERN = /^[\x20-\x7e]*$/;
const SCHEME_PATTERN = /^[\w!#$%&'*+.^`|~-]*$/;

/** Creates a schema for the value of a header. Null, undefined and an empty text become undefined. */
function headerText(pattern: RegExp): InputSchema<string | undefined> {
  const msg = `must be a text of at most ${MAX_HEADER_CHARS} characters that a header can have`;
  return v.pipe(
    v.nullish(v.string(msg), ""),
    v.maxLength(MAX_HEADER_CHARS, msg),
    v.regex(pattern, msg),
    v.transform((input) => input || undefined),
  );
}

const authentication = v.object(
  {
    scheme: headerText(SCHEME_PATTERN),
    // 0.3 lists them; the first one is used.
    schemes: v.pipe(
      lenient(anyList),
      v.transform((list): unknown => list?.[0]),
      headerText(SCHEME_PATTERN),
    ),
    credentials: headerText(HEADER_PATTERN),
  },
  "must be an object",
);

export const pushConfig: InputSchema<PushConfig> = v.pipe(
  v.object({
    id: headerText(HEADER_PATTERN),
    url: text,
    token: headerText(HEADER_PATTERN),
    authentication: v.nullish(authentication),
  }),
  v.transform(({ authentication: authInput, ...config }) => ({
    ...config,
    scheme: authInput?.schemes ?? authInput?.scheme,
    credentials: authInput?.credentials,
  })),
);

/** A part in the form of 1.0, with the content block or the data that the agent receives. */
interface ParsedPart {
  readonly part: A2aPart;
  readonly block?: JsonObject;
  readonly data?: JsonObject;
}

export const UNKNOWN_PART_TEXT = "must have text, data, raw or url";
const CONTENT_MEMBERS = ["data", "text", "raw", "url"] as const;

/**
 * Converts a file of 0.3 to a part of 1.0: its bytes if it has them, else its URI, which is empty if it has neither.
 */
function toModernFile({ bytes = null, uri = "", mimeType, name }: JsonObject): A2aPart {
  const fileMembers = { ...(mimeType ? { mediaType: mimeType } : {}), ...(name ? { filename: name } : {}) };
  return bytes === null ? { url: uri, ...fileMembers } : { raw: bytes, ...fileMembers };
}

const file = { mediaType: lenient(text), filename: lenient(text), part: anyObject };

const messagePart: InputSchema<ParsedPart> = v.pipe(
  anyObject,
  v.rawTransform(({ dataset: { value }, addIssue, NEVER }): unknown => {
    const part = value.kind === "file" && isObject(value.file) ? toModernFile(value.file) : value;
    const type = CONTENT_MEMBERS.find((name) => part[name] !== undefined && part[name] !== null);
    if (type !== undefined && (part.kind === undefined || part.kind === type)) return { ...part, type, part };
    addIssue({ message: UNKNOWN_PART_TEXT });
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
  v.transform((parsed): ParsedPart => {
    const { part } = parsed;
    if (parsed.type === "data") return { part, data: parsed.data };
    if (parsed.type === "text") return { part, block: { type: "text", text: parsed.text } };
    const { mediaType = "application/octet-stream", filename } = parsed;
    const source: JsonObject =
      parsed.type === "raw" ? { source_type: "base64", data: parsed.raw } : { source_type: "url", url: parsed.url };
    return { part, block: createFileBlock(mediaType, source, filename) };
  }),
);

/** A message of a client. */
export interface A2aUserMessage {
  readonly messageId: string;
  readonly contextId: string | null;
  readonly taskId: string | null;
  readonly parts: readonly A2aPart[];
  readonly text: string;
  /** The texts and files as content blocks of LangChain. */
  readonly blocks: readonly JsonObject[];
  /** The members of all data parts. */
  readonly data: JsonObject;
  readonly metadata: JsonObject;
}

const MESSAGE_ID_TEXT = "must be a text, 1 to 255 characters";
const PARTS_TEXT = "must be a list of at least one part";

const message: InputSchema<A2aUserMessage> = v.pipe(
  v.object(
    {
      messageId: v.pipe(v.string(MESSAGE_ID_TEXT), v.nonEmpty(MESSAGE_ID_TEXT), v.maxLength(255, MESSAGE_ID_TEXT)),
      role: v.picklist(["ROLE_USER", "user"], "must be ROLE_USER (in 0.3: user)"),
      contextId: v.pipe(
        v.nullish(string, ""),
        v.check((id) => id === "" || UUID.test(id), "Failed to create run: Invalid thread ID"),
      ),
      taskId,
      parts: v.pipe(v.array(messagePart, PARTS_TEXT), v.nonEmpty(PARTS_TEXT)),
      metadata: lenient(anyObject),
    },
    "must be an object",
  ),
  v.transform(({ messageId, contextId, taskId: task, parts, metadata = {} }) => {
    const blocks = parts.flatMap(({ block }) => (block ? [block] : []));
    const texts = blocks.flatMap(({ type, text: blockText }) => (type === "text" ? [blockText as string] : []));
    return {
      ...{ messageId, contextId: contextId.toLowerCase() || null, taskId: task?.toLowerCase() ?? null },
      ...{ parts: parts.map(({ part }) => part), text: texts.join("\n"), blocks },
      data: Object.fromEntries(parts.flatMap(({ data = {} }) => Object.entries(data))),
      metadata,
    };
  }),
);

/** The options of a client for the response to its message. */
export interface SendConfiguration extends HistoryOptions {
  readonly taskPushNotificationConfig?: PushConfig | null | undefined;
  readonly pushNotificationConfig?: PushConfig | null | undefined;
  readonly returnImmediately?: boolean | undefined;
  readonly blocking?: boolean | undefined;
}

interface SendParams {
  readonly message: A2aUserMessage;
  readonly configuration: SendConfiguration;
}

const sendParams: InputSchema<SendParams> = v.pipe(
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
  v.transform(({ message: userMessage, metadata, configuration }) => ({
    message: { ...userMessage, metadata: { ...metadata, ...userMessage.metadata } },
    configuration: configuration ?? {},
  })),
);

interface TaskParams {
  readonly id: string | null;
}

/** The filters and options of a list of tasks. */
export interface ListParams extends HistoryOptions {
  /** Null selects all states. */
  readonly status: A2aTaskState | null;
  readonly pageSize: number;
  readonly contextId: string | null;
  readonly statusTimestampAfter: number;
  readonly pageToken: string;
  readonly includeArtifacts?: boolean | undefined;
}

const TASK_STATES: readonly A2aTaskState[] = [
  ...(["SUBMITTED", "WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "REJECTED"] as const),
  "AUTH_REQUIRED",
];
const UNSPECIFIED_STATES = ["", "TASK_STATE_UNSPECIFIED"];
const STATE_TEXT = "must be a state such as TASK_STATE_WORKING";
const findTaskState = (name: string): A2aTaskState | null =>
  TASK_STATES.find((state) => name === `TASK_STATE_${state}`) ?? null;

const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 100;
const PAGE_SIZE_TEXT = `must be a whole number, 1 to ${MAX_PAGE_SIZE}`;
const TIME_TEXT = "must be a time of RFC 3339";

const listParams: InputSchema<ListParams> = v.object({
  status: v.pipe(
    v.nullish(v.string(STATE_TEXT), ""),
    v.check((name) => UNSPECIFIED_STATES.includes(name) || findTaskState(name) !== null, STATE_TEXT),
    v.transform(findTaskState),
  ),
  pageSize: v.pipe(
    v.nullish(v.number(PAGE_SIZE_TEXT), DEFAULT_PAGE_SIZE),
    v.integer(PAGE_SIZE_TEXT),
    v.minValue(0, PAGE_SIZE_TEXT),
    v.maxValue(MAX_PAGE_SIZE, PAGE_SIZE_TEXT),
    v.transform((size) => size || DEFAULT_PAGE_SIZE),
  ),
  statusTimestampAfter: v.pipe(
    v.nullish(v.string(TIME_TEXT), ""),
    v.transform((time) => (time === "" ? Number.NEGATIVE_INFINITY : parseRfc3339(time))),
    v.number(TIME_TEXT),
  ),
  contextId: v.pipe(
    v.nullish(string, ""),
    v.transform((id) => id || null),
  ),
  ...history,
  includeArtifacts: lenient(v.boolean()),
  pageToken: v.nullish(string, ""),
});

/** The task of a push configuration, and the id of the configuration; empty if it is not given. */
export interface PushParams {
  readonly task: string | null;
  readonly config: string;
}

/** A new configuration. `configInput` is parsed once the task is known. */
export interface CreatePushParams {
  readonly task: string | null;
  readonly configInput: Json;
}

/** The parameters of each method, by its name since 1.0. */
export interface A2aParams {
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

export type A2aMethod = keyof A2aParams;

const configId = v.nullish(v.string("The id of the configuration must be a text"), "");

const pushParams: InputSchema<PushParams> = v.pipe(
  v.object({ taskId, id: configId }),
  v.transform(({ taskId: task, id: config }) => ({ task, config })),
);
const legacyPushParams: InputSchema<PushParams> = v.pipe(
  v.object({ id: taskId, pushNotificationConfigId: configId }),
  v.transform(({ id: task, pushNotificationConfigId: config }) => ({ task, config })),
);
/** The parameters of 1.0 are the configuration itself. */
const createPushParams: InputSchema<CreatePushParams> = v.pipe(
  anyObject,
  v.transform((configInput) => ({ task: v.parse(pushTaskParams, configInput).taskId, configInput })),
);
const pushTaskParams = v.object({ taskId });
const createLegacyPushParams: InputSchema<CreatePushParams> = v.pipe(
  v.object({ taskId, pushNotificationConfig: withDefault(anyJson, null) }),
  v.transform(({ taskId: task, pushNotificationConfig: configInput }) => ({ task, configInput })),
);

const taskParams: InputSchema<TaskParams> = v.object({ id: taskId });

type Params = { readonly [Method in A2aMethod]: InputSchema<A2aParams[Method]> };

const modernParams: Params = {
  SendMessage: sendParams,
  SendStreamingMessage: sendParams,
  GetTask: v.object({ id: taskId, ...history }),
  ListTasks: listParams,
  CancelTask: taskParams,
  SubscribeToTask: taskParams,
  GetExtendedAgentCard: v.object({}),
  CreateTaskPushNotificationConfig: createPushParams,
  GetTaskPushNotificationConfig: pushParams,
  ListTaskPushNotificationConfigs: pushParams,
  DeleteTaskPushNotificationConfig: pushParams,
};

/** The schemas of the parameters in each version. */
export const a2aParams: Readonly<Record<"1.0" | "0.3", Params>> = {
  "1.0": modernParams,
  "0.3": {
    ...modernParams,
    CreateTaskPushNotificationConfig: createLegacyPushParams,
    GetTaskPushNotificationConfig: legacyPushParams,
    ListTaskPushNotificationConfigs: legacyPushParams,
    DeleteTaskPushNotificationConfig: legacyPushParams,
  },
};
