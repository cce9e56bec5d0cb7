/** The platform: its description, workspaces and usage, as JSON and CSV. */
import { formatRfc3339, parseRfc3339 } from "../../rfc3339.ts";
import { type Service, VERSION } from "../../service.ts";
import type { Page, UsageGroup } from "../../storage/mod.ts";
import { toStrideMs, type UsageRecord, type UsageReport, type UsageRequest } from "../../usage/report.ts";
import { type ReportFinding, readPage, validateWith } from "../findings.ts";
import { UUID } from "../parse.ts";
import { jsonResponse } from "../respond.ts";
import { createRouteGroup, getSearchParams, type RequestContext, type Route } from "../route.ts";

const DAY = 86_400_000;
const MAX_DAYS = 3660;
const MAX_WORKSPACES = 1000;
const GROUPS: readonly UsageGroup[] = ["workspace", "project", "user", "api_key"];

/** `quote` of the CSV file: `needed` (the default) or `text`. Throws an InputError. */
export function readCsvQuotes(params: URLSearchParams): CsvQuotes {
  return validateWith((refuse) => {
    const [quotes = "needed", ...more] = params.getAll("quote");
    if (more.length > 0) refuse(["query", "quote"], "quote must be given once");
    if (quotes === "needed" || quotes === "text") return quotes;
    refuse(["query", "quote"], "quote must be one of needed, text", "enum");
    return "needed";
  });
}

/**
 * The query of a usage report. Throws an InputError with all findings, in the order start_time, end_time, workspace_ids, group_by,
 * include.
 * An empty time or id counts as absent. Types: `missing`, `datetime_parsing`, `uuid_parsing` (with the
 * index of the id), `value_error` (order and length of the range; a time, group_by or include given twice), `too_long` (too many
 * ids), `enum` (unknown or empty group_by or include).
 */
export const readUsageQuery = (params: URLSearchParams): UsageRequest =>
  validateWith((report) => usageRequest(params, (at, msg, type) => report(["query", ...at], msg, type)));

function usageRequest(params: URLSearchParams, report: ReportFinding): UsageRequest {
  const start_time = readMoment(params, "start_time", report) ?? Number.NaN;
  const end_time = readMoment(params, "end_time", report) ?? Number.NaN;
  if (end_time <= start_time) report(["end_time"], "end_time must be after start_time");
  if (end_time - start_time > MAX_DAYS * DAY) {
    report(["end_time"], `end_time must not be more than ${MAX_DAYS} days after start_time`);
  }
  return {
    start_time,
    end_time,
    workspace_ids: readWorkspaceIds(params, report),
    group_by: readGroup(params, report),
    ...(includesTokens(params, report) ? { tokens: true } : {}),
  };
}

/** A required time; null where it is absent or malformed. */
function readMoment(params: URLSearchParams, name: string, report: ReportFinding): number | null {
  const [sent = "", ...others] = params.getAll(name);
  if (others.length > 0) report([name], `${name} must be given once`);
  if (sent === "") {
    report([name], `${name} is required`, "missing");
    return null;
  }
  const moment = parseRfc3339(sent);
  if (moment === null) report([name], `${name} must be a date or time in RFC 3339`, "datetime_parsing");
  return moment;
}

/** Ids as repeated parameters, or as one list with commas. */
function readWorkspaceIds(params: URLSearchParams, report: ReportFinding): string[] {
  const sent = params.getAll("workspace_ids");
  const list = sent.length === 1 ? (sent[0] as string).split(",") : sent;
  const ids = new Set<string>();
  for (const [index, id] of list.entries()) {
    if (UUID.test(id)) ids.add(id.toLowerCase());
    else if (id !== "") report(["workspace_ids", index], `workspace_ids.${index} must be a UUID`, "uuid_parsing");
  }
  if (list.every((id) => id === "")) report(["workspace_ids"], "workspace_ids is required", "missing");
  if (ids.size > MAX_WORKSPACES) {
    report(["workspace_ids"], `workspace_ids must have at most ${MAX_WORKSPACES} ids`, "too_long");
  }
  return [...ids];
}

function readGroup(params: URLSearchParams, report: ReportFinding): UsageGroup {
  const groups = params.getAll("group_by");
  const group_by = GROUPS.find((group) => group === (groups[0] ?? "workspace"));
  if (groups.length > 1) report(["group_by"], "group_by must be given once");
  else if (!group_by) report(["group_by"], `group_by must be one of ${GROUPS.join(", ")}`, "enum");
  return group_by ?? "workspace";
}

/** True for `include=tokens`. */
function includesTokens(params: URLSearchParams, report: ReportFinding): boolean {
  const [included, ...others] = params.getAll("include");
  if (others.length > 0) report(["include"], "include must be given once");
  else if (included !== undefined && included !== "tokens") report(["include"], "include must be tokens", "enum");
  return included === "tokens";
}

/** The most workspaces in one answer. */
export const MAX_WORKSPACES_PER_PAGE = 1000;

/** The query of GET /api/v1/workspaces. Throws an InputError. */
const readWorkspaceQuery = (params: URLSearchParams): Page =>
  validateWith((report) => readPage(params, report, MAX_WORKSPACES_PER_PAGE));

const route = createRouteGroup({ tag: "Platform", access: "account", issues: "found" });
const usageRoute = createRouteGroup({ tag: "Usage", access: "account", issues: "found" });

