/**
 * Who may call what: each operation of a service, with the events that the host's handlers are asked about, and what of the call they
 * get. An event permits the call, refuses it, or limits it to the rows that the handler's filter permits; without a handler for the
 * event the caller may make the call. A handler sees the value before the call, and most calls use it as the handler leaves it.
 * The permissions of an API key come from `access` of the route (lib/http/route.ts); the kind of an operation does not decide them.
 */
import type { Assistants } from "../assistants/mod.ts";
import { authorizeCreateCron } from "../crons/authorization.ts";
import type { Untyped } from "../executor/agent-types.ts";
import type { FeedbackTokens } from "../feedback/mod.ts";
import type { TypedRuns } from "../handles/types.ts";
import {
  type AuthorizedProtocol,
  executeCommand,
  openThreadStream,
  readEvents,
  subscribeEvents,
} from "../protocol/authorization.ts";
import {
  type AuthorizeNewRun,
  authorizeCreateBatch,
  authorizeCreateRun,
  authorizeJoinRun,
  authorizeJoinRunStream,
  authorizeNewRun,
  authorizeRerun,
  authorizeStreamRun,
  authorizeWaitForRun,
} from "../runs/authorization.ts";
import type { DurableCallTokens } from "../steps/calls.ts";
import {
  authorizeGetItem,
  authorizeListNamespaces,
  authorizePutItem,
  authorizePutItems,
  authorizeSearchItems,
} from "../store/authorization.ts";
import { authorizeCopyThread, authorizeStreamThread, createCallerThreadId } from "../threads/authorization.ts";
import { authorizeStreamTrace } from "../traces/authorization.ts";
import type { Usage } from "../usage/mod.ts";
import {
  defineCustomOperation,
  defineOperation,
  idSubject,
  patchSubject,
  querySubject,
  type ResourceOperations,
  requestSubject,
} from "./operation.ts";
import type { Resources } from "./resources.ts";

/** A new run, and the assistant that a user's run names. The default assistant of a graph needs no event of its own. */
const NEW_RUN_EVENTS = ["threads:create_run", "assistants:read"] as const;

const assistants: ResourceOperations<Assistants> = {
  create: defineOperation("change", "assistants:create", requestSubject()),
  get: defineOperation("read", "assistants:read", idSubject("assistant_id")),
  update: defineOperation("change", "assistants:update", patchSubject("assistant_id")),
  // Of its threads, only those are deleted that the caller may delete.
  delete: defineCustomOperation(
    "change",
    ["assistants:delete", "threads:delete"],
    ({ authorize }, { assistants }) =>
      async (assistant_id, options = {}) => {
        const { scope } = await authorize("assistants:delete", { assistant_id });
        const threads = options.delete_threads ? (await authorize("threads:delete", { assistant_id })).scope : null;
        await assistants.delete(scope, assistant_id, threads?.filter ? { ...options, threads } : options);
      },
  ),
  search: defineOperation("read", "assistants:search", querySubject()),
  count: defineOperation("read", "assistants:search", querySubject()),
  versions: defineOperation("read", "assistants:read", idSubject("assistant_id")),
  setLatest: defineOperation("change", "assistants:update", (assistant_id, version) => ({ assistant_id, version })),
  graph: defineOperation("read", "assistants:read", idSubject("assistant_id")),
  schemas: defineOperation("read", "assistants:read", idSubject("assistant_id")),
  subgraphs: defineOperation("read", "assistants:read", idSubject("assistant_id")),
};

const calls: ResourceOperations<Resources["calls"]> = {
  send: defineOperation("change", "threads:update", idSubject("thread_id")),
  sendToRun: defineOperation("change", "threads:update", (...[thread_id, run_id]) => ({ thread_id, run_id })),
  steps: defineOperation("read", "threads:read", (thread_id, run_id) => ({ thread_id, run_id })),
};

const threads: ResourceOperations<Resources["threads"]> = {
  create: defineOperation("change", "threads:create", querySubject()),
  get: defineOperation("read", "threads:read", idSubject("thread_id")),
  update: defineOperation("change", "threads:update", patchSubject("thread_id")),
  delete: defineOperation("change", "threads:delete", idSubject("thread_id")),
  // Reads the thread, and creates the copy with the metadata that the handler leaves.
  copy: defineCustomOperation("change", ["threads:read", "threads:create"], authorizeCopyThread),
  prune: defineOperation("change", "threads:delete", {
    value: (thread_ids, strategy) => ({ thread_ids, ...(strategy ? { strategy } : {}) }),
    args: ({ thread_ids, strategy }) => [thread_ids, strategy],
  }),
  search: defineOperation("read", "threads:search", querySubject()),
  searchEach: defineOperation("read", "threads:search", requestSubject()),
  count: defineOperation("read", "threads:search", querySubject()),
  list: defineOperation("read", "threads:search", querySubject()),
  inbox: defineOperation("read", "threads:search", querySubject()),
  state: defineOperation("read", "threads:read", idSubject("thread_id")),
  stateAt: defineOperation("read", "threads:read", idSubject("thread_id")),
  updateState: defineOperation("change", "threads:update", patchSubject("thread_id")),
  patchState: defineOperation("change", "threads:update", {
    value: (thread_id, metadata) => ({ metadata, thread_id }),
    args: ({ metadata }, [thread_id]) => [thread_id, metadata],
  }),
  history: defineOperation("read", "threads:read", idSubject("thread_id")),
  historyEach: defineOperation("read", "threads:read", idSubject("thread_id")),
  storage: defineOperation("read", "threads:read", idSubject("thread_id")),
  // An id is made of the caller's name: nothing is read.
  idOf: defineCustomOperation("read", [], createCallerThreadId),
  stream: defineCustomOperation("stream", ["threads:read"], authorizeStreamThread),
  events: {
    ...defineCustomOperation("stream", ["threads:read"], readEvents),
    internalMethod: ({ protocol }) => protocol.events,
  },
  command: {
    ...defineCustomOperation("create", ["threads:read", ...NEW_RUN_EVENTS], executeCommand),
    internalMethod: ({ protocol }) => protocol.command,
  },
  send: { ...calls.send, internalMethod: ({ calls }) => calls.send },
};

