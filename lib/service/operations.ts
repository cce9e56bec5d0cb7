/**
 * Who may call what: each operation of a service, with the events that the host's handlers are asked about, and what of the call they
 * get. An event permits the call, refuses it, or limits it to the rows that the handler's filter permits; without a handler for the
 * event the caller may make the call. A handler sees the value before the call, and most calls use it as the handler leaves it.
 * The permissions of an API key come from `access` of the route (lib/http/route.ts); the kind of an operation does not decide them.
 */
import type { Assistants } from "../assistants/mod.ts";
import { createCron } from "../crons/authorization.ts";
import type { FeedbackTokens } from "../feedback/mod.ts";
import {
  type AuthorizedProtocol,
  executeCommand,
  openThreadStream,
  readEvents,
  subscribeEvents,
} from "../protocol/authorization.ts";
import {
  createRun,
  createRuns,
  joinRun,
  joinRunStream,
  type PermitRun,
  permitRun,
  rerun,
  streamRun,
  waitForRun,
} from "../runs/authorization.ts";
import type { DurableCallTokens } from "../steps/calls.ts";
import { getItem, listNamespaces, putItem, putItems, searchItems } from "../store/authorization.ts";
import { copyThread, nameThread, streamThread } from "../threads/authorization.ts";
import type { Usage } from "../usage/mod.ts";
import type { CallerNouns } from "./nouns.ts";
import { custom, id, type OperationsOf, operation, patch, query, request } from "./operation.ts";

/** A new run, and the assistant that a user's run names. The default assistant of a graph needs no event of its own. */
const NEW_RUN = ["threads:create_run", "assistants:read"] as const;

const assistants: OperationsOf<Assistants> = {
  create: operation("change", "assistants:create", request()),
  get: operation("read", "assistants:read", id("assistant_id")),
  update: operation("change", "assistants:update", patch("assistant_id")),
  // Of its threads, only those are deleted that the caller may delete.
  delete: custom(
    "change",
    ["assistants:delete", "threads:delete"],
    ({ authorize }, { assistants }) =>
      async (assistant_id, options = {}) => {
        const { scope } = await authorize("assistants:delete", { assistant_id });
        const threads = options.delete_threads ? (await authorize("threads:delete", { assistant_id })).scope : null;
        await assistants.delete(scope, assistant_id, threads?.filter ? { ...options, threads } : options);
      },
  ),
  search: operation("read", "assistants:search", query()),
  count: operation("read", "assistants:search", query()),
  versions: operation("read", "assistants:read", id("assistant_id")),
  setLatest: operation("change", "assistants:update", (assistant_id, version) => ({ assistant_id, version })),
  drawn: operation("read", "assistants:read", id("assistant_id")),
  schemas: operation("read", "assistants:read", id("assistant_id")),
  subgraphs: operation("read", "assistants:read", id("assistant_id")),
};

const calls: OperationsOf<CallerNouns["calls"]> = {
  send: operation("change", "threads:update", id("thread_id")),
  sendToRun: operation("change", "threads:update", (...[thread_id, run_id]) => ({ thread_id, run_id })),
  steps: operation("read", "threads:read", (thread_id, run_id) => ({ thread_id, run_id })),
};

