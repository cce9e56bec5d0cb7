/** Calls that must not compile: each line marked with an error has one, and no other line has. */
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi.d.ts";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:2024" });
const params = { path: { thread_id: "7a9d5c1e-52b4-4f0e-9d36-2f1b8c6a4e10" } };

await client.POST("/thread", { body: {} }); // error: no such path
await client.POST("/threads/{thread_id}/runs", { params, body: { assistant: "chat" } }); // error: assistant_id
await client.POST("/threads/{thread_id}/runs", { params, body: { assistant_id: "chat", durability: "now" } }); // error: enum
await client.POST("/threads/{thread_id}/runs", { body: { assistant_id: "chat" } }); // error: no thread_id
await client.POST("/threads", { body: { metadata: "a" } }); // error: not an object
export const code: components["schemas"]["Error"]["code"] = "thread_bussy"; // error: no such code
