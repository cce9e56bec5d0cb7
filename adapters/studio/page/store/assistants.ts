/** Assistants and their schemas, which many views need. */
import type { Assistant, GraphSchema } from "@langchain/langgraph-sdk";
import { client } from "../api/client.ts";
import { type Resource, useResource } from "./resource.ts";

export const useAssistants = (): Resource<Assistant[]> =>
  useResource("assistants/list", (signal) => client.assistants.search({ limit: 1000, signal }) as Promise<Assistant[]>);

export const useSchemas = (assistant_id: string | null): Resource<GraphSchema> =>
  useResource(assistant_id === null ? null : `assistants/schemas/${assistant_id}`, () =>
    client.assistants.getSchemas(assistant_id as string),
  );

/** The name of an assistant: its own, or that of its graph. */
export function nameOf(assistants: readonly Assistant[] | undefined, assistant_id: string | null): string {
  const found = assistants?.find((one) => one.assistant_id === assistant_id);
  return found ? found.name || found.graph_id : (assistant_id?.slice(0, 8) ?? "–");
}
