/** Converts values of graphs to the JSON that clients get: flat messages, never class instances. */
import type { WireCheckpoint } from "../../lib/executor/contract.ts";
import { omitSecrets } from "../../lib/executor/job-request.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import {
  type ConvertInner,
  convertMessage,
  isChunk,
  isMessage,
  type JsonForm,
  type LangChainMessage,
  readInstanceFields,
  toBase64,
  toJson,
} from "./json.ts";

/**
 * Returns a class instance as clients see it: messages and errors as objects, dates as ISO texts (null if invalid), bytes as
 * base64, maps as objects, sets as lists. Others show their `toJSON` or fields.
 */
function convertInstance(value: object, inner: ConvertInner): Json | undefined {
  if (isMessage(value)) return convertMessage(value, inner);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof Map) return inner(Object.fromEntries(value));
  if (value instanceof Set) return inner([...value]);
  if (value instanceof Uint8Array) return toBase64(value);
  if (value instanceof RegExp) return String(value);
  if (value instanceof Error) return { name: value.name, message: value.message };
  return inner(readInstanceFields(value));
}

const strictForm: JsonForm = {
  /**
   * Returns bigints as text and null for numbers that JSON lacks; undefined members are omitted. Throws a TypeError for functions
   * and symbols.
   */
  primitive(value) {
    if (typeof value === "bigint") return String(value);
    if (typeof value === "number") return null;
    if (value === undefined) return undefined;
    throw new TypeError(`The graph's data contains a ${typeof value}, which cannot be shown as JSON`);
  },
  cycle() {
    throw new TypeError("The graph's data contains an object that contains itself, which cannot be shown as JSON");
  },
  instance: convertInstance,
  plain: (value) => value,
};

const SECRET = /^(?:langgraph_auth_|__pregel_|__greenroom_)/;
const isSecret = (key: string): boolean => SECRET.test(key);

/**
 * The form for data that LangGraph adds. It contains configuration, and with it handlers, functions and secrets that
 * clients must not see.
 */
const lenientForm: JsonForm = {
  /** Returns bigints as text and null for numbers that JSON lacks. Omits undefined, functions and symbols. */
  primitive(value) {
    if (typeof value === "bigint") return String(value);
    return typeof value === "number" ? null : undefined;
  },
  cycle: () => undefined,
  instance: convertInstance,
  /**
   * Returns the object without members that look secret, and a LangGraph config without secrets of the caller. The same object if
   * it has none.
   */
  plain(value) {
    const visible = Object.keys(value).some(isSecret)
      ? Object.fromEntries(Object.entries(value).filter(([key]) => !isSecret(key)))
      : value;
    return "configurable" in visible ? redactConfig(visible) : visible;
  },
};

/** Omits the credentials of a LangGraph config, for the modes `checkpoints`, `debug` and `events`. */
function redactConfig({ callbacks: _, configurable, ...otherMembers }: JsonObject): JsonObject {
  return { ...otherMembers, configurable: omitSecrets(serializeMetadata(configurable)) };
}

/**
 * Returns data of the graph's author in wire form; null for undefined. Throws a TypeError for functions, symbols and
 * cycles. `convertMessageValue` replaces the conversion of messages.
 */
export function serializeValue(
  value: unknown,
  convertMessageValue?: (message: LangChainMessage, inner: ConvertInner) => Json,
): Json {
  const convert: JsonForm["instance"] = (item, inner) =>
    convertMessageValue && isMessage(item) ? convertMessageValue(item, inner) : convertInstance(item, inner);
  return toJson(value, convertMessageValue ? { ...strictForm, instance: convert } : strictForm) ?? null;
}

/** Serializes data about the run. Omits secrets, and values that JSON does not have. */
export function serializeMetadata(value: unknown): Json {
  return toJson(value, lenientForm) ?? null;
}

export const toErrorMessage = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** Serializes a message or chunk of mode `messages`; `type` distinguishes them. Called for each token. */
export function serializeMessage(message: LangChainMessage): JsonObject {
  const flat = convertMessage(message, serializeField);
  if (isChunk(message)) flat.type = (message.constructor as unknown as { lc_name(): string }).lc_name();
  return flat;
}

const serializeField: ConvertInner = (value) => (typeof value === "string" ? value : toJson(value, strictForm));

/** A LangGraph config, reduced to what this adapter uses. */
export interface GraphConfig {
  readonly configurable?: Readonly<Record<string, unknown>>;
}

/** Returns the checkpoint of a LangGraph config; null if it has no thread or no checkpoint id. */
export function toWireCheckpoint(config: GraphConfig | undefined): WireCheckpoint | null {
  const { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map } = config?.configurable ?? {};
  if (typeof thread_id !== "string" || typeof checkpoint_id !== "string") return null;
  const map = serializeMetadata(checkpoint_map);
  return {
    thread_id,
    checkpoint_ns: String(checkpoint_ns ?? ""),
    checkpoint_id,
    checkpoint_map: isObject(map) ? map : null,
  };
}

/**
 * Returns the namespace of a subgraph, as a task has it before its checkpoint is known (`checkpoint_id` null); null if the task
 * has no subgraph.
 */
export function toTaskCheckpoint(state: unknown): Json {
  const { configurable } = (state ?? {}) as GraphConfig;
  if (!configurable) return null;
  const { thread_id, checkpoint_ns, checkpoint_id, checkpoint_map } = configurable;
  return serializeMetadata({
    thread_id,
    checkpoint_ns,
    checkpoint_id: checkpoint_id ?? null,
    checkpoint_map: checkpoint_map ?? null,
  });
}

interface CheckpointChunk {
  readonly config?: GraphConfig & { readonly callbacks?: unknown };
  readonly parentConfig?: GraphConfig & { readonly callbacks?: unknown };
  readonly tasks?: readonly { readonly state?: unknown }[];
}

/** Returns a checkpoint of the stream in wire form, without callbacks. The state of a task is replaced by its checkpoint. */
export function serializeCheckpointChunk(chunk: CheckpointChunk): Json {
  const { config, parentConfig, tasks = [], ...otherMembers } = chunk;
  return serializeMetadata({
    config: omitCallbacks(config),
    ...otherMembers,
    tasks: tasks.map(({ state, ...task }) =>
      state === undefined ? task : { ...task, checkpoint: toTaskCheckpoint(state) },
    ),
    parent_config: omitCallbacks(parentConfig),
    checkpoint: toWireCheckpoint(config),
    parent_checkpoint: toWireCheckpoint(parentConfig),
  });
}

/** Returns a copy of the config without `callbacks`; null without a config. */
function omitCallbacks(config: CheckpointChunk["config"]): unknown {
  if (!config) return null;
  const { callbacks: _callbacks, ...otherMembers } = config;
  return otherMembers;
}
