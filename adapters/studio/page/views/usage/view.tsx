/** Usage: runs by time and group, tokens and cost, as bars, a table and CSV. */
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { call, requestRoute } from "../../api/client.ts";
import type { Listing, RunSummary, UsageRecord, UsageReport } from "../../api/types.ts";
import { attempt } from "../../frame/notices.tsx";
import { pageAddress, setQuery } from "../../frame/router.ts";
import { Chart } from "../../parts/chart.tsx";
import { Empty, formatCount, formatMoney, Ready, TableBox } from "../../parts/components.tsx";
import { download } from "../../parts/json.tsx";
import { Head } from "../../parts/panes.tsx";
import { useResource } from "../../store/resource.ts";

const RANGES = [
  ["1", "last day"],
  ["7", "last 7 days"],
  ["30", "last 30 days"],
  ["90", "last 90 days"],
  ["365", "last year"],
] as const;
const GROUPS = ["workspace", "project", "user", "api_key"] as const;
const PATH = "/api/v1/orgs/current/billing/granular-usage";
const DAY_MS = 86_400_000;
/** The maximum number of runs whose tokens are summed. */
const MAX_SUMMED_RUNS = 5000;

/**
 * Returns the first dimension that is a name, an email address or a short key and is not empty, else the first one that is not
 * empty, such as an id; a dash if all are empty.
 */
const getGroupLabel = ({ dimensions }: UsageRecord): string => {
  const named = Object.entries(dimensions).find(([key, value]) => /name|email|short_key/.test(key) && value);
  return named?.[1] ?? Object.values(dimensions).find(Boolean) ?? "–";
};

/** The rows of a report: `times` are the starts of its buckets, and `values` the number of runs of a group in each of them. */
interface UsageTable {
  readonly times: readonly number[];
  readonly lines: readonly { readonly label: string; readonly values: readonly number[]; readonly total: number }[];
}

/**
 * Returns all buckets of the range, also those without runs, and a line for each label of a group, sorted by label, with its runs
 * in each bucket and their total. The buckets are aligned to the earliest one of the report, to `from` if the report is empty.
 */
function toTable({ stride, usage }: UsageReport, from: number, to: number): UsageTable {
  const step = stride.days * DAY_MS + stride.hours * 3_600_000 || DAY_MS;
  const first = usage.length > 0 ? Math.min(...usage.map((record) => Date.parse(record.time_bucket))) : from;
  let start = first;
  while (start - step >= from) start -= step;
  const times: number[] = [];
  for (let time = start; time < to; time += step) times.push(time);
  const groups = [...new Set(usage.map(getGroupLabel))].sort();
  const lines = groups.map((label) => {
    const values = times.map((time) =>
      usage
        .filter((record) => getGroupLabel(record) === label && Date.parse(record.time_bucket) === time)
        .reduce((sum, { traces }) => sum + traces, 0),
    );
    return { label, values, total: values.reduce((sum, value) => sum + value, 0) };
  });
  return { times, lines };
}

/** Sums tokens and cost of the runs created since a time, of at most `MAX_SUMMED_RUNS`. `isWhole` is false if there are more. */
async function sumTokensSince(created_after: string, signal: AbortSignal) {
  const sum = { tokens_in: 0, tokens_out: 0, cost_usd: 0, runs: 0, isWhole: true };
  let cursor: string | null = null;
  do {
    const page: Listing<RunSummary> = await call("GET", "/greenroom/runs", {
      query: { created_after, limit: 1000, cursor },
      signal,
    });
    for (const { usage } of page.items) {
      sum.runs += 1;
      sum.tokens_in += usage?.tokens_in ?? 0;
      sum.tokens_out += usage?.tokens_out ?? 0;
      sum.cost_usd += usage?.cost_usd ?? 0;
    }
    cursor = page.next;
  } while (cursor !== null && sum.runs < MAX_SUMMED_RUNS);
  return { ...sum, isWhole: cursor === null };
}

/**
 * Shows `runs`, a dash if it is undefined, and tokens and cost of the runs created since a time; a note if not all of them were
 * summed.
 */
