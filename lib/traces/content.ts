/** What a trace keeps of values and errors: references, copies without secrets, or nothing. */
import { omitSecrets } from "../executor/job-request.ts";
import type { RecordedValue } from "../executor/trace.ts";
import { copyStart, isObject, type Json, type JsonObject } from "../json.ts";
import type { SpanError, SpanValue, TraceContent } from "../storage/mod.ts";
import { MAX_TRACE_NAME_CHARS } from "../storage/traces.ts";
import { copyValue, measureJson } from "./copy-value.ts";
import type { Redact, RedactedSpan, TraceSettings } from "./options.ts";
import type { TraceCounters } from "./sinks.ts";
import { countBytes, cutText, isMessageList, replaceFiles, truncate } from "./truncation.ts";

/** The copied values of a run have at most so many times `max_bytes`. */
const MAX_VALUES_PER_RUN = 64;
/** Values up to this length stand in their span, longer ones beside it. */
const MAX_INLINE_CHARS = 200;
/** A row has at most so many characters, unless a single value is longer. */
const MAX_ROW_CHARS = 60 * 1_024;
const MAX_ERROR_CHARS = 500;
const MAX_PARAMS_BYTES = 1_024;
const MAX_ATTRIBUTES = 32;
const MAX_ATTRIBUTES_BYTES = 4_096;

/** A copied value as spans store it: with the hashes of its content, or of the messages in it. */
export type StoredValue =
  | SpanValue
  | { readonly hash: string; readonly bytes: number; readonly truncated: boolean }
  | {
      readonly hashes: readonly string[];
      /** The other members of the object whose `messages` these are. */
      readonly others?: JsonObject;
      readonly bytes: number;
      readonly truncated: boolean;
    };

/**
 * Returns the value of a span, with its content from the trace; null stands for content that is not stored. A reference and an
 * inline value are returned as they are.
 */
export function resolveValue(stored: StoredValue, contents: ReadonlyMap<string, Json>): SpanValue {
  if ("ref" in stored || "value" in stored) return stored;
  const { bytes, truncated } = stored;
  if ("hash" in stored) return { value: contents.get(stored.hash) ?? null, bytes, truncated };
  const messages = stored.hashes.map((hash) => contents.get(hash) ?? null);
  return { value: stored.others ? { ...stored.others, messages } : messages, bytes, truncated };
}

/** The prefix of the hash of a row that has several contents: an object of them by their hashes. */
const JOINED_PREFIX = "joined-";

/** Returns contents as one row. A database takes far longer for many rows than for their text. */
function joinContents(contents: readonly TraceContent[]): TraceContent {
  const [first] = contents;
  if (first && contents.length === 1) return first;
  const hash = JOINED_PREFIX + hashText(contents.map((content) => content.hash).join());
  return { hash, json: `{${contents.map((content) => `"${content.hash}":${content.json}`).join()}}` };
}

/** Returns the stored contents of a trace by their hashes. */
export const readContents = (rows: readonly TraceContent[]): ReadonlyMap<string, Json> =>
  new Map(
    rows.flatMap(({ hash, json }) => {
      const parsed = JSON.parse(json) as Json;
      return hash.startsWith(JOINED_PREFIX) ? Object.entries(parsed as JsonObject) : [[hash, parsed] as const];
    }),
  );

/** Returns 128 bits of a text as hexadecimal digits. They distinguish the values of one run, and prove nothing. */
export function hashText(text: string): string {
  let [a, b, c, d] = [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a];
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    a = b ^ Math.imul(a ^ unit, 0x239b961b);
    b = c ^ Math.imul(b ^ unit, 0xab0e9789);
    c = d ^ Math.imul(c ^ unit, 0x38b34ae5);
    d = a ^ Math.imul(d ^ unit, 0xa1e38b93);
  }
  a = Math.imul(c ^ (a >>> 18), 0x239b961b);
  b = Math.imul(d ^ (b >>> 22), 0xab0e9789);
  c = Math.imul(a ^ (c >>> 17), 0x38b34ae5);
  d = Math.imul(b ^ (d >>> 19), 0xa1e38b93);
  return [a ^ b ^ c ^ d, b ^ a, c ^ a, d ^ a].map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
}

type SpanHead = Pick<RedactedSpan, "kind" | "name">;

interface ContentOptions extends Pick<TraceSettings, "content" | "max_bytes"> {
  readonly redact: Redact | null;
  readonly counters: Pick<TraceCounters, "redact_failed">;
}

/** Keeps the values of the spans of an attempt, as the options permit. Its methods never throw. */
export class ContentKeeper {
  readonly #options: ContentOptions;
  /** The kept values of this attempt by their hashes. */
  readonly #kept = new Map<string, Json>();
  readonly #storedForms = new WeakMap<SpanValue, StoredValue>();
  #unsaved: TraceContent[] = [];
  /** The size of all copied values of the run. */
  #bytes = 0;

