/** The stored request of a run: its options, the configuration that graphs read, and its resume values. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { AssistantRow, RunRow, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import {
  type AuthUser,
  type CheckpointRef,
  type Command,
  type InterruptRef,
  type Job,
  ResumeError,
  type RunConfig,
  type Send,
  type StateConfig,
  type StreamMode,
} from "./contract.ts";

/** The request of a run after its defaults were applied. */
export interface JobRequest {
  readonly input: Json | undefined;
  readonly command: Command | null;
  readonly strict_resume: boolean;
  /** See `Job.resume_targets`. */
  readonly resume_targets: readonly InterruptRef[];
  readonly from: CheckpointRef | null;
  readonly config: RunConfig;
  readonly context: JsonObject;
  readonly stream_mode: readonly StreamMode[];
  readonly subgraphs: boolean;
  readonly resumable: boolean;
  /** True if the run records events of all methods, because a client of the event protocol has created it. */
  readonly records_all: boolean;
  readonly interrupt_before: "*" | readonly string[];
  readonly interrupt_after: "*" | readonly string[];
  readonly durability: "sync" | "async" | "exit";
}

/**
 * Converts a request to its stored form, which `readKwargs` reads. Omits an absent input, command and checkpoint, empty lists of
 * nodes and targets, and `strict_resume` and `all_events` if they are false, as clients expect in `run.kwargs`. `stateless` is stored
 * as `temporary`.
 */
export function writeKwargs(request: JobRequest, stateless: boolean): JsonObject {
  const { input, command, strict_resume, resume_targets, from, interrupt_before, interrupt_after, records_all } =
    request;
  return {
    ...(input === undefined ? {} : { input }),
    ...(command ? { command: command as unknown as JsonObject } : {}),
    ...(strict_resume ? { strict_resume } : {}),
    ...(resume_targets.length > 0 ? { resume_targets: resume_targets as unknown as Json } : {}),
    config: request.config as unknown as JsonObject,
    context: request.context,
    stream_mode: [...request.stream_mode],
    ...(interrupt_before.length > 0 ? { interrupt_before: toStoredNodes(interrupt_before) } : {}),
    ...(interrupt_after.length > 0 ? { interrupt_after: toStoredNodes(interrupt_after) } : {}),
    ...(from ? { checkpoint: { checkpoint_ns: from.ns, checkpoint_id: from.checkpoint_id } } : {}),
    temporary: stateless,
    subgraphs: request.subgraphs,
    resumable: request.resumable,
    ...(records_all ? { all_events: records_all } : {}),
    durability: request.durability,
  };
}

const toStoredNodes = (names: "*" | readonly string[]): Json => (names === "*" ? "*" : [...names]);

/** The members that `writeKwargs` omits. */
type OmittedMember = "input" | "command" | "strict_resume" | "resume_targets" | "interrupt_before" | "interrupt_after";

interface StoredKwargs
  extends Omit<JobRequest, "from" | "records_all" | OmittedMember>,
    Partial<Pick<JobRequest, OmittedMember>> {
  readonly checkpoint?: { readonly checkpoint_ns: string; readonly checkpoint_id: string };
  readonly all_events?: boolean;
}

/** Returns the request of a stored run, with defaults for members that `writeKwargs` omits. Values are shared, not copied. */
export function readKwargs(kwargs: JsonObject): JobRequest {
  const stored = kwargs as unknown as StoredKwargs;
  const { checkpoint } = stored;
  return {
    input: stored.input,
    command: stored.command ?? null,
    strict_resume: stored.strict_resume ?? false,
    resume_targets: stored.resume_targets ?? [],
    from: checkpoint ? { ns: checkpoint.checkpoint_ns, checkpoint_id: checkpoint.checkpoint_id } : null,
    config: stored.config,
    context: stored.context,
    stream_mode: stored.stream_mode,
    subgraphs: stored.subgraphs,
    resumable: stored.resumable,
    records_all: stored.all_events ?? false,
    interrupt_before: stored.interrupt_before ?? [],
    interrupt_after: stored.interrupt_after ?? [],
    durability: stored.durability,
  };
}

