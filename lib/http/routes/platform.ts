/** Defines the routes of the platform: its description, workspaces, and usage as JSON and CSV. */
import { formatRfc3339, parseRfc3339 } from "../../rfc3339.ts";
import { type Service, VERSION } from "../../service.ts";
import type { Page, UsageGroup } from "../../storage/mod.ts";
import { toStrideMs, type UsageRecord, type UsageReport, type UsageRequest } from "../../usage/report.ts";
import { type ReportFinding, readPage, validateWith } from "../findings.ts";
import { UUID } from "../parse.ts";
import { jsonResponse } from "../respond.ts";
import { createRouteGroup, getSearchParams, type RequestContext, type Route } from "../route.ts";

const DAY_MS = 86_400_000;
const MAX_RANGE_DAYS = 3660;
const MAX_USAGE_WORKSPACES = 1000;
const USAGE_GROUPS: readonly UsageGroup[] = ["workspace", "project", "user", "api_key"];

/**
 * Reads the query parameter `quote` of the CSV file: `needed` (the default) or `text`. Throws an InputError for another
 * or a repeated one.
 */
export function readCsvQuotes(params: URLSearchParams): CsvQuotes {
  return validateWith((report) => {
    const [quotes = "needed", ...extraQuotes] = params.getAll("quote");
    if (extraQuotes.length > 0) report(["query", "quote"], "quote must be given once");
    if (quotes === "needed" || quotes === "text") return quotes;
    report(["query", "quote"], "quote must be one of needed, text", "enum");
    return "needed";
  });
}

/**
 * Reads the query of a usage report. Throws an InputError with all findings, in the order start_time, end_time, workspace_ids,
 * group_by, include.
 * An empty time or id counts as absent. Types: `missing`, `datetime_parsing`, `uuid_parsing` (with the
 * index of the id), `value_error` (order and length of the range; a time, group_by or include given twice), `too_long` (too many
 * ids), `enum` (unknown or empty group_by or include).
 */
export const readUsageQuery = (params: URLSearchParams): UsageRequest =>
  validateWith((report) => toUsageRequest(params, (location, msg, type) => report(["query", ...location], msg, type)));

/**
 * Reads the query of a usage report. Reports findings for missing, malformed or reversed times, a range that is too long, missing,
 * malformed or too many workspaces, and unknown words. The result is not to be used after a finding: its times may be NaN.
 */
function toUsageRequest(params: URLSearchParams, report: ReportFinding): UsageRequest {
  const start_time = readTime(params, "start_time", report) ?? Number.NaN;
  const end_time = readTime(params, "end_time", report) ?? Number.NaN;
  if (end_time <= start_time) report(["end_time"], "end_time must be after start_time");
  if (end_time - start_time > MAX_RANGE_DAYS * DAY_MS) {
    report(["end_time"], `end_time must not be more than ${MAX_RANGE_DAYS} days after start_time`);
  }
  return {
    start_time,
    end_time,
    workspace_ids: readWorkspaceIds(params, report),
    group_by: readUsageGroup(params, report),
    ...(includesTokens(params, report) ? { tokens: true } : {}),
  };
}

/**
 * Reads a required time in milliseconds since 1970. Reports a finding and returns null if it is absent or malformed.
 * Reports a repeated parameter, too, and returns the first time.
 */
function readTime(params: URLSearchParams, name: string, report: ReportFinding): number | null {
  const [input = "", ...extraValues] = params.getAll(name);
  if (extraValues.length > 0) report([name], `${name} must be given once`);
  if (input === "") {
    report([name], `${name} is required`, "missing");
    return null;
  }
  const time = parseRfc3339(input);
  if (time === null) report([name], `${name} must be a date or time in RFC 3339`, "datetime_parsing");
  return time;
}

/**
 * Reads ids from repeated parameters, or from one list with commas. Returns each once, in lower case. Reports and omits
 * what is no UUID, ignores empty ones, and reports a finding if there is none or more than `MAX_USAGE_WORKSPACES`.
 */
function readWorkspaceIds(params: URLSearchParams, report: ReportFinding): string[] {
  const inputs = params.getAll("workspace_ids");
  const idTexts = inputs.length === 1 ? (inputs[0] as string).split(",") : inputs;
  const ids = new Set<string>();
  for (const [index, id] of idTexts.entries()) {
    if (UUID.test(id)) ids.add(id.toLowerCase());
    else if (id !== "") report(["workspace_ids", index], `workspace_ids.${index} must be a UUID`, "uuid_parsing");
  }
  if (idTexts.every((id) => id === "")) report(["workspace_ids"], "workspace_ids is required", "missing");
  if (ids.size > MAX_USAGE_WORKSPACES) {
    report(["workspace_ids"], `workspace_ids must have at most ${MAX_USAGE_WORKSPACES} ids`, "too_long");
  }
  return [...ids];
}

