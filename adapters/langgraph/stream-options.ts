/** The options with which LangGraph streams an attempt. */
import type { Job, StreamMode } from "../../lib/executor/contract.ts";
import type { JsonObject } from "../../lib/json.ts";
import { type Callbacks, combineHandlers } from "./callbacks.ts";
import { hasProtocolEvents } from "./frames.ts";
import { isMessage } from "./json.ts";
import type { GraphConfig } from "./serialize.ts";
import type { JobStore } from "./store.ts";

const MODES: readonly StreamMode[] = ["updates", "messages-tuple", "tasks", "checkpoints", "debug", "custom", "tools"];

/**
 * The modes in which clients of the root graph also see nodes of subgraphs. Since 1.5.0, LangGraph needs `subgraphs`
 * for that.
 */
const SUBGRAPH_NODE_MODES: readonly StreamMode[] = ["messages-tuple", "tools"];

/** The modes from which protocol events are created. */
const PROTOCOL_MODES: readonly StreamMode[] = ["updates", "messages-tuple", "tasks", "custom", "tools"];

/** Returns true if LangGraph must stream the chunks of subgraphs for this job. */
export function needsSubgraphs({ subgraphs, modes, events }: Job): boolean {
  // In mode `events` LangGraph gives checkpoints only together with subgraphs.
  const needsCheckpoints = events === "state" && modes.has("events");
  const needsNodes = SUBGRAPH_NODE_MODES.some((mode) => modes.has(mode));
  return subgraphs || events === "all" || needsCheckpoints || modes.has("lifecycle") || needsNodes;
}

/**
 * Returns true if LangGraph must stream this mode. Some modes are needed although no client requested them, because
 * they contain the end of subgraphs and of messages.
 */
function isStreamed(mode: StreamMode, { modes, events }: Job): boolean {
  if (events !== undefined && events !== "none") {
    // LangGraph gives no short notes of checkpoints beside mode `checkpoints`. Mode `debug` has the same data.
    if (mode === "checkpoints") return false;
    if (mode === "debug" && modes.has("checkpoints")) return true;
    if (events === "all" && PROTOCOL_MODES.includes(mode)) return true;
  }
  if (mode === "updates" && modes.has("messages-tuple")) return true;
  return modes.has(mode) || (mode === "tasks" && modes.has("lifecycle"));
}

const toGraphMode = (mode: StreamMode): string => (mode === "messages-tuple" ? "messages" : mode);

/** The options that an attempt adds to those of its job. */
export interface AttemptStreamOptions {
  readonly signal: AbortSignal;
  readonly callbacks: readonly Callbacks[];
  /** Members of `configurable` for the nodes of the attempt, and the checkpoint to fork from. */
  readonly configurable: Readonly<Record<string, unknown>>;
  /** Absent if the graph was compiled with a store of its own. */
  readonly store?: JobStore;
}

export interface StreamOptions extends GraphConfig {
  readonly streamMode: readonly string[];
}

/**
 * Returns the options of `stream` and `streamEvents` for an attempt of the job. Always streams mode `values`, and more modes than
 * clients requested if their events need them.
 */
export function createStreamOptions(job: Job, attempt: AttemptStreamOptions): StreamOptions {
  const { tags, recursion_limit } = job.config;
  const subgraphs = needsSubgraphs(job);
  const needsIds = job.modes.has("messages-tuple") || job.events === "all";
  const callbacks = [...(needsIds ? [messageIds] : []), ...attempt.callbacks];
  return {
    // Values are always needed: the last ones are the run's result.
    streamMode: ["values", ...MODES.filter((mode) => isStreamed(mode, job)).map(toGraphMode)],
    subgraphs,
    // Adds a short note of the checkpoint before each state. Version 3 changes messages and tools, which come with
    // subgraphs.
    ...(hasProtocolEvents(job) ? { version: subgraphs ? "v2" : "v3" } : {}),
    configurable: { ...createConfigurable(job), ...attempt.configurable },
    context: job.context,
    signal: attempt.signal,
    runId: job.run_id,
    metadata: { ...job.metadata },
    ...(tags ? { tags: [...tags] } : {}),
    ...(recursion_limit === undefined ? {} : { recursionLimit: recursion_limit }),
    ...toBreakpoints(job),
    durability: job.durability,
    ...(callbacks.length > 0 ? { callbacks: [combineHandlers(callbacks)] } : {}),
    ...(attempt.store ? { store: attempt.store } : {}),
  } as StreamOptions;
}

/**
 * Returns the caller's configurable values, without those that LangGraph reserves, together with the ids of the thread,
 * run, graph and assistant, which win.
 */
function createConfigurable({ config, thread_id, run_id, graph_id, assistant_id }: Job): JsonObject {
  const callerEntries = Object.entries(config.configurable).filter(([key]) => !isInternal(key));
  return { ...(Object.fromEntries(callerEntries) as JsonObject), thread_id, run_id, graph_id, assistant_id };
}

/** Returns true for keys that control LangGraph: only the service sets them. */
function isInternal(key: string): boolean {
  return key.startsWith("__") || key === "checkpoint_id" || key === "checkpoint_ns" || key === "checkpoint_map";
}

type Breakpoints = { interruptBefore?: "*" | string[]; interruptAfter?: "*" | string[] };

function toBreakpoints({ interrupt_before, interrupt_after }: Job): Breakpoints {
  const names = (nodes: "*" | readonly string[]): "*" | string[] => (nodes === "*" ? "*" : [...nodes]);
  return {
    ...(interrupt_before.length > 0 ? { interruptBefore: names(interrupt_before) } : {}),
    ...(interrupt_after.length > 0 ? { interruptAfter: names(interrupt_after) } : {}),
  };
}

/**
 * Returns the config of the checkpoint to fork from. Returns an empty one if the run continues from the head, and in an attempt
 * that continues an earlier one. The checkpoint must exist: an unknown one is not refused here.
 */
export async function readFork({ from, resumed, checkpoints }: Job): Promise<JsonObject> {
  if (!from || resumed) return {};
  const { ns, checkpoint_id } = from;
  if (ns === "") {
    // With an explicit id, even that of the head, LangGraph would run finished tasks of the step again.
    const head = await checkpoints.get({ ns });
    return head?.checkpoint_id === checkpoint_id ? {} : { checkpoint_ns: ns, checkpoint_id };
  }
  const parents = (await checkpoints.get(from))?.metadata.parents ?? {};
  return { checkpoint_ns: ns, checkpoint_id, checkpoint_map: { ...(parents as JsonObject), [ns]: checkpoint_id } };
}

/**
 * Gives each message an id. In mode `messages`, LangGraph gives the same id to all messages without an id that one
 * node returns, so only the last one would remain in the state. This handler runs before LangGraph's.
 */
const messageIds: Callbacks = {
  /** Gives an id to each message without one in the output of a node that returns several. Changes the messages. */
  handleChainEnd(outputs: unknown): void {
    if (typeof outputs !== "object" || outputs === null) return;
    const messages = Object.values(outputs)
      .flat()
      .filter((item) => typeof item === "object" && item !== null && isMessage(item));
    if (messages.length < 2) return;
    for (const message of messages as { id?: string; lc_kwargs?: { id?: string } }[]) {
      if (message.id !== undefined) continue;
      message.id = crypto.randomUUID();
      if (message.lc_kwargs) message.lc_kwargs.id = message.id;
    }
  },
};
