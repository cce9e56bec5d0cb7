/** Requests of the routes about the server and its accounts. */
import * as v from "valibot";
import type { Page } from "../../storage/mod.ts";
import { checked, page } from "./findings.ts";
import { type Fields, oneOf } from "./pieces.ts";

/** GET /metrics */
export const metricsQuery: Fields<{ readonly format?: "prometheus" | "json" }> = v.object({
  format: v.optional(oneOf(["prometheus", "json"])),
});

/** The most workspaces in one answer. */
export const WORKSPACES = 1000;

/** The query of GET /api/v1/workspaces. Throws an InputError. */
export const readWorkspaceQuery = (params: URLSearchParams): Page =>
  checked((report) => page(params, report, WORKSPACES));
