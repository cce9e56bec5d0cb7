/** Assistants and their schemas, which many views need. */
import type { Assistant, GraphSchema } from "@langchain/langgraph-sdk";
import { client } from "../api/client.ts";
import { shortId } from "../parts/components.tsx";
import { type Resource, useResource } from "./resource.ts";

/** Returns the assistants, sorted by name: a server creates those of its agents together, in no order. */
export const useAssistants = (): Resource<Assistant[]> =>
  useResource("assistants/list", async (signal) => {
    const assistants = (await client.assistants.search({ limit: 1000, signal })) as Assistant[];
    return assistants.toSorted((a, b) => (a.name || a.graph_id).localeCompare(b.name || b.graph_id));
  });

/** Returns the JSON Schemas of an assistant's graph, read once. A null id reads nothing. */
export const useSchemas = (assistant_id: string | null): Resource<GraphSchema> =>
  useResource(assistant_id === null ? null : `assistants/schemas/${assistant_id}`, () =>
    client.assistants.getSchemas(assistant_id as string),
  );

/** Returns the name of an assistant, else the id of its graph, else the end of its own id if it is not in the list; `–` without an id. */
export function formatAssistantName(assistants: readonly Assistant[] | undefined, assistant_id: string | null): string {
  const assistant = assistants?.find((candidate) => candidate.assistant_id === assistant_id);
  return assistant ? assistant.name || assistant.graph_id : assistant_id ? shortId(assistant_id) : "–";
}
