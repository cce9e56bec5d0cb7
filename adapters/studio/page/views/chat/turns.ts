/** Finds the runs of each turn of a conversation, with their tokens and cost. */
import { useMemo, useRef } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { Listing, RunSummary } from "../../api/types.ts";
import { useResource } from "../../store/resource.ts";
import { type Checkpoint, findPath, type History } from "./history.ts";
import type { ChatMessage } from "./messages.ts";
import type { ChatState } from "./source.ts";

/** The runs of one turn: the one that took the message, and those that took answers to its interrupts. */
export interface TurnRuns {
  readonly run_id: string;
  readonly tokens_in: number;
  readonly tokens_out: number;
  readonly cost_usd: number;
  readonly duration_ms: number | null;
}

const getRunId = ({ metadata }: Checkpoint): string | null =>
  typeof metadata["run_id"] === "string" ? metadata["run_id"] : null;

/**
 * Returns the ids of the runs of each turn. A turn begins with the checkpoint of its input. A run that ends on another branch is left out: an
 * answer was regenerated from one of its checkpoints.
 */
function groupRunsByTurn({ all }: History, path: readonly Checkpoint[]): readonly (readonly string[])[] {
  const onPath = new Set(path);
  const lastCheckpoints = new Map([...all].reverse().map((checkpoint) => [getRunId(checkpoint), checkpoint]));
  const endsElsewhere = (run_id: string): boolean => !onPath.has(lastCheckpoints.get(run_id) as Checkpoint);
  const turns: { readonly input: string | null; readonly runs: Set<string> }[] = [];
  for (const checkpoint of path) {
    const run = getRunId(checkpoint);
    const isInput = checkpoint.metadata["source"] === "input";
    if (isInput || turns.length === 0) turns.push({ input: run, runs: new Set() });
    // A regenerated answer has its input from another run.
    if (!isInput && run) turns.at(-1)?.runs.add(run);
  }
  return turns.map(({ input, runs }) => {
    const ids = runs.size > 0 ? [...runs] : input ? [input] : [];
    return ids.slice(ids.slice(0, -1).findLastIndex(endsElsewhere) + 1);
  });
}

/**
 * Returns the sums of tokens, cost and duration of the runs of a turn, and the id of the last one; null without runs.
 * Runs that are not listed do not count; the duration is null if none is.
 */
function sumRuns(ids: readonly string[], runs: ReadonlyMap<string, RunSummary>): TurnRuns | null {
  const run_id = ids.at(-1);
  if (!run_id) return null;
  const listed = ids.flatMap((id) => runs.get(id) ?? []);
  const sum = (value: (run: RunSummary) => number | null | undefined): number =>
    listed.reduce((total, run) => total + (value(run) ?? 0), 0);
  return {
    run_id,
    tokens_in: sum(({ usage }) => usage?.tokens_in),
    tokens_out: sum(({ usage }) => usage?.tokens_out),
    cost_usd: sum(({ usage }) => usage?.cost_usd),
    duration_ms: listed.length > 0 ? sum(({ duration_ms }) => duration_ms) : null,
  };
}

/**
 * Returns the runs of each turn by the id of its last message that is no tool result. Matches turns and messages from
 * the end, because the history may be cut. Only the last turn is matched if the whole history has another number of
 * inputs.
 */
function indexTurnsByMessage(
  history: History,
  path: readonly Checkpoint[],
  messages: readonly ChatMessage[],
  list: readonly RunSummary[],
): ReadonlyMap<string, TurnRuns> {
  const runs = new Map(list.map((run) => [run.run_id, run]));
  const turns = groupRunsByTurn(history, path);
  const starts = messages.flatMap(({ type }, index) => (type === "human" ? [index] : []));
  const turnsByMessage = new Map<string, TurnRuns>();
  // With another number of inputs, a message has come some other way: only the last turn is sure.
  const isSure = !history.isWhole || turns.length === starts.length;
  const turnCount = isSure ? Math.min(turns.length, starts.length) : 1;
  for (let distance = 1; distance <= turnCount; distance += 1) {
    const end = distance === 1 ? messages.length : (starts.at(1 - distance) as number);
    let index = end - 1;
    while (messages[index]?.type === "tool") index -= 1;
    const last = messages[index];
    const turn = sumRuns(turns.at(-distance) ?? [], runs);
    if (last?.id && turn) turnsByMessage.set(last.id, turn);
  }
  return turnsByMessage;
}

const NO_RUNS: readonly RunSummary[] = [];

/**
 * Reads the runs of a thread, and returns the newest one, if their list is loaded, and the runs of each turn by the id of its last message.
 * The turns stay as they were while a run streams or data loads, so that nothing jumps.
 */
export function useTurnRuns(
  thread_id: string,
  state: ChatState,
  history: History | undefined,
): { readonly newest: RunSummary | undefined; readonly turns: ReadonlyMap<string, TurnRuns> } {
  const { version, phase, messages, checkpoint_id, isNew } = state;
  const key = isNew ? null : `turns/${thread_id}/${version}`;
  const { data, error } = useResource<Listing<RunSummary>>(key, (signal) =>
    call("GET", "/greenroom/runs", { query: { thread_id, limit: 100 }, signal }),
  );
  // Servers that turn operations off have no such list.
  const runs = data?.items ?? (error ? NO_RUNS : null);
  const isAtRest = phase !== "running";
  const turns = useRef<ReadonlyMap<string, TurnRuns>>(new Map());
  return useMemo(() => {
    if (isAtRest && history && runs)
      turns.current = indexTurnsByMessage(history, findPath(history, checkpoint_id), messages ?? [], runs);
    return { newest: runs?.[0], turns: turns.current };
  }, [history, checkpoint_id, isAtRest ? messages : null, runs]);
}
