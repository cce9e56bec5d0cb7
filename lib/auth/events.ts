/** The types of custom authorization: the events, what each asks about, and what a handler answers. */
import type { AuthUser } from "../executor/contract.ts";
import type { Json, JsonObject } from "../json.ts";

/**
 * The `value` of each event: ids, fields and filters of the call. The call uses the value as the handler leaves it, except that ids in the
 * path of a request cannot be changed. A member that is null or absent was not sent.
 */
export interface AuthValues {
  "threads:create": {
    metadata: JsonObject;
    thread_id?: string;
    if_exists?: "raise" | "do_nothing";
    supersteps?: readonly { readonly updates: readonly object[] }[];
    ttl?: number | { readonly ttl: number; readonly strategy?: "delete" | "keep_latest" };
  };
  /** `thread_id` is null where the call names a run, or feedback. */
  "threads:read": {
    metadata?: JsonObject;
    thread_id: string | null;
    run_id?: string;
    run_ids?: readonly string[] | null;
    feedback_id?: string;
  };
  /** A change of metadata or state, a cancellation (`action`), or feedback. `metadata.run_ids` names the runs. */
  "threads:update": {
    metadata?: JsonObject;
    thread_id: string | null;
    run_id?: string;
    feedback_id?: string;
    action?: "interrupt" | "rollback" | "send" | "push";
    ttl?: number | { readonly ttl: number; readonly strategy?: "delete" | "keep_latest" };
    values?: JsonObject | readonly JsonObject[] | null;
    as_node?: string;
    checkpoint?: JsonObject;
    checkpoint_id?: string;
  };
  /** Of one thread, one run, a list of threads, or all threads of an assistant. */
  "threads:delete": {
    metadata?: JsonObject;
    thread_id?: string;
    run_id?: string;
    thread_ids?: readonly string[];
    strategy?: "delete" | "keep_latest";
    assistant_id?: string;
  };
  /** A search of threads, runs, traces or webhook deliveries. */
  "threads:search": {
    metadata?: JsonObject;
    limit?: number;
    offset?: number;
    cursor?: string;
    sort_by?: string;
    sort_order?: "asc" | "desc";
    ids?: readonly string[];
    values?: JsonObject;
    status?: string | readonly string[];
    select?: readonly string[];
    extract?: Readonly<Record<string, string>>;
    include?: readonly string[];
    text?: string;
    assistant_id?: string;
    graph_id?: string;
    thread_id?: string;
    cron_id?: string;
    user_id?: string;
    state?: readonly string[];
    created_after?: string;
    created_before?: string;
    started_after?: string;
    started_before?: string;
    failed?: boolean;
    waiting?: boolean;
    min_active_ms?: number;
    min_tokens?: number;
    node?: string;
    tool?: string;
    model?: string;
    error_type?: string;
    source?: string;
  };
  /** `thread_id` is null for a stateless run. `run_id` is the id of the new run; null for a cron, whose runs come later. */
  "threads:create_run": {
    metadata: JsonObject;
    readonly assistant_id: string;
    /** The requested version of the assistant; absent for the active one. */
    readonly assistant_version?: number;
    readonly thread_id: string | null;
    readonly run_id: string | null;
    readonly status: "pending";
    readonly multitask_strategy: string;
    readonly prevent_insert_if_inflight: boolean;
    readonly if_not_exists: string;
    readonly after_seconds: number;
    /** Handlers may change these members; other changes are ignored. */
    kwargs: {
      input: Json;
      command: JsonObject | null;
      config: { tags?: readonly string[]; recursion_limit?: number; configurable: JsonObject };
      context: JsonObject;
      [option: string]: unknown;
    };
  };
  "assistants:create": {
    metadata: JsonObject;
    graph_id: string;
    assistant_id?: string;
    config?: JsonObject;
    context?: JsonObject;
    name?: string;
    description?: string;
    if_exists?: "raise" | "do_nothing";
  };
  "assistants:read": {
    metadata?: JsonObject;
    assistant_id: string;
  };
  "assistants:update": {
    metadata?: JsonObject;
    assistant_id: string;
    graph_id?: string;
    config?: JsonObject;
    context?: JsonObject;
    name?: string;
    description?: string;
    activate?: boolean;
    version?: number;
  };
  "assistants:delete": {
    metadata?: JsonObject;
    assistant_id: string;
  };
  "assistants:search": {
    metadata?: JsonObject;
    graph_id?: string;
    name?: string;
    limit?: number;
    offset?: number;
    sort_by?: string;
    sort_order?: "asc" | "desc";
  };
  /** `thread_id` is null for a cron whose runs are stateless. */
  "crons:create": Omit<AuthValues["crons:update"], "cron_id" | "metadata" | "schedule"> & {
    metadata: JsonObject;
    schedule: string;
    assistant_id: string;
    thread_id: string | null;
    if_not_exists?: "reject" | "create" | null;
  };
  "crons:read": {
    metadata?: JsonObject;
    cron_id: string;
  };
  /** The timing of the cron, and the options of its runs. */
  "crons:update": {
    metadata?: JsonObject | null;
    cron_id: string;
    schedule?: string;
    timezone?: string | null;
    end_time?: string | null;
    enabled?: boolean | null;
    on_run_completed?: "delete" | "keep" | null;
    assistant_version?: number | null;
    input?: Json;
    config?: { tags?: readonly string[]; recursion_limit?: number; configurable?: JsonObject } | null;
    context?: JsonObject | null;
    webhook?: string | null;
    interrupt_before?: "*" | readonly string[] | null;
    interrupt_after?: "*" | readonly string[] | null;
    multitask_strategy?: string | null;
    durability?: string | null;
    checkpoint_during?: boolean | null;
    stream_mode?: string | readonly string[] | null;
    stream_subgraphs?: boolean | null;
    stream_resumable?: boolean | null;
    feedback_keys?: string | readonly string[] | null;
  };
  "crons:delete": {
    metadata?: JsonObject;
    cron_id: string;
  };
  "crons:search": {
    metadata?: JsonObject;
    assistant_id?: string;
    thread_id?: string;
    enabled?: boolean;
    limit?: number;
    offset?: number;
    sort_by?: string;
    sort_order?: "asc" | "desc";
  };
  "store:put": {
    namespace: string[];
    key: string;
    value: JsonObject | null;
    index: false | readonly string[] | null;
    ttl?: number | null;
  };
  "store:get": { namespace: string[]; key: string };
  "store:delete": { namespace: string[]; key: string };
  "store:search": {
    namespace: string[];
    query: string | null;
    filter: JsonObject | null;
    limit: number;
    offset: number;
  };
  /** `namespace` has the first labels of the namespaces; `*` matches any one label. */
  "store:list_namespaces": {
    namespace: string[];
    suffix: readonly string[] | null;
    max_depth: number | null;
    limit: number;
    offset: number;
  };
}

