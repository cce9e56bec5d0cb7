/** The server whose app the examples of the client import as a type. */
import { agent } from "greenroom";
import { createApp } from "greenroom/app";
import * as v from "valibot";

const counter = agent(
  { state: v.object({ n: v.optional(v.number()) }), context: v.object({ by: v.number() }) },
  ({ state, context }) => ({ n: (state.n ?? 0) + context.by }),
);
export const app = await createApp({
  database: ":memory:",
  agents: { counter, echo: () => "Hello", refund: () => "Refunded.", slow: () => "Answer" },
});
