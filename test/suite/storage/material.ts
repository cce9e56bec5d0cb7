/** Shared helpers and test data of the storage tests. */
import assert from "node:assert/strict";
import type { NewCheckpoint } from "../../../lib/executor/contract.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import type {
  AssistantContent,
  AssistantRow,
  ClaimedRun,
  CreateRun,
  CreateRunResult,
  DeliveryRow,
  FinishRun,
  Lease,
  NewRun,
  Progress,
  SavedCheckpoint,
  Scope,
  StoppedRun,
  Storage,
  ThreadRow,
} from "../../../lib/storage/mod.ts";

/** `describe` and `it` of the test runner; those of `node:test` fit. */
export interface SuiteApi {
  describe(name: string, fn: () => void): unknown;
  it(name: string, fn: () => Promise<void>): unknown;
  /** The amount of random testing, above 0 and up to 1. Use less for a slow database. Default 1. */
  readonly effort?: number;
}

/** Returns `most` scaled by the effort; at least one. */
export function scaleByEffort({ effort = 1 }: SuiteApi, most: number): number {
  return Math.max(1, Math.round(most * effort));
}

/** Returns the seeds of a random test: 1, 2, … up to `most`, scaled by the effort. */
export function createSeeds(api: SuiteApi, most: number): number[] {
  return Array.from({ length: scaleByEffort(api, most) }, (_, i) => i + 1);
}

export const here: Scope = { deployment: "here" };
export const there: Scope = { deployment: "there" };

export const content: AssistantContent = {
  graph_id: "echo",
  name: "Echo",
  description: null,
  config: {},
  context: {},
  metadata: {},
};

/** Defines a test on a new, migrated, empty storage. */
export type StorageTest = (name: string, body: (storage: Storage) => Promise<void>) => void;

// ---------------------------------------------------------------- material

export const firstPage = { limit: 10, offset: 0, sort_order: "asc" } as const;

export async function createAssistant(
  storage: Storage,
  options: Partial<AssistantContent & { assistant_id: string }> = {},
  now = 1000,
  scope: Scope = here,
): Promise<AssistantRow> {
  return (await storage.createAssistant(scope, { assistant_id: "a", ...content, ...options }, now)).assistant;
}

export async function createThread(
  storage: Storage,
  thread_id: string,
  metadata: JsonObject = {},
  now = 1000,
  scope: Scope = here,
): Promise<ThreadRow> {
  return (await storage.createThread(scope, { thread_id, metadata, config: {}, stateless: false }, now)).thread;
}

export function newRun(thread_id: string, run_id: string, options: Partial<NewRun> = {}): NewRun {
  return {
    run_id,
    thread_id,
    assistant_id: "a",
    graph_id: "echo",
    metadata: {},
    kwargs: {},
    multitask_strategy: "enqueue",
    stateless: false,
    resumable: false,
    created_at: 1100,
    ...options,
  };
}

export async function request(
  storage: Storage,
  assistant: AssistantRow,
  thread_id: string,
  run_id: string,
): Promise<CreateRun> {
  const thread = (await storage.getThread(here, thread_id)) as ThreadRow;
  return {
    run: newRun(thread_id, run_id),
    expected: { assistant_revision: assistant.revision, thread_revision: thread.revision },
    now: 1100,
  };
}

export async function createPendingRun(
  storage: Storage,
  assistant: AssistantRow,
  thread: string,
  id: string,
): Promise<CreateRunResult> {
  return await storage.createRun(here, await request(storage, assistant, thread, id));
}

/** Creates a run and claims it at its creation, until 5000. */
export async function createClaimedRun(
  storage: Storage,
  assistant: AssistantRow,
  thread: string,
  id: string,
): Promise<ClaimedRun> {
  const claim = { token: `token-${id}`, lease_until: 5000 };
  const outcome = await storage.createRun(here, { ...(await request(storage, assistant, thread, id)), claim });
  assert.ok(outcome.kind === "created" && outcome.claimed, `${id} is claimed`);
  return outcome.claimed;
}

/** Creates and ends a run on the thread. */
export async function createFinishedRun(
  storage: Storage,
  assistant: AssistantRow,
  thread_id: string,
  run_id: string,
  thread: Partial<FinishRun["thread"]> = {},
  options: Partial<FinishRun> = {},
): Promise<void> {
  const { lease } = await createClaimedRun(storage, assistant, thread_id, run_id);
  const end = finish(options);
  assert.deepEqual(await storage.finishRun(here, lease, { ...end, thread: { ...end.thread, ...thread } }), {
    next: null,
  });
}

export async function createLease(storage: Storage): Promise<Lease> {
  const assistant = await createAssistant(storage);
  await createThread(storage, "t");
  return (await createClaimedRun(storage, assistant, "t", "r1")).lease;
}