/** The actions that handlers authorize, such as `threads:create`. */
export type AuthEvent = keyof AuthValues;

/** The resource of an event: `threads` in `threads:create`. */
export type AuthResource = AuthEvent extends `${infer Resource}:${string}` ? Resource : never;

/** The action of an event: `create` in `threads:create`. */
export type AuthAction<Event extends AuthEvent = AuthEvent> = Event extends `${string}:${infer Action}`
  ? Action
  : never;

/** The name of a handler: an event, a resource, `*:` and an action, or `*`. */
export type AuthPattern = AuthEvent | AuthResource | `*:${AuthAction}` | "*";

/** The events that a pattern matches. */
export type AuthEventsOf<Pattern extends AuthPattern> = Pattern extends AuthEvent
  ? Pattern
  : Pattern extends "*"
    ? AuthEvent
    : Pattern extends `*:${infer Action}`
      ? Extract<AuthEvent, `${string}:${Action}`>
      : Extract<AuthEvent, `${Pattern}:${string}`>;

/** The members that a handler of several events may read and write without a check of the event. */
export interface AuthAnyValue {
  metadata?: JsonObject;
  namespace?: string[];
}

/** The argument of a handler. A check of `event` narrows `value`. Changes to `value` take effect. */
export type AuthContext<Pattern extends AuthPattern = "*", User = AuthUser> = {
  [Event in AuthEventsOf<Pattern>]: {
    readonly event: Event;
    readonly resource: Event extends `${infer Resource}:${string}` ? Resource : never;
    readonly action: AuthAction<Event>;
    readonly value: Pattern extends AuthEvent ? AuthValues[Event] : AuthValues[Event] & AuthAnyValue;
    readonly permissions: readonly string[];
    readonly user: User;
  };
}[AuthEventsOf<Pattern>];

/** Conditions on metadata, which must all hold: a value, or a list that contains an item or several. */
export interface AuthFilter {
  readonly [key: string]:
    | string
    | number
    | boolean
    | null
    | {
        readonly $eq?: string | number | boolean | null;
        readonly $contains?: string | number | boolean | null | readonly (string | number | boolean | null)[];
      };
}

/** The answer of a handler. Undefined, null or true: allowed. False: forbidden. An object limits the call to rows that match. */
export type AuthAnswer = undefined | null | boolean | AuthFilter | JsonObject;

/**
 * Handlers by event, resource, action (`*:create`) and `*`. The most specific one is called. A handler that only changes `value` may
 * return nothing.
 *
 * @example
 * ```ts
 * import type { AuthHandlers } from "greenroom";
 *
 * const handlers: AuthHandlers = {
 *   "threads": ({ user }) => ({ owner: user.identity }),
 *   "threads:create": ({ value, user }) => {
 *     value.metadata.owner = user.identity;
 *   },
 *   "*:delete": () => false,
 * };
 * ```
 */
export type AuthHandlers<User = AuthUser> = {
  readonly [Pattern in AuthPattern]?: (
    context: AuthContext<Pattern, User>,
    // biome-ignore lint/suspicious/noConfusingVoidType: a handler that only changes `value` returns nothing.
  ) => AuthAnswer | void | Promise<AuthAnswer | void>;
};
