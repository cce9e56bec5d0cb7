/** The routes of the platform: its description, workspaces and usage. */
import { type Service, VERSION } from "../../service.ts";
import type { UsageReport } from "../../usage/mod.ts";
import { type RequestContext, searchParams } from "../context.ts";
import { readWorkspaceQuery } from "../parse/service.ts";
import { readCsvQuotes, readUsageQuery } from "../parse/usage.ts";
import { json } from "../respond.ts";
import { usageCsv, usageJson } from "../usage-report.ts";
import { type Route, routesOf } from "./route.ts";

const route = routesOf({ tag: "Platform", access: "account" });
const usageRoute = routesOf({ tag: "Usage", access: "account" });

async function report(context: RequestContext): Promise<UsageReport> {
  const caller = await context.caller();
  const { usage }: Service = context.service;
  usage.admit(caller);
  return await usage.report(caller, readUsageQuery(searchParams(context)));
}

export const PLATFORM_ROUTES: readonly Route[] = [
  route("get", "/api/v1/info", {
    summary: "Get the version and the features of the platform API",
    access: "open",
    answer: "PlatformInfo",
    // Without `use_multipart_endpoint: false` clients send some feedback to a route for traces.
    handle: () =>
      json({
        version: VERSION,
        license_expiration_time: null,
        instance_flags: {},
        batch_ingest_config: {
          use_multipart_endpoint: false,
          size_limit: 100,
          size_limit_bytes: 20_971_520,
          scale_up_nthreads_limit: 16,
          scale_up_qsize_trigger: 1000,
          scale_down_nempty_trigger: 4,
        },
      }),
  }),
  route("get", "/api/v1/workspaces", {
    summary: "List the workspaces that the caller may read, by name",
    answer: "Workspace[]",
    async handle(context) {
      const caller = await context.caller();
      const page = readWorkspaceQuery(searchParams(context));
      return json(await context.service.access.workspaces(caller, page));
    },
  }),
  usageRoute("get", "/api/v1/orgs/current/billing/granular-usage", {
    summary: "Count traces in buckets of time, by workspace, project, user or API key",
    answer: "Usage",
    errors: [404],
    handle: async (context) => usageJson(await report(context)),
  }),
  usageRoute("get", "/api/v1/orgs/current/billing/granular-usage/export", {
    summary: "The same as a CSV file",
    answer: "csv",
    errors: [404],
    async handle(context) {
      const quotes = readCsvQuotes(searchParams(context));
      return usageCsv(await report(context), quotes);
    },
  }),
];
