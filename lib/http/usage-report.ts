/** Usage reports as JSON and CSV bodies, written in chunks as they are read. */
import { formatRfc3339 } from "../rfc3339.ts";
import { strideMs, type UsageRecord, type UsageReport } from "../usage/mod.ts";
import { type CsvQuotes, csvRow } from "./csv.ts";

/** Records per chunk of a body. */
const RECORDS = 500;

/** `{stride, usage}` as JSON. */
export function usageJson({ stride, usage }: UsageReport): Response {
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

/** The same as a CSV file. It always has all columns; those of other groupings are empty. */
export function usageCsv({ stride, usage, request }: UsageReport, quotes?: CsvQuotes): Response {
  const width = strideMs(stride);
  const head = csvRow(["Time Bucket Start", "Time Bucket End", ...COLUMNS.map(([title]) => title), "Traces"], quotes);
  const row = ({ time_bucket, dimensions, traces }: UsageRecord): string => {
    const end = formatRfc3339(Date.parse(time_bucket) + width);
    const names: Readonly<Record<string, string | null>> = dimensions;
    return csvRow([time_bucket, end, ...COLUMNS.map(([, key]) => names[key] ?? null), traces], quotes);
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
