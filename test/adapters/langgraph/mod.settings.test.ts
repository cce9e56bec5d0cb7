/** Settings and options of `langgraph()` that do not exist. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type GraphLike, langgraph } from "../../../adapters/langgraph/mod.ts";
import { ConfigError } from "../../../lib/errors.ts";

const builder = new StateGraph(Annotation.Root({ n: Annotation<number> }))
  .addNode("add", () => ({ n: 1 }))
  .addEdge(START, "add");

/** Calls `langgraph` as a program without types does, and returns the problems. */
function listProblems(graphs: object, options?: object): readonly string[] {
  try {
    langgraph(graphs as Record<string, GraphLike>, options);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.problems;
  }
  return [];
}

describe("langgraph", () => {
  it("refuses unknown settings of graphs and unknown options, all at once and with the known name", () => {
    const graph = builder.compile();
    const graphs = {
      ship: { graph, timeout: 1, max_attempts: 1 },
      made: { graph: () => graph, Max_Attempts: 1 },
      strict: { graph, strict: true },
      tool: { graph, mcp: { model_may_anwser: true }, a2a: { callerMayApprove: true } },
      plain: graph,
      builder,
    };
    assert.deepEqual(listProblems(graphs, { reslove: async () => ({}) }), [
      "langgraph: ship.timeout: unknown option; did you mean timeout_ms?",
      "langgraph: made.Max_Attempts: unknown option; did you mean max_attempts?",
      "langgraph: strict.strict: unknown option; known options: max_attempts, timeout_ms, abandon_ms, resume, description, mcp, a2a, graph",
      "langgraph: tool.mcp.model_may_anwser: unknown option; did you mean model_may_answer?",
      "langgraph: tool.a2a.callerMayApprove: unknown option; did you mean caller_may_approve?",
      "langgraph: options.reslove: unknown option; did you mean resolve?",
    ]);
  });

  it("takes known settings, and agents that are instances of classes with other members", () => {
    const graph = builder.compile();
    class Agent {
      readonly options = { model: "x" };
      get graph(): typeof graph {
        return graph;
      }
    }
    const settings = { max_attempts: 1, timeout_ms: 5, abandon_ms: 5, description: "Ships", resume: "by_id" } as const;
    const sections = { mcp: { model_may_answer: true }, a2a: { caller_may_approve: true } };
    assert.deepEqual(listProblems({ graph, settings: { graph, ...settings, ...sections }, agent: new Agent() }), []);
    const executor = langgraph({ settings: { graph, ...settings, ...sections } });
    const [{ graph_id, description, mcp } = { graph_id: "" }] = executor.graphs();
    assert.deepEqual({ graph_id, description, mcp }, { graph_id: "settings", description: "Ships", mcp: sections.mcp });
  });
});
