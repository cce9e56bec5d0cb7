/** Shows a run: its actions, time line, input, output and error. */
import type { VNode } from "preact";
import { API, call, client } from "../../api/client.ts";
import { isMissing } from "../../api/failure.ts";
import { credential } from "../../api/key.ts";
import type { RunDetail } from "../../api/types.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { go, pageAddress, setQuery, toHref, toListHref } from "../../frame/router.ts";
import {
  copy,
  Facts,
  formatCount,
  formatDuration,
  formatMoney,
  formatWait,
  Id,
  Ready,
  Status,
  Time,
} from "../../parts/components.tsx";
import { Json } from "../../parts/json.tsx";
import { DetailHead } from "../../parts/panes.tsx";
import { formatAssistantName, useAssistants } from "../../store/assistants.ts";
import { refresh, useResource } from "../../store/resource.ts";
import { findProtocol } from "../runs/table.tsx";
import { DeletedRun } from "./deleted-run.tsx";
import { Frames } from "./frames.tsx";
import { getNewestSteps, Steps, useSteps } from "./steps.tsx";
import { TimeLine } from "./time-line.tsx";

/**
 * Returns a curl command that starts such a run again and streams it, without `configurable`. The credential is the
 * name of a shell variable.
 */
function formatCurl(run: RunDetail): string {
  const { input, command, context, config } = run.kwargs as Record<string, unknown>;
  const { configurable: _, ...otherConfig } = (config ?? {}) as Record<string, unknown>;
  const body = {
    assistant_id: run.assistant_id,
    ...(command ? { command } : { input: input ?? null }),
    ...(context && Object.keys(context).length > 0 ? { context } : {}),
    ...(Object.keys(otherConfig).length > 0 ? { config: otherConfig } : {}),
  };
  const path = run.temporary ? "/runs/stream" : `/threads/${run.thread_id}/runs/stream`;
  const scheme = credential.value?.scheme;
  const key = !scheme ? "" : scheme === "x-api-key" ? ` -H "X-API-Key: $KEY"` : ` -H "Authorization: Bearer $TOKEN"`;
  const data = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl -N ${API}${path} -H 'content-type: application/json'${key} -d '${data}'`;
}

/**
 * Shows buttons that run such a run again and copy it as a curl command, for an open run also buttons that cancel it and roll it
 * back, and links to its thread, checkpoint and webhook, as far as it has them.
 */
function Actions({ run }: { readonly run: RunDetail }): VNode {
  const isOpen = run.status === "pending" || run.status === "running";
  /** Shows a notice and reads the run and the threads again. */
  const notifyAndRefresh = (text: string): void => {
    notify(text);
    for (const list of ["run", "threads/"]) void refresh(list);
  };
  /**
   * Cancels the run and reads it again. A rolled-back run is deleted, so the list of runs is shown then. A failure shows a
   * notice.
   */
  const stop = (action: "interrupt" | "rollback"): void =>
    attempt("Cancel", async () => {
      await client.runs.cancelMany({ threadId: run.thread_id, runIds: [run.run_id], action });
      notifyAndRefresh(action === "rollback" ? "Rolled back" : "Cancelled");
      if (action === "rollback") go(toListHref(["runs"]));
    });
  /** Creates a run with the same request and opens it. */
  const runAgain = (): void =>
    attempt("Run again", async () => {
      const created = await call<{ readonly run_id: string }>("POST", `/greenroom/runs/${run.run_id}/again`);
      notifyAndRefresh("Started again");
      go(toListHref(["runs", created.run_id]));
    });
  return (
    <div class="buttons">
      {isOpen ? (
        <>
          <button type="button" class="stop" onClick={() => stop("interrupt")}>
            Cancel
          </button>
          <button type="button" class="danger" onClick={() => stop("rollback")}>
            Roll back
          </button>
        </>
      ) : null}
      <button type="button" onClick={runAgain}>
        Run again
      </button>
      <button type="button" onClick={() => void copy(formatCurl(run), "Copied curl")}>
        Copy curl
      </button>
      {run.temporary ? null : (
        <a class="button" href={toHref(["threads", run.thread_id])}>
          Thread
        </a>
      )}
      {run.checkpoint_id && !run.temporary ? (
        <a class="button" href={toHref(["threads", run.thread_id], { tab: "state", checkpoint: run.checkpoint_id })}>
          Checkpoint
        </a>
      ) : null}
      {run.webhook ? (
        <a class="button" href={toHref(["webhooks", run.run_id])}>
          Webhook
        </a>
      ) : null}
    </div>
  );
}

/**
 * Shows the facts of a run: assistant, times, attempt, tokens, cost, who started it and by which protocol. Facts that a
 * run lacks show a dash or are left out.
 */
function Summary({ run }: { readonly run: RunDetail }): VNode {
  const assistants = useAssistants();
  const { started_by: startedBy, usage } = run;
  return (
    <Facts
      items={[
        [
          "assistant",
          <a href={toHref(["assistants", run.assistant_id])}>
            {formatAssistantName(assistants.data, run.assistant_id)}
          </a>,
        ],
        ["created", <Time at={run.created_at} />],
        ["wait", formatDuration(run.wait_ms)],
        ["duration", formatDuration(run.duration_ms)],
        ...(run.waiting_for ? ([["waits", run.waiting_for.map(formatWait).join(" · ")]] as const) : []),
        ["attempt", String(run.attempt)],
        ...(run.lease_until ? ([["lease until", <Time at={run.lease_until} />]] as const) : []),
        ["tokens", usage ? `${formatCount(usage.tokens_in)} in, ${formatCount(usage.tokens_out)} out` : "–"],
        ["cost", usage ? formatMoney(usage.cost_usd) : "–"],
        [
          "started by",
          startedBy.cron_id ? (
            <a href={toHref(["crons", startedBy.cron_id])}>cron</a>
          ) : (
            (startedBy.user_id ?? startedBy.api_key ?? "–")
          ),
        ],
        ...(findProtocol(run) ? ([["protocol", findProtocol(run)]] as const) : []),
        ["multitask strategy", run.multitask_strategy],
        ...(run.cancel_reason ? ([["cancelled", run.cancel_reason]] as const) : []),
      ]}
    />
  );
}

const PARTS = ["input", "output", "request", "frames"] as const;

/** Shows the values at the last checkpoint of the run; without one, or for a stateless run, its result. */
function Output({ run }: { readonly run: RunDetail }): VNode {
  const key = run.checkpoint_id && !run.temporary ? `state/${run.thread_id}/${run.checkpoint_id}` : null;
  const state = useResource(key, (signal) =>
    client.threads.getState(run.thread_id, run.checkpoint_id as string, { signal }),
  );
  if (key === null)
    return run.result === null ? <p class="faint">No output.</p> : <Json value={run.result} name={run.run_id} />;
  return <Ready of={state}>{({ values }) => <Json value={values} name={`run-${run.run_id}`} />}</Ready>;
}

/**
 * Shows a run: buttons, its error with the stack, facts, time line and steps. Below, shows its input, output, request
 * or frames, as the address says; buttons change that.
 */
function Body({ run }: { readonly run: RunDetail }): VNode {
  const part = pageAddress.value.query.get("show") ?? "input";
  const { input, command } = run.kwargs;
  const steps = useSteps(run);
  return (
    <div class="scroll run-body">
      <Actions run={run} />
      {run.error ? (
        <div class="problem error-text" role="alert">
          <p>
            <strong>{run.error.error}</strong>
          </p>
          <pre>{run.error["message"]}</pre>
          {run.stack ? (
            <details>
              <summary>Stack</summary>
              <pre>{run.stack}</pre>
            </details>
          ) : null}
        </div>
      ) : null}
      <Summary run={run} />
      <h3>Time line</h3>
      <TimeLine run={run} durable={getNewestSteps(steps)} />
      <Steps run={run} steps={steps} />
      <div class="segments" role="group" aria-label="What is shown">
        {PARTS.map((name) => (
          <button key={name} type="button" aria-pressed={part === name} onClick={() => setQuery({ show: name })}>
            {name}
          </button>
        ))}
      </div>
      {part === "input" ? (
        <Json value={command ? { command } : (input ?? null)} name={`input-${run.run_id}`} open={3} />
      ) : null}
      {part === "output" ? <Output run={run} /> : null}
      {part === "request" ? <Json value={run.kwargs} name={`request-${run.run_id}`} /> : null}
      {part === "frames" ? <Frames run={run} /> : null}
    </div>
  );
}

/** Shows a run, read every two seconds. */
export function RunDetailPane({ run_id }: { readonly run_id: string }): VNode {
  const run = useResource<RunDetail>(
    `run/${run_id}`,
    (signal) => call("GET", `/greenroom/runs/${encodeURIComponent(run_id)}`, { signal }),
    2000,
  );
  return (
    <>
      <DetailHead title="Run">
        <Id value={run_id} label="run id" />
        {run.data ? <Status value={run.data.status} /> : null}
        <a class="button quiet" href={toListHref(["runs"])} aria-label="Close">
          ✕
        </a>
      </DetailHead>
      {run.data === undefined && isMissing(run.error) ? (
        <DeletedRun run_id={run_id} error={run.error} />
      ) : (
        <Ready of={run}>{(loaded) => <Body run={loaded} />}</Ready>
      )}
    </>
  );
}
