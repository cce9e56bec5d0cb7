/** Wire to values: bodies, queries, ids and headers of the deployment routes, checked once. Every refusal names its field. */
import * as v from "valibot";
import type { AssistantCreate, AssistantFilter, AssistantPatch, AssistantSearch } from "../assistants.ts";
import { ServiceError } from "../errors.ts";
import type { StreamMode } from "../executor.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { RunCreate } from "../runs.ts";
import type { AssistantSort, RunStatus, ThreadSort, ThreadStatus } from "../storage.ts";
import type { CheckpointSelector, HistoryQuery, ThreadCreate, ThreadFilter, ThreadSearch } from "../threads.ts";

/** Bodies above this many bytes are refused. */
export const MAX_BODY_BYTES: number = 10 * 1024 * 1024;
/** Bodies whose arrays and objects nest deeper are refused. */
export const MAX_DEPTH = 64;

/** A schema of named fields, each of which may be absent or null. */
export type Fields<Output> = v.GenericSchema<unknown, Output> & {
  readonly entries: Readonly<Record<string, v.GenericSchema>>;
};

// ------------------------------------------------------------------- pieces

/** Text for plain columns: what every database stores and finds again. */
const isPlain = (text: string): boolean => !text.includes("\0") && text.isWellFormed();
const PLAIN = "must not contain U+0000 or lone surrogates";
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

const text = v.pipe(v.string("must be a string"), v.check(isPlain, PLAIN));
const name = v.pipe(v.string("must be a string"), v.nonEmpty("must not be empty"), v.check(isPlain, PLAIN));
const uuid = v.pipe(v.string("must be a UUID"), v.regex(UUID, "must be a UUID"), v.toLowerCase());
/** A UUID, or the id of a graph for its default assistant. */
const assistantId = v.pipe(
  name,
  v.transform((id) => (UUID.test(id) ? id.toLowerCase() : id)),
);
const flag = v.boolean("must be true or false");
const integer = (min: number, max: number): v.GenericSchema<number> => {
  const range = max === Number.MAX_SAFE_INTEGER ? `must be at least ${min}` : `must be between ${min} and ${max}`;
  return v.pipe(
    v.number("must be an integer"),
    v.integer("must be an integer"),
    v.minValue(min, range),
    v.maxValue(max, range),
  );
};
const oneOf = <const Options extends readonly string[]>(options: Options): v.GenericSchema<Options[number]> =>
  v.picklist(options, `must be one of ${options.join(", ")}`);
const listOf = <Item>(item: v.GenericSchema<Item>): v.GenericSchema<Item[]> => v.array(item, "must be a list");
const page = {
  limit: v.optional(integer(1, 1000), 10),
  offset: v.optional(integer(0, Number.MAX_SAFE_INTEGER), 0),
};
const order = v.optional(oneOf(["asc", "desc"]));

/**
 * An object the user owns: checked against `entries` but handed on as it was sent, so keys such as `__proto__` survive.
 * An entry that is null counts as absent.
 */
function owned<Output extends object = JsonObject>(
  entries: Readonly<Record<string, v.GenericSchema>> = {},
): v.GenericSchema<Output> {
  const shape = v.object(entries, "must be an object");
  const kept: v.GenericSchema<JsonObject> = {
    ...(shape as unknown as v.GenericSchema<JsonObject>),
    "~run"(dataset, config) {
      const sent = isObject(dataset.value) ? withoutNulls(dataset.value, entries) : undefined;
      const checked = shape["~run"]({ value: sent }, config);
      return (checked.issues ? checked : { typed: true, value: sent }) as ReturnType<(typeof kept)["~run"]>;
    },
  };
  return kept as unknown as v.GenericSchema<Output>;
}

function withoutNulls(sent: JsonObject, entries: Readonly<Record<string, unknown>>): JsonObject {
  if (!Object.keys(entries).some((key) => sent[key] === null)) return sent;
  return Object.fromEntries(
    Object.entries(sent).filter(([key, value]) => value !== null || !Object.hasOwn(entries, key)),
  );
}

const json = v.unknown() as v.GenericSchema<Json>;
const anyObject = owned();
const config = owned({
  tags: v.optional(listOf(v.string("must be a string"))),
  recursion_limit: v.optional(integer(1, Number.MAX_SAFE_INTEGER)),
  configurable: v.optional(anyObject),
});
const checkpoint: v.GenericSchema<CheckpointSelector> = owned({
  checkpoint_id: v.optional(name),
  checkpoint_ns: v.optional(text),
  checkpoint_map: v.optional(anyObject),
});
const ifExists = v.optional(oneOf(["raise", "do_nothing"]));

