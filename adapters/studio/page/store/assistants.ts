/** Assistants and their schemas, which many views need. */
import type { Assistant, GraphSchema } from "@langchain/langgraph-sdk";
import { client } from "../api/client.ts";
import { shortId } from "../parts/basics.tsx";
import { type Resource, useResource } from "./resource.ts";

/** In the order of their names: those of a server's agents are created together, in no order. */
export const useAssistants = (): Resource<Assistant[]> =>
  useResource("assistants/list", async (signal) => {
    const found = (await client.assistants.search({ limit: 1000, signal })) as Assistant[];
    return found.toSorted((a, b) => (a.name || a.graph_id).localeCompare(b.name || b.graph_id));
  });

export const useSchemas = (assistant_id: string | null): Resource<GraphSchema> =>
  useResource(assistant_id === null ? null : `assistants/schemas/${assistant_id}`, () =>
    client.assistants.getSchemas(assistant_id as string),
  );

/** The name of an assistant: its own, or that of its graph. */
export function nameOf(assistants: readonly Assistant[] | undefined, assistant_id: string | null): string {
  const found = assistants?.find((one) => one.assistant_id === assistant_id);
  return found ? found.name || found.graph_id : assistant_id ? shortId(assistant_id) : "–";
}
