/** The trace of a run from its rows: the two examples of the contract, lost attempts, values, and what only a trace has kept. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { JournalEntry } from "../../../lib/executor/journal.ts";
import type { RunClaim, Span, StoredTrace, TraceHead } from "../../../lib/storage/mod.ts";
import { toAttemptId } from "../../../lib/traces/ids.ts";
import { createRunTrace, type RunTrace, selectOperations, type TraceSources } from "../../../lib/traces/run-trace.ts";

const CREATED = Date.parse("2026-11-28T09:00:00.000Z");
const THREAD = "019a2f00-0000-7000-8000-000000000001";
const ASSISTANT = "fe096781-5601-53d2-b2f6-0d3403f7e9ca";
const TOTALS = { spans: 0, model: 0, tool: 0, errors: 0, tokens_in: 0, tokens_out: 0, cost_usd: 0 };

interface Case {
  readonly run_id: string;
  readonly graph_id?: string;
  readonly status?: "success" | "running" | "pending" | "error";
  readonly ended_ms?: number | null;
  readonly spans?: readonly Span[];
  readonly parts?: readonly (readonly Span[])[];
  readonly head?: Partial<TraceHead>;
  readonly claims?: readonly RunClaim[];
  readonly present_claim?: number;
  readonly entries?: readonly JournalEntry[];
  readonly sources?: Partial<TraceSources>;
}

/** Returns the trace of a run that was stored as the case says. */
function read({ run_id, graph_id = "main", status = "success", ended_ms = null, ...rest }: Case): RunTrace {
  const { spans, parts = [], head = {}, claims = [], present_claim = claims.length, entries = [], sources = {} } = rest;
  const ended_at = ended_ms === null ? null : CREATED + ended_ms;
  const members = { run_id, thread_id: THREAD, graph_id, assistant_id: ASSISTANT, cron_id: null, user_id: null };
  const times = { created_at: CREATED, started_at: CREATED + 2, ended_at };
  const trace: StoredTrace = {
    ...{ ...members, ...times, status, waiting: false, source: "runs.wait", active_ms: 0, failed: false },
    ...{ error_type: null, names: [], claims, spans: spans ? JSON.stringify(spans) : null },
    head: {
      ...{ content: "references", totals: TOTALS, kept: 0, dropped: {}, sampled: true, content_bytes: 0 },
      ...{ at_ms: 0, claim: present_claim, closed: spans !== undefined, active_before_ms: 0, ...head },
    },
    parts: parts.map((list, part) => ({ part, json: JSON.stringify(list) })),
  };
  return createRunTrace({
    ...{ trace, claims, live: null, lease_ms: 15_000, contents: new Map(), webhooks: [], feedback: [] },
    ...{ content: "references", showsWorkers: false, now: CREATED + 10_000_000 },
    keepError: ({ name }) => ({ type: name }),
    run: { status, claims: present_claim, ended_at },
    traced: { ...members, ...times, status, waiting: false, trace_origin: { source: "runs.wait" } },
    operations: selectOperations(entries, { run_id, created_at: CREATED }).map((operation) => ({
      ...operation,
      span_id: OPERATION_IDS[operation.name] ?? "0000000000000000",
    })),
    ...sources,
  });
}

const OPERATION_IDS: Readonly<Record<string, string>> = {
  ...{ approve: "c07d11a2b6e94f30", cool_off: "41f6a8d09e3b7c55", send: "90b4c6f2d81e3a77" },
};

/** The spans that the examples list: those of request and queue are left out there. */
const listed = ({ spans }: RunTrace): readonly Span[] =>
  spans.filter(({ kind }) => kind !== "request" && kind !== "queue");

const span = (n: string, parent: string, kind: Span["kind"], name: string, start: number, duration: number): Span => ({
  ...{ span_id: `5ac1f00d${n.padStart(8, "0")}`, parent_id: parent, kind, name },
  ...{ start_ms: start, duration_ms: duration, status: "ok", claim: 1, attempt: 1 },
});

const AGENT_RUN = "019a2f6e-5c11-7a40-9d3e-4b8f21c7e605";
const ROOT = "9d3e4b8f21c7e605";
const at = (n: string): string => `5ac1f00d${n.padStart(8, "0")}`;

