/** Runs over all threads, as a live queue. */
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { call, serverNow } from "../../api/client.ts";
import type { RunStats, RunStatus } from "../../api/types.ts";
import { pageAddress, setQuery, toListHref } from "../../frame/router.ts";
import { AssistantSelect } from "../../parts/assistant-select.tsx";
import { formatCount, Status, shortId } from "../../parts/components.tsx";
import { Head, Panes } from "../../parts/panes.tsx";
import { useResource } from "../../store/resource.ts";
import { RunDetailPane } from "../run/run.tsx";
import { RunTable } from "./table.tsx";

const STATUSES: readonly RunStatus[] = ["pending", "running", "success", "error", "timeout", "interrupted"];
const RANGES = [
  ["", "any time"],
  ["1", "last hour"],
  ["24", "last day"],
  ["168", "last week"],
] as const;

const toStartTime = (hours: string | null): string | undefined =>
  hours ? new Date(serverNow() - Number(hours) * 3_600_000).toISOString() : undefined;

/**
 * Shows the runs of the last hour by status, read every five seconds; a dash before the first read. A press filters the
 * list by the status, a second one shows all again.
 */
function Counts(): VNode {
  const stats = useResource<RunStats>("runs-stats", (signal) => call("GET", "/greenroom/runs/stats", { signal }), 5000);
  const { query } = pageAddress.value;
  const chosen = query.get("status");
  return (
    <div class="counts" role="group" aria-label="Runs of the last hour by status">
      {STATUSES.map((status) => (
        <button
          key={status}
          type="button"
          class="quiet"
          aria-pressed={chosen === status}
          onClick={() => setQuery({ status: chosen === status ? null : status })}
        >
          <Status value={status} /> <strong>{stats.data ? formatCount(stats.data.statuses[status]) : "–"}</strong>
        </button>
      ))}
      <span class="faint">last hour</span>
    </div>
  );
}

/**
 * Shows the runs that match the filters of the address, their counts and controls that change the filters, and beside
 * them the run that the address names.
 */
export default function Runs(): VNode {
  const { ids, query } = pageAddress.value;
  const [run_id] = ids;
  const getFilter = (name: string): string => query.get(name) ?? "";
  const range = query.get("since");
  // From when it was chosen: with a later time the list would be another one, and begin anew.
  const created_after = useMemo(() => toStartTime(range), [range]);
  const filter = {
    status: getFilter("status"),
    assistant_id: getFilter("assistant"),
    thread_id: getFilter("thread"),
    cron_id: getFilter("cron"),
    ...(created_after ? { created_after } : {}),
  };
  return (
    <Panes
      name="runs"
      wide
      list={
        <>
          <Head title="Runs" />
          <Counts />
          <div class="filters row">
            <AssistantSelect any value={filter.assistant_id} change={(assistant) => setQuery({ assistant })} />
            <select
              aria-label="Created"
              value={getFilter("since")}
              onChange={(event) => setQuery({ since: event.currentTarget.value })}
            >
              {RANGES.map(([value, label]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </select>
            {filter.thread_id ? (
              <button type="button" onClick={() => setQuery({ thread: null })}>
                thread {shortId(filter.thread_id)} ✕
              </button>
            ) : null}
            {filter.cron_id ? (
              <button type="button" onClick={() => setQuery({ cron: null })}>
                cron {shortId(filter.cron_id)} ✕
              </button>
            ) : null}
          </div>
          <RunTable
            filter={filter}
            current={run_id}
            toRunHref={(id) => toListHref(["runs", id])}
            empty={Object.values(filter).some(Boolean) ? "No run matches" : "No runs yet"}
          />
        </>
      }
      detail={run_id === undefined ? null : <RunDetailPane key={run_id} run_id={run_id} />}
    />
  );
}