  constructor(options: ContentOptions) {
    this.#options = options;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds the size of the values that earlier attempts have stored. */
  addEarlierBytes(bytes: number): void {
    this.#bytes += bytes;
  }

  /**
   * Returns what is kept of an input or output: with the option `all` a redacted copy without secrets and files, else the
   * reference, if there is one. The reference also stands for a value that cannot be copied. Undefined for nothing, also if
   * `redact` omits the copy.
   */
  keepValue(recorded: RecordedValue, span: SpanHead, member: "input" | "output"): SpanValue | undefined {
    const { content } = this.#options;
    if (content === "none") return undefined;
    const [ref, create] = typeof recorded === "function" ? [undefined, recorded] : [recorded.ref, recorded.copy];
    const reference = ref && { ref };
    if (content !== "all" || !create) return reference;
    try {
      const copied = copyValue(create());
      if (!copied) return reference;
      const redacted = this.#redact(omitSecrets(copied.json), { ...span, member });
      return redacted === undefined ? undefined : this.#copy(replaceFiles(redacted), copied.isPartial);
    } catch {
      return reference;
    }
  }

  /** Returns the type of an error, and its redacted message, cut to 500 characters, if copies are kept. */
  keepError(error: unknown, span: SpanHead): SpanError {
    const { name, message } = readError(error);
    const type = copyStart(name, MAX_TRACE_NAME_CHARS);
    if (this.#options.content !== "all") return { type };
    const kept = this.#redact(message, { ...span, member: "error.message" });
    return typeof kept === "string" ? { type, message: copyStart(kept, MAX_ERROR_CHARS) } : { type };
  }

  /**
   * Returns the parameters of a model call without secrets, after `redact`, as far as they fit in 1 KiB; undefined for none. Unless
   * copies are kept, only those that can hold no text of a conversation.
   */
  keepParams(params: JsonObject | undefined, span: SpanHead): JsonObject | undefined {
    const permitted = this.#options.content === "all" ? params : params && omitTexts(params);
    return this.#keepMembers(permitted, { ...span, member: "params" }, Number.POSITIVE_INFINITY, MAX_PARAMS_BYTES);
  }

  /** Returns the first 32 attributes, after `redact`, as far as they fit in 4 KiB, if copies are kept; undefined for none. */
  keepAttributes(attributes: JsonObject | undefined, span: SpanHead): JsonObject | undefined {
    if (this.#options.content !== "all") return undefined;
    return this.#keepMembers(attributes, { ...span, member: "attributes" }, MAX_ATTRIBUTES, MAX_ATTRIBUTES_BYTES);
  }

  /**
   * Returns the first `count` members without secrets, after `redact`, whose JSON fits; undefined for none or if `redact` omits
   * them.
   */
  #keepMembers(
    members: JsonObject | undefined,
    span: RedactedSpan,
    count: number,
    max_bytes: number,
  ): JsonObject | undefined {
    const copied = members && copyValue(members)?.json;
    const kept = isObject(copied) ? this.#redact(omitSecrets(copied), span) : undefined;
    return isObject(kept) ? pickFitting(kept, count, max_bytes) : undefined;
  }

  /** Returns the form of a value in stored spans. */
  toStored(value: SpanValue): StoredValue {
    return this.#storedForms.get(value) ?? value;
  }

  /** Removes and returns the contents that no save has taken, for `readContents`. Many small ones share a row. */
  drain(): readonly TraceContent[] {
    const unsaved = this.#unsaved;
    this.#unsaved = [];
    const rows: TraceContent[] = [];
    let group: TraceContent[] = [];
    let chars = 0;
    for (const content of unsaved) {
      // Its hash stands beside it.
      const size = content.json.length + content.hash.length + 4;
      if (chars + size > MAX_ROW_CHARS && group.length > 0) {
        rows.push(joinContents(group));
        group = [];
        chars = 0;
      }
      group.push(content);
      chars += size;
    }
    if (group.length > 0) rows.push(joinContents(group));
    return rows;
  }

  /**
   * Calls `redact` and returns a copy of its result; the value itself without `redact`. Undefined if it omits the value, and,
   * counted as `redact_failed`, if it throws, is asynchronous or returns no JSON.
   */
  #redact(value: Json | undefined, span: RedactedSpan): Json | undefined {
    const { redact, counters } = this.#options;
    if (value === undefined || !redact) return value;
    try {
      const redacted: unknown = redact(value, span);
      if (isObject(redacted) && typeof redacted["then"] === "function") {
        Promise.resolve(redacted).catch(() => {});
        throw new TypeError("redact must not be asynchronous");
      }
      if (redacted === undefined) return undefined;
      const copied = copyValue(redacted);
      if (!copied) throw new TypeError("redact must return JSON");
      return copied.json;
    } catch {
      counters.redact_failed++;
      return undefined;
    }
  }

  /**
   * Returns a copy, truncated to `max_bytes`. A short one is inline; the content of a longer one is kept for the next save, each
   * message and each content once. Above the limit of the run the value is null and nothing is kept. `isPartial` marks it as
   * truncated.
   */
  #copy(full: Json, isPartial: boolean): SpanValue {
    const { max_bytes } = this.#options;
    const bytes = measureJson(full);
    const isLong = bytes > max_bytes;
    const truncated = isLong || isPartial;
    const value = isLong ? truncate(full, max_bytes) : full;
    const text = JSON.stringify(value);
    if (text.length <= MAX_INLINE_CHARS) {
      // The value may be the start of a long text, which it would keep in memory.
      const inline = JSON.parse(text) as Json;
      return this.#take(countBytes(text)) ? { value: inline, bytes, truncated } : createOmitted(bytes);
    }
    const { list, others } = splitMessages(value);
    const pieces = list ? list.map((message) => JSON.stringify(message)) : [text];
    const hashes = pieces.map(hashText);
    if (!this.#keepPieces(hashes, pieces)) return createOmitted(bytes);
    const size = { bytes, truncated };
    const form: StoredValue = list
      ? { hashes, ...(others ? { others } : {}), ...size }
      : { hash: hashes[0] as string, ...size };
    // Spans share the objects of equal messages.
    const kept = resolveValue(form, this.#kept);
    this.#storedForms.set(kept, form);
    return kept;
  }

  /** Keeps the pieces whose hashes are new, for the next save. Returns false and keeps none if the run has no room for them. */
  #keepPieces(hashes: readonly string[], pieces: readonly string[]): boolean {
    const fresh = new Map(hashes.map((hash, index) => [hash, pieces[index] as string] as const));
    for (const hash of fresh.keys()) if (this.#kept.has(hash)) fresh.delete(hash);
    if (!this.#take([...fresh.values()].reduce((sum, piece) => sum + countBytes(piece), 0))) return false;
    for (const [hash, json] of fresh) {
      this.#kept.set(hash, JSON.parse(json) as Json);
      this.#unsaved.push({ hash, json });
    }
    return true;
  }

  /** Takes room for bytes. Returns false if the run has none left. */
  #take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#options.max_bytes * MAX_VALUES_PER_RUN) return false;
    this.#bytes += bytes;
    return true;
  }
}

/**
 * Returns the list of messages that a value is or has as `messages`, then with the other members of that object. Empty for a
 * value without messages.
 */
function splitMessages(value: Json): { readonly list?: readonly JsonObject[]; readonly others?: JsonObject } {
  if (isMessageList(value)) return { list: value };
  if (!isObject(value) || !isMessageList(value["messages"])) return {};
  const { messages, ...others } = value;
  return { list: messages as JsonObject[], others };
}

const createOmitted = (bytes: number): SpanValue => ({ value: null, bytes, truncated: true });

/** Returns the name and the message of what was thrown, which can be anything. */
function readError(error: unknown): { readonly name: string; readonly message: string } {
  try {
    if (typeof error !== "object" || error === null || !("message" in error) || typeof error.message !== "string")
      return { name: "Error", message: String(error) };
    return { name: String((error as { readonly name?: unknown }).name || "Error"), message: error.message };
  } catch {
    return { name: "Error", message: "" };
  }
}

/** The values of `tool_choice` that name no tool. */
const TOOL_CHOICES: readonly Json[] = ["auto", "none", "any", "required"];
const MAX_SCALAR_CHARS = 100;

/** Returns the parameters that can hold no text of a conversation: numbers, flags, short words and the names of tools. */
function omitTexts({ stop: _, tool_choice, ...params }: JsonObject): JsonObject {
  const { tools } = params;
  const names = Array.isArray(tools) ? tools.filter((name) => typeof name === "string") : [];
  const isKnown = tool_choice !== undefined && [...TOOL_CHOICES, ...names].includes(tool_choice);
  const scalars = Object.entries(params).filter(
    ([name, value]) => name !== "tools" && (typeof value === "string" ? isShort(value) : typeof value !== "object"),
  );
  return {
    ...Object.fromEntries(scalars),
    ...(names.length > 0 ? { tools: names } : {}),
    ...(isKnown ? { tool_choice } : {}),
  };
}

const isShort = (text: string): boolean => text.length <= MAX_SCALAR_CHARS;

/**
 * Returns copies of the first members, at most `count`, that fit in `max_bytes` of JSON; undefined for none. A text is cut to
 * half of that. Members that are null or do not fit are left out.
 */
function pickFitting(members: JsonObject, count: number, max_bytes: number): JsonObject | undefined {
  const kept: [string, Json][] = [];
  let room = max_bytes;
  for (const [name, member] of Object.entries(members)) {
    if (kept.length >= count) break;
    if (member === null) continue;
    const value = typeof member === "string" ? copyStart(member, cutText(member, max_bytes / 2).length) : member;
    const bytes = measureJson([name, value], room);
    if (bytes > room) continue;
    room -= bytes;
    kept.push([name, value]);
  }
  return kept.length > 0 ? Object.fromEntries(kept) : undefined;
}