/**
 * Reads the grouping, by default `workspace`. Reports a finding for several or an unknown one, and returns the first known or the
 * default.
 */
function readUsageGroup(params: URLSearchParams, report: ReportFinding): UsageGroup {
  const groups = params.getAll("group_by");
  const group_by = USAGE_GROUPS.find((group) => group === (groups[0] ?? "workspace"));
  if (groups.length > 1) report(["group_by"], "group_by must be given once");
  else if (!group_by) report(["group_by"], `group_by must be one of ${USAGE_GROUPS.join(", ")}`, "enum");
  return group_by ?? "workspace";
}

/**
 * Returns true if the first `include` is `tokens`, false without one. Reports a finding for other values and for
 * several.
 */
function includesTokens(params: URLSearchParams, report: ReportFinding): boolean {
  const [included, ...extraValues] = params.getAll("include");
  if (extraValues.length > 0) report(["include"], "include must be given once");
  else if (included !== undefined && included !== "tokens") report(["include"], "include must be tokens", "enum");
  return included === "tokens";
}

/** The maximum number of workspaces in one response. */
export const MAX_WORKSPACES_PER_PAGE = 1000;

/** Reads the query of GET /api/v1/workspaces. Throws an InputError. */
const readWorkspaceQuery = (params: URLSearchParams): Page =>
  validateWith((report) => readPage(params, report, MAX_WORKSPACES_PER_PAGE));

const defineRoute = createRouteGroup({ tag: "Platform", access: "account", issues: "exact" });
const defineUsageRoute = createRouteGroup({ tag: "Usage", access: "account", issues: "exact" });

/**
 * Creates the usage report that the query requests. Checks the caller's permission before the query. Throws `usage_disabled`,
 * `permission_missing`, an InputError, or `workspace_forbidden` for a workspace that the caller may not read, if the options say so;
 * else that one is left out.
 */
async function createUsageReport(context: RequestContext): Promise<UsageReport> {
  const caller = await context.accountCaller();
  const { usage }: Pick<Service, "usage"> = context.service;
  usage.admit(caller);
  return await usage.report(caller, readUsageQuery(getSearchParams(context)));
}

