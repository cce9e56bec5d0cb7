/** Calls of a project's agents that must not compile: each line marked with an error has one, and no other line has. */
import createClient from "openapi-fetch";
import type { components, paths } from "./agents.d.ts";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:2024" });
type Refund = components["schemas"]["RunCreate_refund"];
type Priced = components["schemas"]["RunCreate_priced"];

export const order: Refund["input"] = { order: 7, cents: 5 }; // error: a text
export const tier: Refund["context"] = { tier: "gold" }; // error: no such tier
export const priced: Priced["context"] = {}; // error: no tier
export const paid: components["schemas"]["Values_refund"]["paid"] = "5"; // error: a number
await client.POST("/runs", { body: { assistant_id: "refund", stream_mode: 5 } }); // error: no context, and no such mode
await client.POST("/runs/crons", { body: {} }); // error: the project serves no crons