/** Returns the targets of `goto` as a list; empty for none. */
export function toGotoList(
  goto: string | Send | readonly (string | Send)[] | null | undefined,
): readonly (string | Send)[] {
  if (goto === null || goto === undefined) return [];
  return Array.isArray(goto) ? (goto as readonly (string | Send)[]) : [goto as string | Send];
}

/**
 * Returns a copy of the stored request without credentials, as `redactKwargs` does, with the run's metadata in `config`, where
 * graphs read them.
 */
export function redactRunKwargs(kwargs: JsonObject, metadata: JsonObject): JsonObject {
  const redacted = redactKwargs(kwargs);
  return { ...redacted, config: { ...(isObject(redacted.config) ? redacted.config : {}), metadata } };
}

/**
 * Returns a copy of the stored request without top-level members whose names mark credentials, and without such members in
 * `config` and `context`, at any depth. `input` and `command` keep all of their members.
 */
export function redactKwargs(kwargs: JsonObject): JsonObject {
  const entries = Object.entries(kwargs).filter(([name]) => !isSecretName(name));
  return Object.fromEntries(
    entries.map(([name, value]) => [name, name === "config" || name === "context" ? omitSecrets(value) : value]),
  );
}

/** Returns a copy without members, at any depth, whose names mark API keys, credentials or the authenticated user. */
export function omitSecrets<Value extends Json>(value: Value): Value {
  if (Array.isArray(value)) return value.map(omitSecrets) as Value;
  if (!isObject(value)) return value;
  const entries: [string, Json][] = [];
  for (const name of Object.keys(value)) {
    if (!isSecretName(name)) entries.push([name, omitSecrets(value[name] as Json)]);
  }
  return Object.fromEntries(entries) as Value;
}

/** The results of `matchesSecretName` for the names of the last runs, because most runs have the same names. */
const secretNameCache = new Map<string, boolean>();
const MAX_CACHED_NAMES = 1_000;

/** Returns `matchesSecretName`, cached for short names. */
function isSecretName(name: string): boolean {
  const cached = secretNameCache.get(name);
  if (cached !== undefined) return cached;
  const secret = matchesSecretName(name);
  if (name.length <= MAX_CACHED_NAME_CHARS) {
    if (secretNameCache.size >= MAX_CACHED_NAMES) secretNameCache.clear();
    secretNameCache.set(name, secret);
  }
  return secret;
}

const MAX_CACHED_NAME_CHARS = 100;

/**
 * Returns true for names that end in key, token, secret, password, jwt and the like, in any notation (`OPENAI_API_KEY`,
 * `openaiKey`, `github-token`), for cookies, `authorization` and `langgraph_auth_…`, and for `x-…` headers that may hold a credential.
 * Returns false for `feedback_keys` and for words such as `monkey`.
 */
function matchesSecretName(name: string): boolean {
  const header = name.toLowerCase();
  if (header.startsWith("x-") && mayHoldCredential(header)) return true;
  const plain = name.toLowerCase().replace(/[-_]/g, "");
  if (/^langgraphauth|^(?:proxy)?authorization$|^(?:set)?cookies?$/.test(plain)) return true;
  // An option of runs, and words that only end in "key".
  if (/^feedbackkeys$|(?:mon|don|tur|hoc|joc|whis)keys?$/.test(plain)) return false;
  return /(?:keys?|token|secrets?|passwords?|passwd|passphrase|credentials?|jwts?|bearer)$/.test(plain);
}

/**
 * Returns true if a header of this lower-case name may hold a credential: the name contains a word such as `auth`, `token` or
 * `secret`, or ends in `key`. So `x-author` and `idempotency-key` count, too. `x-auth-scheme`, which only names a scheme, does not.
 */
