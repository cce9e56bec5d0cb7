/** What LangGraph streams, and which graph each of it comes from. */
import type { StreamMode } from "../../lib/executor/contract.ts";
import { INTERRUPT } from "./saver.ts";

/** One thing that LangGraph streams. */
export interface Chunk {
  readonly namespace: readonly string[];
  readonly mode: StreamMode;
  readonly payload: unknown;
}

type Metadata = Readonly<Record<string, unknown>>;

/** Reads the chunks of one execution. */
export class Chunks {
  private readonly subgraphs: boolean;
  private readonly shown: boolean;
  /** The task that a tool was called by, by the call. */
  private readonly callers = new Map<unknown, unknown>();

  /** `subgraphs`: what comes is named by its graph; `shown`: readers see that name. */
  constructor(subgraphs: boolean, shown: boolean) {
    this.subgraphs = subgraphs;
    this.shown = shown;
  }

  /** To be among the callbacks of the execution where subscribers see which graph or task a tool was called in. */
  readonly handler: object = {
    name: "greenroom_tool_callers",
    awaitHandlers: true,
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

  read(value: unknown): Chunk {
    const parts = value as readonly unknown[];
    const [namespace = [], mode, payload] = (this.subgraphs ? parts : [[], ...parts]) as [
      readonly string[] | undefined,
      string,
      unknown,
    ];
    // Only the root graph stops without a question; LangGraph may give that the name of the subgraph that the run forked from.
    const stops = !this.shown && isBreakpoint(payload);
    // Until 1.5.0 LangGraph names the task that these two come from; readers expect the graph it belongs to.
    const task = this.shown && namespace.length > 0 ? this.taskOf(mode, payload) : undefined;
    return {
      namespace: stops ? [] : task === namespace.join("|") ? namespace.slice(0, -1) : namespace,
      mode: mode === "messages" ? "messages-tuple" : (mode as StreamMode),
      payload,
    };
  }

  /** The checkpoint namespace of the task that a message or a tool's call comes from. */
  taskOf(mode: string, payload: unknown): unknown {
    if (mode === "messages" || mode === "messages-tuple")
      return (payload as readonly [unknown, Metadata])[1].langgraph_checkpoint_ns;
    if (mode !== "tools") return undefined;
    return this.callers.get((payload as { readonly toolCallId?: string }).toolCallId);
  }
}

/** It shows what a graph asks, or that it stopped, and no state. */
export function isInterrupt({ mode, payload }: Chunk): boolean {
  const shows = mode === "values" || mode === "updates";
  return shows && typeof payload === "object" && payload !== null && INTERRUPT in payload;
}

function isBreakpoint(payload: unknown): boolean {
  const { [INTERRUPT]: asked } = (payload ?? {}) as { [INTERRUPT]?: unknown };
  return Array.isArray(asked) && asked.length === 0;
}

const LOOP_MODES: ReadonlySet<StreamMode> = new Set(["values", "updates", "tasks", "checkpoints", "debug"]);

/** What a subgraph streams of itself; what its nodes stream readers of the root graph are shown too. */
export const isInner = ({ namespace, mode }: Chunk): boolean => namespace.length > 0 && LOOP_MODES.has(mode);