async function report(context: RequestContext): Promise<UsageReport> {
  const caller = await context.accountCaller();
  const { usage }: Pick<Service, "usage"> = context.service;
  usage.admit(caller);
  return await usage.report(caller, readUsageQuery(getSearchParams(context)));
}

export const PLATFORM_ROUTES: readonly Route[] = [
  route("get", "/api/v1/info", {
    summary: "Get the version and the features of the platform API",
    access: "open",
    response: "PlatformInfo",
    // Without `use_multipart_endpoint: false` clients send some records to a route for traces.
    handle: () =>
      jsonResponse({
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
    response: "Workspace[]",
    async handle(context) {
      const caller = await context.accountCaller();
      const page = readWorkspaceQuery(getSearchParams(context));
      return jsonResponse(await context.service.access.workspaces(caller, page));
    },
  }),
  usageRoute("get", "/api/v1/orgs/current/billing/granular-usage", {
    summary: "Count traces in buckets of time, by workspace, project, user or API key",
    response: "Usage",
    errors: [404],
    handle: async (context) => createUsageJsonResponse(await report(context)),
  }),
  usageRoute("get", "/api/v1/orgs/current/billing/granular-usage/export", {
    summary: "The same as a CSV file",
    response: "csv",
    errors: [404],
    async handle(context) {
      const quotes = readCsvQuotes(getSearchParams(context));
      return createUsageCsvResponse(await report(context), quotes);
    },
  }),
];

/** Records per chunk of a body. */
const RECORDS = 500;

/** `{stride, usage}` as JSON. */
export function createUsageJsonResponse({ stride, usage }: UsageReport): Response {
  const chunk = (records: readonly UsageRecord[], at: number): string => {
    const list = records.map((record) => JSON.stringify(record)).join(",");
    return at > 0 ? `,${list}` : list;
  };
  return new Response(body(`{"stride":${JSON.stringify(stride)},"usage":[`, usage, chunk, "]}"), {
    headers: { "content-type": "application/json" },
  });
}

const COLUMNS = [
  ["Workspace ID", "workspace_id"],
  ["Workspace Name", "workspace_name"],
  ["Project ID", "project_id"],
  ["Project Name", "project_name"],
  ["User ID", "user_id"],
  ["User Email", "user_email"],
  ["API Key Short Key", "api_key_short_key"],
] as const;

const SPENT = [
  ["Tokens In", "tokens_in"],
  ["Tokens Out", "tokens_out"],
  ["Cost USD", "cost_usd"],
] as const;

/** The same as a CSV file. It always has all columns of groupings; those of other groupings are empty. */
export function createUsageCsvResponse({ stride, usage, request }: UsageReport, quotes?: CsvQuotes): Response {
  const width = toStrideMs(stride);
  const spent = request.tokens ? SPENT : [];
  const titles = [...COLUMNS.map(([title]) => title), "Traces", ...spent.map(([title]) => title)];
  const head = formatCsvRow(["Time Bucket Start", "Time Bucket End", ...titles], quotes);
  const row = ({ time_bucket, dimensions, traces, ...sums }: UsageRecord): string => {
    const end = formatRfc3339(Date.parse(time_bucket) + width);
    const names: Readonly<Record<string, string | null>> = dimensions;
    const cells = [
      ...COLUMNS.map(([, key]) => names[key] ?? null),
      traces,
      ...spent.map(([, key]) => sums[key] ?? null),
    ];
    return formatCsvRow([time_bucket, end, ...cells], quotes);
  };
  const day = (moment: number): string => formatRfc3339(moment).slice(0, 10);
  const name = `granular-usage-${request.group_by}-${day(request.start_time)}-${day(request.end_time)}.csv`;
  return new Response(
    body(head, usage, (records) => records.map(row).join(""), ""),
    { headers: { "content-type": "text/csv; charset=utf-8", "content-disposition": `attachment; filename="${name}"` } },
  );
}

/** `head`, the records in chunks of text, and `tail`; each chunk is written when the reader pulls. */
function body(
  head: string,
  records: readonly UsageRecord[],
  chunk: (records: readonly UsageRecord[], at: number) => string,
  tail: string,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let at = 0;
  return new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const next = at + RECORDS;
        const part = at < records.length ? chunk(records.slice(at, next), at) : "";
        const text = `${at === 0 ? head : ""}${part}${next >= records.length ? tail : ""}`;
        if (text !== "") controller.enqueue(encoder.encode(text));
        if (next >= records.length) controller.close();
        at = next;
      },
    },
    { highWaterMark: 0 },
  );
}

/** The start of text that spreadsheets run as a formula, or drop. */
const ACTIVE = /^[=+\-@\t\r\n]/;

/** Which cells are quoted: those for which RFC 4180 requires it, or all text. */
type CsvQuotes = "needed" | "text";

/** One row with its line end. Null is an empty cell. Text that starts like a formula gets a tab in front. */
export function formatCsvRow(cells: readonly (string | number | null)[], quotes: CsvQuotes = "needed"): string {
  return `${cells.map((cell) => formatCsvCell(cell, quotes)).join(",")}\r\n`;
}

function formatCsvCell(value: string | number | null, quotes: CsvQuotes): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const cell = ACTIVE.test(value) ? `\t${value}` : value;
  return quotes === "text" || /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