const threads: OperationsOf<CallerNouns["threads"]> = {
  create: operation("change", "threads:create", query()),
  get: operation("read", "threads:read", id("thread_id")),
  update: operation("change", "threads:update", patch("thread_id")),
  delete: operation("change", "threads:delete", id("thread_id")),
  // Reads the thread, and creates the copy with the metadata that the handler leaves.
  copy: custom("change", ["threads:read", "threads:create"], copyThread),
  prune: operation("change", "threads:delete", {
    value: (thread_ids, strategy) => ({ thread_ids, ...(strategy ? { strategy } : {}) }),
    args: ({ thread_ids, strategy }) => [thread_ids, strategy],
  }),
  search: operation("read", "threads:search", query()),
  searchEach: operation("read", "threads:search", request()),
  count: operation("read", "threads:search", query()),
  list: operation("read", "threads:search", query()),
  inbox: operation("read", "threads:search", query()),
  state: operation("read", "threads:read", id("thread_id")),
  stateAt: operation("read", "threads:read", id("thread_id")),
  updateState: operation("change", "threads:update", patch("thread_id")),
  patchState: operation("change", "threads:update", {
    value: (thread_id, metadata) => ({ metadata, thread_id }),
    args: ({ metadata }, [thread_id]) => [thread_id, metadata],
  }),
  history: operation("read", "threads:read", id("thread_id")),
  historyEach: operation("read", "threads:read", id("thread_id")),
  storage: operation("read", "threads:read", id("thread_id")),
  // An id is made of the caller's name: nothing is read.
  idOf: custom("read", [], nameThread),
  stream: custom("stream", ["threads:read"], streamThread),
  events: { ...custom("stream", ["threads:read"], readEvents), of: ({ protocol }) => protocol.events },
  command: {
    ...custom("create", ["threads:read", ...NEW_RUN], executeCommand),
    of: ({ protocol }) => protocol.command,
  },
  send: { ...calls.send, of: ({ calls }) => calls.send },
};

const runs: OperationsOf<CallerNouns["runs"]> = {
  create: custom("create", NEW_RUN, createRun),
  stream: custom("create", NEW_RUN, streamRun),
  wait: custom("create", NEW_RUN, waitForRun),
  createBatch: custom("create", NEW_RUN, createRuns),
  get: operation("read", "threads:read", (thread_id, run_id) => ({ thread_id, run_id })),
  list: operation("read", "threads:read", id("thread_id")),
  delete: operation("change", "threads:delete", (thread_id, run_id) => ({ thread_id, run_id })),
  cancel: operation("change", "threads:update", (thread_id, run_id, { action = "interrupt" } = {}) => ({
    thread_id,
    action,
    metadata: { run_ids: [run_id] },
  })),
  cancelMany: operation("change", "threads:update", (target, action = "interrupt") => {
    const { thread_id, ...metadata } = { thread_id: null, ...target };
    return { thread_id, action, metadata };
  }),
  // `threads:update`, as of `cancel`, is asked about where leaving cancels the run.
  join: custom("stream", ["threads:read", "threads:update"], joinRun),
  joinStream: custom("stream", ["threads:read", "threads:update"], joinRunStream),
  search: operation("read", "threads:search", query()),
  stats: operation("read", "threads:search", () => ({})),
  inspect: operation("read", "threads:read", (run_id) => ({ thread_id: null, run_id })),
  rerun: custom("create", ["threads:read", ...NEW_RUN], rerun),
  send: { ...calls.sendToRun, of: ({ calls }) => calls.sendToRun },
  steps: { ...calls.steps, of: ({ calls }) => calls.steps },
};

const crons: OperationsOf<CallerNouns["crons"]> = {
  // Its runs are authorized now, and not again when they start.
  create: custom("change", ["crons:create", ...NEW_RUN], createCron),
  get: operation("read", "crons:read", id("cron_id")),
  update: operation("change", "crons:update", patch("cron_id")),
  delete: operation("change", "crons:delete", id("cron_id")),
  search: operation("read", "crons:search", query()),
  count: operation("read", "crons:search", query()),
  inspect: operation("read", "crons:read", id("cron_id")),
  run: operation("create", "crons:update", id("cron_id")),
  // Times of a schedule: nothing is read.
  preview: custom(
    "read",
    [],
    ({ scope }, { crons }) =>
      (preview) =>
        crons.preview(scope, preview),
  ),
};

const store: OperationsOf<CallerNouns["store"]> = {
  get: custom("read", ["store:get"], getItem),
  put: custom("change", ["store:put"], putItem),
  // Each item is authorized as by `put` or `delete`.
  putMany: custom("change", ["store:put", "store:delete"], putItems),
  delete: operation("change", "store:delete", {
    value: (namespace, key) => ({ namespace, key }),
    args: ({ namespace, key }) => [namespace, key],
  }),
  search: custom("read", ["store:search"], searchItems),
  namespaces: custom("read", ["store:list_namespaces"], listNamespaces),
};

