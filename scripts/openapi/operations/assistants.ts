/** Assistants. */
import { ASSISTANT } from "../example-ids.ts";
import { langgraph, type OperationTexts } from "./text.ts";

const PATH = { assistant_id: ASSISTANT };

export const assistantTexts: OperationTexts = {
  "post /assistants": {
    description:
      "An assistant is a graph with a configuration: a context, a config and metadata. Each graph has a default assistant, which its graph id names.",
    body: { graph_id: "agent", assistant_id: ASSISTANT, name: "Polite", context: { tone: "polite" } },
    call: langgraph(
      `await client.assistants.create({\n  graphId: "agent",\n  assistantId: "${ASSISTANT}",\n  name: "Polite",\n  context: { tone: "polite" },\n});`,
    ),
    codes: { 404: ["graph_not_found"], 409: ["already_exists"] },
  },
  "post /assistants/search": {
    description:
      "Returns the assistants that match all filters, a page at a time. `X-Pagination-Total` has the number of all matches.",
    body: { graph_id: "agent", limit: 10 },
    call: langgraph(`await client.assistants.search({ graphId: "agent", limit: 10 });`),
  },
  "post /assistants/count": {
    description: "Returns the number of assistants that match all filters, which are those of a search.",
    body: { graph_id: "agent" },
    call: langgraph(`await client.assistants.count({ graphId: "agent" });`),
  },
  "get /assistants/:assistant_id": {
    description: "Returns the active version of the assistant.",
    path: PATH,
    call: langgraph(`await client.assistants.get("${ASSISTANT}");`),
  },
  "patch /assistants/:assistant_id": {
    description:
      "Creates a version with the members of the body and activates it. Absent members are those of the active version. `metadata` is merged. With `activate: false` the active version stays, and the response has the new one.",
    path: PATH,
    body: { context: { tone: "short" } },
    call: langgraph(`await client.assistants.update("${ASSISTANT}", { context: { tone: "short" } });`),
    codes: { 404: ["assistant_not_found", "graph_not_found"] },
  },
  "delete /assistants/:assistant_id": {
    description:
      "Deletes the assistant, its versions and its crons. With `delete_threads` it also deletes the threads that its runs created.",
    path: PATH,
    call: langgraph(`await client.assistants.delete("${ASSISTANT}");`),
    codes: { 409: ["default_assistant"] },
  },
  "post /assistants/:assistant_id/versions": {
    description: "Returns the versions of the assistant, newest first, a page at a time.",
    path: PATH,
    body: { limit: 10 },
    call: langgraph(`await client.assistants.getVersions("${ASSISTANT}", { limit: 10 });`),
  },
  "post /assistants/:assistant_id/latest": {
    description: "Makes a version the active one. Runs that were created before keep the version that they have.",
    path: PATH,
    body: { version: 1 },
    call: langgraph(`await client.assistants.setLatest("${ASSISTANT}", 1);`),
    codes: { 404: ["assistant_not_found", "not_found"] },
  },
  "get /assistants/:assistant_id/graph": {
    description:
      "Returns the graph as nodes and edges, to be drawn. `xray` opens subgraphs. A function is a graph of one node.",
    path: PATH,
    call: langgraph(`await client.assistants.getGraph("${ASSISTANT}");`),
  },
  "get /assistants/:assistant_id/schemas": {
    description:
      "Returns the JSON Schemas of input, output, state, config and context. A schema that the agent does not declare is null.",
    path: PATH,
    call: langgraph(`await client.assistants.getSchemas("${ASSISTANT}");`),
  },
  "get /assistants/:assistant_id/subgraphs": {
    description: "Returns the schemas of the subgraphs by namespace. `recurse` includes those of subgraphs.",
    path: PATH,
    call: langgraph(`await client.assistants.getSubgraphs("${ASSISTANT}");`),
  },
  "get /assistants/:assistant_id/subgraphs/:namespace": {
    description: "Returns the schemas of the subgraph with this namespace, or an empty object.",
    path: { ...PATH, namespace: "research" },
    call: langgraph(`await client.assistants.getSubgraphs("${ASSISTANT}", { namespace: "research" });`),
  },
};