function Figures({ since, runs }: { readonly since: string; readonly runs: number | undefined }): VNode {
  const sums = useResource(`usage/tokens/${since}`, (signal) => sumTokensSince(since, signal));
  return (
    <Ready of={sums} rows={1}>
      {({ runs: summed, tokens_in, tokens_out, cost_usd, isWhole }) => (
        <div class="figures">
          {(
            [
              ["runs", runs === undefined ? "–" : formatCount(runs)],
              ["tokens in", formatCount(tokens_in)],
              ["tokens out", formatCount(tokens_out)],
              ["cost", formatMoney(cost_usd)],
            ] as const
          ).map(([label, value]) => (
            <div key={label}>
              <strong>{value}</strong>
              <span class="faint">{label}</span>
            </div>
          ))}
          {isWhole ? null : <p class="faint">Tokens and cost of the newest {formatCount(summed)} runs.</p>}
        </div>
      )}
    </Ready>
  );
}

/**
 * Shows the usage of all workspaces in a range by group, as figures, bars and a table. Selects change range and group
 * in the address; a button downloads the report as CSV.
 */
export default function Usage(): VNode {
  const { query } = pageAddress.value;
  const days = query.get("days") ?? "30";
  const group = query.get("group") ?? "project";
  // Full hours, so that the same range keeps its key.
  const to = Math.ceil(Date.now() / 3_600_000) * 3_600_000;
  const from = to - Number(days) * DAY_MS;
  const [start_time, end_time] = [new Date(from).toISOString(), new Date(to).toISOString()];
  const workspaces = useResource("usage/workspaces", (signal) =>
    call<readonly { readonly id: string }[]>("GET", "/api/v1/workspaces", { query: { limit: 1000 }, signal }),
  );
  const workspace_ids = workspaces.data?.map(({ id }) => id);
  const parameters = { start_time, end_time, workspace_ids, group_by: group };
  const usage = useResource<UsageReport>(
    workspace_ids && workspace_ids.length > 0 ? `usage/${JSON.stringify(parameters)}` : null,
    (signal) => call("GET", PATH, { query: parameters, signal }),
  );
  const table = useMemo(() => (usage.data ? toTable(usage.data, from, to) : null), [usage.data]);
  /** Downloads the report as a file. A failure shows a notice. */
  const csv = (): void =>
    attempt("CSV", async () => {
      const response = await requestRoute("GET", `${PATH}/export`, { query: parameters });
      download(`usage-${start_time.slice(0, 10)}-${group}.csv`, await response.text(), "text/csv");
    });
  return (
    <div class="page">
      <Head title="Usage">
        <select aria-label="Range" value={days} onChange={(event) => setQuery({ days: event.currentTarget.value })}>
          {RANGES.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
        <select
          aria-label="Group by"
          value={group}
          onChange={(event) => setQuery({ group: event.currentTarget.value })}
        >
          {GROUPS.map((grouping) => (
            <option key={grouping} value={grouping}>
              by {grouping.replace("_", " ")}
            </option>
          ))}
        </select>
        <button type="button" onClick={csv} disabled={!usage.data}>
          CSV
        </button>
      </Head>
      <div class="scroll form">
        <Figures since={start_time} runs={table?.lines.reduce((sum, { total }) => sum + total, 0)} />
        <Ready<unknown> of={workspaces.error ? workspaces : usage}>
          {() =>
            table && table.lines.length > 0 ? (
              <>
                <Chart label="Runs" kind="bars" height={220} times={table.times} lines={table.lines} />
                <TableBox label="Usage">
                  <table>
                    <thead>
                      <tr>
                        <th>{group.replace("_", " ")}</th>
                        <th class="number">runs</th>
                      </tr>
                    </thead>
                    <tbody>
                      {table.lines.map(({ label, total }) => (
                        <tr key={label}>
                          <td>{label}</td>
                          <td class="number">{formatCount(total)}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </TableBox>
              </>
            ) : (
              <Empty title="No runs in this range" />
            )
          }
        </Ready>
      </div>
    </div>
  );
}