/** Claims a run; null if none is due. */
export async function claimNext(
  storage: Storage,
  ...args: Parameters<Storage["claimRun"]>
): Promise<ClaimedRun | null> {
  const outcome = await storage.claimRun(...args);
  return outcome.kind === "claimed" ? outcome.claimed : null;
}

export function claimTerms(token: string): Parameters<Storage["claimRun"]>[1] {
  return { token, lease_until: 90000, graph_ids: ["echo"], now: 3000 };
}

export function progress(checkpoints: Progress["checkpoints"], writes: Progress["writes"] = []): Progress {
  return { checkpoints, writes };
}

export function checkpoint(
  checkpoint_id: string,
  values: JsonObject,
  parent_id: NewCheckpoint["parent_id"] = null,
  version: string = checkpoint_id,
): SavedCheckpoint {
  return {
    ns: "",
    checkpoint_id,
    parent_id,
    payload: { type: "json", data: "{}" },
    metadata: {},
    versions: Object.fromEntries(Object.keys(values).map((channel) => [channel, version])),
    values: Object.entries(values).map(([channel, value]) => ({
      channel,
      version,
      type: "json",
      data: JSON.stringify(value),
    })),
    created_at: 1200,
  };
}

export function write(checkpoint_id: string, task_id: string, idx: number, data: Json): Progress["writes"][number] {
  const pending = { channel: "ch", idx, type: "json", data: JSON.stringify(data) };
  return { ns: "", checkpoint_id, task_id, writes: [pending] };
}

export function finish(options: Partial<FinishRun> = {}): FinishRun {
  return {
    claims: 1,
    status: "success",
    error: null,
    result: null,
    progress: { checkpoints: [], writes: [] },
    discard: false,
    thread: { head: null, status: "idle", interrupts: {}, error: null },
    end_frame: 9,
    now: 2000,
    ...options,
  };
}

/** Options of a new run, in addition to the defaults. */
export interface RunOptions extends Partial<Omit<CreateRun, "run" | "seen">> {
  readonly run?: Partial<NewRun>;
}

export async function create(
  storage: Storage,
  assistant: AssistantRow,
  thread_id: string,
  run_id: string,
  { run, ...options }: RunOptions = {},
): Promise<CreateRunResult> {
  const createdRun = newRun(thread_id, run_id, run);
  return await storage.createRun(here, {
    ...(await request(storage, assistant, thread_id, run_id)),
    ...options,
    run: createdRun,
  });
}

/** Creates a run, and fails the test unless it is created. */
export async function requireCreated(
  ...args: Parameters<typeof create>
): Promise<Extract<CreateRunResult, { kind: "created" }>> {
  const outcome = await create(...args);
  assert.ok(outcome.kind === "created", `${args[3]} is ${outcome.kind}`);
  return outcome;
}

/** A stateless run with its hidden thread, claimed until 5000. */
export async function stateless(
  storage: Storage,
  assistant: AssistantRow,
  run_id: string,
  { run, ...options }: RunOptions = {},
): Promise<ClaimedRun> {
  const thread_id = `thread-${run_id}`;
  const outcome = await storage.createRun(here, {
    run: newRun(thread_id, run_id, { stateless: true, ...run }),
    expected: { assistant_revision: assistant.revision, thread_revision: null },
    create_thread: { thread_id, metadata: {}, config: {}, stateless: true },
    claim: { token: `token-${run_id}`, lease_until: 5000 },
    now: 1100,
    ...options,
  });
  assert.ok(outcome.kind === "created" && outcome.claimed, `${run_id} is claimed`);
  return outcome.claimed;
}

/** Formats the outcome of each run, sorted by id. */
export function formatOutcomes(stopped: readonly StoppedRun[]): string {
  return stopped
    .map(({ run_id, kind }) => `${run_id} ${kind}`)
    .sort()
    .join();
}

export function frames(first_id: number, ...list: readonly string[]): Progress {
  return {
    checkpoints: [],
    writes: [],
    frames: { first_id, list: list.map((event, i) => ({ event, data: JSON.stringify({ at: first_id + i }) })) },
  };
}

/** The statuses of a thread's runs, oldest first. */
export async function statuses(storage: Storage, thread_id: string): Promise<string> {
  const runs = await storage.listRuns(here, thread_id, { above: 0, limit: 100, offset: 0 });
  return runs.map(({ run_id, status }) => `${run_id} ${status}`).join();
}

/** A delivery; null when it does not exist or is not visible. */
export async function findDelivery(storage: Storage, scope: Scope, run_id: string): Promise<DeliveryRow | null> {
  const [row = null] = await storage.listDeliveries(scope, { run_id, limit: 1 });
  return row;
}
