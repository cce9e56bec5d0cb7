/** The tree of graphs and subgraphs of a run, from its lifecycle events. */
import { isObject, type JsonObject } from "../json.ts";
import type { ProtocolEvent, SentEvent } from "../streams/protocol.ts";

interface Node {
  readonly namespace: readonly string[];
  readonly status: string;
  readonly graph_name?: string;
}

/** The run that an event of the root's lifecycle belongs to. */
const runOf = (event_id: string): string | undefined => /^synth:([^:]+):/.exec(event_id)?.[1];

const keyOf = (namespace: readonly string[]): string => JSON.stringify(namespace);

/** The tree of the last run, or of `run_id`; null without lifecycle events of it. */
export async function runTree(events: AsyncIterable<SentEvent>, run_id?: string): Promise<JsonObject | null> {
  let nodes = new Map<string, Node>();
  let current: string | undefined;
  for await (const { id, data: text } of events) {
    const { namespace, data } = (JSON.parse(text) as ProtocolEvent).params;
    if (!isObject(data) || typeof data.event !== "string") continue;
    if (namespace.length === 0) {
      const run = runOf(id);
      if (run !== current) {
        if (run_id !== undefined && current === run_id) break;
        nodes = new Map();
        current = run;
      }
    }
    const { graph_name } = data;
    const named = typeof graph_name === "string" ? { graph_name } : {};
    const before = nodes.get(keyOf(namespace));
    nodes.set(keyOf(namespace), { ...before, namespace, status: data.event, ...named });
  }
  const root = run_id === undefined || current === run_id ? nodes.get(keyOf([])) : undefined;
  return root ? nested(root, [...nodes.values()]) : null;
}

/** A node with those below it that have no closer parent. */
function nested(node: Node, all: readonly Node[]): JsonObject {
  const below = all.filter((one) => isBelow(one, node));
  const children = below
    .filter((one) => !below.some((other) => isBelow(one, other)))
    .sort((one, other) => (keyOf(one.namespace) < keyOf(other.namespace) ? -1 : 1));
  return {
    ...node,
    namespace: [...node.namespace],
    ...(children.length > 0 ? { children: children.map((child) => nested(child, below)) } : {}),
  };
}

const isBelow = (one: Node, other: Node): boolean =>
  one.namespace.length > other.namespace.length &&
  other.namespace.every((segment, level) => one.namespace[level] === segment);
