/** Draws the graph of an assistant. Nodes that are running are lit. */
import { Graph as Layout, layout } from "@dagrejs/dagre";
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { call, client } from "../../api/client.ts";
import type { Listing, RunSummary } from "../../api/types.ts";
import { Ready } from "../../parts/components.tsx";
import { useResource } from "../../store/resource.ts";

export interface GraphResponse {
  readonly nodes: readonly { readonly id: string; readonly type?: string; readonly data?: unknown }[];
  readonly edges: readonly {
    readonly source: string;
    readonly target: string;
    readonly data?: string;
    readonly conditional?: boolean;
  }[];
}

interface Point {
  readonly x: number;
  readonly y: number;
}

const HEIGHT = 32;
const getNodeName = (id: string): string => ({ __start__: "start", __end__: "end" })[id] ?? id;
const getNodeWidth = (id: string): number => Math.max(56, getNodeName(id).length * 7.6 + 24);

/**
 * Computes a layout of the graph from top to bottom. Returns its size, `at`, which returns the centre of a node by id,
 * and `points`, which returns the line of an edge by its index.
 */
function layOut({ nodes, edges }: GraphResponse) {
  const graph = new Layout({ multigraph: true });
  graph.setGraph({ rankdir: "TB", nodesep: 32, ranksep: 40, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of nodes) graph.setNode(id, { width: getNodeWidth(id), height: HEIGHT });
  for (const [index, { source, target }] of edges.entries()) graph.setEdge(source, target, {}, String(index));
  layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { readonly width?: number; readonly height?: number };
  const getPoints = (index: number): readonly Point[] => {
    const { source, target } = edges[index] as GraphResponse["edges"][number];
    return (graph.edge(source, target, String(index)) as unknown as { readonly points: readonly Point[] }).points;
  };
  return { width, height, at: (id: string) => graph.node(id) as unknown as Point, points: getPoints };
}

/** Draws the graph with the nodes in `lit` highlighted and conditional edges marked. */
function Drawing({ graph, lit }: { readonly graph: GraphResponse; readonly lit: ReadonlySet<string> }): VNode {
  const { width, height, at: getCenter, points: getPoints } = useMemo(() => layOut(graph), [graph]);
  return (
    <svg
      class="graph"
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      role="img"
      aria-label={`Graph of ${graph.nodes.length} nodes; the list below names its edges`}
    >
      <defs>
        <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0 8 4 0 8z" class="tip" />
        </marker>
      </defs>
      {graph.edges.map((edge, index) => (
        <path
          // biome-ignore lint/suspicious/noArrayIndexKey: a graph may have an edge twice
          key={`${edge.source}>${edge.target}>${index}`}
          class={edge.conditional ? "edge conditional" : "edge"}
          d={`M${getPoints(index)
            .map(({ x, y }) => `${x} ${y}`)
            .join(" L")}`}
          marker-end="url(#tip)"
        />
      ))}
      {graph.nodes.map(({ id }) => {
        const { x, y } = getCenter(id);
        const nodeWidth = getNodeWidth(id);
        return (
          <g key={id} class={`node ${lit.has(id) ? "lit" : ""} ${id.startsWith("__") ? "edge-node" : ""}`}>
            <rect
              x={x - nodeWidth / 2}
              y={y - HEIGHT / 2}
              width={nodeWidth}
              height={HEIGHT}
              rx={id.startsWith("__") ? 16 : 6}
            />
            <text x={x} y={y + 4}>
              {getNodeName(id)}
            </text>
          </g>
        );
      })}
    </svg>
  );
}

/**
 * Resolves with the nodes that the newest 20 running runs execute: those that are next after the newest checkpoint of
 * their thread. Stateless runs are left out. Rejects if a read fails.
 */
async function readRunningNodes(assistant_id: string, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const { items } = await call<Listing<RunSummary>>("GET", "/greenroom/runs", {
    query: { status: "running", assistant_id, limit: 20 },
    signal,
  });
  const states = await Promise.all(
    items
      .filter(({ temporary }) => !temporary)
      .map(({ thread_id }) => client.threads.getState(thread_id, undefined, { select: ["next"] as never, signal })),
  );
  return new Set(states.flatMap(({ next }) => next));
}

const NO_NODES: ReadonlySet<string> = new Set();

/** Shows the graph of an assistant. Nodes of running runs are lit, read every 1.5 seconds. */
export function GraphTab({ assistant_id }: { readonly assistant_id: string }): VNode {
  const graph = useResource<GraphResponse>(`assistants/graph/${assistant_id}`, (signal) =>
    call("GET", `/assistants/${assistant_id}/graph`, { signal }),
  );
  const lit = useResource(`assistants/lit/${assistant_id}`, (signal) => readRunningNodes(assistant_id, signal), 1500);
  return (
    <Ready of={graph}>
      {(loaded) => (
        <>
          <div class="graph-box">
            <Drawing graph={loaded} lit={lit.data ?? NO_NODES} />
          </div>
          <details>
            <summary class="faint">Edges as a list</summary>
            <ul class="mono">
              {loaded.edges.map(({ source, target, conditional }) => (
                <li key={`${source}>${target}`}>
                  {getNodeName(source)} → {getNodeName(target)}
                  {conditional ? " (conditional)" : ""}
                </li>
              ))}
            </ul>
          </details>
        </>
      )}
    </Ready>
  );
}
