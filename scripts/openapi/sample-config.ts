/**
 * A configuration with agents that declare schemas of each kind. scripts/check-openapi.ts checks the document that `greenroom openapi
 * --agents` writes of it.
 */
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";
import { defineConfig } from "../../adapters/define-config.ts";
import { graph as approval } from "../../examples/demo/approval.ts";
import { agent } from "../../lib/mod.ts";

/** A schema that refers to itself. */
const Tree = z.object({
  name: z.string(),
  get children() {
    return z.array(Tree).optional();
  },
});
const Trip = z.object({ city: z.string() }).meta({ id: "Trip", description: "A trip" });

const config = defineConfig({
  agents: {
    refund: agent(
      {
        input: z.object({ order: z.string(), cents: z.number().int().positive() }),
        state: z.object({ paid: z.number().default(0), receipt: z.string().nullable().optional() }),
        context: z.object({ tier: z.enum(["free", "pro"]), limit: z.number().default(1000) }),
        interrupt: z.object({ question: z.string() }),
        resume: z.union([z.boolean(), z.object({ approved: z.boolean(), note: z.string().optional() })]),
      },
      ({ state, input }) => ({ paid: state.paid + input.cents }),
    ),
    review: agent(
      {
        input: v.object({ topic: v.string(), tags: v.optional(v.array(v.string()), []) }),
        context: v.object({ tone: v.optional(v.string()) }),
        resume: v.picklist(["yes", "no"]),
      },
      ({ command, interrupt }) => (command?.resume === undefined ? interrupt("Sure?") : "Done."),
    ),
    weather: agent({ input: type({ city: "string", "days?": "number" }) }, ({ input }) => `Sun in ${input.city}`),
    tree: agent({ input: Tree }, ({ input }) => input.name),
    trips: agent({ input: z.object({ first: Trip, others: z.array(Trip) }) }, ({ input }) => input.first.city),
    "two words": () => "Hello",
    approval,
    priced: new StateGraph(Annotation.Root({ topic: Annotation<string>() }), {
      context: z.object({ tier: z.enum(["free", "pro"]), limit: z.number().default(10) }),
    })
      .addNode("write", ({ topic }) => ({ topic }))
      .addEdge(START, "write"),
  },
  database: ":memory:",
  http: { disable_crons: true },
});
export default config;
