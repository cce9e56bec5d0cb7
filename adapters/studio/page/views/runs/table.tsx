/** Runs as a live table: of the whole deployment, or of one thread. */
import type { VNode } from "preact";
import type { RunSummary } from "../../api/types.ts";
import { hrefOf } from "../../frame/router.ts";
import {
  count,
  duration,
  Empty,
  money,
  Problem,
  restOf,
  Skeleton,
  Status,
  shortId,
  Time,
} from "../../parts/basics.tsx";
import { List } from "../../parts/list.tsx";
import { nameOf, useAssistants } from "../../store/assistants.ts";
import { usePages } from "../../store/pages.ts";

export type RunFilter = Readonly<Record<string, string | undefined>>;

const PROTOCOLS: Readonly<Record<string, string>> = { mcp: "MCP", ai: "AI SDK", "ag-ui": "AG-UI", a2a: "A2A" };

/** The protocol by which a run came; null for the API. */
export const protocolOf = ({ metadata }: Pick<RunSummary, "metadata">): string | null =>
  PROTOCOLS[String(metadata["created_by"])] ?? null;

function startedBy(run: RunSummary): string {
  const { user_id, api_key, cron_id } = run.started_by;
  const who = cron_id ? `cron ${shortId(cron_id)}` : (user_id ?? api_key);
  return [who, protocolOf(run)].filter(Boolean).join(", ") || "–";
}

interface RunTableProps {
  readonly filter: RunFilter;
  readonly current?: string | undefined;
  readonly hrefOf: (run_id: string) => string;
  readonly empty: string;
}

export function RunTable({ filter, current, hrefOf: address, empty }: RunTableProps): VNode {
  const assistants = useAssistants();
  const runs = usePages<RunSummary>({ path: "runs", query: filter, idOf: ({ run_id }) => run_id, every: 2000 });
  if (!runs.data) return runs.error ? <Problem error={runs.error} retry={runs.reload} /> : <Skeleton rows={10} />;
  if (runs.items.length === 0 && !runs.more) return <Empty title={empty} />;
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
        keyOf={({ run_id }) => run_id}
        hrefOf={({ run_id }) => address(run_id)}
        current={current}
        more={runs.more}
        row={(run) => (
          <>
            <Status value={run.status} />
            <span title={run.waiting_for?.map(restOf).join(" · ")}>
              {[nameOf(assistants.data, run.assistant_id), ...(run.waiting_for ?? []).map(restOf)].join(" · ")}
            </span>
            <span class="thread faint mono">{run.temporary ? "stateless" : shortId(run.thread_id)}</span>
            <span class="number" title="wait">
              {duration(run.wait_ms)}
            </span>
            <span class="number" title="duration">
              {duration(run.duration_ms)}
            </span>
            <span class="number attempts">{run.attempt}</span>
            <span class="number cost">{run.usage ? count(run.usage.tokens_in + run.usage.tokens_out) : "–"}</span>
            <span class="number cost">{run.usage ? money(run.usage.cost_usd) : "–"}</span>
            <span class="by faint" title={startedBy(run)}>
              {startedBy(run)}
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
  return <RunTable filter={{ thread_id }} hrefOf={(run_id) => hrefOf(["runs", run_id])} empty="No runs yet" />;
}
