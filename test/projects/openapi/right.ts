/** A client of generated types: it compiles. */
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.d.ts";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:2024" });
type ErrorCode = components["schemas"]["Error"]["code"];

/** Creates a thread with metadata, runs an agent on it, and answers its question. */
export async function approve(): Promise<unknown> {
  const { data: thread, error } = await client.POST("/threads", { body: { metadata: { topic: "a" } } });
  if (error) {
    const code: ErrorCode = error.code;
    if (code === "already_exists") return null;
    throw new Error(typeof error.detail === "string" ? error.detail : error.detail.map(({ msg }) => msg).join());
  }
  const path = { thread_id: thread.thread_id };
  await client.POST("/threads/{thread_id}/runs/wait", {
    params: { path },
    body: { assistant_id: "approve", input: { order: "A-1" }, context: { tier: "pro" } },
  });
  const { data: state } = await client.GET("/threads/{thread_id}/state", { params: { path } });
  const question: unknown = state?.interrupts[0]?.value;
  const { data: result } = await client.POST("/threads/{thread_id}/runs/wait", {
    params: { path, header: { "Idempotency-Key": "answer-1" } },
    body: { assistant_id: "approve", command: { resume: { approved: true } } },
  });
  return { question, result };
}