const AGENT_SPANS: readonly Span[] = [
  {
    ...span("1", ROOT, "attempt", "main", 2.1, 3121.4),
    ...{ counted: true, commits: { count: 1, total_ms: 0.9, max_ms: 0.9 } },
  },
  { ...span("2", at("1"), "node", "model_request", 9.4, 902.7), namespace: ["model_request:9175"], try: 1 },
  {
    ...span("3", at("2"), "model", "gpt-5", 10.2, 900.9),
    ...{ operation: "chat", provider: "openai", model: "gpt-5", tokens: { in: 611, out: 92 }, cost_usd: 0.0017 },
    input: { ref: { checkpoint_id: "1f1eb35f-bd57", namespace: [] } },
  },
  { ...span("4", at("1"), "node", "tools", 915, 211.6), namespace: ["tools:610e"], try: 1 },
  { ...span("6", at("4"), "tool", "weather", 915.8, 210.1), tool_call_id: "c1" },
  { ...span("5", at("1"), "node", "tools", 915.3, 1402.2), namespace: ["tools:7f52"], try: 1 },
  { ...span("7", at("5"), "tool", "research", 916.1, 1400.7), tool_call_id: "c2" },
  { ...span("8", at("7"), "agent", "researcher", 918.4, 1396), namespace: ["tools:7f52"] },
  { ...span("9", at("8"), "node", "model_request", 921, 1390.2), namespace: ["tools:7f52", "model_request:138b"] },
  { ...span("a", at("9"), "model", "gpt-5-mini", 922.3, 1388), tokens: { in: 402, out: 131 }, cost_usd: 0.0004 },
  { ...span("b", at("1"), "node", "model_request", 2321.9, 798.8), namespace: ["model_request:7f69"], try: 1 },
  { ...span("c", at("b"), "model", "gpt-5", 2322.6, 797.4), tokens: { in: 1128, out: 165 }, cost_usd: 0.0045 },
];

describe("the trace of an agent with two parallel tools", () => {
  const totals = { spans: 12, model: 3, tool: 2, errors: 0, tokens_in: 2141, tokens_out: 388, cost_usd: 0.0066 };
  const trace = read({ run_id: AGENT_RUN, ended_ms: 3123, spans: AGENT_SPANS, head: { totals }, present_claim: 1 });

  it("has the ids, times and segments of the run", () => {
    assert.equal(trace.trace_id, "019a2f6e5c117a409d3e4b8f21c7e605");
    assert.deepEqual([trace.active_ms, trace.queued_ms, trace.suspended_ms], [3121.4, 2.1, 0]);
    assert.deepEqual(trace.segments, [
      { kind: "queued", start_ms: 0, duration_ms: 2.1 },
      { kind: "active", start_ms: 2.1, duration_ms: 3121.4 },
    ]);
    const [root] = trace.spans;
    const expected = { span_id: ROOT, kind: "run", name: "main", start_ms: 0, duration_ms: 3123.5, status: "ok" };
    assert.deepEqual(root, expected);
  });

  it("has the run and the recorded spans in the order of their starts, with sums that count all", () => {
    assert.deepEqual(listed(trace).slice(1), AGENT_SPANS);
    assert.equal(trace.totals.spans, trace.spans.length);
    const { spans: _, ...sums } = totals;
    const { spans: _all, ...traceSums } = trace.totals;
    assert.deepEqual(traceSums, sums);
    const ids = new Set(trace.spans.map(({ span_id }) => span_id));
    assert.equal(ids.size, trace.spans.length);
    assert.ok(trace.spans.every(({ parent_id }) => parent_id === undefined || ids.has(parent_id)));
  });

  it("has one queue span for each claim and one for the request", () => {
    const derived = trace.spans.filter(({ kind }) => kind === "request" || kind === "queue");
    assert.deepEqual(
      derived.map(({ kind, name, start_ms, duration_ms, parent_id }) => [kind, name, start_ms, duration_ms, parent_id]),
      [
        ["request", "runs.wait", 0, 0, ROOT],
        ["queue", "queue", 0, 2.1, ROOT],
      ],
    );
  });
});