const MODES: readonly StreamMode[] = [
  "values",
  "messages",
  "messages-tuple",
  "updates",
  "events",
  "tasks",
  "checkpoints",
  "debug",
  "custom",
  "tools",
];
const mode: v.GenericSchema<StreamMode> = oneOf(MODES);
const send = owned({ node: name });
const STEP = "must be a node name, a Send or a list of these";
const step = v.union([name, send], STEP);
const breakpoints = v.optional(
  v.union([v.literal("*"), listOf(name)], 'must be "*" or a list of node names') as v.GenericSchema<"*" | string[]>,
);

const ASSISTANT_FIELDS = [
  "assistant_id",
  "graph_id",
  "name",
  "description",
  "config",
  "context",
  "created_at",
  "updated_at",
  "metadata",
  "version",
] as const;
const THREAD_FIELDS = [
  "thread_id",
  "created_at",
  "updated_at",
  "state_updated_at",
  "metadata",
  "config",
  "context",
  "status",
  "values",
  "interrupts",
] as const;
const RUN_FIELDS = [
  "run_id",
  "thread_id",
  "assistant_id",
  "created_at",
  "updated_at",
  "status",
  "metadata",
  "kwargs",
  "multitask_strategy",
  "langsmith_session_name",
  "cancel_reason",
] as const;
const STATE_FIELDS = /^(values|next|tasks|metadata|created_at|checkpoint|parent_checkpoint|interrupts)$|^values\../;
const stateSelect = v.optional(
  v.array(
    v.pipe(v.string("must be a string"), v.regex(STATE_FIELDS, "must be a field of a state or values.<key>")),
    "must be a list",
  ),
);

// ------------------------------------------------------------------- bodies

/** POST /assistants */
export const assistantCreate: Fields<AssistantCreate> = v.object({
  graph_id: name,
  assistant_id: v.optional(uuid),
  config: v.optional(config),
  context: v.optional(anyObject),
  metadata: v.optional(anyObject),
  name: v.optional(text),
  description: v.optional(text),
  if_exists: ifExists,
});

/** PATCH /assistants/{assistant_id} */
export const assistantPatch: Fields<AssistantPatch> = v.object({
  graph_id: v.optional(name),
  config: v.optional(config),
  context: v.optional(anyObject),
  metadata: v.optional(anyObject),
  name: v.optional(text),
  description: v.optional(text),
});

const assistantFilter = {
  metadata: v.optional(anyObject),
  graph_id: v.optional(text),
  name: v.optional(text),
};

/** POST /assistants/count */
export const assistantCount: Fields<AssistantFilter> = v.object(assistantFilter);

/** POST /assistants/search */
export const assistantSearch: Fields<AssistantSearch & { readonly select?: readonly string[] }> = v.object({
  ...assistantFilter,
  ...page,
  sort_by: v.optional(
    oneOf(["assistant_id", "created_at", "updated_at", "name", "graph_id"] satisfies AssistantSort[]),
  ) as v.GenericSchema<AssistantSort | undefined>,
  sort_order: order,
  select: v.optional(listOf(oneOf(ASSISTANT_FIELDS))),
});

/** POST /assistants/{assistant_id}/versions */
export const versionSearch: Fields<{
  readonly metadata?: JsonObject;
  readonly limit?: number;
  readonly offset?: number;
}> = v.object({ metadata: v.optional(anyObject), ...page });

/** POST /assistants/{assistant_id}/latest, as body or as query */
export const latest: Fields<{ readonly version?: number }> = v.object({
  version: v.optional(integer(1, Number.MAX_SAFE_INTEGER)),
});

/** POST /threads. `supersteps` and `ttl` are known, and refused as not built. */
export const threadCreate: Fields<ThreadCreate & { readonly supersteps?: Json; readonly ttl?: Json }> = v.object({
  thread_id: v.optional(uuid),
  metadata: v.optional(anyObject),
  if_exists: ifExists,
  supersteps: v.optional(json),
  ttl: v.optional(json),
});

/** PATCH /threads/{thread_id} */
export const threadPatch: Fields<{ readonly metadata?: JsonObject; readonly ttl?: Json }> = v.object({
  metadata: v.optional(anyObject),
  ttl: v.optional(json),
});

