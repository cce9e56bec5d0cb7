/** The tree of graphs and subgraphs of a run, from its lifecycle events. */
import { isObject, type JsonObject } from "../json.ts";
import type { ProtocolEvent, SentEvent } from "../streams/protocol.ts";

interface Node {
  readonly namespace: readonly string[];
  readonly status: string;
  readonly graph_name?: string;
  children?: Node[];
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
  return run_id === undefined || current === run_id ? nested(nodes) : null;
}

/** The root, with each node among the children of the closest one above it. */
function nested(nodes: ReadonlyMap<string, Node>): JsonObject | null {
  const made = new Map([...nodes].map(([key, node]) => [key, { ...node }]));
  for (const [, node] of [...made].sort(([one], [other]) => (one < other ? -1 : 1))) {
    let parent: Node | undefined;
    for (let length = node.namespace.length - 1; length >= 0 && !parent; length--) {
      parent = made.get(keyOf(node.namespace.slice(0, length)));
    }
    if (!parent) continue;
    parent.children ??= [];
    parent.children.push(node);
  }
  return (made.get(keyOf([])) as unknown as JsonObject | undefined) ?? null;
}
