/** The chunks that LangGraph streams, and the graph that each comes from. */
import type { StreamMode } from "../../lib/executor/contract.ts";
import type { Callbacks, Metadata } from "./callbacks.ts";
import { INTERRUPT } from "./saver.ts";
import { withoutSteps } from "./step-marks.ts";

/** One chunk of a LangGraph stream. */
export interface Chunk {
  readonly namespace: readonly string[];
  readonly mode: StreamMode;
  readonly payload: unknown;
}

/** Reads the chunks of one attempt. */
export class Chunks {
  private readonly subgraphs: boolean;
  private readonly shown: boolean;
  /** The task that called a tool, by the id of the call. */
  private readonly callers = new Map<unknown, unknown>();

  /** `subgraphs`: chunks carry the namespace of their graph. `shown`: clients see that namespace. */
  constructor(subgraphs: boolean, shown: boolean) {
    this.subgraphs = subgraphs;
    this.shown = shown;
  }

  /** Needed if clients see which graph or task called a tool. */
  readonly callbacks: Callbacks = {
    handleToolStart: (
      _tool: unknown,
      _input: unknown,
      _run_id: string,
      _parent?: string,
      _tags?: unknown,
      metadata: Metadata = {},
      _name?: string,
      call?: string,
    ): void => {
      this.callers.set(call, metadata.langgraph_checkpoint_ns);
    },
  };

  /** Null for one that shows only what the service answers. */
  read(value: unknown): Chunk | null {
    const parts = value as readonly unknown[];
    const [namespace = [], mode, given] = (this.subgraphs ? parts : [[], ...parts]) as [
      readonly string[] | undefined,
      string,
      unknown,
    ];
    const payload = mode === "values" || mode === "updates" ? shownInterrupts(given) : given;
    if (payload === null) return null;
    // A stop without an interrupt concerns only the root graph. LangGraph may name the subgraph that the run forked from.
    const stops = !this.shown && isBreakpoint(payload);
    // Before 1.5.0, LangGraph names the task that these come from; clients expect the graph that the task belongs to.
    const task = this.shown && namespace.length > 0 ? this.taskOf(mode, payload) : undefined;
    return {
      namespace: stops ? [] : task === namespace.join("|") ? namespace.slice(0, -1) : namespace,
      mode: mode === "messages" ? "messages-tuple" : (mode as StreamMode),
      payload,
    };
  }

  /** The checkpoint namespace of the task that a message or a tool call comes from. */
  taskOf(mode: string, payload: unknown): unknown {
    if (mode === "messages" || mode === "messages-tuple")
      return (payload as readonly [unknown, Metadata])[1].langgraph_checkpoint_ns;
    if (mode !== "tools") return undefined;
    return this.callers.get((payload as { readonly toolCallId?: string }).toolCallId);
  }
}

/** It shows what a graph asks, or that it stopped, and no state. */
export function isInterrupt({ mode, payload }: Chunk): boolean {
  const showsState = mode === "values" || mode === "updates";
  return showsState && typeof payload === "object" && payload !== null && INTERRUPT in payload;
}

function shownInterrupts(payload: unknown): unknown {
  const { [INTERRUPT]: asked } = (payload ?? {}) as { readonly [INTERRUPT]?: unknown };
  if (!Array.isArray(asked)) return payload;
  const shown = withoutSteps(asked);
  if (shown === asked) return payload;
  return shown.length > 0 ? { ...(payload as object), [INTERRUPT]: shown } : null;
}

function isBreakpoint(payload: unknown): boolean {
  const { [INTERRUPT]: asked } = (payload ?? {}) as { [INTERRUPT]?: unknown };
  return Array.isArray(asked) && asked.length === 0;
}

const LOOP_MODES: ReadonlySet<StreamMode> = new Set(["values", "updates", "tasks", "checkpoints", "debug"]);

/** True for chunks about a subgraph itself. Clients of the root graph also see what its nodes stream. */
export const isInner = ({ namespace, mode }: Chunk): boolean => namespace.length > 0 && LOOP_MODES.has(mode);