export function mayHoldCredential(header: string): boolean {
  return (
    header !== "x-auth-scheme" && /auth|token|secret|passw|credential|cookie|signature|jwt|bearer|key$/.test(header)
  );
}

/** The members that identify a run or a state, and are not configuration. */
export const IDENTITY_MEMBERS: ReadonlySet<string> = new Set([
  "checkpoint_id",
  "checkpoint_ns",
  "checkpoint_map",
  "thread_id",
  "run_id",
  "graph_id",
  "assistant_id",
]);

/**
 * Returns the members of `config.configurable` that are copies of headers, `user-agent` and `x-…`, without credentials, because
 * checkpoints store them.
 */
const pickSafeHeaders = (configurable: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(configurable).filter(
      ([name, value]) =>
        typeof value === "string" && (name === "user-agent" || (name.startsWith("x-") && !isSecretName(name))),
    ),
  );

/** The maximum length of texts in the metadata of checkpoints, because each checkpoint stores them. */
const MAX_SCALAR_CHARS = 1_000;

/**
 * Returns the metadata of a run's checkpoints: the scalars in `config.configurable`, as checkpointers of LangGraph store them, and
 * the metadata of the run, which wins. Omits credentials, texts above 1,000 characters, and names with `__` or `checkpoint_` in front.
 */
export function createCheckpointMetadata({ config, metadata }: Pick<Job, "config" | "metadata">): JsonObject {
  const scalars = Object.entries(config.configurable as JsonObject).filter(
    ([name, value]) =>
      !isSecretName(name) &&
      !name.startsWith("__") &&
      !name.startsWith("checkpoint_") &&
      (typeof value === "string" ? value.length <= MAX_SCALAR_CHARS : ["number", "boolean"].includes(typeof value)),
  );
  return { ...Object.fromEntries(scalars), ...metadata };
}

/** Returns true for members that the server or LangGraph adds to a configuration. */
export const isReservedMember = (name: string): boolean =>
  IDENTITY_MEMBERS.has(name) || name === "user-agent" || /^(?:langgraph_auth_|__|x-)/i.test(name);

/**
 * Returns a copy in which `config.configurable` has the missing members of `context`, and the reverse, because graphs read
 * either. Reserved members are not carried over. A member in both keeps its two values.
 */
export function mergeContext<Both extends Pick<JobRequest, "config" | "context">>(request: Both): Both {
  const { config, context } = request;
  return {
    ...request,
    config: { ...config, configurable: { ...omitReservedMembers(context), ...config.configurable } },
    context: { ...omitReservedMembers(config.configurable), ...context },
  };
}

/** Returns a copy without the members that the server or LangGraph adds; undefined if no members remain. */
function omitReservedMembers(members: JsonObject): JsonObject | undefined {
  const names = Object.keys(members).filter((name) => !isReservedMember(name));
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, members[name] as Json]));
}

/**
 * Returns a copy of the configuration with the user, its id and its permissions as `langgraph_auth_…`, where graphs and their
 * tools read them.
 */
const addUser = (config: RunConfig, user: AuthUser): RunConfig => ({
  ...config,
  configurable: {
    ...config.configurable,
    langgraph_auth_user: user as unknown as JsonObject,
    langgraph_auth_user_id: user.identity,
    langgraph_auth_permissions: [...user.permissions],
  },
});

/**
 * Returns the configuration and the metadata that the graph receives. The configuration is that of the request, with the user as
 * `langgraph_auth_…`, and no ids. The metadata has the safe request headers, the metadata of the run and its ids; later ones win.
 */
export function createJobConfig(
  run: RunRow,
  config: RunConfig,
): { readonly config: RunConfig; readonly metadata: JsonObject } {
  const { run_id, thread_id, assistant_id, graph_id } = run;
  const user = run.auth_user as AuthUser | null;
  return {
    config: user ? addUser(config, user) : config,
    metadata: { ...pickSafeHeaders(config.configurable), ...run.metadata, run_id, thread_id, assistant_id, graph_id },
  };
}

