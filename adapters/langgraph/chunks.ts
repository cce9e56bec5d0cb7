/** Reads the chunks that LangGraph streams, with the graph that each comes from. */
import type { StreamMode } from "../../lib/executor/contract.ts";
import type { Callbacks, Metadata, ToolStart } from "./callbacks.ts";
import { INTERRUPT } from "./saver.ts";
import { omitWaitInterrupts } from "./wait-interrupts.ts";

/** A chunk of a LangGraph stream. */
export interface Chunk {
  readonly namespace: readonly string[];
  readonly mode: StreamMode;
  readonly payload: unknown;
}

/** Reads the chunks of one attempt. */
export class ChunkReader {
  readonly #subgraphs: boolean;
  readonly #showsSubgraphs: boolean;
  /** The namespace of the task that called a tool, by the id of the tool call. */
  readonly #callers = new Map<unknown, unknown>();

  /**
   * Creates a reader. `subgraphs`: chunks carry the namespace of their graph. `showsSubgraphs`: clients see that
   * namespace.
   */
  constructor(subgraphs: boolean, showsSubgraphs: boolean) {
    this.#subgraphs = subgraphs;
    this.#showsSubgraphs = showsSubgraphs;
  }

  /** The callbacks that find which graph or task called a tool. */
  readonly callbacks: Callbacks = {
    handleToolStart: (...[, , , , , metadata, , call_id]: ToolStart): void => {
      this.#callers.set(call_id, metadata?.langgraph_checkpoint_ns);
    },
  };

  /** Parses a chunk and removes interrupts of `sleep` and `wait`. Returns null for a chunk that has only those. */
  read(value: unknown): Chunk | null {
    const parts = value as readonly unknown[];
    const [namespace = [], mode, rawPayload] = (this.#subgraphs ? parts : [[], ...parts]) as [
      readonly string[] | undefined,
      string,
      unknown,
    ];
    const payload = mode === "values" || mode === "updates" ? omitWaitsOfPayload(rawPayload) : rawPayload;
    if (payload === null) return null;
    return {
      namespace: this.#resolveNamespace(namespace, mode, payload),
      mode: mode === "messages" ? "messages-tuple" : (mode as StreamMode),
      payload,
    };
  }

  /**
   * Returns the namespace of the graph that a chunk comes from. Without subgraphs it is the given one, but empty for a
   * breakpoint. With subgraphs it lacks the last segment if that is the task of the message or tool call.
   */
  #resolveNamespace(namespace: readonly string[], mode: string, payload: unknown): readonly string[] {
    // A stop without an interrupt concerns only the root graph. LangGraph may name the subgraph that the run forked
    // from.
    if (!this.#showsSubgraphs) return isBreakpoint(payload) ? [] : namespace;
    // Before 1.5.0, LangGraph names the task that messages and tools come from; clients expect the graph of the task.
    const isTask = namespace.length > 0 && this.findTaskNamespace(mode, payload) === namespace.join("|");
    return isTask ? namespace.slice(0, -1) : namespace;
  }

  /**
   * Returns the checkpoint namespace of the task that a message or a tool call comes from; undefined in other modes and for an
   * unknown tool call.
   */
  findTaskNamespace(mode: string, payload: unknown): unknown {
    if (mode === "messages" || mode === "messages-tuple")
      return (payload as readonly [unknown, Metadata])[1].langgraph_checkpoint_ns;
    if (mode !== "tools") return undefined;
    return this.#callers.get((payload as { readonly toolCallId?: string }).toolCallId);
  }
}

/** Returns true for a chunk that reports interrupts or a breakpoint instead of a state. */
export function isInterruptChunk({ mode, payload }: Chunk): boolean {
  const showsState = mode === "values" || mode === "updates";
  return showsState && typeof payload === "object" && payload !== null && INTERRUPT in payload;
}

/**
 * Returns the payload without interrupts of `sleep` and `wait`. The same object if it has none; null if all its
 * interrupts are such, also if it has other members.
 */
function omitWaitsOfPayload(payload: unknown): unknown {
  const { [INTERRUPT]: interrupts } = (payload ?? {}) as { readonly [INTERRUPT]?: unknown };
  if (!Array.isArray(interrupts)) return payload;
  const visible = omitWaitInterrupts(interrupts);
  if (visible === interrupts) return payload;
  return visible.length > 0 ? { ...(payload as object), [INTERRUPT]: visible } : null;
}

/** Returns true for a stop without an interrupt, which has an empty list of interrupts. */
function isBreakpoint(payload: unknown): boolean {
  const { [INTERRUPT]: interrupts } = (payload ?? {}) as { [INTERRUPT]?: unknown };
  return Array.isArray(interrupts) && interrupts.length === 0;
}

const LOOP_MODES: ReadonlySet<StreamMode> = new Set(["values", "updates", "tasks", "checkpoints", "debug"]);

/** Returns true for chunks about a subgraph itself. Clients of the root graph also see what its nodes stream. */
export const isSubgraphOnly = ({ namespace, mode }: Chunk): boolean => namespace.length > 0 && LOOP_MODES.has(mode);