const MAILER_RUN = "019a2f71-0b52-7c19-8a6d-0e93d47b2f18";
const MAILER_ROOT = "8a6d0e93d47b2f18";
const EARLIER_RUN = "019a2f5a-77d0-7e02-b1c4-2d55a0e9c3f7";
const position = { yielded: 0, reply: null };
const entry = (
  members: Partial<JournalEntry> & Pick<JournalEntry, "kind" | "name" | "phase" | "at">,
): JournalEntry => ({
  ...{ occurrence: 1, call: 1, position, run_id: MAILER_RUN },
  ...members,
  at: CREATED + members.at,
});

describe("the trace of a durable function that answers an ask, sleeps an hour and is killed", () => {
  const attempts: readonly Span[] = [
    {
      ...{ span_id: "7be2000100000001", parent_id: MAILER_ROOT, kind: "attempt", name: "mailer", start_ms: 4 },
      ...{ duration_ms: 38, status: "waiting", claim: 1, attempt: 1, counted: false },
    },
    {
      ...{ span_id: "2d90000200000001", parent_id: MAILER_ROOT, kind: "attempt", name: "mailer", start_ms: 3600062 },
      ...{ duration_ms: 700, status: "lost", claim: 2, attempt: 1, counted: true },
    },
    {
      ...{ span_id: "e813000300000001", parent_id: MAILER_ROOT, kind: "attempt", name: "mailer", start_ms: 3611202 },
      ...{ duration_ms: 1223, status: "ok", claim: 3, attempt: 2, counted: true },
    },
  ];
  const entries = [
    entry({ kind: "ask", name: "approve", phase: "begun", at: -1560000, run_id: EARLIER_RUN }),
    entry({ kind: "ask", name: "approve", phase: "done", at: 6, value: "yes" }),
    entry({ kind: "sleep", name: "cool_off", phase: "begun", at: 40, until: CREATED + 3600040 }),
    entry({ kind: "sleep", name: "cool_off", phase: "done", at: 3600070 }),
    entry({ kind: "step", name: "send", phase: "done", at: 3612420, began: CREATED + 3611240, attempt: 1 }),
  ];
  const trace = read({
    ...{ run_id: MAILER_RUN, graph_id: "mailer", ended_ms: 3612425, entries, present_claim: 3 },
    ...{ parts: [attempts.slice(0, 1)], spans: attempts.slice(1), head: { totals: { ...TOTALS, spans: 3 } } },
  });

  it("has two gaps on its axis: one suspended and one queued for the lost attempt", () => {
    assert.deepEqual(
      trace.segments.map(({ kind, start_ms, duration_ms }) => [kind, start_ms, duration_ms]),
      [
        ["queued", 0, 4],
        ["active", 4, 38],
        ["suspended", 42, 3599998],
        ["queued", 3600040, 22],
        ["active", 3600062, 700],
        ["queued", 3600762, 10440],
        ["active", 3611202, 1223],
      ],
    );
    assert.deepEqual([trace.active_ms, trace.queued_ms, trace.suspended_ms], [1961, 10466, 3599998]);
  });

  it("has the ask of the earlier run, the sleep and the step as spans, and links between the attempts", () => {
    const resumes = { kind: "resumes", run_id: EARLIER_RUN };
    const expected = [
      { span_id: MAILER_ROOT, kind: "run", name: "mailer", start_ms: 0, duration_ms: 3612425, status: "ok" },
      {
        ...{ span_id: "c07d11a2b6e94f30", parent_id: MAILER_ROOT, kind: "ask", name: "approve", start_ms: -1560000 },
        ...{ duration_ms: 1560006, status: "ok", links: [resumes] },
      },
      attempts[0],
      {
        ...{ span_id: "41f6a8d09e3b7c55", parent_id: MAILER_ROOT, kind: "sleep", name: "cool_off", start_ms: 40 },
        ...{ duration_ms: 3600030, status: "ok" },
      },
      { ...attempts[1], links: [{ kind: "resumes", span_id: "7be2000100000001" }] },
      { ...attempts[2], links: [{ kind: "retries", span_id: "2d90000200000001" }] },
      {
        ...{ span_id: "90b4c6f2d81e3a77", parent_id: "e813000300000001", kind: "step", name: "send" },
        ...{ start_ms: 3611240, duration_ms: 1180, status: "ok", claim: 3, attempt: 2, try: 1 },
      },
    ];
    assert.deepEqual(listed(trace), expected);
    assert.deepEqual(trace.links, [resumes]);
    assert.equal(trace.totals.spans, trace.spans.length);
  });

  it("has in the earlier run the ask that still waits, without its answer", () => {
    const [ask] = read({
      ...{ run_id: EARLIER_RUN, ended_ms: 100, entries, spans: [], head: {}, present_claim: 1 },
    }).spans.filter(({ kind }) => kind === "ask");
    assert.deepEqual([ask?.status, ask?.duration_ms, ask?.links], ["waiting", undefined, undefined]);
  });

  it("has no second span of a step that the call of an earlier run has settled", () => {
    const copied = [entry({ kind: "step", name: "old", phase: "done", at: -5, began: CREATED - 9 }), ...entries];
    const spans = read({ run_id: MAILER_RUN, ended_ms: 3612425, entries: copied, spans: attempts }).spans;
    assert.ok(spans.every(({ name }) => name !== "old"));
  });
});