const runs: ResourceOperations<Resources["runs"]> = {
  create: defineCustomOperation("create", NEW_RUN_EVENTS, authorizeCreateRun),
  stream: defineCustomOperation("create", NEW_RUN_EVENTS, authorizeStreamRun),
  wait: defineCustomOperation("create", NEW_RUN_EVENTS, authorizeWaitForRun),
  createBatch: defineCustomOperation("create", NEW_RUN_EVENTS, authorizeCreateBatch),
  get: defineOperation("read", "threads:read", (thread_id, run_id) => ({ thread_id, run_id })),
  list: defineOperation("read", "threads:read", idSubject("thread_id")),
  delete: defineOperation("change", "threads:delete", (thread_id, run_id) => ({ thread_id, run_id })),
  cancel: defineOperation("change", "threads:update", (thread_id, run_id, { action = "interrupt" } = {}) => ({
    thread_id,
    action,
    metadata: { run_ids: [run_id] },
  })),
  cancelMany: defineOperation("change", "threads:update", (target, action = "interrupt") => {
    const { thread_id, ...metadata } = { thread_id: null, ...target };
    return { thread_id, action, metadata };
  }),
  // `threads:update`, as of `cancel`, is asked about where leaving cancels the run.
  join: defineCustomOperation("stream", ["threads:read", "threads:update"], authorizeJoinRun),
  joinStream: defineCustomOperation("stream", ["threads:read", "threads:update"], authorizeJoinRunStream),
  search: defineOperation("read", "threads:search", querySubject()),
  stats: defineOperation("read", "threads:search", () => ({})),
  inspect: defineOperation("read", "threads:read", (run_id) => ({ thread_id: null, run_id })),
  rerun: defineCustomOperation("create", ["threads:read", ...NEW_RUN_EVENTS], authorizeRerun),
  send: { ...calls.sendToRun, internalMethod: ({ calls }) => calls.sendToRun },
  steps: { ...calls.steps, internalMethod: ({ calls }) => calls.steps },
};

const crons: ResourceOperations<Resources["crons"]> = {
  // Its runs are authorized now, and not again when they start.
  create: defineCustomOperation("change", ["crons:create", ...NEW_RUN_EVENTS], authorizeCreateCron),
  get: defineOperation("read", "crons:read", idSubject("cron_id")),
  update: defineOperation("change", "crons:update", patchSubject("cron_id")),
  delete: defineOperation("change", "crons:delete", idSubject("cron_id")),
  search: defineOperation("read", "crons:search", querySubject()),
  count: defineOperation("read", "crons:search", querySubject()),
  inspect: defineOperation("read", "crons:read", idSubject("cron_id")),
  run: defineOperation("create", "crons:update", idSubject("cron_id")),
  // Times of a schedule: nothing is read.
  preview: defineCustomOperation(
    "read",
    [],
    ({ scope }, { crons }) =>
      (preview) =>
        crons.preview(scope, preview),
  ),
};

const store: ResourceOperations<Resources["store"]> = {
  get: defineCustomOperation("read", ["store:get"], authorizeGetItem),
  put: defineCustomOperation("change", ["store:put"], authorizePutItem),
  // Each item is authorized as by `put` or `delete`.
  putMany: defineCustomOperation("change", ["store:put", "store:delete"], authorizePutItems),
  delete: defineOperation("change", "store:delete", {
    value: (namespace, key) => ({ namespace, key }),
    args: ({ namespace, key }) => [namespace, key],
  }),
  search: defineCustomOperation("read", ["store:search"], authorizeSearchItems),
  namespaces: defineCustomOperation("read", ["store:list_namespaces"], authorizeListNamespaces),
};

