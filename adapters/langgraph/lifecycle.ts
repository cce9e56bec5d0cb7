/**
 * Creates the events of mode `lifecycle`: which subgraphs start, and how each ends. LangGraph does not report this.
 * Starts and ends come from the chunks of mode `tasks`, subgraphs included; the results of tasks come from callbacks.
 */
import type { Callbacks, ChainStart } from "./callbacks.ts";
import type { Chunk } from "./chunks.ts";
import { toErrorMessage } from "./serialize.ts";

/** The start or the end of a subgraph. */
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
  /** The task's checkpoint namespace, which identifies it in callbacks. */
  readonly key: string;
  readonly toolCallId: string | undefined;
}

export class Lifecycle {
  readonly #startedNames = new Set<string>();
  /** The active subgraphs in the order of their start: inner ones come later. */
  #activeSubgraphs: readonly (readonly string[])[] = [];
  readonly #tasks = new Map<string, SubgraphTask>();
  /** The tasks of callback runs, and the results of ended tasks: null for success, else the error. */
  readonly #runs = new Map<string, string>();
  readonly #outcomes = new Map<string, string | null>();

  readonly callbacks: Callbacks = {
    handleChainStart: (...[, , run_id, , , metadata, , name]: ChainStart): void => {
      // Only the callback run of the task itself has the name of its node.
      if (name === undefined || name !== metadata?.langgraph_node) return;
      const key = String(metadata.langgraph_checkpoint_ns);
      this.#runs.set(run_id, key);
      this.#outcomes.delete(key);
    },
    handleChainEnd: (_output: unknown, run_id: string): void => this.#recordRunEnd(run_id, null),
    handleChainError: (error: unknown, run_id: string): void => this.#recordRunEnd(run_id, toErrorMessage(error)),
  };

