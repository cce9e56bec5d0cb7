/** Feedback: scores over time, comments, links. */
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { FeedbackRecord, ScoreSeries } from "../../api/types.ts";
import { hereWith, hrefOf, place, setQuery } from "../../frame/router.ts";
import { count, Empty, Ready, shortId, TableBox, Time } from "../../parts/basics.tsx";
import { Chart } from "../../parts/chart.tsx";
import { Head, Tabs } from "../../parts/panes.tsx";
import { useResource } from "../../store/resource.ts";
import { Links } from "./links.tsx";

const TABS = [
  ["scores", "Scores"],
  ["records", "Records"],
  ["links", "Links"],
] as const;
const DAY = 86_400_000;
const STRIDES: Readonly<Record<string, number>> = { hour: 3_600_000, day: DAY, week: 7 * DAY };

function Scores({ days }: { readonly days: number }): VNode {
  const to = Math.ceil(Date.now() / 3_600_000) * 3_600_000;
  const stride = days <= 2 ? "hour" : days <= 90 ? "day" : "week";
  const [start, end] = [new Date(to - days * DAY).toISOString(), new Date(to).toISOString()];
  const scores = useResource<ScoreSeries>(`feedback/scores/${start}/${stride}`, (signal) =>
    call("GET", "/greenroom/feedback/scores", { query: { start, end, stride }, signal }),
  );
  const shown = useMemo(() => {
    const keys = scores.data?.keys ?? [];
    const starts = [...new Set(keys.flatMap(({ buckets }) => buckets.map((one) => Date.parse(one.start))))].sort(
      (a, b) => a - b,
    );
    const step = STRIDES[stride] as number;
    const times: number[] = [];
    if (starts.length > 0)
      for (let at = starts[0] as number; at <= (starts.at(-1) as number); at += step) times.push(at);
    const lines = keys.map(({ key, buckets }) => ({
      label: key,
      values: times.map((time) => buckets.find((one) => Date.parse(one.start) === time)?.avg ?? null),
    }));
    return { times, lines, keys };
  }, [scores.data]);
  return (
    <Ready of={scores}>
      {() =>
        shown.keys.length === 0 ? (
          <Empty title="No feedback in this range">
            <p class="faint">Runs with feedback keys get links; applications can record feedback, too.</p>
          </Empty>
        ) : (
          <>
            <Chart
              label="Average score"
              height={220}
              range={[to - days * DAY, to]}
              times={shown.times}
              lines={shown.lines}
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
                  {shown.keys.map(({ key, buckets }) => {
                    const n = buckets.reduce((sum, one) => sum + one.n, 0);
                    const scored = buckets.filter(({ avg }) => avg !== null);
                    const weight = scored.reduce((sum, one) => sum + one.n, 0);
                    const total = scored.reduce((sum, one) => sum + (one.avg ?? 0) * one.n, 0);
                    const low = Math.min(...scored.map(({ min }) => min ?? 0));
                    const high = Math.max(...scored.map(({ max }) => max ?? 0));
                    return (
                      <tr key={key}>
                        <td>{key}</td>
                        <td class="number">{count(n)}</td>
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

function Records(): VNode {
  const key = place.value.query.get("key") ?? "";
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
                {loaded.map((one) => (
                  <tr key={one.id}>
                    <td>
                      <a href={hereWith({ key: one.key })}>{one.key}</a>
                    </td>
                    <td class="number">{one.score === null ? "–" : String(one.score)}</td>
                    <td class="minor">
                      {one.value === null ? "" : typeof one.value === "string" ? one.value : JSON.stringify(one.value)}
                    </td>
                    <td class="comment">{one.comment}</td>
                    <td>{one.run_id ? <a href={hrefOf(["runs", one.run_id])}>{shortId(one.run_id)}</a> : "–"}</td>
                    <td>
                      <Time at={one.created_at} />
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

export default function Feedback(): VNode {
  const { query } = place.value;
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
      <Tabs items={TABS} current={tab} hrefOf={(id) => hereWith({ tab: id === "scores" ? null : id, key: null })} />
      <div class="scroll form">
        {tab === "links" ? <Links /> : tab === "records" ? <Records /> : <Scores days={Number(days)} />}
      </div>
    </div>
  );
}
