/** `requestState`: names a tool call. Everything else is read from the database, and checked there each time. */
import type { Principal } from "../../../auth/principal.ts";
import { nullIfNotFound } from "../../../errors.ts";
import type { Json } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestResources } from "../../../service/resources.ts";
import { UUID } from "../../../storage/identity.ts";
import { McpError } from "./protocol.ts";
import { createCallerDigest, decodeUrlSafe, encodeUrlSafe } from "./session.ts";

/** Returns a digest of the caller, the tool and its arguments. The run stores it, and a later response must present the same digest. */
export const createRequestDigest = (principal: Principal, name: string, args: Json): Promise<string> =>
  createCallerDigest(principal, name, args);

const encodeState = (ids: readonly string[]): string => encodeUrlSafe(ids.join("."));

/** Creates the state of a tool call whose newest run was interrupted. It cannot be guessed, because run ids are random. */
export const createRequestState = (firstRun: Run, newestRun: Run): string =>
  encodeState([firstRun.run_id, newestRun.run_id]);

const invalidStateError = (): McpError =>
  new McpError("params", "Invalid or expired requestState", { data: { reason: "invalid_request_state" } });

/** Parses a state into the ids of the first and the newest run. Returns an empty list for any other text. */
export function parseRequestState(state: string | undefined): readonly string[] {
  if (state === undefined || state.length > 200) return [];
  const ids = decodeUrlSafe(state).split(".");
  return ids.length === 2 && ids.every((id) => UUID.test(id)) && encodeState(ids) === state ? ids : [];
}

/** Returns a run that started a tool call of MCP; null for any other, and for one that the caller cannot see. */
export async function findFirstRun({ runs }: Pick<RequestResources, "runs">, run_id: string): Promise<Run | null> {
  const run = await runs.get(null, run_id).catch(nullIfNotFound);
  const isFirst = run?.metadata.created_by === "mcp" && run.metadata.task_id === undefined;
  return isFirst ? run : null;
}

/**
 * Returns the first run and the id of the interrupted run that a state names. Throws one McpError for every mismatch:
 * other arguments, a cancelled call, or a deleted run.
 */
export async function requireRunOfState(
  resources: Pick<RequestResources, "runs" | "threads">,
  state: string,
  digest: string,
): Promise<{ readonly firstRun: Run; readonly interrupted_run_id: string }> {
  const [first_id, interrupted_run_id] = parseRequestState(state);
  const firstRun = first_id === undefined ? null : await findFirstRun(resources, first_id);
  if (!firstRun || interrupted_run_id === undefined || firstRun.metadata.mcp_call !== digest) throw invalidStateError();
  const { metadata } = await resources.threads.get(firstRun.thread_id);
  const isOfThread =
    interrupted_run_id === first_id ||
    (await resources.runs.get(firstRun.thread_id, interrupted_run_id).catch(nullIfNotFound));
  if (metadata.task_cancelled === firstRun.run_id || !isOfThread) throw invalidStateError();
  return { firstRun, interrupted_run_id };
}
