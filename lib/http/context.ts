/** One request to a route of the deployment, on its way to a noun. */
import type { AuthEvent } from "../auth/custom.ts";
import type { Principal } from "../auth/principal.ts";
import type { Caller } from "../storage/identity.ts";
import type { Visibility } from "../storage/visibility.ts";
import * as parse from "./parse/mod.ts";

export interface RequestContext {
  readonly method: string;
  readonly url: string;
  readonly request: Request;
  readonly params: Readonly<Record<string, string | undefined>>;
  readonly query: parse.Query;
  readonly principal: Principal;
  /** The body, once. Errors: too_large, too_slow. */
  bytes(): Promise<Uint8Array>;
  /** Resolves when the event loop has turned. */
  turn(): Promise<void>;
  /** Who calls a route of the platform. Errors: as `Access.caller`. */
  caller(): Promise<Caller>;
  /** Stands in every log record of the request. */
  readonly request_id: string;
  /**
   * Asks whether the caller may do this, before anything is looked up. Gives `value` as authorization leaves it, and how far the
   * call reaches. Errors: forbidden, unavailable, internal.
   */
  authorize<Value extends object>(
    event: AuthEvent,
    value: Value,
  ): Promise<{ readonly value: Value; readonly visibility: Visibility }>;
}

export const body = async <Output>(call: RequestContext, schema: parse.Fields<Output>): Promise<Output> => {
  const bytes = await call.bytes();
  const value = parse.readObject(bytes, schema);
  await rest(call, bytes);
  return value;
};

/** Between the reading of a large body and what is made of it, others have their turn. */
export async function rest(call: Pick<RequestContext, "turn">, bytes: Uint8Array): Promise<void> {
  if (bytes.length > LARGE_BYTES) await call.turn();
}

const LARGE_BYTES = 128 * 1024;

export const query = <Output>(call: RequestContext, schema: parse.Fields<Output>): Output =>
  parse.readQuery(call.query, schema);
export const assistantId = (call: RequestContext): string => parse.readAssistantId(call.params.assistant_id);
export const threadId = (call: RequestContext): string => parse.readId(call.params.thread_id, "thread_id");
export const runId = (call: RequestContext): string => parse.readId(call.params.run_id, "run_id");
export const cronId = (call: RequestContext): string => parse.readId(call.params.cron_id, "cron_id");
export const segment = (call: RequestContext, field: string): string => parse.readSegment(call.params[field], field);

/** What answers the routes of one noun. */
export type Routes<Name extends string> = Readonly<Record<Name, (call: RequestContext) => Promise<Response>>>;
