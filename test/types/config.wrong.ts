/** Configurations that must not compile. Markers are as in agents.wrong.ts. */
import { defineConfig, type PayloadOf } from "greenroom/app";
import { client } from "greenroom/client";
import { counter, refund } from "./agents.right.ts";

const config = defineConfig({ agents: { counter, refund } });
const remote = client<typeof config>({ apiUrl: "http://127.0.0.1:2024" });

// W30 a misspelt limit: 'pendnig' does not exist
defineConfig({ agents: { refund }, limits: { pendnig: 3 } });
// W30 a misspelt section: 'limit' does not exist
defineConfig({ agents: { refund }, limit: { pending: 3 } });
// W30 graphs, which greenroom.json has: 'graphs' does not exist
defineConfig({ agents: { refund }, graphs: { refund: "./refund.ts" } });
// W30 a configuration without agents: Property 'agents' is missing
defineConfig({ limits: { pending: 3 } });
// W30 a module's path in place of its export: 'path' does not exist
defineConfig({ agents: { refund }, auth: { path: "./auth.ts:auth" } });
// W30 what the server sets: 'loopback' does not exist
defineConfig({ agents: { refund }, webhooks: { loopback: async () => new Response() } });
// W30 a limit that is a text: Type 'string' is not assignable to type 'number'
defineConfig({ agents: { refund }, limits: { pending: "3" } });
// W1 an agent that returns a number: is not assignable to type 'AgentError<"An agent returns
defineConfig({ agents: { a: () => 42 } });
// W37 a misspelt setting of an agent: Unknown setting: max_atempts
defineConfig({ agents: { a: { agent: () => "x", max_atempts: 1 } } });
// W26 an unknown agent of a configuration: Argument of type '"refnd"' is not assignable
remote.agent("refnd");
// W27 a wrong input of an agent of a configuration: Type 'string' is not assignable to type 'number'
remote.agent("refund").run({ order: "A", cents: "1" }, { context: { tier: "pro" } });
declare const payload: PayloadOf<typeof config, "refund">;
// W32 a status that no webhook has: have no overlap
payload.status === "done";
