/** The schema of AG-UI's requests: `RunAgentInput` without the members that the server ignores. */
import * as v from "valibot";
import { InputError } from "../../../errors.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { anyJson, anyObject, type FieldSchema, name, withDescription } from "../../parse.ts";
import { anyList, type InputSchema, lenient, parseInput, withDefault } from "../fields.ts";
import { toFileBlock } from "../states.ts";

export interface AguiUserMessage {
  readonly id: string;
  readonly content: Json;
}

/** The result of a tool that the page has run. */
export interface AguiToolResult {
  readonly id: string;
  readonly tool_call_id: string;
  readonly content: Json;
}

/** A response to an interrupt. */
export interface AguiResumeEntry {
  readonly id: string;
  readonly cancelled: boolean;
  readonly payload: Json;
}

export interface AguiRequest {
  readonly threadId: string;
  readonly runId: string;
  readonly parentRunId: string | undefined;
  readonly protocolVersion: string | undefined;
  /** The ids of all messages that the client has. */
  readonly ids: readonly string[];
  readonly users: readonly AguiUserMessage[];
  readonly results: readonly AguiToolResult[];
  /** The last message, if the user wrote it. */
  readonly last: AguiUserMessage | null;
  readonly resume: readonly AguiResumeEntry[] | null;
  /** A resume value for all pending interrupts, as older clients send it. */
  readonly resume_all: Json | undefined;
  readonly state: JsonObject;
  readonly tools: readonly JsonObject[];
  readonly context: readonly Json[];
  readonly configurable: JsonObject | undefined;
  /** Null without one; not validated. */
  readonly assistant_version: Json;
  readonly props: JsonObject;
}

const string = v.string("must be a text");
const text = v.pipe(string, v.nonEmpty("must not be empty"));

const FILE_TYPES: ReadonlyMap<string, string> = new Map([
  ["image", "image/*"],
  ["audio", "audio/*"],
  ["video", "video/*"],
  ["document", "application/octet-stream"],
]);

/** A part of a user's message, converted to a content block. */
const part = v.pipe(
  v.variant(
    "type",
    [
      v.object({ type: v.literal("text"), text: string }),
      v.object({
        type: v.pipe(
          v.string(),
          v.check((type) => type !== "text"),
        ),
        source: v.object({
          type: v.picklist(["data", "url"], "must be data or url"),
          value: string,
          mimeType: lenient(text),
        }),
      }),
    ],
    "must be text, or a file with a source",
  ),
  v.rawTransform(({ dataset: { value }, addIssue, NEVER }): JsonObject => {
    if (!("source" in value)) return { type: "text", text: value.text };
    const { type, value: content, mimeType = FILE_TYPES.get(value.type) } = value.source;
    const url = type === "data" ? `data:${mimeType};base64,${content}` : content;
    const block = mimeType === undefined ? null : toFileBlock(mimeType, url);
    if (block) return block;
    addIssue({ message: "must be a file with a mimeType, and data in Base64 or a URL with https as its source" });
    return NEVER;
  }),
);

const PARTS_TEXT = "must be a text or a list of parts";

/** A message that the client has. Only the id is used of messages that are not of the user or a tool. */
const message = v.variant(
  "role",
  [
    v.object({
      role: v.literal("user"),
      id: text,
      content: v.optional(v.union([v.string(), v.array(part)], PARTS_TEXT) as InputSchema<Json>, ""),
    }),
    v.object({ role: v.literal("tool"), id: text, toolCallId: string, content: withDefault(anyJson, "") }),
    v.object({
      role: v.optional(
        v.pipe(
          anyJson,
          v.check((role) => role !== "user" && role !== "tool"),
          v.transform(() => "other" as const),
        ),
      ),
      id: lenient(string),
    }),
  ],
  "must be an object",
);

const resumeEntry = v.pipe(
  v.object({
    interruptId: string,
    status: v.picklist(["resolved", "cancelled"], "must be resolved or cancelled"),
    payload: withDefault(anyJson, null),
  }),
  v.transform(
    ({ interruptId: id, status, payload }): AguiResumeEntry => ({ id, cancelled: status === "cancelled", payload }),
  ),
);

/**
 * Returns `configurable` of a config, or the config itself if it has none, because older clients send the members
 * without the object around them. Returns undefined for a config that is no object.
 */
function readConfigurable(config: Json): JsonObject | undefined {
  if (!isObject(config)) return undefined;
  return isObject(config.configurable) ? config.configurable : config;
}

const forwardedProps = v.pipe(
  anyObject,
  v.transform(({ config = null, command = null, assistant_version = null, ...props }) => ({
    resume_all: isObject(command) ? command.resume : undefined,
    configurable: readConfigurable(config),
    assistant_version,
    props,
  })),
);

const body = v.object({
  messages: withDescription(
    v.array(message, "must be a list"),
    "What the thread does not know of them is used: messages of the user, and results of tools that the page has run",
  ),
  forwardedProps: withDescription(
    v.nullish(forwardedProps),
    "`config.configurable` and `assistant_version` go to the run, `command.resume` answers all open interrupts",
  ),
  threadId: withDescription(name, "A UUID, or any text"),
  runId: withDescription(name, "A repeated request with the same id gets the same run"),
  parentRunId: lenient(string),
  protocolVersion: lenient(string),
  resume: withDescription(v.nullish(v.array(resumeEntry, "must be a list")), "The answers to all open interrupts"),
  state: withDescription(lenient(anyObject), "Members that the graph takes, and that are not as the thread has them"),
  tools: withDescription(v.nullish(anyList), "Tools of the page"),
  context: withDescription(v.nullish(anyList), "What the page tells the agent"),
});

export const runAgentInput: FieldSchema<AguiRequest> = v.pipe(
  body,
  v.transform(({ messages, forwardedProps: forwardedMembers, resume = null, state = {}, tools, context, ...ids }) => {
    const users = messages.flatMap((userMessage) =>
      userMessage.role === "user" ? [{ id: userMessage.id, content: userMessage.content }] : [],
    );
    return {
      ...{ threadId: ids.threadId, runId: ids.runId },
      ...{ parentRunId: ids.parentRunId, protocolVersion: ids.protocolVersion },
      ids: messages.flatMap(({ id }) => (id === undefined ? [] : [id])),
      users,
      results: messages.flatMap((toolMessage) =>
        toolMessage.role === "tool"
          ? [{ id: toolMessage.id, tool_call_id: toolMessage.toolCallId, content: toolMessage.content }]
          : [],
      ),
      last: messages.at(-1)?.role === "user" ? (users.at(-1) ?? null) : null,
      ...{ resume, state, tools: (tools ?? []).filter(isObject), context: context ?? [] },
      ...(forwardedMembers ?? { resume_all: undefined, configurable: undefined, assistant_version: null, props: {} }),
    };
  }),
);

/** Throws `invalid`. */
export const parseAguiRequest = (input: unknown): AguiRequest =>
  parseInput(runAgentInput, input, (finding) => new InputError([finding]));
