/** Configurations of the stand-alone server that must compile. */
import { Client } from "@langchain/langgraph-sdk";
import { expectTypeOf } from "expect-type";
import { defineAuth, type Message } from "greenroom";
import { type AnyAgent, type Config, defineConfig, type PayloadOf, type TypesOf } from "greenroom/app";
import { client } from "greenroom/client";
import { counter, refund, shipping } from "./agents.right.ts";

/** R17: a configuration types its keys, and the client by its agents. */
const config = defineConfig({
  agents: { ship: shipping, refund, once: { agent: refund, max_attempts: 1 } },
  limits: { pending: 10 },
});
const remote = client<typeof config>({ apiUrl: "http://127.0.0.1:2024" });
expectTypeOf(await remote.agent("ship").run({ code: "c" })).toEqualTypeOf<{ code: string; tries: number }>();
const values = await remote.agent("refund").run({ order: "A", cents: 2 }, { context: { tier: "pro" } });
expectTypeOf(values.paid).toEqualTypeOf<number | undefined>();
client<typeof config>(new Client({ apiUrl: "http://127.0.0.1:2024" })).agent("ship");
expectTypeOf<keyof TypesOf<typeof config>>().toEqualTypeOf<"ship" | "refund" | "once">();
expectTypeOf(remote.agent("once")).toEqualTypeOf(remote.agent("refund"));
declare const payload: PayloadOf<typeof config, "refund">;
payload.values?.paid satisfies number | null | undefined;

/** Every form of an agent, every key of greenroom.json, and code where the file names a module. */
export default defineConfig({
  $schema: "./node_modules/greenroom/greenroom.schema.json",
  agents: {
    counter,
    hello: () => "Hello",
    made: { graph: () => shipping, max_attempts: 1 },
    async *echo({ messages, context }) {
      yield `${context.name ?? "you"} said ${messages.at(-1)?.content}`;
    },
  },
  database: "agents.db",
  env: { MODEL: "small", RETRIES: 3, FAST: true },
  deployment: { name: "support" },
  public_base_url: "https://agents.example",
  auth: { custom: defineAuth({ authenticate: () => "ann" }), merge_filter_on_create: true },
  worker: { concurrency: 4 },
  limits: { pending: 10, suspended: 5 },
  steps: { entries: 500 },
  retention: { frames_ms: 1_000 },
  feedback: { external_runs: true },
  usage: { enabled: false },
  webhooks: { url: { require_https: true } },
  http: { app: (request) => new Response(request.url), cors: { allow_origins: ["https://app.example"] } },
  store: { index: { dims: 2, embed: async (texts) => texts.map(() => [1, 0]) } },
  checkpointer: { ttl: { default_ttl: 60 } },
  crons: { enabled: false },
  dependencies: ["."],
  node_version: "22",
});

/** A configuration of any agents accepts any name. */
const dynamic = defineConfig({ agents: {} as Record<string, AnyAgent> });
const anyConfig: Config = dynamic;
const anyRemote = client<typeof anyConfig>({ apiUrl: "http://127.0.0.1:2024" });
expectTypeOf((await anyRemote.agent("whatever").run({})).messages).toEqualTypeOf<Message[] | undefined>();

/** Agents by name stay a type argument, whatever their names are. */
expectTypeOf<keyof TypesOf<{ agents: typeof counter; refund: typeof refund }>>().toEqualTypeOf<"agents" | "refund">();
