/**
 * Creates commands in a form that every copy and version of LangGraph accepts. The graph may use another copy than an
 * import here would find. LangGraph recognizes a command by its name, but a `Send` only by the class of its own copy.
 * A `Send` is therefore written to the channel where LangGraph would put it, as plain data.
 */
import type { Command, Send } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Graph } from "./graph.ts";
import { withValidInput } from "./langgraph-internals.ts";
import { TASKS } from "./saver.ts";

type Pair = readonly [channel: string, value: unknown];

/** A command as LangGraph reads it. Since 1.5.0 LangGraph accepts no plain object. */
class GraphCommand {
  readonly lg_name = "Command";
  readonly goto: readonly string[];
  readonly resume: Json | undefined;
  /** The update. LangGraph replaces it with the validated one. */
  update: unknown;
  readonly #packets: readonly Pair[];

  constructor({ resume, update, goto = [] }: Command) {
    this.goto = goto.filter((target) => typeof target === "string");
    this.#packets = toPackets(goto);
    this.resume = resume;
    this.update = update ?? undefined;
  }

  /**
   * Returns the writes of a node that returned this command: those of the update, then the packets of `goto`. `filter`,
   * by which LangGraph drops writes to unknown channels, always keeps the packets.
   */
  _updateAsTuples(): readonly Pair[] {
    const packets = this.#packets;
    const pairs = toPairs(this.update);
    const filter = (keep: (pair: Pair) => boolean): Pair[] => [...pairs.filter(keep), ...packets];
    return Object.assign([...pairs, ...packets], { filter });
  }

  toJSON(): JsonObject {
    const { lg_name, goto, resume = null, update = null } = this;
    return { lg_name, goto: [...goto], resume, update: update as Json };
  }
}

export function nodeCommand(command: Command): object {
  return new GraphCommand(command);
}

/**
 * Returns the graph's input for a command, and a graph that accepts it: the same graph, or a copy if the command sends packets.
 * Does not change the host's object. With packets, they are added to the input once the graph has validated it.
 */
export function withCommand(graph: Graph, command: Command): { readonly graph: Graph; readonly input: object } {
  const input = new GraphCommand(command);
  const packets = toPackets(command.goto);
  if (packets.length === 0) return { graph, input };
  // The schema applies only to the update: it would refuse or drop the packets.
  const addPackets = (): void => {
    input.update = [...toPairs(input.update), ...packets];
  };
  return { graph: withValidInput(graph, input, addPackets), input };
}

/** Converts the `Send`s of a `goto` to LangGraph's stored form. */
function toPackets(goto: readonly (string | Send)[] = []): Pair[] {
  return goto
    .filter((target) => typeof target !== "string")
    .map(({ node, input }): Pair => [TASKS, { lg_name: "Send", node, args: input }]);
}

/**
 * Returns the channels of an update with the values written to them: a list as it is, without a check, or the members
 * of an object. Empty for other values.
 */
function toPairs(update: unknown): readonly Pair[] {
  if (Array.isArray(update)) return update as Pair[];
  return isObject((update ?? null) as Json) ? Object.entries(update as object) : [];
}