export const PLATFORM_ROUTES: readonly Route[] = [
  defineRoute("get", "/api/v1/info", {
    summary: "Get the version and the features of the platform API",
    access: "open",
    response: "PlatformInfo",
    /** Responds with constants that tell clients of traces to send no multipart bodies. */
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
  defineRoute("get", "/api/v1/workspaces", {
    summary: "List the workspaces that the caller may read, by name",
    response: "Workspace[]",
    /** Responds with a page of the workspaces that the caller may read, by name; an empty list without any. */
    async handle(context) {
      const caller = await context.accountCaller();
      const page = readWorkspaceQuery(getSearchParams(context));
      return jsonResponse(await context.service.access.workspaces(caller, page));
    },
  }),
  defineUsageRoute("get", "/api/v1/orgs/current/billing/granular-usage", {
    summary: "Count traces in buckets of time, by workspace, project, user or API key",
    response: "Usage",
    errors: [404],
    handle: async (context) => createUsageJsonResponse(await createUsageReport(context)),
  }),
  defineUsageRoute("get", "/api/v1/orgs/current/billing/granular-usage/export", {
    summary: "The same as a CSV file",
    response: "csv",
    errors: [404],
    /** Responds with the usage report as a CSV file. Throws what `readCsvQuotes`, first, and `createUsageReport` throw. */
    async handle(context) {
      const quotes = readCsvQuotes(getSearchParams(context));
      return createUsageCsvResponse(await createUsageReport(context), quotes);
    },
  }),
];

/** The number of records in a chunk of a body. */
const RECORDS_PER_CHUNK = 500;

/** Creates a response with `{stride, usage}` as JSON. Its body is written in chunks of records as the reader pulls. */
export function createUsageJsonResponse({ stride, usage }: UsageReport): Response {
  /** Formats records as JSON, separated by commas. All chunks but the first begin with a comma. */
  const chunk = (records: readonly UsageRecord[], position: number): string => {
    const idTexts = records.map((record) => JSON.stringify(record)).join(",");
    return position > 0 ? `,${idTexts}` : idTexts;
  };
  return new Response(createRecordStream(`{"stride":${JSON.stringify(stride)},"usage":[`, usage, chunk, "]}"), {
    headers: { "content-type": "application/json" },
  });
}

const DIMENSION_COLUMNS = [
  ["Workspace ID", "workspace_id"],
  ["Workspace Name", "workspace_name"],
  ["Project ID", "project_id"],
  ["Project Name", "project_name"],
  ["User ID", "user_id"],
  ["User Email", "user_email"],
  ["API Key Short Key", "api_key_short_key"],
] as const;

const USAGE_COLUMNS = [
  ["Tokens In", "tokens_in"],
  ["Tokens Out", "tokens_out"],
  ["Cost USD", "cost_usd"],
] as const;

/**
 * Creates a response with a usage report as a CSV file to download. It has the columns of all groupings; those of other
 * groupings are empty. It has token columns only if the request includes tokens.
 */
export function createUsageCsvResponse({ stride, usage, request }: UsageReport, quotes?: CsvQuotes): Response {
  const bucket_ms = toStrideMs(stride);
  const usageColumns = request.tokens ? USAGE_COLUMNS : [];
  const titles = [...DIMENSION_COLUMNS.map(([title]) => title), "Traces", ...usageColumns.map(([title]) => title)];
  const head = formatCsvRow(["Time Bucket Start", "Time Bucket End", ...titles], quotes);
  /** Formats a record as a line of the file: start and end of its time bucket, all dimensions, and its numbers. */
  const formatRecord = ({ time_bucket, dimensions, traces, ...sums }: UsageRecord): string => {
    const end = formatRfc3339(Date.parse(time_bucket) + bucket_ms);
    const names: Readonly<Record<string, string | null>> = dimensions;
    const cells = [
      ...DIMENSION_COLUMNS.map(([, key]) => names[key] ?? null),
      traces,
      ...usageColumns.map(([, key]) => sums[key] ?? null),
    ];
    return formatCsvRow([time_bucket, end, ...cells], quotes);
  };
  const formatDay = (time: number): string => formatRfc3339(time).slice(0, 10);
  const name = `granular-usage-${request.group_by}-${formatDay(request.start_time)}-${formatDay(request.end_time)}.csv`;
  return new Response(
    createRecordStream(head, usage, (records) => records.map(formatRecord).join(""), ""),
    { headers: { "content-type": "text/csv; charset=utf-8", "content-disposition": `attachment; filename="${name}"` } },
  );
}

/**
 * Returns a stream of `head`, the records in chunks of text, and `tail`, as UTF-8. `chunk` formats up to `RECORDS_PER_CHUNK` records
 * from `position` on, when the reader pulls; it is not called without records.
 */
function createRecordStream(
  head: string,
  records: readonly UsageRecord[],
  chunk: (records: readonly UsageRecord[], position: number) => string,
  tail: string,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let position = 0;
  return new ReadableStream<Uint8Array>(
    {
      /** Enqueues the next part of the records, the head before the first and the tail after the last one. Then closes. */
      pull(controller) {
        const next = position + RECORDS_PER_CHUNK;
        const part = position < records.length ? chunk(records.slice(position, next), position) : "";
        const text = `${position === 0 ? head : ""}${part}${next >= records.length ? tail : ""}`;
        if (text !== "") controller.enqueue(encoder.encode(text));
        if (next >= records.length) controller.close();
        position = next;
      },
    },
    { highWaterMark: 0 },
  );
}

/** Matches the start of text that spreadsheets run as a formula, or drop. */
const FORMULA_START = /^[=+\-@\t\r\n]/;

/** The cells that are quoted: those for which RFC 4180 requires it, or all text. */
type CsvQuotes = "needed" | "text";

/** Formats a row with its line end. Null is an empty cell. Text that starts like a formula gets a leading tab. */
export function formatCsvRow(cells: readonly (string | number | null)[], quotes: CsvQuotes = "needed"): string {
  return `${cells.map((cell) => formatCsvCell(cell, quotes)).join(",")}\r\n`;
}

/**
 * Formats a cell; null is empty and a number has no quotes. Quotes a text if `quotes` is `text` or the text needs it. A
 * text that a spreadsheet would run as a formula begins with a tab.
 */
function formatCsvCell(value: string | number | null, quotes: CsvQuotes): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const cell = FORMULA_START.test(value) ? `\t${value}` : value;
  return quotes === "text" || /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
