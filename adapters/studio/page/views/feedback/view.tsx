/** Feedback: scores over time, comments, links. */
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { FeedbackRecord, ScoreSeries } from "../../api/types.ts";
import { pageAddress, setQuery, toCurrentHref, toHref } from "../../frame/router.ts";
import { Chart } from "../../parts/chart.tsx";
import { Empty, formatCount, Ready, shortId, TableBox, Time } from "../../parts/components.tsx";
import { Head, Tabs } from "../../parts/panes.tsx";
import { useResource } from "../../store/resource.ts";
import { Links } from "./links.tsx";

const TABS = [
  ["scores", "Scores"],
  ["records", "Records"],
  ["links", "Links"],
] as const;
const DAY_MS = 86_400_000;
const STRIDES_MS: Readonly<Record<string, number>> = { hour: 3_600_000, day: DAY_MS, week: 7 * DAY_MS };

/**
 * Shows the scores of the last days by feedback key: a line of the averages by hour, day or week, and a table with
 * count, average, lowest and highest. Shows a text if there are none.
 */
function Scores({ days }: { readonly days: number }): VNode {
  const to = Math.ceil(Date.now() / 3_600_000) * 3_600_000;
  const stride = days <= 2 ? "hour" : days <= 90 ? "day" : "week";
  const [start, end] = [new Date(to - days * DAY_MS).toISOString(), new Date(to).toISOString()];
  const scores = useResource<ScoreSeries>(`feedback/scores/${start}/${stride}`, (signal) =>
    call("GET", "/greenroom/feedback/scores", { query: { start, end, stride }, signal }),
  );
  const chart = useMemo(() => {
    const keys = scores.data?.keys ?? [];
    const starts = [...new Set(keys.flatMap(({ buckets }) => buckets.map((bucket) => Date.parse(bucket.start))))].sort(
      (a, b) => a - b,
    );
    const step = STRIDES_MS[stride] as number;
    const times: number[] = [];
    if (starts.length > 0)
      for (let time = starts[0] as number; time <= (starts.at(-1) as number); time += step) times.push(time);
    const lines = keys.map(({ key, buckets }) => ({
      label: key,
      values: times.map((time) => buckets.find((bucket) => Date.parse(bucket.start) === time)?.avg ?? null),
    }));
    return { times, lines, keys };
  }, [scores.data]);
  return (
    <Ready of={scores}>
      {() =>
        chart.keys.length === 0 ? (
          <Empty title="No feedback in this range">
            <p class="faint">Runs with feedback keys get links; applications can record feedback, too.</p>
          </Empty>
        ) : (
          <>
            <Chart
              label="Average score"
              height={220}
              range={[to - days * DAY_MS, to]}
              times={chart.times}
              lines={chart.lines}
            />
            <TableBox label="Scores">
              <table>
                <thead>
                  <tr>
                    <th>key</th>
                    <th class="number">records</th>
                    <th class="number">average</th>
                    <th class="number">lowest</th>
                    <th class="number">highest</th>
                  </tr>
                </thead>
                <tbody>
                  {chart.keys.map(({ key, buckets }) => {
                    const n = buckets.reduce((sum, bucket) => sum + bucket.n, 0);
                    const scored = buckets.filter(({ avg }) => avg !== null);
                    const weight = scored.reduce((sum, bucket) => sum + bucket.n, 0);
                    const total = scored.reduce((sum, bucket) => sum + (bucket.avg ?? 0) * bucket.n, 0);
                    const low = Math.min(...scored.map(({ min }) => min ?? 0));
                    const high = Math.max(...scored.map(({ max }) => max ?? 0));
                    return (
                      <tr key={key}>
                        <td>{key}</td>
                        <td class="number">{formatCount(n)}</td>
                        <td class="number">{weight > 0 ? (total / weight).toFixed(2) : "–"}</td>
                        <td class="number">{weight > 0 ? low : "–"}</td>
                        <td class="number">{weight > 0 ? high : "–"}</td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </TableBox>
          </>
        )
      }
    </Ready>
  );
}

/** Shows the newest 100 feedback records, of one key if the address names it. */
function Records(): VNode {
  const key = pageAddress.value.query.get("key") ?? "";
  const records = useResource<readonly FeedbackRecord[]>(`feedback/records/${key}`, (signal) =>
    call("GET", "/api/v1/feedback", { query: { limit: 100, key: key || undefined }, signal }),
  );
  return (
    <Ready of={records}>
      {(loaded) =>
        loaded.length === 0 ? (
          <Empty title="No feedback yet" />
        ) : (
          <TableBox label="Records">
            <table>
              <thead>
                <tr>
                  <th>key</th>
                  <th class="number">score</th>
                  <th class="minor">value</th>
                  <th>comment</th>
                  <th>run</th>
                  <th>created</th>
                </tr>
              </thead>
              <tbody>
                {loaded.map((record) => (
                  <tr key={record.id}>
                    <td>
                      <a href={toCurrentHref({ key: record.key })}>{record.key}</a>
                    </td>
                    <td class="number">{record.score === null ? "–" : String(record.score)}</td>
                    <td class="minor">
                      {record.value === null
                        ? ""
                        : typeof record.value === "string"
                          ? record.value
                          : JSON.stringify(record.value)}
                    </td>
                    <td class="comment">{record.comment}</td>
                    <td>
                      {record.run_id ? <a href={toHref(["runs", record.run_id])}>{shortId(record.run_id)}</a> : "–"}
                    </td>
                    <td>
                      <Time at={record.created_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableBox>
        )
      }
    </Ready>
  );
}

/**
 * Shows one of the tabs scores, records and links, as the address says. The scores have a select for their range, and a
 * button removes the filter by key.
 */
export default function Feedback(): VNode {
  const { query } = pageAddress.value;
  const tab = query.get("tab") ?? "scores";
  const days = query.get("days") ?? "30";
  return (
    <div class="page">
      <Head title="Feedback">
        {tab === "scores" ? (
          <select aria-label="Range" value={days} onChange={(event) => setQuery({ days: event.currentTarget.value })}>
            <option value="2">last 2 days</option>
            <option value="30">last 30 days</option>
            <option value="90">last 90 days</option>
            <option value="365">last year</option>
          </select>
        ) : null}
        {query.has("key") ? (
          <button type="button" onClick={() => setQuery({ key: null })}>
            {query.get("key")} ✕
          </button>
        ) : null}
      </Head>
      <Tabs
        items={TABS}
        current={tab}
        toHref={(id) => toCurrentHref({ tab: id === "scores" ? null : id, key: null })}
      />
      <div class="scroll form">
        {tab === "links" ? <Links /> : tab === "records" ? <Records /> : <Scores days={Number(days)} />}
      </div>
    </div>
  );
}
