/**
 * Commands in the form that every copy and version of LangGraph takes. The graph's copy is the user's and may not be the one that an
 * import would find: LangGraph tells a command by its name, but a `Send` only by its own copy's class. So a packet is written to
 * the channel that LangGraph would write it to, where it stands as plain data after a restart too.
 */
import type { Command, Send } from "../../lib/executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import type { Graph } from "./graph.ts";
import { TASKS } from "./saver.ts";

type Pair = readonly [channel: string, value: unknown];

/** A command as LangGraph reads it; since 1.5.0 it takes no plain object for one. */
class GraphCommand {
  readonly lg_name = "Command";
  readonly goto: readonly string[];
  readonly resume: Json | undefined;
  /** LangGraph puts here what the graph's schema has made of it. */
  update: unknown;
  private readonly packets: readonly Pair[];

  constructor({ resume, update, goto = [] }: Command) {
    this.goto = goto.filter((target) => typeof target === "string");
    this.packets = packetsOf(goto);
    this.resume = resume;
    this.update = update ?? undefined;
  }

  /** What a node that returned this command writes. LangGraph drops all but the graph's own channels by `filter`. */
  _updateAsTuples(): readonly Pair[] {
    const { packets } = this;
    const pairs = pairsOf(this.update);
    const filter = (keep: (pair: Pair) => boolean): Pair[] => [...pairs.filter(keep), ...packets];
    return Object.assign([...pairs, ...packets], { filter });
  }

  toJSON(): JsonObject {
    const { lg_name, goto, resume = null, update = null } = this;
    return { lg_name, goto: [...goto], resume, update: update as Json };
  }
}

/** What a node is to have returned. */
export function nodeCommand(command: Command): object {
  return new GraphCommand(command);
}

/** The graph's input for a command, and the graph that takes it; the host's own object stays as it is. */
export function withCommand(graph: Graph, command: Command): { readonly graph: Graph; readonly input: object } {
  const input = new GraphCommand(command);
  const packets = packetsOf(command.goto);
  if (packets.length === 0) return { graph, input };
  // The schema is for the update alone: it would refuse or drop the packets.
  const _validateInput = async (given: unknown): Promise<unknown> => {
    const valid = await graph._validateInput(given);
    if (valid === input) input.update = [...pairsOf(input.update), ...packets];
    return valid;
  };
  const taking = Object.assign(Object.create(Object.getPrototypeOf(graph)) as Graph, graph, { _validateInput });
  return { graph: taking, input };
}

/** As LangGraph writes a `Send`. */
function packetsOf(goto: readonly (string | Send)[] = []): Pair[] {
  return goto
    .filter((target) => typeof target !== "string")
    .map(({ node, input }): Pair => [TASKS, { lg_name: "Send", node, args: input }]);
}

/** Channels and what is written to them. */
function pairsOf(update: unknown): readonly Pair[] {
  if (Array.isArray(update)) return update as Pair[];
  return isObject((update ?? null) as Json) ? Object.entries(update as object) : [];
}