const threadStatus = v.optional(
  oneOf(["idle", "busy", "interrupted", "error"] satisfies ThreadStatus[]),
) as v.GenericSchema<ThreadStatus | undefined>;
const threadFilter = {
  metadata: v.optional(anyObject),
  values: v.optional(anyObject),
  status: threadStatus,
};

/** POST /threads/count */
export const threadCount: Fields<ThreadFilter> = v.object(threadFilter);

/** POST /threads/search. `extract` is known, and refused as not built. */
export const threadSearch: Fields<ThreadSearch & { readonly extract?: Json }> = v.object({
  ...threadFilter,
  ids: v.optional(listOf(uuid)),
  ...page,
  sort_by: v.optional(
    oneOf(["thread_id", "status", "created_at", "updated_at", "state_updated_at"] satisfies ThreadSort[]),
  ) as v.GenericSchema<ThreadSort | undefined>,
  sort_order: order,
  select: v.optional(listOf(oneOf(THREAD_FIELDS))),
  extract: v.optional(json),
});

/** How a state is read, and which of its fields are answered; of values also single ones. */
interface StateOptions {
  readonly subgraphs?: boolean;
  readonly select?: readonly string[];
}

/** POST /threads/{thread_id}/state/checkpoint */
export const stateAt: Fields<{ readonly checkpoint: CheckpointSelector } & StateOptions> = v.object({
  checkpoint,
  subgraphs: v.optional(flag),
  select: stateSelect,
});

/** `before` comes as a checkpoint id, as a checkpoint, or as a config that names one. */
const before = v.pipe(
  v.union(
    [name, owned({ checkpoint_id: name }), owned({ configurable: owned({ checkpoint_id: name }) })],
    "must be a checkpoint id or a checkpoint",
  ),
  v.transform((sent) => {
    if (typeof sent === "string") return sent;
    const { configurable, checkpoint_id } = sent as JsonObject;
    return (isObject(configurable) ? configurable.checkpoint_id : checkpoint_id) as string;
  }),
);

/** POST /threads/{thread_id}/history */
export const historySearch: Fields<HistoryQuery & Pick<StateOptions, "select">> = v.object({
  limit: page.limit,
  before: v.optional(before),
  metadata: v.optional(anyObject),
  checkpoint: v.optional(checkpoint),
  select: stateSelect,
});

/** Every call that creates a run */
export const runCreate: Fields<RunCreate> = v.object({
  assistant_id: assistantId,
  input: v.optional(json),
  command: v.optional(
    owned<NonNullable<RunCreate["command"]>>({
      update: v.optional(
        v.union([anyObject, v.array(v.tuple([name, json]))], "must be an object or a list of [channel, value] pairs"),
      ),
      goto: v.optional(v.union([name, send, v.array(step)], STEP)),
    }),
  ),
  config: v.optional(config),
  context: v.optional(anyObject),
  metadata: v.optional(anyObject),
  checkpoint: v.optional(checkpoint),
  checkpoint_id: v.optional(name),
  stream_mode: v.optional(
    v.union([mode, v.array(mode)], `must be one of ${MODES.join(", ")}, or a list of these`) as v.GenericSchema<
      StreamMode | StreamMode[]
    >,
  ),
  stream_subgraphs: v.optional(flag),
  stream_resumable: v.optional(flag),
  multitask_strategy: v.optional(oneOf(["reject", "enqueue", "interrupt", "rollback"])),
  if_not_exists: v.optional(oneOf(["reject", "create"])),
  on_disconnect: v.optional(oneOf(["continue", "cancel"])),
  // Some SDK types name other values here than servers know: they are ignored.
  on_completion: v.fallback(v.optional(oneOf(["delete", "keep"])), undefined),
  after_seconds: v.optional(
    v.pipe(v.number("must be a number"), v.finite("must be finite"), v.minValue(0, "must be at least 0")),
  ),
  interrupt_before: breakpoints,
  interrupt_after: breakpoints,
  durability: v.optional(oneOf(["sync", "async", "exit"])),
  checkpoint_during: v.optional(flag),
  webhook: v.optional(
    v.pipe(
      v.string("must be a string"),
      v.nonEmpty("must not be empty"),
      v.maxLength(65_536, "must be at most 65536 characters"),
      v.check(isPlain, PLAIN),
    ),
  ),
  feedback_keys: v.optional(listOf(name)),
});

// ------------------------------------------------------------------ queries

/** DELETE /assistants/{assistant_id} */
export const assistantDeletion: Fields<{ readonly delete_threads?: boolean }> = v.object({
  delete_threads: v.optional(flag),
});