describe("attempts of processes whose clocks differ", () => {
  it("start in the order of their claims", () => {
    const attempt = (claim: number, start_ms: number, duration_ms: number): Span => ({
      ...{ span_id: `5ac1f00d0000000${9 - claim}`, parent_id: ROOT, kind: "attempt", name: "main" },
      ...{ start_ms, duration_ms, status: claim === 3 ? "ok" : "lost", claim, attempt: claim, counted: true },
    });
    const spans = [attempt(1, 90, 0), attempt(2, 80, 30), attempt(3, 110, 10)];
    const trace = read({ run_id: AGENT_RUN, ended_ms: 120, spans, present_claim: 3 });
    const listedAttempts = trace.spans.filter(({ kind }) => kind === "attempt");
    assert.deepEqual(
      listedAttempts.map(({ claim, start_ms, duration_ms }) => [claim, start_ms, duration_ms]),
      [
        [1, 90, 0],
        [2, 90, 20],
        [3, 110, 10],
      ],
    );
  });
});

describe("an attempt that was lost", () => {
  const run_id = AGENT_RUN;
  const first: Span = {
    ...{ span_id: toAttemptId(run_id, 1), parent_id: ROOT, kind: "attempt", name: "main", start_ms: 2 },
    ...{ status: "open", claim: 1, attempt: 1 },
  };
  const model: Span = { ...span("2", first.span_id, "model", "slow", 10, 0), status: "open" };
  const { duration_ms: _, ...openModel } = model;
  const claim = (n: number, at_ms: number, lost_ms: number | null): RunClaim => ({
    ...{ claim: n, at: CREATED + at_ms, worker: `w${n}` },
    lost_lease_until: lost_ms === null ? null : CREATED + lost_ms,
  });

  it("ends at its last renewal or save, and its open spans with it", () => {
    const lostAt = (at_ms: number): readonly unknown[] => {
      const { spans } = read({
        ...{ run_id, status: "running", parts: [[first, openModel]], head: { claim: 1, at_ms } },
        claims: [claim(1, 2, 27_000), claim(2, 28_000, null)],
      });
      const lost = spans.filter(({ status }) => status === "lost");
      return lost.map(({ kind, start_ms, duration_ms = 0 }) => [kind, start_ms + duration_ms]);
    };
    // A lease of 15 s until 27 s was renewed at 12 s.
    assert.deepEqual(lostAt(6_000), [
      ["attempt", 12_000],
      ["model", 12_000],
    ]);
    assert.deepEqual(lostAt(12_500), [
      ["attempt", 12_500],
      ["model", 12_500],
    ]);
  });

  it("lasts until the last entry that it has made in the journal, so that its steps are in it", () => {
    const entries = [
      entry({ kind: "step", name: "first", phase: "done", at: 13_000, began: CREATED + 12_500, run_id }),
      entry({ kind: "step", name: "second", phase: "done", at: 28_500, began: CREATED + 28_100, run_id }),
    ];
    const claims = [claim(1, 2, 27_000), claim(2, 28_000, null)];
    const stored = { ...first, status: "lost", duration_ms: 11_998, counted: true } as const;
    for (const parts of [[], [[first]], [[stored]]]) {
      const { spans } = read({ run_id, status: "running", parts, entries, claims });
      const [lost, present] = spans.filter(({ kind }) => kind === "attempt");
      assert.deepEqual([lost?.status, lost?.duration_ms, present?.status], ["lost", 12_998, "open"]);
      const steps = spans.filter(({ kind }) => kind === "step").map(({ name, parent_id }) => [name, parent_id]);
      assert.deepEqual(steps, [
        ["first", lost?.span_id],
        ["second", present?.span_id],
      ]);
    }
  });

  it("has a span if it has stored none, and the next attempt counts from it", () => {
    const { spans, segments } = read({
      ...{ run_id, status: "running", parts: [], claims: [claim(1, 2, 27_000), claim(2, 28_000, null)] },
    });
    const attempts = spans.filter(({ kind }) => kind === "attempt");
    assert.deepEqual(
      attempts.map(({ status, attempt, start_ms, links }) => [status, attempt, start_ms, links]),
      [
        ["lost", 1, 2, undefined],
        ["open", 2, 28_000, [{ kind: "retries", span_id: toAttemptId(run_id, 1) }]],
      ],
    );
    assert.deepEqual(
      segments.map(({ kind }) => kind),
      ["queued", "active", "queued", "active"],
    );
  });

  it("leaves the spans of the attempt that executes open", () => {
    const { spans } = read({ run_id, status: "running", parts: [[first, openModel]], claims: [claim(1, 2, null)] });
    assert.deepEqual(
      spans.filter(({ status }) => status === "open").map(({ kind }) => kind),
      ["run", "attempt", "model"],
    );
  });
});

