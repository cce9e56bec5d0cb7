/** A run that was deleted, as stateless runs soon are, and whose trace is still kept. */
import type { VNode } from "preact";
import { call } from "../../api/client.ts";
import type { RunTrace } from "../../api/types.ts";
import { toHref } from "../../frame/router.ts";
import {
  Facts,
  formatCount,
  formatDuration,
  formatMoney,
  Problem,
  Skeleton,
  Status,
  Time,
} from "../../parts/components.tsx";
import { formatAssistantName, useAssistants } from "../../store/assistants.ts";
import { useResource } from "../../store/resource.ts";
import { type ReadTrace, toReadTrace } from "./trace-source.ts";
import { TraceTree } from "./trace-tree.tsx";

/** Shows the facts that a trace has about its run. */
function TraceFacts({ trace }: { readonly trace: RunTrace }): VNode {
  const assistants = useAssistants();
  const { totals } = trace;
  return (
    <Facts
      items={[
        ["status", <Status key="status" value={trace.status} />],
        [
          "assistant",
          <a key="assistant" href={toHref(["assistants", trace.assistant_id])}>
            {formatAssistantName(assistants.data, trace.assistant_id)}
          </a>,
        ],
        ["created", <Time key="created" at={trace.created_at} />],
        ["active", formatDuration(trace.active_ms)],
        ["tokens", `${formatCount(totals.tokens_in)} in, ${formatCount(totals.tokens_out)} out`],
        ["cost", formatMoney(totals.cost_usd)],
        ["created by", trace.source],
      ]}
    />
  );
}

/** Shows the trace of a run that does not exist; without a trace the error of the run. */
export function DeletedRun({ run_id, error }: { readonly run_id: string; readonly error: unknown }): VNode {
  const read = useResource<ReadTrace>(`run-trace/${run_id}`, async (signal) =>
    toReadTrace(await call<RunTrace>("GET", `/greenroom/traces/${encodeURIComponent(run_id)}`, { signal })),
  );
  if (read.error) return <Problem error={error} />;
  if (!read.data) return <Skeleton />;
  return (
    <div class="scroll run-body">
      <p class="faint">The run was deleted. This is its trace.</p>
      <TraceFacts trace={read.data.trace} />
      <h3>Time line</h3>
      <TraceTree read={read.data} />
    </div>
  );
}
