/** `requestState`: it names the call; everything that it stands for is in the database, and checked there each time. */
import type { Principal } from "../../../auth/principal.ts";
import { nullIfNotFound } from "../../../errors.ts";
import type { Json } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import type { RequestNouns } from "../../../service/nouns.ts";
import { UUID } from "../../../storage/identity.ts";
import { RpcError } from "./protocol.ts";
import { callerDigest, textOfToken, urlSafe } from "./session.ts";

/** Of the caller, the tool and its arguments. It is stored with the run, and an answer must have the same. */
export const callDigest = (principal: Principal, name: string, given: Json): Promise<string> =>
  callerDigest(principal, name, given);

const stateOf = (ids: readonly string[]): string => urlSafe(ids.join("."));

/** The state of a call whose newest run asks. Ids are random: those of another call cannot be guessed. */
export const stateOfCall = (first: Run, newest: Run): string => stateOf([first.run_id, newest.run_id]);

const invalid = (): RpcError =>
  new RpcError("params", "Invalid or expired requestState", { data: { reason: "invalid_request_state" } });

/** The ids of the first and the newest run in a state; none if it has another form. */
export function runsOfState(state: string | undefined): readonly string[] {
  if (state === undefined || state.length > 200) return [];
  const ids = textOfToken(state).split(".");
  return ids.length === 2 && ids.every((id) => UUID.test(id)) && stateOf(ids) === state ? ids : [];
}

/** A run that began a call by MCP; null for any other, and for one that the caller cannot see. */
export async function firstRun({ runs }: Pick<RequestNouns, "runs">, run_id: string): Promise<Run | null> {
  const run = await runs.get(null, run_id).catch(nullIfNotFound);
  const isFirst = run?.metadata.created_by === "mcp" && run.metadata.task_id === undefined;
  return isFirst ? run : null;
}

/** The call that a state names, and the run whose questions it answers. Errors: one for all that does not fit. */
export async function callOfState(
  nouns: Pick<RequestNouns, "runs" | "threads">,
  state: string,
  digest: string,
): Promise<{ readonly first: Run; readonly asked: string }> {
  const [first_id, asked] = runsOfState(state);
  const first = first_id === undefined ? null : await firstRun(nouns, first_id);
  if (!first || asked === undefined || first.metadata.mcp_call !== digest) throw invalid();
  const { metadata } = await nouns.threads.get(first.thread_id);
  const isOfThread = asked === first_id || (await nouns.runs.get(first.thread_id, asked).catch(nullIfNotFound));
  if (metadata.task_cancelled === first.run_id || !isOfThread) throw invalid();
  return { first, asked };
}