describe("the records of a span", () => {
  it("are merged: the last one counts, but an open one never replaces an end", () => {
    const ended = span("2", at("1"), "tool", "weather", 5, 7);
    const open: Span = { ...ended, status: "open" };
    const [attempt] = AGENT_SPANS as readonly [Span];
    const { spans } = read({ run_id: AGENT_RUN, ended_ms: 3123, parts: [[open], [ended], [open]], spans: [attempt] });
    assert.deepEqual(
      spans.filter(({ kind }) => kind === "tool").map(({ status, duration_ms }) => [status, duration_ms]),
      [["ok", 7]],
    );
  });

  it("have the attempt as parent if their own was not kept", () => {
    const orphan = span("2", "ffffffffffffffff", "tool", "weather", 5, 7);
    const [attempt] = AGENT_SPANS as readonly [Span];
    const { spans } = read({ run_id: AGENT_RUN, ended_ms: 3123, spans: [attempt, orphan] });
    assert.equal(spans.find(({ kind }) => kind === "tool")?.parent_id, attempt.span_id);
  });

  it("link each further try of a node to the one before", () => {
    const node = { ...span("2", at("1"), "node", "flaky", 5, 7), task_id: "t", namespace: ["flaky:t"] };
    const [attempt] = AGENT_SPANS as readonly [Span];
    const tries = [
      { ...node, try: 1, status: "error" as const },
      { ...node, span_id: at("3"), start_ms: 20, try: 2 },
    ];
    const { spans } = read({ run_id: AGENT_RUN, ended_ms: 3123, spans: [attempt, ...tries] });
    const second = spans.find((read) => read.try === 2);
    assert.deepEqual(second?.links, [{ kind: "retries", span_id: at("2") }]);
  });
});