/** Returns the configuration, metadata and context that a graph received in this run, with its user. Credentials stay. */
export function createRunStateConfig(run: RunRow): StateConfig {
  const { config: requestConfig, context } = mergeContext(readKwargs(run.kwargs));
  const { config, metadata } = createJobConfig(run, requestConfig);
  return { configurable: config.configurable, metadata, context };
}

/**
 * Returns configuration, metadata and context of the assistant, with the configuration overridden by the thread's, and merged with
 * the context as by `mergeContext`. The configuration has the ids of the assistant. All are empty for null without a thread's.
 */
export function createAssistantStateConfig(assistant: AssistantRow | null, threadConfig: JsonObject = {}): StateConfig {
  const { config = {}, context = {}, metadata = {} } = assistant ?? {};
  const members = [config["configurable"], threadConfig["configurable"]].filter(
    (configurable) => configurable !== undefined && isObject(configurable),
  );
  const ids = assistant ? { assistant_id: assistant.assistant_id, graph_id: assistant.graph_id } : {};
  const mergedConfig = { configurable: Object.assign({}, ...members, ids) as JsonObject } satisfies RunConfig;
  const merged = mergeContext({ config: mergedConfig, context });
  return { configurable: merged.config.configurable, metadata, context: merged.context };
}

/**
 * Returns a look-up of the configuration of the run that wrote a checkpoint. It is loaded on first use, and once per run. Without
 * such a run it is that of the thread's newest run, if that executed this graph, else that of the assistant and the thread.
 */
export function createStateConfigLookup(
  storage: Storage,
  scope: Scope,
  { thread_id, metadata, config }: Pick<ThreadRow, "thread_id" | "metadata" | "config">,
): (graph_id: string, run_id: string | null | undefined) => () => Promise<StateConfig> {
  const configs = new Map<string, Promise<StateConfig>>();

  /**
   * Resolves with the configuration with which a state is read: that of the run that wrote it, else of the newest run of the
   * thread if that executed this graph, else of the assistant that the thread's metadata names, with the thread's own.
   */
  async function loadStateConfig(graph_id: string, run_id: string | null): Promise<StateConfig> {
    const writer = run_id === null ? null : await storage.getRun(scope, run_id);
    if (writer) return createRunStateConfig(writer);
    const [newest] = await storage.listRuns(scope, thread_id, { limit: 1, offset: 0 });
    if (newest?.graph_id === graph_id) return createRunStateConfig(newest);
    const { assistant_id } = metadata;
    const assistant = typeof assistant_id === "string" ? await storage.getAssistant(scope, assistant_id) : null;
    return createAssistantStateConfig(assistant?.graph_id === graph_id ? assistant : null, config);
  }

  return (graph_id, run_id) => () => {
    const key = JSON.stringify([graph_id, run_id ?? null]);
    const config = configs.get(key) ?? loadStateConfig(graph_id, run_id ?? null);
    configs.set(key, config);
    return config;
  };
}

/**
 * Returns `resume` itself, with all of its members, if it maps interrupt ids to resume values; null for a single value. An object
 * is such a map if one of its keys is in `open`, the ids of pending interrupts, or if it is not empty and all of its keys look
 * like ids (32 hexadecimal digits). Look values up by id: other keys have no meaning.
 */
export function toResumeMap(resume: Json, open: ReadonlySet<string>): JsonObject | null {
  if (!isObject(resume)) return null;
  const names = Object.keys(resume);
  const isMap = names.some((name) => open.has(name)) || (names.length > 0 && names.every(isInterruptId));
  return isMap ? resume : null;
}

/**
 * Unwraps several resume values as the AG-UI bridge of LangGraph sends them: `{"__agui_resume_map__": {<interrupt id>: {status,
 * payload}}}`. Returns any other value unchanged. A cancelled interrupt gets what the bridge sends for a single one.
 */
