/** The steps of a durable function: their tries, results and errors, and what it waits for. */
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { RunDetail, RunSteps, StepRecord } from "../../api/types.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { duration, exact, restOf, Status } from "../../parts/basics.tsx";
import { Json } from "../../parts/json.tsx";
import { refresh, useResource } from "../../store/resource.ts";

/** The newest steps are shown. */
const SHOWN = 200;
const STATUS = { done: "success", failed: "error", timed_out: "timeout", waiting: "pending", retrying: "pending" };

/** The steps of a run. The last ones stay while a new status is being read: a person may be typing an event. */
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

export const newestOf = (steps: RunSteps | undefined): readonly StepRecord[] => steps?.steps.slice(-SHOWN) ?? [];

function Send({ thread_id, name }: { readonly thread_id: string; readonly name: string }): VNode {
  const [text, setText] = useState("{}");
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

function Step({ step, thread_id }: { readonly step: StepRecord; readonly thread_id: string }): VNode {
  const { kind, name, occurrence, status, attempts, started_at, ended_at, until, result, error } = step;
  const isOpen = ended_at === null;
  const label = `${kind} ${name}${occurrence > 1 ? ` #${occurrence}` : ""}`;
  const took = isOpen ? restOf(step) : duration(Date.parse(ended_at) - Date.parse(started_at ?? ended_at));
  const tries = attempts > 1 || status === "retrying" ? ` · ${attempts} ${attempts === 1 ? "try" : "tries"}` : "";
  return (
    <li>
      <details open={isOpen && kind === "wait"}>
        <summary>
          <Status value={STATUS[status]} short /> {label}{" "}
          <span class="faint">
            {took}
            {tries}
          </span>
        </summary>
        <p class="faint">
          {started_at ? exact(started_at) : ""}
          {ended_at ? ` – ${exact(ended_at)}` : ""}
          {until && isOpen ? ` · ${kind === "step" ? "next try" : "until"} ${exact(until)}` : ""}
        </p>
        {error ? (
          <p class="error-text">
            {error.error}: {error.message}
          </p>
        ) : null}
        {isOpen && kind === "wait" ? <Send thread_id={thread_id} name={name} /> : null}
        {step.result_omitted ? <p class="faint">The result is longer than 64 KiB.</p> : null}
        {status === "done" && kind !== "sleep" && !step.result_omitted ? <Json value={result} name={name} /> : null}
      </details>
    </li>
  );
}

export function Steps({ run, steps }: { readonly run: RunDetail; readonly steps: RunSteps | undefined }): VNode | null {
  const shown = newestOf(steps);
  if (!steps || shown.length === 0) return null;
  const more = steps.steps.length - shown.length;
  return (
    <>
      <h3>Steps</h3>
      {more > 0 ? (
        <p class="faint">
          The newest {SHOWN} of {steps.steps.length}.
        </p>
      ) : null}
      <ol class="frames" aria-label="Steps">
        {shown.map((step) => (
          <Step key={`${step.kind}/${step.name}/${step.occurrence}`} step={step} thread_id={run.thread_id} />
        ))}
      </ol>
    </>
  );
}