/** Feedback is visible where its run's thread is, and changing it changes that thread. The call checks the permissions of `by`. */
const feedback: OperationsOf<CallerNouns["feedback"]> = {
  mintTokens: operation("change", "threads:update", (_by, requests) => ({
    thread_id: null,
    metadata: { run_ids: requests.map(({ run_id }) => run_id) },
  })),
  listTokens: operation("read", "threads:read", (_by, { run_id }) => ({ thread_id: null, run_id })),
  create: operation("change", "threads:update", (_by, { run_id }) => ({
    thread_id: null,
    metadata: { run_ids: run_id === undefined ? [] : [run_id] },
  })),
  get: operation("read", "threads:read", (_by, feedback_id) => ({ thread_id: null, feedback_id })),
  update: operation("change", "threads:update", (...[_by, feedback_id]) => ({ thread_id: null, feedback_id })),
  delete: operation("change", "threads:update", (_by, feedback_id) => ({ thread_id: null, feedback_id })),
  list: operation("read", "threads:read", (_by, { run_ids = null }) => ({ thread_id: null, run_ids })),
  stats: operation("read", "threads:read", (_by, { run_ids = null }) => ({ thread_id: null, run_ids })),
  scores: operation("read", "threads:read", () => ({ thread_id: null })),
  links: operation("read", "threads:read", () => ({ thread_id: null })),
  revokeLink: operation("change", "threads:update", () => ({ thread_id: null })),
};

/** Deliveries and push configurations of the threads that the caller sees. */
const webhooks: OperationsOf<CallerNouns["webhooks"]> = {
  list: operation("read", "threads:search", query()),
  get: operation("read", "threads:read", (run_id) => ({ thread_id: null, run_id })),
  redeliver: operation("change", "threads:update", (run_id) => ({
    thread_id: null,
    action: "send",
    metadata: { run_ids: [run_id] },
  })),
  setPush: operation("change", "threads:update", pushOf),
  listPushes: operation("read", "threads:read", ({ thread_id, task_id }) => ({ thread_id, run_id: task_id })),
  removePush: operation("change", "threads:update", pushOf),
  tellCancelled: operation("change", "threads:update", pushOf),
};

function pushOf({ thread_id, task_id }: { readonly thread_id: string; readonly task_id: string }): object {
  return { thread_id, action: "push", metadata: { run_ids: [task_id] } };
}

/** The operations of each caller, of `service.as` and of the service itself, which asks no handler. */
export const OPERATIONS: { readonly [Name in keyof CallerNouns]: OperationsOf<CallerNouns[Name]> } = {
  ...{ assistants, threads, runs, crons, store, feedback, webhooks, calls },
};

/** Operations that only routes use. */
export const ROUTE_OPERATIONS: {
  readonly runs: OperationsOf<{ permit: PermitRun }>;
  readonly protocol: OperationsOf<AuthorizedProtocol>;
} = {
  runs: { permit: custom("create", NEW_RUN, permitRun) },
  protocol: {
    subscribe: custom("stream", ["threads:read"], subscribeEvents),
    open: custom("stream", ["threads:read"], openThreadStream),
    // Its runs are authorized by the route, which gives the command a `permit`.
    command: custom("create", ["threads:read", ...NEW_RUN], executeCommand),
  },
};

/**
 * Calls that no handler is asked about, and what they check. `token`: a secret that the service has made. `by`: the permissions of the
 * caller that they get. `host`: nothing, because only the host's code can make them. `service`: calls that belong to no noun.
 */
export const OPEN_OPERATIONS: {
  readonly feedback: Checks<FeedbackTokens>;
  readonly calls: Checks<DurableCallTokens>;
  readonly usage: Checks<Usage>;
  readonly accounts: Check;
  readonly service: Readonly<Record<string, Check>>;
} = {
  feedback: { token: "token", submit: "token" },
  calls: { deliver: "token" },
  usage: { admit: "by", report: "by", seal: "host", traceUsage: "host" },
  accounts: "host",
  service: {
    ...{ as: "host", caller: "host", info: "host", healthy: "host", services: "host", ready: "host", metrics: "host" },
    ...{ report: "by", stop: "host" },
  },
};

type Check = "token" | "by" | "host";
type Checks<Noun> = { readonly [Name in keyof Noun]: Check };
