/** The stored request of a run: written when the run is created, read in every attempt. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { AuthUser, CheckpointRef, Command, RunConfig, Send, StreamMode } from "./contract.ts";

/** The request of a run, resolved. */
export interface JobRequest {
  readonly input: Json | undefined;
  readonly command: Command | null;
  readonly strict_resume: boolean;
  readonly from: CheckpointRef | null;
  readonly config: RunConfig;
  readonly context: JsonObject;
  readonly stream_mode: readonly StreamMode[];
  readonly subgraphs: boolean;
  readonly resumable: boolean;
  /** A client of the event protocol has created the run: it records events of all methods. */
  readonly all_events: boolean;
  readonly interrupt_before: "*" | readonly string[];
  readonly interrupt_after: "*" | readonly string[];
  readonly durability: "sync" | "async" | "exit";
}

/** Leaves out options at their default, as clients expect in `run.kwargs`. */
export function writeKwargs(request: JobRequest, temporary: boolean): JsonObject {
  const {
    input,
    command,
    strict_resume,
    from,
    config,
    context,
    stream_mode,
    subgraphs,
    resumable,
    all_events,
    durability,
  } = request;
  return {
    ...(input === undefined ? {} : { input }),
    ...(command ? { command: command as unknown as JsonObject } : {}),
    ...(strict_resume ? { strict_resume } : {}),
    config: config as unknown as JsonObject,
    context,
    stream_mode: [...stream_mode],
    ...(request.interrupt_before.length > 0 ? { interrupt_before: list(request.interrupt_before) } : {}),
    ...(request.interrupt_after.length > 0 ? { interrupt_after: list(request.interrupt_after) } : {}),
    ...(from ? { checkpoint: { checkpoint_ns: from.ns, checkpoint_id: from.checkpoint_id } } : {}),
    temporary,
    subgraphs,
    resumable,
    ...(all_events ? { all_events } : {}),
    durability,
  };
}

const list = (names: "*" | readonly string[]): Json => (names === "*" ? "*" : [...names]);

interface StoredKwargs {
  input?: Json;
  command?: Command;
  strict_resume?: boolean;
  config: RunConfig;
  context: JsonObject;
  stream_mode: readonly StreamMode[];
  interrupt_before?: "*" | readonly string[];
  interrupt_after?: "*" | readonly string[];
  checkpoint?: { checkpoint_ns: string; checkpoint_id: string };
  subgraphs: boolean;
  resumable: boolean;
  all_events?: boolean;
  durability: "sync" | "async" | "exit";
}

export function readKwargs(kwargs: JsonObject): JobRequest {
  const stored = kwargs as unknown as StoredKwargs;
  const { checkpoint } = stored;
  return {
    input: stored.input,
    command: stored.command ?? null,
    strict_resume: stored.strict_resume ?? false,
    from: checkpoint ? { ns: checkpoint.checkpoint_ns, checkpoint_id: checkpoint.checkpoint_id } : null,
    config: stored.config,
    context: stored.context,
    stream_mode: stored.stream_mode,
    subgraphs: stored.subgraphs,
    resumable: stored.resumable,
    all_events: stored.all_events ?? false,
    interrupt_before: stored.interrupt_before ?? [],
    interrupt_after: stored.interrupt_after ?? [],
    durability: stored.durability,
  };
}

/** `goto` of a request as a list. */
export function gotoList(
  goto: string | Send | readonly (string | Send)[] | null | undefined,
): readonly (string | Send)[] {
  if (goto === null || goto === undefined) return [];
  return Array.isArray(goto) ? (goto as readonly (string | Send)[]) : [goto as string | Send];
}

/** The stored request without credentials, with the run's metadata in `config`, where graphs read them. */
export function shownRun(kwargs: JsonObject, metadata: JsonObject): JsonObject {
  const shown = shownRequest(kwargs);
  return { ...shown, config: { ...(isObject(shown.config) ? shown.config : {}), metadata } };
}

/** The stored request without the credentials in `config` and `context`. The input is not changed. */
export function shownRequest(kwargs: JsonObject): JsonObject {
  const entries = Object.entries(kwargs).filter(([name]) => !isSecret(name));
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name === "config" || name === "context" ? withoutSecrets(value) : value]),
  );
}

/** A copy without members, at any depth, whose names mark API keys, credentials or the authenticated user. */
export function withoutSecrets<Value extends Json>(value: Value): Value {
  return cleared(value) as Value;
}

function cleared(value: Json): Json {
  if (Array.isArray(value)) return value.map(cleared);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([name]) => !isSecret(name));
  return Object.fromEntries(entries.map(([name, inner]) => [name, cleared(inner)]));
}

/**
 * Names that end in key, token, secret, password and the like, in any notation (`OPENAI_API_KEY`, `openaiKey`, `github-token`),
 * `langgraph_auth_user`, and headers with credentials.
 */
function isSecret(name: string): boolean {
  const header = name.toLowerCase();
  if (header.startsWith("x-") && carriesCredential(header)) return true;
  const plain = name.toLowerCase().replace(/[-_]/g, "");
  if (/^langgraphauth|^(?:proxy)?authorization$|^(?:set)?cookies?$/.test(plain)) return true;
  // An option of runs, and words that only end in "key".
  if (/^feedbackkeys$|(?:mon|don|tur|hoc|joc|whis)keys?$/.test(plain)) return false;
  return /(?:keys?|token|secrets?|passwords?|passwd|passphrase|credentials?)$/.test(plain);
}

/** Whether a header, by its name in lower case, carries a credential. `x-auth-scheme` only names a scheme. */
export function carriesCredential(header: string): boolean {
  return (
    header !== "x-auth-scheme" && /auth|token|secret|passw|credential|cookie|signature|jwt|bearer|key$/.test(header)
  );
}

/** Members that identify a run or a state, and are not configuration. */
export const PLACES: ReadonlySet<string> = new Set([
  "checkpoint_id",
  "checkpoint_ns",
  "checkpoint_map",
  "thread_id",
  "run_id",
  "graph_id",
  "assistant_id",
]);

/** The copies of headers in `config.configurable` without credentials, because checkpoints store them. */
export const headersIn = (configurable: JsonObject): JsonObject =>
  withoutSecrets(
    Object.fromEntries(
      Object.entries(configurable).filter(
        ([name, value]) => typeof value === "string" && (name === "user-agent" || name.startsWith("x-")),
      ),
    ),
  );

/** Members that the server or LangGraph adds to a configuration. */
export const isAdded = (name: string): boolean =>
  PLACES.has(name) || name === "user-agent" || /^(?:langgraph_auth_|__|x-)/i.test(name);

/**
 * Graphs read their configuration in `config.configurable` or in `context`, so each gets the missing members of the other. A member
 * in both keeps its two values.
 */
export function mirrored<Both extends Pick<JobRequest, "config" | "context">>(request: Both): Both {
  const { config, context } = request;
  const own = (members: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(members).filter(([name]) => !isAdded(name)));
  return {
    ...request,
    config: { ...config, configurable: { ...own(context), ...config.configurable } },
    context: { ...own(config.configurable), ...context },
  };
}

/** Adds the user, where graphs and their tools read it. */
export const knowing = (config: RunConfig, user: AuthUser): RunConfig => ({
  ...config,
  configurable: {
    ...config.configurable,
    langgraph_auth_user: user as unknown as JsonObject,
    langgraph_auth_user_id: user.identity,
    langgraph_auth_permissions: [...user.permissions],
  },
});