/** Feedback is visible where its run's thread is, and changing it changes that thread. The call checks the permissions of `by`. */
const feedback: ResourceOperations<Resources["feedback"]> = {
  mintTokens: defineOperation("change", "threads:update", (_by, requests) => ({
    thread_id: null,
    metadata: { run_ids: requests.map(({ run_id }) => run_id) },
  })),
  listTokens: defineOperation("read", "threads:read", (_by, { run_id }) => ({ thread_id: null, run_id })),
  create: defineOperation("change", "threads:update", (_by, { run_id }) => ({
    thread_id: null,
    metadata: { run_ids: run_id === undefined ? [] : [run_id] },
  })),
  get: defineOperation("read", "threads:read", (_by, feedback_id) => ({ thread_id: null, feedback_id })),
  update: defineOperation("change", "threads:update", (...[_by, feedback_id]) => ({ thread_id: null, feedback_id })),
  delete: defineOperation("change", "threads:update", (_by, feedback_id) => ({ thread_id: null, feedback_id })),
  list: defineOperation("read", "threads:read", (_by, { run_ids = null }) => ({ thread_id: null, run_ids })),
  stats: defineOperation("read", "threads:read", (_by, { run_ids = null }) => ({ thread_id: null, run_ids })),
  scores: defineOperation("read", "threads:read", () => ({ thread_id: null })),
  links: defineOperation("read", "threads:read", () => ({ thread_id: null })),
  revokeLink: defineOperation("change", "threads:update", () => ({ thread_id: null })),
};

/** Deliveries and push configurations of the threads that the caller sees. */
const webhooks: ResourceOperations<Resources["webhooks"]> = {
  list: defineOperation("read", "threads:search", querySubject()),
  get: defineOperation("read", "threads:read", (run_id) => ({ thread_id: null, run_id })),
  redeliver: defineOperation("change", "threads:update", (run_id) => ({
    thread_id: null,
    action: "send",
    metadata: { run_ids: [run_id] },
  })),
  setPush: defineOperation("change", "threads:update", toPushSubject),
  listPushes: defineOperation("read", "threads:read", ({ thread_id, task_id }) => ({ thread_id, run_id: task_id })),
  removePush: defineOperation("change", "threads:update", toPushSubject),
  notifyCancelled: defineOperation("change", "threads:update", toPushSubject),
};

function toPushSubject({ thread_id, task_id }: { readonly thread_id: string; readonly task_id: string }): object {
  return { thread_id, action: "push", metadata: { run_ids: [task_id] } };
}

/** A trace is visible exactly if its run is. */
const traces: ResourceOperations<Resources["traces"]> = {
  get: defineOperation("read", "threads:read", (...[thread_id, run_id]) => ({ thread_id, run_id })),
  stream: defineCustomOperation("stream", ["threads:read"], authorizeStreamTrace),
  search: defineOperation("read", "threads:search", querySubject()),
  delete: defineOperation("change", "threads:delete", (thread_id, run_id) => ({ thread_id, run_id })),
};

/** The operations of each caller, of `service.as` and of the service itself, which asks no handler. */
export const OPERATIONS: { readonly [Name in keyof Resources]: ResourceOperations<Resources[Name]> } = {
  ...{ assistants, threads, runs, crons, store, feedback, webhooks, calls, traces },
};

/** Operations that only routes use. */
export const ROUTE_OPERATIONS: {
  readonly runs: ResourceOperations<{ permit: AuthorizeNewRun }>;
  readonly protocol: ResourceOperations<AuthorizedProtocol>;
} = {
  runs: { permit: defineCustomOperation("create", NEW_RUN_EVENTS, authorizeNewRun) },
  protocol: {
    subscribe: defineCustomOperation("stream", ["threads:read"], subscribeEvents),
    open: defineCustomOperation("stream", ["threads:read"], openThreadStream),
    // Its runs are authorized by the route, which gives the command a `permit`.
    command: defineCustomOperation("create", ["threads:read", ...NEW_RUN_EVENTS], executeCommand),
  },
};

/**
 * Calls that no handler is asked about, and what they check. `token`: a secret that the service has made. `by`: the permissions of the
 * caller that they get. `host`: nothing, because only the host's code can make them. `operations`: what the other operations that
 * they call check. `service`: calls that belong to no resource.
 */
export const OPERATIONS_WITHOUT_HANDLERS: {
  readonly feedback: AccessChecks<FeedbackTokens>;
  readonly calls: AccessChecks<DurableCallTokens>;
  readonly usage: AccessChecks<Usage>;
  readonly accounts: AccessCheck;
  readonly runs: AccessChecks<TypedRuns<Record<string, Untyped>>>;
  readonly service: Readonly<Record<string, AccessCheck>>;
} = {
  feedback: { token: "token", submit: "token" },
  calls: { deliver: "token" },
  usage: { admit: "by", report: "by", sealHours: "host", traceUsage: "host" },
  accounts: "host",
  runs: { run: "operations" },
  service: {
    ...{ as: "host", caller: "host", info: "host", healthy: "host", services: "host", ready: "host", metrics: "host" },
    ...{ report: "by", stop: "host", agent: "operations" },
  },
};

type AccessCheck = "token" | "by" | "host" | "operations";
type AccessChecks<Resource> = { readonly [Name in keyof Resource]: AccessCheck };
