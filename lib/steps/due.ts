/** Runs that continue calls when they are due: their last run has ended for an ask, and something else has come since. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { CallRow, Scope, Storage } from "../storage/mod.ts";
import { isWaiting } from "./journal.ts";

/** What continues calls. */
interface RunMaker {
  create(scope: Scope, thread_id: string, request: object, origin: object): Promise<unknown>;
}

export interface CallOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  /** Present once the nouns of the service are made. */
  runs(): RunMaker | undefined;
}

const DUE_AT_ONCE = 50;
/** When a call is tried again that the service refused to continue. */
const REFUSED_MS = 60_000;

export interface DueCalls {
  /** Continues calls that are due. Returns how many. */
  continueDue(): Promise<number>;
}

export function createDueCalls(options: CallOptions): DueCalls {
  const { storage, scope, environment } = options;

  /** A run for a call that is due. False: later. */
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: each outcome of the continuation decides when the call is due next
  async function continueCall(call: CallRow): Promise<boolean> {
    const { thread_id, call_id, run_id, due_at } = call;
    const thread = await storage.getThread(scope, thread_id);
    if (thread?.status === "busy") return false;
    const row = await storage.getRun(scope, run_id);
    if (!row || !thread || !isWaiting(thread.interrupts, call)) {
      // Another input has taken its place.
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
      user_id: row.user_id,
      api_key: row.api_key,
      ...(row.auth_user ? { user: row.auth_user } : {}),
      ...(all_events === true ? { records_all: true } : {}),
      idempotency: { route: `call ${call_id}`, key: `${run_id} ${due_at}`, body_hash: "" },
    };
    try {
      await options.runs()?.create(scope, thread_id, request, origin);
    } catch (error) {
      const refused = error instanceof ServiceError;
      if (refused && ["thread_busy", "limit_reached"].includes(error.reason)) return false;
      environment.log({ level: "error", message: "a call could not be continued", thread_id, call_id, error });
      // Its assistant is gone, for one: a deploy may bring it back.
      if (refused) await storage.setCallDue(scope, call, environment.now() + REFUSED_MS, null);
      return refused;
    }
    await storage.setCallDue(scope, call, null, null);
    return true;
  }

  async function continueDue(): Promise<number> {
    const due = options.runs() ? await storage.dueCalls(scope, environment.now(), DUE_AT_ONCE) : [];
    let done = 0;
    for (const call of due) if (await continueCall(call)) done++;
    return done;
  }

  return { continueDue };
}
