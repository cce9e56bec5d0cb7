/** Requests about the server itself. */
import * as v from "valibot";
import { type Fields, oneOf } from "./pieces.ts";

/** GET /metrics */
export const metricsQuery: Fields<{ readonly format?: "prometheus" | "json" }> = v.object({
  format: v.optional(oneOf(["prometheus", "json"])),
});
