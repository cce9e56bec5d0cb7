/** A client of the types of a project's agents (scripts/openapi/sample-config.ts): it compiles. */
import createClient from "openapi-fetch";
import type { components, paths } from "./agents.d.ts";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:2024" });

/** Runs agents of each kind, and answers one. */
export async function refund(): Promise<number | undefined> {
  const context = { tier: "pro", limit: 5 } as const;
  const run = await client.POST("/runs/wait", {
    body: { assistant_id: "refund", input: { order: "A-1", cents: 5 }, context },
  });
  const values = run.data as components["schemas"]["Values_refund"] | undefined;
  await client.POST("/runs", { body: { assistant_id: "tree", input: { name: "a", children: [{ name: "b" }] } } });
  await client.POST("/runs", { body: { assistant_id: "two words", input: { messages: "Hi" } } });
  await client.POST("/runs", { body: { assistant_id: "priced", input: { topic: "t" }, context: { tier: "free" } } });
  await client.POST("/threads/{thread_id}/runs", {
    params: { path: { thread_id: "7a9d5c1e-52b4-4f0e-9d36-2f1b8c6a4e10" } },
    body: { assistant_id: "review", command: { resume: "yes" } },
  });
  return values?.paid;
}