/** GET /assistants/{assistant_id}/graph */
export const drawing: Fields<{ readonly xray?: boolean | number }> = v.object({
  xray: v.optional(
    v.union([v.boolean(), integer(0, Number.MAX_SAFE_INTEGER)], "must be true, false or a depth") as v.GenericSchema<
      boolean | number
    >,
  ),
});

/** GET /assistants/{assistant_id}/subgraphs */
export const subgraphSearch: Fields<{ readonly recurse?: boolean }> = v.object({ recurse: v.optional(flag) });

/** GET of a state */
export const stateQuery: Fields<StateOptions> = v.object({ subgraphs: v.optional(flag), select: stateSelect });

/** GET /threads/{thread_id}/history */
export const historyQuery: Fields<
  { readonly limit?: number; readonly before?: string } & Pick<StateOptions, "select">
> = v.object({
  limit: page.limit,
  before: v.optional(name),
  select: stateSelect,
});

/** GET /threads/{thread_id}/runs */
export const runSearch: Fields<{
  readonly limit?: number;
  readonly offset?: number;
  readonly status?: RunStatus;
  readonly select?: readonly string[];
}> = v.object({
  ...page,
  status: v.optional(
    oneOf(["pending", "running", "success", "error", "timeout", "interrupted"] satisfies RunStatus[]),
  ) as v.GenericSchema<RunStatus | undefined>,
  select: v.optional(listOf(oneOf(RUN_FIELDS))),
});

/** GET …/join */
export const joinQuery: Fields<{ readonly cancel_on_disconnect?: boolean }> = v.object({
  cancel_on_disconnect: v.optional(flag),
});

/** GET …/stream */
export const joinStreamQuery: Fields<{
  readonly stream_mode?: readonly StreamMode[];
  readonly cancel_on_disconnect?: boolean;
}> = v.object({
  stream_mode: v.optional(listOf(mode)),
  cancel_on_disconnect: v.optional(flag),
});

// ------------------------------------------------------------------ reading

/** Reads a body as JSON, whatever its content type, and checks it. No body counts as `{}`; unknown fields are left out. */
export async function readBody<Output>(request: Request, schema: Fields<Output>): Promise<Output> {
  const bytes = await readBytes(request);
  if (bytes.length === 0) return check(schema, {});
  if (deeperThan(bytes, MAX_DEPTH))
    throw new ServiceError("invalid", `body: must not nest deeper than ${MAX_DEPTH} levels`);
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new ServiceError("bad_request", "The body is not valid JSON");
  }
  if (!isObject(body)) throw new ServiceError("invalid", "body: must be an object");
  return check(schema, body);
}

/** Values of a query by name, as the router gives them. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Reads a query: lists in any encoding the clients use, booleans in any spelling, empty values as absent. */
export function readQuery<Output>(query: Query, schema: Fields<Output>): Output {
  const given: Record<string, unknown> = {};
  for (const key of Object.keys(schema.entries)) {
    const sent = [query[key] ?? []].flat().filter((value) => value !== "");
    if (sent.length > 0) given[key] = fromQuery(schema.entries[key] as v.GenericSchema, sent);
  }
  return check(schema, given as JsonObject);
}

/** A thread or run id of a path, in lower case. */
export function readId(value: string | undefined, field: string): string {
  const id = readSegment(value, field);
  if (!UUID.test(id)) throw new ServiceError("invalid", `${field}: must be a UUID`);
  return id.toLowerCase();
}

/** The assistant of a path: a UUID in lower case, or a graph id. */
export function readAssistantId(value: string | undefined): string {
  const id = readSegment(value, "assistant_id");
  return UUID.test(id) ? id.toLowerCase() : id;
}

/** A path segment, decoded once. What could be read as more than one segment is refused. */
export function readSegment(value: string | undefined, field: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(value ?? "");
  } catch {
    throw new ServiceError("invalid", `${field}: is not valid percent-encoding`);
  }
  if (/[/\\\0]/.test(decoded) || decoded === "." || decoded === "..") {
    throw new ServiceError("invalid", `${field}: must not contain slashes, backslashes or U+0000`);
  }
  return decoded;
}

/** The frame number a reader has seen last; undefined asks for everything (`-1`, `-` or no header). */
export function readLastEventId(headers: Headers): number | undefined {
  const sent = headers.get("last-event-id")?.trim();
  if (!sent || sent === "-1" || sent === "-") return undefined;
  const id = /^\d{1,16}$/.test(sent) ? Number(sent) : Number.NaN;
  if (!Number.isSafeInteger(id)) throw new ServiceError("invalid", "Last-Event-ID: must be an integer");
  return id;
}

