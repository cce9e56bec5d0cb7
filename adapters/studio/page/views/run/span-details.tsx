/** The details of a span: its times, model, error, input and output, as far as the trace has them. */
import type { ComponentChildren, VNode } from "preact";
import { client } from "../../api/client.ts";
import type { RunTrace, Span, SpanValue } from "../../api/types.ts";
import { toHref, toListHref } from "../../frame/router.ts";
import { Facts, formatCount, formatDuration, formatMoney, formatTime, Id, shortId } from "../../parts/components.tsx";
import { Json } from "../../parts/json.tsx";
import { useResource } from "../../store/resource.ts";
import { formatStatus } from "./trace-rows.ts";

type Items = (readonly [string, ComponentChildren])[];

/** Returns the item of a value as text; none without a value. */
const toItem = (label: string, value: unknown): Items => {
  if (value === undefined || value === null || value === "") return [];
  return [[label, typeof value === "string" ? value : JSON.stringify(value)]];
};

/** Returns the tokens of a call, with those of its parts that it reports. */
function formatTokens({ tokens }: Span): string | undefined {
  if (!tokens) return undefined;
  const parts: readonly (readonly [number | undefined, string])[] = [
    [tokens.in, "in"],
    [tokens.out, "out"],
    [tokens.cache_read, "read from the cache"],
    [tokens.cache_write, "written to the cache"],
    [tokens.reasoning, "for reasoning"],
  ];
  return parts.flatMap(([count, text]) => (count === undefined ? [] : [`${formatCount(count)} ${text}`])).join(", ");
}

const listModelItems = (span: Span): Items => [
  ...toItem("tool call", span.tool_call_id),
  ...toItem("provider", span.provider),
  ...toItem("model", span.model),
  ...toItem("answered by", span.response_model === span.model ? undefined : span.response_model),
  ...toItem("operation", span.operation),
  ...toItem("tokens", formatTokens(span)),
  ...toItem("cost", span.cost_usd === undefined ? undefined : formatMoney(span.cost_usd)),
  ...toItem("first token", span.first_token_ms === undefined ? undefined : formatDuration(span.first_token_ms)),
  ...toItem("finish reason", span.finish_reasons?.join(", ")),
  ...Object.entries(span.params ?? {}).flatMap(([name, value]) => toItem(name, value)),
];

/** Returns how many commits an attempt made, and how long they took. */
function formatCommits({ commits }: Span): string | undefined {
  if (!commits) return undefined;
  const { count, total_ms, max_ms } = commits;
  return `${count} in ${formatDuration(total_ms)}, the longest ${formatDuration(max_ms)}`;
}

const listPlaceItems = (span: Span): Items => [
  ...toItem("node", span.node),
  ...toItem("namespace", span.namespace?.join(" › ")),
  ...toItem("superstep", span.step),
  ...toItem("try", span.try),
  ...toItem("attempt", span.attempt),
  ...toItem("commits", formatCommits(span)),
  ...Object.entries(span.attributes ?? {}).flatMap(([name, value]) => toItem(name, value)),
  ...(span.links ?? []).flatMap(
    ({ kind, run_id }): Items =>
      run_id
        ? [
            [
              `${kind} run`,
              <a key={run_id} href={toListHref(["runs", run_id])}>
                …{shortId(run_id)}
              </a>,
            ],
          ]
        : [],
  ),
];

interface ValueProps {
  readonly label: string;
  readonly value: SpanValue;
  readonly trace: RunTrace;
  readonly name: string;
}

/** Shows a copied value, or a link to the checkpoint that has it. */
function Value({ label, value, trace, name }: ValueProps): VNode {
  if ("value" in value)
    return (
      <section>
        <h4>{label}</h4>
        {value.truncated ? <p class="faint">Cut: the whole has {formatCount(value.bytes)} bytes.</p> : null}
        <Json value={value.value} name={name} open={3} />
      </section>
    );
  const { checkpoint_id, namespace } = value.ref;
  // The state view shows the checkpoints of the graph itself.
  const isDeleted = "gone" in value;
  const isLinked = !isDeleted && trace.thread_id !== undefined && namespace.length === 0;
  return (
    <section>
      <h4>{label}</h4>
      <p class="faint">
        {isDeleted ? (
          "It was in a checkpoint, which was deleted with its run."
        ) : isLinked ? (
          <a href={toHref(["threads", trace.thread_id as string], { tab: "state", checkpoint: checkpoint_id })}>
            In the checkpoint
          </a>
        ) : (
          <>
            In the checkpoint <Id value={checkpoint_id} label="checkpoint id" />
            {namespace.length > 0 ? ` of ${namespace.join(" › ")}` : ""}
          </>
        )}
      </p>
    </section>
  );
}

/**
 * Shows a link to the checkpoint that holds what a node of the graph itself has written; nothing without one. Reads the checkpoint
 * of its superstep.
 */
function NodeState({ span, trace }: { readonly span: Span; readonly trace: RunTrace }): VNode | null {
  const { kind, step, namespace = [] } = span;
  const { thread_id, run_id } = trace;
  const isOuter = kind === "node" && step !== undefined && namespace.length <= 1 && thread_id !== undefined;
  const { data } = useResource(isOuter ? `run-steps/${run_id}/${step}/${span.status}` : null, () =>
    client.threads.getHistory(thread_id as string, { limit: 1, metadata: { run_id, step } }),
  );
  const checkpoint = data?.[0]?.checkpoint.checkpoint_id;
  if (!thread_id || !checkpoint) return null;
  return (
    <p>
      <a href={toHref(["threads", thread_id], { tab: "state", checkpoint })}>State after this step</a>
    </p>
  );
}

const RECORDED_KINDS: ReadonlySet<string> = new Set(["node", "agent", "model", "tool", "retriever", "custom"]);

/** Returns why a span has no input and output; null if it has one, or cannot have any. */
function explainMissingValues({ kind, input, output }: Span, { content }: RunTrace): string | null {
  if (input || output || content === "all" || !RECORDED_KINDS.has(kind)) return null;
  return content === "none"
    ? "Inputs and outputs are not recorded on this server."
    : "Copies of inputs and outputs are not recorded on this server, only where checkpoints have them.";
}

/** Shows the details of a span. */
export function SpanDetails({ span, trace }: { readonly span: Span; readonly trace: RunTrace }): VNode {
  const { span_id, start_ms, duration_ms, error, input, output } = span;
  const started = formatTime(Date.parse(trace.created_at) + start_ms);
  const missing = explainMissingValues(span, trace);
  return (
    <>
      {error ? (
        <p class="problem">
          <strong>{error.type}</strong> {error.message}
        </p>
      ) : null}
      <Facts
        items={[
          ["status", formatStatus(span)[1]],
          ["started", `${started}, ${formatDuration(Math.abs(start_ms))} ${start_ms < 0 ? "before" : "into"} the run`],
          ["duration", formatDuration(duration_ms)],
          ...listModelItems(span),
          ...listPlaceItems(span),
        ]}
      />
      <NodeState span={span} trace={trace} />
      {input ? <Value label="Input" value={input} trace={trace} name={`input-${span_id}`} /> : null}
      {output ? <Value label="Output" value={output} trace={trace} name={`output-${span_id}`} /> : null}
      {missing ? <p class="faint">{missing}</p> : null}
    </>
  );
}
