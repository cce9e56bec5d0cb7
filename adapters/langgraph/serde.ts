/**
 * The stored form of values. The text is JSON. A value that JSON does not have is an object with the key `$lg`; a
 * user's object with this key is wrapped in one. Reading creates only messages and a fixed list of built-in types.
 */
import type { Payload } from "../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import {
  convertMessage,
  fromBase64,
  isChunk,
  isMessage,
  type JsonForm,
  type LangChainMessage,
  readInstanceFields,
  toBase64,
  toJson,
} from "./json.ts";

const TAG = "$lg";

const createTagged = (kind: string, v: Json): JsonObject => ({ [TAG]: kind, v });

const storedForm: JsonForm = {
  /** Returns the tagged form of values that JSON has no literal for. Throws a TypeError for functions and symbols. */
  primitive(value) {
    if (value === undefined) return createTagged("undefined", null);
    if (typeof value === "bigint") return createTagged("bigint", String(value));
    if (typeof value === "number") return createTagged("number", String(value));
    throw new TypeError(`it contains a ${typeof value}`);
  },
  cycle() {
    throw new TypeError("it contains an object that contains itself");
  },
  /**
   * Returns the tagged form of a message, a date, bytes, a map, a set, a regular expression or an error. Other class instances
   * become plain objects and lose their class.
   */
  instance(value, inner) {
    const tag = (kind: string, content: unknown): JsonObject => createTagged(kind, inner(content) ?? null);
    if (isMessage(value)) return createTagged(isChunk(value) ? "chunk" : "message", convertMessage(value, inner));
    if (value instanceof Date) return tag("date", value.getTime());
    if (value instanceof Uint8Array) return tag("bytes", toBase64(value));
    if (value instanceof Map) return tag("map", [...value]);
    if (value instanceof Set) return tag("set", [...value]);
    if (value instanceof RegExp) return tag("regexp", [value.source, value.flags]);
    if (value instanceof Error) return tag("error", [value.name, value.message]);
    return inner(readInstanceFields(value));
  },
  plain: (value) => (Object.hasOwn(value, TAG) ? createTagged("object", value) : value),
};

/** The user's `@langchain/core/messages`. */
export type MessageClasses = Readonly<Record<string, unknown>>;

const MESSAGE_CLASSES: ReadonlyMap<unknown, string> = new Map([
  ["human", "HumanMessage"],
  ["ai", "AIMessage"],
  ["system", "SystemMessage"],
  ["tool", "ToolMessage"],
  ["function", "FunctionMessage"],
  ["generic", "ChatMessage"],
  ["remove", "RemoveMessage"],
]);

/**
 * Stores and reads values. Equal values have equal text, and a list's text starts with the text of each list that it
 * extends.
 */
export class Serde {
  readonly #classes: MessageClasses | null;

  /** Creates a serializer. Without message classes, it reads messages as plain objects. */
  constructor(classes: MessageClasses | null) {
    this.#classes = classes;
  }

  /**
   * Returns the stored form: bytes as they are, all else as tagged JSON text. Throws a TypeError for functions, symbols and
   * cycles, in which `label` names the value.
   */
  write(value: unknown, label: string): Payload {
    if (value instanceof Uint8Array) return { type: "bytes", data: value };
    try {
      return { type: "json", data: JSON.stringify(toJson(value, storedForm)) };
    } catch (error) {
      if (error instanceof TypeError)
        throw new TypeError(`${label} cannot be stored: ${error.message}`, { cause: error });
      throw error;
    }
  }

  /**
   * Returns the stored value. Type `bytes` gives bytes (text as UTF-8); every other type is parsed as JSON, with
   * messages, dates and others as instances again. Throws for an unknown tag and a SyntaxError for invalid JSON.
   */
  read(payload: Payload): unknown {
    if (payload.type === "bytes") {
      return typeof payload.data === "string" ? new TextEncoder().encode(payload.data) : payload.data;
    }
    const text = typeof payload.data === "string" ? payload.data : new TextDecoder().decode(payload.data);
    const json = JSON.parse(text) as Json;
    return text.includes(`"${TAG}"`) ? this.#revive(json) : json;
  }

  /** Converts parsed JSON to the stored value. Changes `json` in place and may return it. Throws for an unknown tag. */
  #revive(json: Json): unknown {
    if (typeof json !== "object" || json === null) return json;
    if (Array.isArray(json)) {
      const items: unknown[] = json;
      for (let i = 0; i < items.length; i++) items[i] = this.#revive(json[i] as Json);
      return items;
    }
    if (!Object.hasOwn(json, TAG)) return this.#reviveFields(json);
    const { [TAG]: kind, v = null } = json;
    switch (kind) {
      case "object":
        return this.#reviveFields(v as JsonObject);
      case "message":
      case "chunk":
        return this.#reviveMessage(v as JsonObject, kind === "chunk");
      case "undefined":
        return undefined;
      case "bigint":
        return BigInt(v as string);
      case "number":
        return Number(v);
      case "date":
        return new Date(this.#revive(v) as number);
      case "bytes":
        return fromBase64(v as string);
      case "map":
        return new Map(this.#revive(v) as [unknown, unknown][]);
      case "set":
        return new Set(this.#revive(v) as unknown[]);
      case "regexp":
        return new RegExp(...(v as [string, string]));
      case "error":
        return createError(...(v as [string, string]));
      default:
        throw new Error(`A stored value has the unknown kind ${JSON.stringify(kind)}`);
    }
  }

  /** Revives the members in place and returns the same object. */
  #reviveFields(json: JsonObject): Record<string, unknown> {
    const fields: Record<string, unknown> = json;
    for (const key of Object.keys(json)) {
      const value = json[key];
      if (typeof value === "object" && value !== null) fields[key] = this.#revive(value);
    }
    return fields;
  }

  /** Returns the message; its plain fields if its class is unknown. */
  #reviveMessage(json: JsonObject, isChunk: boolean): unknown {
    const fields = this.#reviveFields(json);
    const { type, ...members } = fields;
    return this.#createMessage(type, members, isChunk) ?? fields;
  }

  /**
   * Creates a message with all stored fields. Returns null for an unknown type or a class that is not loaded. The message may
   * share values with `fields`.
   */
  #createMessage(type: unknown, fields: Readonly<Record<string, unknown>>, isChunk: boolean): LangChainMessage | null {
    const name = MESSAGE_CLASSES.get(type);
    const Class = name === undefined ? undefined : this.#classes?.[isChunk ? `${name}Chunk` : name];
    if (typeof Class !== "function") return null;
    const message = Reflect.construct(Class, [{ ...fields }]) as Record<string, unknown>;
    // Constructors derive some fields from others: the stored values have precedence.
    for (const key in fields)
      if (message[key] !== fields[key] && Object.hasOwn(message, key)) message[key] = fields[key];
    return message;
  }
}

function createError(name: string, message: string): Error {
  const revived = new Error(message);
  revived.name = name;
  return revived;
}
