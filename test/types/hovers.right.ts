/** The texts that editors show for agents and their values. The comment above a variable has its text. */
import { agent, type FunctionJob } from "greenroom";
import * as v from "valibot";
import { app } from "./agents.right.ts";

declare const job: FunctionJob;

// hover: Agent<{ input: { order: string; }; values: { paid?: number | undefined; messages?: Message[]; }; context: JsonObject; interrupt: Json; resume: boolean; custom: Json; }>
export const refund = agent(
  {
    state: v.object({ paid: v.optional(v.number(), 0) }),
    input: v.object({ order: v.string() }),
    resume: v.boolean(),
  },
  ({ state }) => ({ paid: state.paid }),
);
// hover: { paid?: number | undefined; order?: string | undefined; messages?: Message[]; }
export const values = await app.service.runs.run("refund", { order: "A", cents: 1 }, { context: { tier: "pro" } });
// hover: Promise<{ id: string; at: string; }>
export const step = job.step("find", () => ({ id: "A", at: new Date() }));
// hover: { code: string; tries: number; }
export const shipped = await app.service.runs.run("shipping", { code: "c" });
// hover: AgentHandle<{ input: { n?: number | undefined; messages?: MessageLike | readonly MessageLike[]; }; values: { n?: number | undefined; messages?: Message[]; }; context: JsonObject; interrupt: Json; resume: any; custom: Json; }>
export const handle = app.service.agent("counter");