  /**
   * Returns the starts and ends of subgraphs that a chunk implies; empty for most chunks. Records the tasks that start and end.
   */
  handle({ namespace, mode, payload }: Chunk): LifecycleData[] {
    const frames = this.#startSubgraphs(namespace);
    if (mode !== "tasks") return frames;
    const task = payload as TaskChunk;
    if ("result" in task) frames.push(...this.#endTask(namespace, task));
    else this.#startTask(namespace, task);
    return frames;
  }

  /**
   * Returns the ends of the active subgraphs when the attempt ends. `outcome` is for those without an end of their
   * own, such as at a breakpoint.
   */
  end(outcome: "completed" | "interrupted"): LifecycleData[] {
    return this.#closeSubgraphs(this.#activeSubgraphs, (subgraph) => this.#createData(subgraph, outcome));
  }

  /**
   * Returns the ends of the active subgraphs when the attempt fails, with the error of their task or else this one. A task that
   * had already finished has completed: LangGraph drops the last chunks before a failure.
   */
  fail(error: unknown): LifecycleData[] {
    return this.#closeSubgraphs(this.#activeSubgraphs, (subgraph) => {
      const task = this.#findTask(subgraph);
      const outcome = task && this.#outcomes.get(task.key);
      return outcome === null
        ? this.#createData(subgraph, "completed")
        : this.#createData(subgraph, "failed", outcome ?? toErrorMessage(error));
    });
  }

  /** Returns a start for each subgraph on the path that has not started yet, outermost first. Makes them active. */
  #startSubgraphs(namespace: readonly string[]): LifecycleData[] {
    const frames: LifecycleData[] = [];
    for (let depth = 1; depth <= namespace.length; depth++) {
      const subgraph = namespace.slice(0, depth);
      const name = subgraph.join("|");
      // A graph may continue after its task has ended, and must not start twice.
      if (this.#startedNames.has(name)) continue;
      this.#startedNames.add(name);
      this.#activeSubgraphs = [...this.#activeSubgraphs, subgraph];
      frames.push(this.#createData(subgraph, "started"));
    }
    return frames;
  }

  /** Records a task, with the tool call that it runs. Its subgraph of this name may then start again. */
  #startTask(namespace: readonly string[], { id, name, input }: TaskChunk): void {
    const [key, stateful] = toGraphNames(namespace, id, name);
    const task: SubgraphTask = { key, toolCallId: findToolCallId(input) };
    for (const name of [key, stateful]) this.#tasks.set(name, task);
    this.#startedNames.delete(stateful);
  }

  /**
   * Returns the ends of the active subgraphs of a task: interrupted, completed, or failed with its error; without an error if it
   * was cancelled. Forgets the task.
   */
  #endTask(namespace: readonly string[], { id, name, interrupts = [] }: TaskChunk): LifecycleData[] {
    const names = toGraphNames(namespace, id, name);
    const [key] = names;
    const outcome = this.#outcomes.get(key);
    const hasInterrupts = interrupts.length > 0;
    const endedSubgraphs = this.#activeSubgraphs.filter((subgraph) =>
      names.includes(subgraph.slice(0, namespace.length + 1).join("|")),
    );
    const frames = this.#closeSubgraphs(endedSubgraphs, (subgraph) => {
      if (hasInterrupts) return this.#createData(subgraph, "interrupted");
      // A task that was cancelled has no result.
      return outcome === null ? this.#createData(subgraph, "completed") : this.#createData(subgraph, "failed", outcome);
    });
    for (const name of names) this.#tasks.delete(name);
    this.#outcomes.delete(key);
    return frames;
  }

  /** Removes subgraphs from the active ones and returns their ends, inner subgraphs first. */
  #closeSubgraphs(
    endedSubgraphs: readonly (readonly string[])[],
    toData: (subgraph: readonly string[]) => LifecycleData,
  ): LifecycleData[] {
    this.#activeSubgraphs = this.#activeSubgraphs.filter((subgraph) => !endedSubgraphs.includes(subgraph));
    return endedSubgraphs.toReversed().map(toData);
  }

  /**
   * Returns the data of a lifecycle event. It has the tool call of the task that runs the subgraph or an outer one, if
   * there is one.
   */
  #createData(namespace: readonly string[], event: LifecycleData["event"], error?: string): LifecycleData {
    const toolCallId = this.#findTask(namespace)?.toolCallId;
    return {
      event,
      namespace: [...namespace],
      ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
      ...(error === undefined ? {} : { error }),
    };
  }

  /**
   * Returns the task that runs a subgraph, or an outer one; undefined for none. Segments after the task's own count the graphs
   * that it has called.
   */
  #findTask(namespace: readonly string[]): SubgraphTask | undefined {
    for (let depth = namespace.length; depth > 0; depth--) {
      const task = this.#tasks.get(namespace.slice(0, depth).join("|"));
      if (task) return task;
    }
    return undefined;
  }

  /** Records how the task of one of LangChain's runs has ended: null or its error. Ignores runs that are no task. */
  #recordRunEnd(run_id: string, outcome: string | null): void {
    const key = this.#runs.get(run_id);
    if (key === undefined) return;
    this.#runs.delete(run_id);
    this.#outcomes.set(key, outcome);
  }
}

/**
 * Returns the possible namespaces of the graph in a task: named by the task, or by the node if the graph keeps its
 * state between tasks.
 */
function toGraphNames(namespace: readonly string[], id: string, name: string): readonly [string, string] {
  return [[...namespace, `${name}:${id}`].join("|"), [...namespace, name].join("|")];
}

/**
 * Returns the id of the tool call in the input of a node; undefined if there is none with an id, a name and arguments.
 * It is the only element of a list, else member `lg_tool_call`, else `tool_call`.
 */
function findToolCallId(input: unknown): string | undefined {
  if (typeof input !== "object" || input === null) return undefined;
  const { lg_tool_call, tool_call } = input as { lg_tool_call?: unknown; tool_call?: unknown };
  const call = Array.isArray(input) && input.length === 1 ? input[0] : (lg_tool_call ?? tool_call);
  const { id, name, args } = (call ?? {}) as { id?: unknown; name?: unknown; args?: unknown };
  return typeof id === "string" && typeof name === "string" && args !== undefined ? id : undefined;
}
