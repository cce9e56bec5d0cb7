/**
 * Mode `lifecycle`: which subgraphs start, and how each ends. LangGraph does not report this. Starts and ends come from the
 * chunks of mode `tasks`, subgraphs included; outcomes of tasks come from callbacks.
 */
import type { Callbacks, ChainStart } from "./callbacks.ts";
import type { Chunk } from "./chunks.ts";
import { messageOf } from "./serialize.ts";

/** One event of a subgraph: its start, or its outcome. */
export interface LifecycleData {
  readonly event: "started" | "completed" | "failed" | "interrupted";
  readonly namespace: string[];
  /** The tool call that the subgraph handles. */
  readonly tool_call_id?: string;
  readonly error?: string;
}

/** A task as mode `tasks` reports it: with its input at the start, with its result at the end. */
interface TaskChunk {
  readonly id: string;
  readonly name: string;
  readonly input?: unknown;
  readonly result?: unknown;
  readonly interrupts?: readonly unknown[];
}

/** A task that may run subgraphs. */
interface SubgraphTask {
  /** Identifies it in its callbacks. */
  readonly key: string;
  readonly call: string | undefined;
}

export class Lifecycle {
  private readonly known = new Set<string>();
  /** Active subgraphs in the order of their start: inner ones come later. */
  private open: readonly (readonly string[])[] = [];
  private readonly tasks = new Map<string, SubgraphTask>();
  /** From the callbacks: the callback runs of active tasks, and the outcomes of others: null for success, else the error. */
  private readonly runs = new Map<string, string>();
  private readonly outcomes = new Map<string, string | null>();

  readonly callbacks: Callbacks = {
    handleChainStart: (...[, , run_id, , , metadata, , name]: ChainStart): void => {
      // Only the callback run of the task itself has the name of its node.
      if (name === undefined || name !== metadata?.langgraph_node) return;
      const key = String(metadata.langgraph_checkpoint_ns);
      this.runs.set(run_id, key);
      this.outcomes.delete(key);
    },
    handleChainEnd: (_output: unknown, run_id: string): void => this.ended(run_id, null),
    handleChainError: (error: unknown, run_id: string): void => this.ended(run_id, messageOf(error)),
  };

  /** The events of a chunk. */
  take({ namespace, mode, payload }: Chunk): LifecycleData[] {
    const frames = this.start(namespace);
    if (mode !== "tasks") return frames;
    const task = payload as TaskChunk;
    if ("result" in task) frames.push(...this.taskEnded(namespace, task));
    else this.taskStarted(namespace, task);
    return frames;
  }

  /** The attempt ended. `outcome` is for subgraphs without an outcome of their own, such as one that stopped at a breakpoint. */
  end(outcome: "completed" | "interrupted"): LifecycleData[] {
    return this.close(this.open, (one) => this.data(one, outcome));
  }

  /** The attempt failed, and with it every active subgraph. LangGraph drops the last chunks before a failure. */
  fail(error: unknown): LifecycleData[] {
    return this.close(this.open, (one) => {
      const task = this.taskOf(one);
      const outcome = task && this.outcomes.get(task.key);
      return outcome === null ? this.data(one, "completed") : this.data(one, "failed", outcome ?? messageOf(error));
    });
  }

  private start(namespace: readonly string[]): LifecycleData[] {
    const frames: LifecycleData[] = [];
    for (let depth = 1; depth <= namespace.length; depth++) {
      const one = namespace.slice(0, depth);
      const name = one.join("|");
      // Once only: a graph may continue after its task has ended.
      if (this.known.has(name)) continue;
      this.known.add(name);
      this.open = [...this.open, one];
      frames.push(this.data(one, "started"));
    }
    return frames;
  }

  private taskStarted(namespace: readonly string[], { id, name, input }: TaskChunk): void {
    const [key, stateful] = namesOf(namespace, id, name);
    const task: SubgraphTask = { key, call: toolCallOf(input) };
    for (const one of [key, stateful]) this.tasks.set(one, task);
    this.known.delete(stateful);
  }

  private taskEnded(namespace: readonly string[], { id, name, interrupts = [] }: TaskChunk): LifecycleData[] {
    const names = namesOf(namespace, id, name);
    const [key] = names;
    const outcome = this.outcomes.get(key);
    const asks = interrupts.length > 0;
    const over = this.open.filter((one) => names.includes(one.slice(0, namespace.length + 1).join("|")));
    const frames = this.close(over, (one) => {
      if (asks) return this.data(one, "interrupted");
      // A task that was cancelled has no outcome.
      return outcome === null ? this.data(one, "completed") : this.data(one, "failed", outcome);
    });
    for (const one of names) this.tasks.delete(one);
    this.outcomes.delete(key);
    return frames;
  }

  /** Inner subgraphs first. */
  private close(
    over: readonly (readonly string[])[],
    data: (one: readonly string[]) => LifecycleData,
  ): LifecycleData[] {
    this.open = this.open.filter((one) => !over.includes(one));
    return over.toReversed().map(data);
  }

  private data(namespace: readonly string[], event: LifecycleData["event"], error?: string): LifecycleData {
    const call = this.taskOf(namespace)?.call;
    return {
      event,
      namespace: [...namespace],
      ...(call === undefined ? {} : { tool_call_id: call }),
      ...(error === undefined ? {} : { error }),
    };
  }

  /** The task that runs a subgraph. Segments after the task's own count the graphs that it has called. */
  private taskOf(namespace: readonly string[]): SubgraphTask | undefined {
    for (let depth = namespace.length; depth > 0; depth--) {
      const task = this.tasks.get(namespace.slice(0, depth).join("|"));
      if (task) return task;
    }
    return undefined;
  }

  private ended(run_id: string, outcome: string | null): void {
    const key = this.runs.get(run_id);
    if (key === undefined) return;
    this.runs.delete(run_id);
    this.outcomes.set(key, outcome);
  }
}

/** Possible namespaces of the graph in a task: named by the task, or by the node if the graph keeps its state between tasks. */
function namesOf(namespace: readonly string[], id: string, name: string): readonly [string, string] {
  return [[...namespace, `${name}:${id}`].join("|"), [...namespace, name].join("|")];
}

/** A node that runs one tool call gets it beside the state, or as the only item of a list. */
function toolCallOf(input: unknown): string | undefined {
  if (typeof input !== "object" || input === null) return undefined;
  const { lg_tool_call, tool_call } = input as { lg_tool_call?: unknown; tool_call?: unknown };
  const call = Array.isArray(input) && input.length === 1 ? input[0] : (lg_tool_call ?? tool_call);
  const { id, name, args } = (call ?? {}) as { id?: unknown; name?: unknown; args?: unknown };
  return typeof id === "string" && typeof name === "string" && args !== undefined ? id : undefined;
}