const IDENTITY = new Set(["x-api-key", "x-tenant-id", "x-service-key"]);
const CREDENTIAL = /auth|token|secret|passw|credential|cookie|signature|jwt|bearer|key$/;

/**
 * The request headers a run sees in `config.configurable`: `user-agent` and every `x-…` but those that carry an
 * identity or look like a credential. `x-auth-scheme` names a scheme only, and graphs may read it.
 */
export function headerConfig(headers: Headers): JsonObject {
  const shown: [string, Json][] = [];
  headers.forEach((value, header) => {
    const extra = header.startsWith("x-") && !IDENTITY.has(header) && !CREDENTIAL.test(header);
    if (extra || header === "user-agent" || header === "x-auth-scheme") shown.push([header, value]);
  });
  return Object.fromEntries(shown);
}

function check<Output>(schema: Fields<Output>, sent: JsonObject): Output {
  const given: JsonObject = {};
  for (const key of Object.keys(schema.entries)) {
    const value = sent[key];
    if (value !== null && value !== undefined) given[key] = value;
  }
  const result = v.safeParse(schema, given, { abortEarly: true });
  if (result.success) {
    const beyond = Object.keys(given).find((key) => !isFiniteJson(given[key]));
    if (beyond === undefined) return result.output;
    throw new ServiceError("invalid", `${beyond}: must not contain numbers beyond the range of a double`);
  }
  const issue = result.issues[0];
  const path = v.getDotPath(issue) ?? "body";
  const missing = issue.path?.at(-1)?.value === undefined;
  throw new ServiceError("invalid", `${path}: ${missing ? "is required" : issue.message}`);
}

/** JSON can write 1e999, but it is read as Infinity and would be written as null. */
function isFiniteJson(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "number" || Number.isFinite(value);
  return (Array.isArray(value) ? value : Object.values(value)).every(isFiniteJson);
}

async function readBytes(request: Request): Promise<Uint8Array> {
  const declared = request.headers.get("content-length");
  if (Number(declared) > MAX_BODY_BYTES) throw tooLarge();
  if (!request.body) return new Uint8Array();
  if (declared !== null) {
    const bytes = new Uint8Array(await request.arrayBuffer());
    if (bytes.length > MAX_BODY_BYTES) throw tooLarge();
    return bytes;
  }
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = request.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > MAX_BODY_BYTES) {
      await reader.cancel();
      throw tooLarge();
    }
    chunks.push(value);
  }
  if (chunks.length === 1) return chunks[0] as Uint8Array;
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, offset);
    offset += chunk.length;
  }
  return bytes;
}

const tooLarge = (): ServiceError => new ServiceError("too_large", `The body is larger than ${MAX_BODY_BYTES} bytes`);

/** Counts brackets outside strings, before JSON.parse recurses into them. */
function deeperThan(bytes: Uint8Array, limit: number): boolean {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (byte === 0x22) quoted = !quoted;
    else if (quoted) {
      if (byte === 0x5c) i++;
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > limit) return true;
    } else if (byte === 0x5d || byte === 0x7d) depth--;
  }
  return false;
}

/** Turns query text into what the schema of its field expects; text that is nothing of the kind stays, and is refused. */
function fromQuery(schema: v.GenericSchema, sent: readonly string[]): unknown {
  const { type, wrapped, options } = schema as { type: string; wrapped?: v.GenericSchema; options?: unknown };
  const last = sent.at(-1) as string;
  if (wrapped) return fromQuery(wrapped, sent);
  if (type === "array") return sent.flatMap(listItems);
  if (type === "boolean") return toBoolean(last) ?? last;
  if (type === "number") return toNumber(last) ?? last;
  if (type === "union" && Array.isArray(options)) return toNumber(last) ?? toBoolean(last) ?? last;
  return last;
}

function listItems(sent: string): unknown[] {
  if (sent.startsWith("[")) {
    try {
      const list: unknown = JSON.parse(sent);
      if (Array.isArray(list)) return list;
    } catch {
      // Not a JSON array: a name that starts with a bracket.
    }
  }
  return sent.split(",").filter((item) => item !== "");
}

const toNumber = (sent: string): number | undefined => (/^-?\d+(\.\d+)?$/.test(sent) ? Number(sent) : undefined);

function toBoolean(sent: string): boolean | undefined {
  if (/^(true|1|yes)$/i.test(sent)) return true;
  if (/^(false|0|no)$/i.test(sent)) return false;
  return undefined;
}