describe("the values of spans", () => {
  const [attempt] = AGENT_SPANS as readonly [Span];
  const ref = { ref: { checkpoint_id: "c", namespace: [] } };
  const tool = {
    ...span("2", at("1"), "tool", "weather", 5, 7),
    input: ref,
    output: { hash: "h", bytes: 4, truncated: false },
  };
  const spans = [attempt, tool as unknown as Span];
  const find = ({ spans: read }: RunTrace): Span | undefined => read.find(({ kind }) => kind === "tool");

  it("come from the contents, or are left out", () => {
    const withValues = find(
      read({ run_id: AGENT_RUN, ended_ms: 9, spans, sources: { contents: new Map([["h", "sunny"]]) } }),
    );
    assert.deepEqual(withValues?.output, { value: "sunny", bytes: 4, truncated: false });
    const without = find(read({ run_id: AGENT_RUN, ended_ms: 9, spans, sources: { contents: null } }));
    assert.deepEqual([without?.input, without?.output], [ref, undefined]);
  });

  it("say that the checkpoint of a reference is gone with its stateless run", () => {
    const whole = read({ run_id: AGENT_RUN, ended_ms: 9, spans });
    assert.equal(whole.thread_id, THREAD);
    const traced = { run_id: AGENT_RUN, thread_id: null, graph_id: "main", assistant_id: ASSISTANT, cron_id: null };
    const times = { created_at: CREATED, started_at: CREATED, ended_at: CREATED + 9 };
    const stateless = read({
      ...{ run_id: AGENT_RUN, ended_ms: 9, spans },
      sources: {
        run: null,
        traced: { ...traced, ...times, user_id: null, status: "success", waiting: false, trace_origin: {} },
      },
    });
    assert.deepEqual(find(stateless)?.input, { ...ref, gone: true });
    assert.equal(stateless.thread_id, undefined);
  });
});

describe("what stands beside the spans of attempts", () => {
  const [attempt] = AGENT_SPANS as readonly [Span];

  it("are webhook attempts and feedback", () => {
    const delivery = { delivery_id: AGENT_RUN, address: null, host: "hooks.example" };
    const { spans, feedback } = read({
      ...{ run_id: AGENT_RUN, ended_ms: 3123, spans: [attempt] },
      sources: {
        webhooks: [
          { ...delivery, number: 1, at: CREATED + 3200, status: 500, error: "status", duration_ms: 20 },
          { ...delivery, number: 2, at: CREATED + 4200, status: 204, error: null, duration_ms: 10 },
        ],
        feedback: [
          { key: "helpful", score: 1, value: null, created_at: CREATED },
        ] as unknown as TraceSources["feedback"],
      },
    });
    assert.deepEqual(
      spans
        .filter(({ kind }) => kind === "webhook")
        .map((webhook) => [webhook.name, webhook.try, webhook.status, webhook.error?.type, webhook.attributes]),
      [
        ["hooks.example", 1, "error", "status", { status: 500 }],
        ["hooks.example", 2, "ok", undefined, { status: 204 }],
      ],
    );
    assert.deepEqual(feedback, [{ key: "helpful", score: 1, at: "2026-11-28T09:00:00.000Z" }]);
  });

  it("name workers only for callers who see them", () => {
    const claims = [{ claim: 1, at: CREATED + 2, worker: "w1", lost_lease_until: null }];
    const worker = (showsWorkers: boolean): unknown =>
      read({ run_id: AGENT_RUN, ended_ms: 3123, spans: [attempt], claims, sources: { showsWorkers } }).spans.find(
        ({ kind }) => kind === "attempt",
      )?.attributes;
    assert.deepEqual([worker(true), worker(false)], [{ worker: "w1" }, undefined]);
  });
});

describe("a run whose spans were not kept", () => {
  it("has its run, its request and its times", () => {
    const head = { sampled: false, totals: { ...TOTALS, spans: 5, tool: 2 } };
    const { sampled, spans, segments, totals } = read({ run_id: AGENT_RUN, ended_ms: 3123, spans: [], head });
    assert.equal(sampled, false);
    assert.deepEqual(
      spans.map(({ kind }) => kind),
      ["run", "request"],
    );
    assert.deepEqual(
      segments.map(({ kind, duration_ms }) => [kind, duration_ms]),
      [
        ["queued", 2],
        ["active", 3121],
      ],
    );
    assert.deepEqual([totals.spans, totals.tool], [7, 2]);
  });
});
