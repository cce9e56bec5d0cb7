/** Threads for a saver under test: on a real storage, each written by a run that holds a real lease. */

import type { ThreadAccess } from "../../../adapters/langgraph/saver.ts";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { CheckpointHandle } from "../../../lib/executor/contract.ts";
import { createJobCheckpoints, type JobCheckpoints } from "../../../lib/executor/job-checkpoints.ts";
import { createStoredCheckpointReader } from "../../../lib/executor/stored-checkpoints.ts";
import { WriteBarrier } from "../../../lib/executor/write-barrier.ts";
import type { AssistantRow, Storage } from "../../../lib/storage/mod.ts";

const scope = { deployment: "conformance" };
const lease_until = Date.now() + 3_600_000;

export interface StoredThreads extends ThreadAccess {
  close(): Promise<void>;
}

/** Every thread is made by its first write. */
export async function createStoredThreads(): Promise<StoredThreads> {
  const storage = nodeSqlite(":memory:");
  await storage.migrate();
  const content = { graph_id: "graph", name: "graph", description: null, config: {}, context: {}, metadata: {} };
  const { assistant } = await storage.createAssistant(
    scope,
    { assistant_id: crypto.randomUUID(), ...content },
    Date.now(),
  );
  const jobs = new Map<string, Promise<JobCheckpoints>>();
  const openThreadJob = (thread_id: string): Promise<JobCheckpoints> => {
    const openedJob = jobs.get(thread_id) ?? openJob(storage, assistant, thread_id);
    jobs.set(thread_id, openedJob);
    return openedJob;
  };
  return {
    get(thread_id): CheckpointHandle {
      const reader = createStoredCheckpointReader(storage, scope, thread_id, null);
      return {
        get: (at) => storage.getCheckpoint(scope, thread_id, at),
        list: (at) => reader.list(at),
        put: async (checkpoint) => (await openThreadJob(thread_id)).put(checkpoint),
        putWrites: async (at, task_id, writes) => (await openThreadJob(thread_id)).putWrites(at, task_id, writes),
      };
    },
    ids: () => jobs.keys(),
    async delete(thread_id) {
      jobs.delete(thread_id);
      await storage.deleteThread(scope, thread_id);
    },
    close: () => storage.close(),
  };
}

async function openJob(storage: Storage, assistant: AssistantRow, thread_id: string): Promise<JobCheckpoints> {
  const now = Date.now();
  const run_id = crypto.randomUUID();
  const { kind } = await storage.createRun(scope, {
    run: {
      run_id,
      thread_id,
      assistant_id: assistant.assistant_id,
      graph_id: "graph",
      metadata: {},
      kwargs: {},
      multitask_strategy: "reject",
      stateless: false,
      resumable: false,
      created_at: now,
    },
    expected: { assistant_revision: assistant.revision, thread_revision: null },
    create_thread: { thread_id, metadata: {}, config: {}, stateless: false },
    now,
  });
  if (kind !== "created") throw new Error(`The run was not created: ${kind}`);
  const outcome = await storage.claimRun(scope, { token: crypto.randomUUID(), lease_until, graph_ids: ["graph"], now });
  if (outcome.kind !== "claimed" || outcome.claimed.run.run_id !== run_id) throw new Error("The run was not claimed");
  const { lease } = outcome.claimed;
  const openThreadJob: JobCheckpoints = createJobCheckpoints({
    storage,
    scope,
    thread_id,
    run_id,
    head: null,
    resumed: false,
    sync: true,
    now: () => Date.now(),
    retry: (ask) => ask(),
    barrier: new WriteBarrier(),
    onAdded: () => {},
    async save() {
      if (!(await storage.saveProgress(scope, lease, openThreadJob.drain(), Date.now()))) openThreadJob.refuseWrites();
    },
  });
  return openThreadJob;
}
