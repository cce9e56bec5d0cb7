/**
 * Creates runs that continue durable calls when they are due: their last run ended with an interrupt, and a time or an
 * event has come since.
 */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { DurableCallRow, Scope, Storage } from "../storage/mod.ts";
import { isThreadWaiting } from "./journal.ts";

interface RunCreator {
  create(scope: Scope, thread_id: string, request: object, origin: object): Promise<unknown>;
}

export interface DurableCallOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  /** Undefined until the resources of the service are created. */
  runs(): RunCreator | undefined;
}

const MAX_DUE_CALLS = 50;
/** The delay before a call is tried again that the service refused to continue. */
const REFUSED_RETRY_MS = 60_000;

export interface DueCallResumer {
  /** Continues the calls that are due. Returns their number. */
  resumeDueCalls(): Promise<number>;
}

/** Creates the job that continues due calls with new runs. */
export function createDueCallResumer(options: DurableCallOptions): DueCallResumer {
  const { storage, scope, environment } = options;

  /**
   * Creates the run that continues a call, with the configuration of the run before, and clears the time at which the call is
   * due. Ends the call if other input has replaced it. Returns false if it must be tried again; a refused run is tried again
   * later and logged.
   */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: each outcome of the continuation decides when the call is due next
  async function resumeCall(call: DurableCallRow): Promise<boolean> {
    const { thread_id, call_id, run_id, due_at } = call;
    const thread = await storage.getThread(scope, thread_id);
    if (thread?.status === "busy") return false;
    const row = await storage.getRun(scope, run_id);
    if (!row || !thread || !isThreadWaiting(thread.interrupts, call)) {
      // Another input has taken the place of this call.
      await storage.setCallDue(scope, call, null, row ? environment.now() : null);
      return true;
    }
    const { config, context, stream_mode, resumable, all_events } = row.kwargs;
    const request = {
      assistant_id: row.assistant_id,
      config,
      context,
      metadata: row.metadata,
      stream_mode,
      stream_resumable: resumable,
      durability: "async",
      multitask_strategy: "reject",
      ...(row.webhook ? { webhook: row.webhook.url } : {}),
    };
    const origin = {
      call_id,
      trace: { source: "call" },
      user_id: row.user_id,
      api_key: row.api_key,
      ...(row.auth_user ? { user: row.auth_user } : {}),
      ...(all_events === true ? { records_all: true } : {}),
      idempotency: { route: `call ${call_id}`, key: `${run_id} ${due_at}`, body_hash: "" },
    };
    try {
      await options.runs()?.create(scope, thread_id, request, origin);
    } catch (error) {
      const isRefusal = error instanceof ServiceError;
      if (isRefusal && ["thread_busy", "limit_reached"].includes(error.reason)) return false;
      environment.log({ level: "error", message: "a call could not be continued", thread_id, call_id, error });
      // The assistant may be gone, for example: a deploy may bring it back.
      if (isRefusal) await storage.setCallDue(scope, call, environment.now() + REFUSED_RETRY_MS, null);
      return isRefusal;
    }
    await storage.setCallDue(scope, call, null, null);
    return true;
  }

  /**
   * Continues at most `MAX_DUE_CALLS` calls that are due, one after another. Resolves with the number of those that are settled;
   * 0 until the service is created.
   */
  async function resumeDueCalls(): Promise<number> {
    const dueCalls = options.runs() ? await storage.listDueCalls(scope, environment.now(), MAX_DUE_CALLS) : [];
    let resumedCount = 0;
    for (const call of dueCalls) if (await resumeCall(call)) resumedCount++;
    return resumedCount;
  }

  return { resumeDueCalls };
}
