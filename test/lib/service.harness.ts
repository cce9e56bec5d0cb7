import type { Json, JsonObject, Service } from "../../lib/mod.ts";

export const say = (content: string): JsonObject => ({ messages: [{ role: "user", content }] });

export const ask = (assistant_id: string, content = "hi"): { assistant_id: string; input: JsonObject } => ({
  assistant_id,
  input: say(content),
});

export const contents = (values: Json): unknown[] =>
  ((values as { messages?: { content: unknown }[] }).messages ?? []).map((message) => message.content);

export async function waited(
  service: Service,
  thread_id: string | null,
  request: Parameters<Service["runs"]["wait"]>[1],
): Promise<Json> {
  return await (await service.runs.wait(thread_id, request)).result;
}