export function unwrapAguiResume(resume: Json): Json {
  const { __agui_resume_map__: resumeMap = null, ...otherMembers } = isObject(resume) ? resume : {};
  const ids = isObject(resumeMap) ? Object.keys(resumeMap) : [];
  if (!isObject(resumeMap) || Object.keys(otherMembers).length > 0 || ids.length === 0 || !ids.every(isInterruptId))
    return resume;
  return Object.fromEntries(
    Object.entries(resumeMap).map(([interrupt_id, answer]): [string, Json] => {
      const { status, payload = null } = isObject(answer) ? answer : {};
      return [interrupt_id, status === "cancelled" ? { __agui_cancelled__: true, interrupt_id } : payload];
    }),
  );
}

/**
 * The error of a resume value that matches no pending interrupt. Nothing was written, so the pending interrupts can still be
 * resumed.
 */
class UnknownInterruptError extends ResumeError {
  // Clients of the API get this name.
  override readonly name = "UnknownInterruptError";

  constructor(
    reason: ResumeError["reason"],
    interrupt_ids: readonly string[],
    pending_ids: readonly string[],
    code?: "interrupt_gone",
  ) {
    const missing = interrupt_ids.length > 0 ? `the interrupt ${interrupt_ids.join(", ")} is` : "the breakpoint is";
    const problem = {
      not_pending: code
        ? `${missing} not open any more`
        : `there is no open interrupt ${interrupt_ids.join(", ")}`.trimEnd(),
      empty_map: "the map names no interrupt",
      ambiguous: `${pending_ids.length} interrupts are open, give a map of their ids to answers`,
    }[reason];
    const open = pending_ids.length > 0 ? `open: ${pending_ids.join(", ")}` : "none is open";
    super(`command.resume: ${problem}; ${open}`, { reason, interrupt_ids, pending_ids, ...(code ? { code } : {}) });
  }
}

/** Returns the ids of interrupts in their order. Leaves out stops at breakpoints, which have none. */
export const listInterruptIds = (targets: readonly InterruptRef[]): string[] =>
  targets.flatMap(({ interrupt_id }) => interrupt_id ?? []);

/** Creates the error of a run whose interrupts were answered or dropped before it started. */
export const createInterruptGoneError = (missing: readonly InterruptRef[], pending: readonly string[]): ResumeError =>
  new UnknownInterruptError("not_pending", listInterruptIds(missing), [...new Set(pending)].sort(), "interrupt_gone");

/**
 * Returns the error of a resume value with `strict_resume`: for an empty map, for ids that are not pending, and for a single
 * value unless exactly one interrupt is pending. Returns null for any other value.
 */
export function findResumeMismatch(resume: Json, open: readonly string[]): UnknownInterruptError | null {
  const pending = [...new Set(open)].sort();
  const answers = isObject(resume) && Object.keys(resume).length === 0 ? resume : toResumeMap(resume, new Set(open));
  if (!answers)
    return pending.length === 0 ? new UnknownInterruptError("not_pending", [], []) : findAmbiguousResume(pending);
  const unknownIds = Object.keys(answers).filter((id) => !pending.includes(id));
  if (unknownIds.length > 0) return new UnknownInterruptError("not_pending", unknownIds.sort(), pending);
  return Object.keys(answers).length === 0 ? new UnknownInterruptError("empty_map", [], pending) : null;
}

/** Returns the number of answers that the task of an interrupt had consumed when it raised it; 0 if it does not say. */
export const getAnswerCount = ({ answered }: JsonObject): number => (typeof answered === "number" ? answered : 0);

/** Returns an error if several interrupts are pending, because a single resume value fits any of them; else null. */
export const findAmbiguousResume = (pending: readonly string[]): UnknownInterruptError | null =>
  pending.length > 1 ? new UnknownInterruptError("ambiguous", [], pending) : null;

const isInterruptId = (id: string): boolean => /^[0-9a-f]{32}$/.test(id);
