/** Shows runs in a live table: of the whole deployment, or of one thread. */
import type { VNode } from "preact";
import type { RunSummary } from "../../api/types.ts";
import { toHref } from "../../frame/router.ts";
import {
  Empty,
  formatCount,
  formatDuration,
  formatMoney,
  formatWait,
  Problem,
  Skeleton,
  Status,
  shortId,
  Time,
} from "../../parts/components.tsx";
import { List } from "../../parts/list.tsx";
import { formatAssistantName, useAssistants } from "../../store/assistants.ts";
import { usePages } from "../../store/pages.ts";

export type RunFilter = Readonly<Record<string, string | undefined>>;

const PROTOCOLS: Readonly<Record<string, string>> = { mcp: "MCP", ai: "AI SDK", "ag-ui": "AG-UI", a2a: "A2A" };

/** Returns the protocol that created a run; null for the API. */
export const findProtocol = ({ metadata }: Pick<RunSummary, "metadata">): string | null =>
  PROTOCOLS[String(metadata["created_by"])] ?? null;

/**
 * Returns who started the run (the cron, else the user, else the API key) and by which protocol; a dash if nothing is
 * known.
 */
function formatStarter(run: RunSummary): string {
  const { user_id, api_key, cron_id } = run.started_by;
  const starter = cron_id ? `cron ${shortId(cron_id)}` : (user_id ?? api_key);
  return [starter, findProtocol(run)].filter(Boolean).join(", ") || "–";
}

interface RunTableProps {
  readonly filter: RunFilter;
  readonly current?: string | undefined;
  readonly toRunHref: (run_id: string) => string;
  readonly empty: string;
}

/** Shows the runs that match, read every two seconds, with more pages on demand. */
export function RunTable({ filter, current, toRunHref: address, empty }: RunTableProps): VNode {
  const assistants = useAssistants();
  const runs = usePages<RunSummary>({
    path: "runs",
    query: filter,
    getId: ({ run_id }) => run_id,
    pollIntervalMs: 2000,
  });
  if (!runs.data) return runs.error ? <Problem error={runs.error} retry={runs.reload} /> : <Skeleton rows={10} />;
  if (runs.items.length === 0 && !runs.loadMore) return <Empty title={empty} />;
  return (
    <div class="run-table">
      <div class="table-head" aria-hidden="true">
        <span>status</span>
        <span>assistant</span>
        <span class="thread">thread</span>
        <span class="number">wait</span>
        <span class="number">duration</span>
        <span class="number attempts">attempt</span>
        <span class="number cost">tokens</span>
        <span class="number cost">cost</span>
        <span class="by">started by</span>
        <span class="number">created</span>
      </div>
      <List
        label="Runs"
        items={runs.items}
        rowHeight={32}
        getKey={({ run_id }) => run_id}
        toHref={({ run_id }) => address(run_id)}
        current={current}
        loadMore={runs.loadMore}
        row={(run) => (
          <>
            <Status value={run.status} />
            <span title={run.waiting_for?.map(formatWait).join(" · ")}>
              {[
                formatAssistantName(assistants.data, run.assistant_id),
                ...(run.waiting_for ?? []).map(formatWait),
              ].join(" · ")}
            </span>
            <span class="thread faint mono">{run.temporary ? "stateless" : shortId(run.thread_id)}</span>
            <span class="number" title="wait">
              {formatDuration(run.wait_ms)}
            </span>
            <span class="number" title="duration">
              {formatDuration(run.duration_ms)}
            </span>
            <span class="number attempts">{run.attempt}</span>
            <span class="number cost">{run.usage ? formatCount(run.usage.tokens_in + run.usage.tokens_out) : "–"}</span>
            <span class="number cost">{run.usage ? formatMoney(run.usage.cost_usd) : "–"}</span>
            <span class="by faint" title={formatStarter(run)}>
              {formatStarter(run)}
            </span>
            <span class="number faint">
              <Time at={run.created_at} />
            </span>
          </>
        )}
      />
    </div>
  );
}

export function ThreadRuns({ thread_id }: { readonly thread_id: string }): VNode {
  return <RunTable filter={{ thread_id }} toRunHref={(run_id) => toHref(["runs", run_id])} empty="No runs yet" />;
}
