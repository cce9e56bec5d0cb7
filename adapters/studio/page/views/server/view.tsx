/** The server: version, health, load over the last hour, configuration without secrets; and the settings of this page. */
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { API, call, skew } from "../../api/client.ts";
import { credential, refusal, saveCredential } from "../../api/key.ts";
import type { RunStats, ServerReport } from "../../api/types.ts";
import { type Theme, theme } from "../../frame/theme.ts";
import { Chart } from "../../parts/chart.tsx";
import { copy, Facts, formatCount, formatDuration, Ready, Status, TableBox } from "../../parts/components.tsx";
import { Head } from "../../parts/panes.tsx";
import { useResource } from "../../store/resource.ts";

/**
 * Shows charts of the last hour by minute, read every five seconds: queued and started runs, and the median and 95th
 * percentile of wait and duration.
 */
function LoadCharts(): VNode {
  const stats = useResource<RunStats>("runs-stats", (signal) => call("GET", "/greenroom/runs/stats", { signal }), 5000);
  const charts = useMemo(() => {
    const minutes = stats.data?.minutes ?? [];
    /** Returns a line with the value of each minute; null leaves a gap. */
    const line = (label: string, value: (minute: RunStats["minutes"][number]) => number | null) => ({
      label,
      values: minutes.map(value),
    });
    return {
      times: minutes.map(({ minute }) => Date.parse(minute)),
      queue: [line("queued", (minute) => minute.queued), line("started", (minute) => minute.started)],
      wait: [
        line("p50", (minute) => minute.wait_ms?.p50 ?? null),
        line("p95", (minute) => minute.wait_ms?.p95 ?? null),
      ],
      run: [
        line("p50", (minute) => minute.duration_ms?.p50 ?? null),
        line("p95", (minute) => minute.duration_ms?.p95 ?? null),
      ],
    };
  }, [stats.data]);
  return (
    <Ready of={stats}>
      {() => (
        <div class="charts">
          <Chart label="Queue, last hour" times={charts.times} lines={charts.queue} />
          <Chart label="Wait" times={charts.times} lines={charts.wait} format={formatDuration} />
          <Chart label="Duration" times={charts.times} lines={charts.run} format={formatDuration} />
        </div>
      )}
    </Ready>
  );
}

/**
 * Shows buttons for the theme, and one that forgets the credential of this tab or, without one, opens the key prompt.
 */
function PageSettings(): VNode {
  return (
    <div class="buttons">
      <div class="segments" role="group" aria-label="Theme">
        {(["system", "light", "dark"] as const satisfies readonly Theme[]).map((option) => (
          <button
            key={option}
            type="button"
            aria-pressed={theme.value === option}
            onClick={() => {
              theme.value = option;
            }}
          >
            {option}
          </button>
        ))}
      </div>
      {credential.value ? (
        <button type="button" onClick={() => saveCredential(null)}>
          Forget the key
        </button>
      ) : (
        <button
          type="button"
          onClick={() => {
            refusal.value = { wrong: false };
          }}
        >
          Use a key
        </button>
      )}
    </div>
  );
}

/**
 * Shows the code that connects an SDK to this server, with a button that copies it. The code has a variable in place of
 * an API key.
 */
function Connect(): VNode {
  const keyed = credential.value?.scheme === "x-api-key";
  const sdk = `import { Client } from "@langchain/langgraph-sdk";\nconst client = new Client({ apiUrl: "${API}"${keyed ? ", apiKey: KEY" : ""} });`;
  return (
    <div class="code">
      <div class="code-head">
        <span>Point the SDK here</span>
        <button type="button" class="quiet" onClick={() => void copy(sdk, "Copied code")}>
          Copy
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>
        <code>{sdk}</code>
      </pre>
    </div>
  );
}

/**
 * Returns the members as labels and texts to show: underscores of a label become spaces, and numbers are formatted. A member that
 * is an object gives an entry for each of its members, `outer: inner`, both unformatted.
 */
const flattenCounts = (values: object): readonly (readonly [string, string])[] =>
  Object.entries(values).flatMap(([name, value]) =>
    typeof value === "object" && value !== null
      ? Object.entries(value).map(([inner, counter]) => [`${name}: ${inner}`, String(counter)] as const)
      : [[name.replaceAll("_", " "), typeof value === "number" ? formatCount(value) : String(value)] as const],
  );

/**
 * Shows the report of the server: health, versions, database, a difference of the clocks if there is one, charts of the
 * load, counts since the start, and the configuration in effect.
 */
function Info({ server }: { readonly server: ServerReport }): VNode {
  const { health, database } = server;
  const state = health.draining ? "draining" : health.standby ? "standby" : health.ready ? "ready" : "not ready";
  return (
    <>
      <Facts
        items={[
          ["health", <Status value={health.ok ? "ok" : "error"} />],
          ["state", health.detail ? `${state}: ${health.detail}` : state],
          ["version", server.version],
          ["runtime", server.runtime],
          ["API version", server.api_version],
          ["LangGraph.js", server.langgraph_js_version ?? "–"],
          ["deployment", server.deployment],
          ["up", formatDuration(server.uptime_seconds * 1000)],
          [
            "database",
            `${database.kind ?? "custom"}${database.shared ? ", shared" : ""}${database.ok ? "" : ": not ok"}`,
          ],
          ...(skew.value
            ? ([
                [
                  "clock",
                  `the server is ${formatDuration(Math.abs(skew.value))} ${skew.value > 0 ? "ahead" : "behind"}`,
                ],
              ] as const)
            : []),
        ]}
      />
      <h2>Load</h2>
      <LoadCharts />
      <h2>Counts since the start</h2>
      <Facts
        items={[
          ...flattenCounts(server.worker),
          ...flattenCounts(server.queue),
          ...flattenCounts(server.webhooks).map(([name, value]) => [`webhooks ${name}`, value] as const),
          ["crons fired", formatCount(server.crons.fired)],
        ]}
      />
      <h2>Configuration in effect</h2>
      <TableBox label="Configuration">
        <table>
          <thead>
            <tr>
              <th>option</th>
              <th>value</th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(server.configuration).map(([name, value]) => (
              <tr key={name}>
                <td>
                  <code>{name}</code>
                </td>
                <td>{value === null ? <span class="faint">default</span> : JSON.stringify(value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableBox>
    </>
  );
}

/**
 * Shows the settings of this page, the code to connect an SDK, and the state of the server, read every five seconds.
 */
export default function Server(): VNode {
  const server = useResource<ServerReport>("server", (signal) => call("GET", "/greenroom/server", { signal }), 5000);
  return (
    <div class="page">
      <Head title="Server">
        <a class="button quiet" href={`${API}/openapi.json`} target="_blank" rel="noopener noreferrer">
          OpenAPI
        </a>
      </Head>
      <div class="scroll form">
        <h2>This page</h2>
        <PageSettings />
        <Connect />
        <h2>Server</h2>
        <Ready of={server}>{(loaded) => <Info server={loaded} />}</Ready>
      </div>
    </div>
  );
}
