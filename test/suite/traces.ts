/** Traces for tests: each as the claim of a first attempt leaves it, without its run. */
import type { Storage, TraceRow } from "../../lib/storage/mod.ts";

const TRACES = { deployment: "traces" };

/** The traces of a test. Their usage is reported later. */
export type NewTrace = Omit<TraceRow, "usage">;

/** Stores traces as if their runs had started, been rolled back and left nothing else. A known id keeps its trace. */
export async function addTraces(storage: Storage, traces: readonly NewTrace[]): Promise<void> {
  const content = { graph_id: "g", name: "g", description: null, config: {}, context: {}, metadata: {} };
  const { assistant } = await storage.createAssistant(TRACES, { assistant_id: "traces", ...content }, 0);
  for (const { trace_id: run_id, started_at: now, user_id, api_key, ...trace } of traces) {
    const thread_id = trace.thread_id ?? `thread of ${run_id}`;
    const lease = { thread_id, run_id, token: run_id };
    const outcome = await storage.createRun(TRACES, {
      run: {
        ...{ run_id, thread_id, assistant_id: assistant.assistant_id, graph_id: "g", metadata: {}, kwargs: {} },
        ...{ multitask_strategy: "enqueue", stateless: trace.thread_id === null, resumable: false },
        ...{ created_at: now, user_id, api_key },
      },
      expected: { assistant_revision: assistant.revision, thread_revision: null },
      create_thread: { thread_id, metadata: {}, config: {}, stateless: true },
      claim: { token: run_id, lease_until: now + 1, trace },
      now,
    });
    if (outcome.kind !== "created") throw new Error(`The trace ${run_id} was not made: ${outcome.kind}`);
    await storage.stopRuns(TRACES, { run_ids: [run_id] }, "rollback", now);
    await storage.releaseThreadLock(TRACES, lease);
  }
}
