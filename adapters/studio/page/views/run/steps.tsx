/** The steps of a durable function: their tries, results and errors, and what it waits for. */
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { RunDetail, RunSteps, StepRecord } from "../../api/types.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { formatDuration, formatTime, formatWait, Status } from "../../parts/components.tsx";
import { Json } from "../../parts/json.tsx";
import { refresh, useResource } from "../../store/resource.ts";

/** The maximum number of steps that are shown, the newest. */
const MAX_SHOWN_STEPS = 200;
const STATUS = { done: "success", failed: "error", timed_out: "timeout", waiting: "pending", retrying: "pending" };

/**
 * Returns the steps of a run; undefined before the first read. Reads them every two seconds while the run is open.
 * Keeps the last ones while those of a new status load, because a person may be typing an event.
 */
export function useSteps({ thread_id, run_id, status, ended_at }: RunDetail): RunSteps | undefined {
  const { data } = useResource<RunSteps>(
    `run/${run_id}/steps/${status}`,
    (signal) => call("GET", `/threads/${thread_id}/runs/${run_id}/steps`, { signal }),
    ended_at === null || status === "pending" ? 2000 : 0,
  );
  const last = useRef({ run_id, data });
  if (data || last.current.run_id !== run_id) last.current = { run_id, data };
  return last.current.data;
}

export const getNewestSteps = (steps: RunSteps | undefined): readonly StepRecord[] =>
  steps?.steps.slice(-MAX_SHOWN_STEPS) ?? [];

/** Shows the box to send an event to a durable function that waits for it. */
function SendEvent({ thread_id, name }: { readonly thread_id: string; readonly name: string }): VNode {
  const [text, setText] = useState("{}");
  /** Sends the event, shows a notice and reads the run again. Text that is no JSON, and a refusal, show a notice instead. */
  const send = (): void =>
    attempt("Send", async () => {
      await call("POST", `/threads/${thread_id}/events/${encodeURIComponent(name)}`, { body: JSON.parse(text) });
      notify("Event sent");
      await refresh("run");
    });
  return (
    <>
      <textarea aria-label={`Event ${name} as JSON`} rows={2} onInput={(event) => setText(event.currentTarget.value)}>
        {text}
      </textarea>
      <div class="buttons">
        <button type="button" onClick={send}>
          Send the event
        </button>
      </div>
    </>
  );
}

/**
 * Shows a step with its status and duration; a press unfolds its times, error and result. An open wait is unfolded,
 * with a box to send its event.
 */
function StepItem({ step, thread_id }: { readonly step: StepRecord; readonly thread_id: string }): VNode {
  const { kind, name, occurrence, status, attempts, started_at, ended_at, until, result, error } = step;
  const isOpen = ended_at === null;
  const label = `${kind} ${name}${occurrence > 1 ? ` #${occurrence}` : ""}`;
  const durationText = isOpen
    ? formatWait(step)
    : formatDuration(Date.parse(ended_at) - Date.parse(started_at ?? ended_at));
  const tries = attempts > 1 || status === "retrying" ? ` · ${attempts} ${attempts === 1 ? "try" : "tries"}` : "";
  return (
    <li>
      <details open={isOpen && kind === "wait"}>
        <summary>
          <Status value={STATUS[status]} short /> {label}{" "}
          <span class="faint">
            {durationText}
            {tries}
          </span>
        </summary>
        <p class="faint">
          {started_at ? formatTime(started_at) : ""}
          {ended_at ? ` – ${formatTime(ended_at)}` : ""}
          {until && isOpen ? ` · ${kind === "step" ? "next try" : "until"} ${formatTime(until)}` : ""}
        </p>
        {error ? (
          <p class="error-text">
            {error.error}: {error.message}
          </p>
        ) : null}
        {isOpen && kind === "wait" ? <SendEvent thread_id={thread_id} name={name} /> : null}
        {step.result_omitted ? <p class="faint">The result is longer than 64 KiB.</p> : null}
        {status === "done" && kind !== "sleep" && !step.result_omitted ? <Json value={result} name={name} /> : null}
      </details>
    </li>
  );
}

/** Shows the newest steps of a durable function, and how many there are if some are left out; nothing without steps. */
export function Steps({ run, steps }: { readonly run: RunDetail; readonly steps: RunSteps | undefined }): VNode | null {
  const newestSteps = getNewestSteps(steps);
  if (!steps || newestSteps.length === 0) return null;
  const omittedCount = steps.steps.length - newestSteps.length;
  return (
    <>
      <h3>Steps</h3>
      {omittedCount > 0 ? (
        <p class="faint">
          The newest {MAX_SHOWN_STEPS} of {steps.steps.length}.
        </p>
      ) : null}
      <ol class="frames" aria-label="Steps">
        {newestSteps.map((step) => (
          <StepItem key={`${step.kind}/${step.name}/${step.occurrence}`} step={step} thread_id={run.thread_id} />
        ))}
      </ol>
    </>
  );
}
