/** The recorder of an attempt: ids, times, sums, and the limit of a run. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Span } from "../../../lib/storage/spans.ts";
import { ContentKeeper } from "../../../lib/traces/content.ts";
import { formatTraceParent, isSampled, parseTraceParent, toAttemptId, toClaimPrefix } from "../../../lib/traces/ids.ts";
import { MAX_SPANS, MAX_SPANS_WITH_FAILED, SpanRecorder } from "../../../lib/traces/span-recorder.ts";

interface Recording {
  readonly recorder: SpanRecorder;
  readonly changes: string[];
  time: number;
}

function createRecording(content: "references" | "all" = "references"): Recording {
  const recording: { recorder?: SpanRecorder; changes: string[]; time: number } = { changes: [], time: 10 };
  const keeper = new ContentKeeper({ content, max_bytes: 1_000, redact: null, counters: { redact_failed: 0 } });
  recording.recorder = new SpanRecorder(
    {
      ...{ claim: 2, attempt: 1, prefix: "5ac1f00d", keeper, prices: { "gpt-5": { tokens_in: 2, tokens_out: 10 } } },
      now: () => recording.time,
      onChange: ({ name, status }) => void recording.changes.push(`${name} ${status}`),
    },
    { name: "main", start_ms: 2.1, parent_id: "run" },
  );
  return recording as Recording;
}

const find = (spans: readonly Span[], name: string): Span | undefined => spans.find((span) => span.name === name);

describe("a span", () => {
  it("has the next id of its claim, and the times at which it started and ended", () => {
    const recording = createRecording();
    const { recorder } = recording;
    assert.equal(recorder.attempt_id, "5ac1f00d00000001");
    recording.time = 12.34567;
    const node = recorder.start({ kind: "node", name: "agent", node: "agent", namespace: ["agent:1"], try: 1 });
    const model = recorder.start({ kind: "model", name: "gpt-5", parent_id: node, params: { temperature: 1, x: 2 } });
    assert.deepEqual([node, model], ["5ac1f00d00000002", "5ac1f00d00000003"]);
    recording.time = 20;
    recorder.noteFirstToken(model);
    recording.time = 25;
    recorder.noteFirstToken(model);
    recorder.end(model, { status: "ok", tokens: { in: 5, out: 2 }, cost_usd: 0.5, finish_reasons: ["stop"] });
    recorder.end(node, { status: "error", error: new RangeError("secret") });
    const [, agent, call] = recorder.drain();
    assert.deepEqual(agent, {
      ...{ span_id: node, parent_id: "5ac1f00d00000001", kind: "node", name: "agent", start_ms: 12.346 },
      ...{ duration_ms: 12.654, status: "error", claim: 2, attempt: 1, node: "agent", namespace: ["agent:1"], try: 1 },
      error: { type: "RangeError" },
    });
    assert.deepEqual(call, {
      ...{ span_id: model, parent_id: node, kind: "model", name: "gpt-5", start_ms: 12.346, duration_ms: 12.654 },
      ...{ status: "ok", claim: 2, attempt: 1, params: { temperature: 1 }, first_token_ms: 7.654 },
      ...{ tokens: { in: 5, out: 2 }, cost_usd: 0.5, finish_reasons: ["stop"] },
    });
    assert.deepEqual(recorder.totals, {
      ...{ spans: 3, model: 1, tool: 0, errors: 1, tokens_in: 5, tokens_out: 2, cost_usd: 0.5 },
    });
    assert.deepEqual([...recorder.names], ["n:agent", "m:gpt-5"]);
    assert.deepEqual(recording.changes, ["agent open", "gpt-5 open", "gpt-5 ok", "agent error"]);
  });

  it("ends once, and never before it started", () => {
    const recording = createRecording();
    const { recorder } = recording;
    const id = recorder.start({ kind: "tool", name: "t" });
    recording.time = 5;
    recorder.end(id, { status: "ok" });
    recorder.end(id, { status: "error", error: new Error("late") });
    recorder.end("unknown", { status: "ok" });
    recorder.noteFirstToken(id);
    const span = find(recorder.drain(), "t");
    assert.deepEqual([span?.status, span?.duration_ms, span?.first_token_ms], ["ok", 0, undefined]);
    assert.equal(recorder.totals.errors, 0);
  });

  it("keeps values only as the options say, and a short name", () => {
    for (const content of ["references", "all"] as const) {
      const { recorder } = createRecording(content);
      const id = recorder.start({ kind: "tool", name: "n".repeat(300), input: () => ({ city: "Rome" }) });
      recorder.end(id, { status: "ok", output: () => "sunny" });
      const [, span] = recorder.drain();
      assert.equal(span?.name.length, 200);
      assert.equal(JSON.stringify(span).includes("Rome"), content === "all");
      assert.equal(JSON.stringify(span).includes("sunny"), content === "all");
    }
  });

  it("has short texts only, whatever an agent or a model names", () => {
    const { recorder } = createRecording();
    const long = "😀".repeat(1_000);
    const id = recorder.start({
      ...{ kind: "model", name: long, node: long, task_id: long, tool_call_id: long, provider: long, model: long },
      namespace: Array.from({ length: 1_000 }, () => long),
    });
    recorder.end(id, { status: "ok", response_model: long, response_id: long, finish_reasons: [long] });
    const [, span] = recorder.drain();
    assert.ok(JSON.stringify(span).length < 64 * 450 + 5_000);
    const cut = "😀".repeat(100);
    assert.deepEqual([span?.name, span?.node, span?.model, span?.response_id], [cut, cut, cut, cut]);
    assert.deepEqual([span?.finish_reasons, span?.namespace?.length, span?.namespace?.[0]], [[cut], 64, cut]);
    assert.deepEqual([...recorder.names], [`m:${cut}`]);
  });

  it("of a name that is no text has one", () => {
    const { recorder } = createRecording();
    const names: readonly unknown[] = [undefined, null, 7, Symbol("s"), Object.create(null), {}];
    for (const name of names) recorder.end(recorder.start({ kind: "tool", name: name as string }), { status: "ok" });
    assert.deepEqual(
      recorder.drain().map(({ name }) => name),
      ["main", "undefined", "null", "7", "Symbol(s)", "unknown", "[object Object]"],
    );
  });

  it("has no tokens, costs and durations that are no numbers, and the sums without them", () => {
    const { recorder } = createRecording();
    const wrong: readonly unknown[] = [Number.NaN, Number.POSITIVE_INFINITY, -1, 1.5, "7", 10n, null];
    for (const value of wrong) {
      const id = recorder.start({ kind: "model", name: "m" });
      const count = value as number;
      const cost_usd = count === 1.5 ? Number.NaN : count;
      recorder.end(id, { status: "ok", tokens: { in: count, out: 2 }, cost_usd, duration_ms: count });
    }
    const { tokens_in, tokens_out, cost_usd } = recorder.totals;
    assert.deepEqual([tokens_in, tokens_out, cost_usd], [0, 2 * wrong.length, 0]);
    for (const { kind, tokens, duration_ms } of recorder.drain())
      if (kind === "model") assert.deepEqual([tokens, Number.isFinite(duration_ms)], [{ out: 2 }, true]);
  });

  it("comes again with a later save if it was open", () => {
    const { recorder } = createRecording();
    const id = recorder.start({ kind: "node", name: "slow" });
    assert.deepEqual(
      recorder.drain().map(({ status }) => status),
      ["open", "open"],
    );
    assert.deepEqual(recorder.drain(), []);
    assert.deepEqual(
      recorder.list().map(({ name }) => name),
      ["main", "slow"],
    );
    recorder.end(id, { status: "interrupted" });
    assert.deepEqual(
      recorder.drain().map(({ name, status }) => [name, status]),
      [["slow", "interrupted"]],
    );
  });

  it("that is open at the end of the attempt gets its status", () => {
    const { recorder } = createRecording();
    recorder.start({ kind: "node", name: "outer" });
    recorder.closeAll("lost");
    recorder.endAttempt({ status: "ok", counted: true });
    assert.deepEqual(
      recorder.drain().map(({ name, status, counted }) => [name, status, counted]),
      [
        ["main", "ok", true],
        ["outer", "lost", undefined],
      ],
    );
  });
});

describe("5,000 spans", () => {
  it("leave 2,000, then failed ones up to 2,200, and exact sums", () => {
    const recording = createRecording();
    const { recorder } = recording;
    for (let index = 0; index < 5_000; index++) {
      recording.time++;
      const id = recorder.start({ kind: index % 2 === 0 ? "tool" : "model", name: "t" });
      recorder.end(id, { status: index % 10 === 0 ? "error" : "ok", tokens: { in: 1 } });
    }
    const spans = recorder.drain();
    assert.equal(spans.length, MAX_SPANS_WITH_FAILED);
    assert.equal(recorder.kept, MAX_SPANS_WITH_FAILED);
    assert.ok(spans.slice(MAX_SPANS).every(({ status }) => status === "error"));
    assert.deepEqual(recorder.dropped, { tool: 1_300, model: 1_501 });
    assert.deepEqual(recorder.totals, {
      ...{ spans: 5_001, model: 2_500, tool: 2_500, errors: 500, tokens_in: 5_000, tokens_out: 0, cost_usd: 0 },
    });
  });

  it("of which earlier attempts have kept some leave fewer", () => {
    const { recorder } = createRecording();
    recorder.kept += MAX_SPANS - 2;
    for (const name of ["a", "b"]) recorder.end(recorder.start({ kind: "tool", name }), { status: "ok" });
    assert.deepEqual(
      recorder.drain().map(({ name }) => name),
      ["main", "a"],
    );
    assert.deepEqual(recorder.dropped, { tool: 1 });
  });
});

describe("ids", () => {
  it("of attempts follow from run and claim", () => {
    const run_id = "019a2f6e-5c11-7a40-9d3e-4b8f21c7e605";
    assert.match(toAttemptId(run_id, 1), /^[0-9a-f]{8}00000001$/);
    assert.equal(toAttemptId(run_id, 1), toAttemptId(run_id, 1));
    const prefixes = Array.from({ length: 1_000 }, (_, claim) => toClaimPrefix(run_id, claim));
    assert.equal(new Set(prefixes).size, 1_000);
  });

  it("choose the share of runs that are sampled", () => {
    const ids = Array.from({ length: 10_000 }, (_, n) => `run ${n}`);
    const sampled = ids.filter((id) => isSampled(id, 0.1)).length;
    assert.ok(sampled > 850 && sampled < 1_150, `${sampled} of 10,000`);
    assert.equal(ids.filter((id) => isSampled(id, 0)).length, 0);
    assert.equal(ids.filter((id) => isSampled(id, 1)).length, 10_000);
  });

  it("are read from a traceparent, unless that is malformed", () => {
    const [trace_id, span_id] = ["0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"];
    const text = `00-${trace_id}-${span_id}-01`;
    assert.deepEqual(parseTraceParent(text), { trace_id, span_id });
    assert.equal(formatTraceParent({ trace_id, span_id }), text);
    assert.deepEqual(parseTraceParent(`01-${trace_id}-${span_id}-01-more`), { trace_id, span_id });
    const malformed = [undefined, "", "x", `ff-${trace_id}-${span_id}-01`, `${text}-more`, text.toUpperCase()];
    const zeros = [`00-${"0".repeat(32)}-${span_id}-01`, `00-${trace_id}-${"0".repeat(16)}-01`];
    for (const wrong of [...malformed, ...zeros]) assert.equal(parseTraceParent(wrong), null, `${wrong}`);
  });
});
