/** The routes of run traces: the trace of a run, its stream, its deletion, the list with its filters, and their errors. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { testClock } from "../../../suite/kit.ts";
import { keepAlive } from "../../../support/alive.ts";
import { graph, state } from "../../engine/attempt.harness.ts";
import { type Answer, finding, type Kit, kit, ran, readRunIds } from "./operations.harness.ts";

const ABSENT = "00000000-0000-4000-8000-00000000000a";
const find = ({ spans }: Answer, kind: string): Answer[] => spans.filter((span: Answer) => span.kind === kind);

/** A graph with a node, a model call and a tool, which fails with `fail`. */
const recording = graph(async function* ({ trace, input }) {
  const node = trace?.start({ kind: "node", name: "answer" }) ?? "";
  const model = trace?.start({ kind: "model", name: "gpt-5", model: "gpt-5", parent_id: node }) ?? "";
  trace?.end(model, { status: "ok", tokens: { in: 3, out: 4 }, output: () => ({ reply: "marker" }) });
  const tool = trace?.start({ kind: "tool", name: "weather", parent_id: node }) ?? "";
  const { fail = false } = (input ?? {}) as { readonly fail?: boolean };
  trace?.end(tool, fail ? { status: "error", error: new RangeError("marker") } : { status: "ok" });
  trace?.end(node, { status: "ok" });
  if (fail) throw new TypeError("No refunds");
  yield state({ ok: true });
});

describe("the trace of a run", () => {
  let it_: Kit;
  let thread: string;
  let run: string;
  before(async () => {
    it_ = await kit({ agents: undefined, executor: recording, traces: { content: "all" } } as never);
    [thread, run] = await ran(it_, {}, { assistant_id: "g" });
  });
  after(() => it_[Symbol.asyncDispose]());

  it("has its run, request, attempt and the spans of its graph as a tree", async () => {
    const trace = await it_.ask("GET", `/threads/${thread}/runs/${run}/trace`);
    // A slow machine has slow commits, which are spans, too.
    const listed = trace.spans.filter(({ kind }: Answer) => kind !== "commit");
    assert.deepEqual(
      listed.map(({ kind, name }: Answer) => [kind, name]),
      [
        ["run", "g"],
        ["request", "POST /threads/{thread_id}/runs"],
        ["queue", "queue"],
        ["attempt", "g"],
        ["node", "answer"],
        ["model", "gpt-5"],
        ["tool", "weather"],
      ],
    );
    const { run_id, thread_id, status, source, content, totals, dropped } = trace;
    assert.deepEqual([run_id, thread_id, status, source], [run, thread, "success", "runs.create"]);
    assert.deepEqual([content, dropped, totals.spans, totals.model, totals.tool], ["all", {}, 7, 1, 1]);
    assert.equal(trace.trace_id, run.replaceAll("-", ""));
    assert.deepEqual(await it_.ask("GET", `/greenroom/traces/${run}`), trace);
  });

  it("has copied values unless content=false", async () => {
    const path = `/threads/${thread}/runs/${run}/trace`;
    const [model] = find(await it_.ask("GET", path), "model");
    assert.deepEqual(model.output.value, { reply: "marker" });
    const [without] = find(await it_.ask("GET", `${path}?content=false`), "model");
    assert.equal(without.output, undefined);
    assert.equal(without.name, "gpt-5");
  });

  it("is streamed as it is, with its end", async () => {
    for (const path of [`/threads/${thread}/runs/${run}/trace/stream`, `/greenroom/traces/${run}/stream`]) {
      const frames = await readFrames(it_, path);
      assert.deepEqual(
        frames.map(([event]) => event),
        ["trace", "end"],
      );
      assert.equal(frames[0]?.[1].spans.length, 7);
      assert.deepEqual([frames[1]?.[1].status, frames[1]?.[1].spans], ["success", undefined]);
    }
  });

  it("has the error of its run, and the route that created a stateless run, whose row may be gone", async () => {
    await it_.ask("POST", "/runs/wait", { assistant_id: "g", input: { fail: true } });
    const { items } = await it_.ask("GET", "/greenroom/traces?failed=true");
    assert.equal(items.length, 1);
    const trace = await it_.ask("GET", `/greenroom/traces/${items[0].run_id}`);
    assert.deepEqual([trace.status, trace.source, trace.thread_id], ["error", "runs.wait", undefined]);
    assert.deepEqual(find(trace, "run")[0].error, { type: "TypeError", message: "No refunds" });
    assert.deepEqual(find(trace, "tool")[0].error, { type: "RangeError", message: "marker" });
  });

  it("continues the traceparent of the request, and an own one if that is malformed", async () => {
    const create = async (headers: object, body: object = {}): Promise<Answer> => {
      const request = { assistant_id: "g", input: {}, ...body };
      const { run_id } = await it_.ask("POST", `/threads/${thread}/runs`, request, 200, headers as never);
      await it_.ask("GET", `/threads/${thread}/runs/${run_id}/join`);
      return await it_.ask("GET", `/threads/${thread}/runs/${run_id}/trace`);
    };
    const trace_id = "0af7651916cd43dd8448eb211c80319c";
    const traceparent = `00-${trace_id}-b7ad6b7169203331-01`;
    assert.equal((await create({ traceparent })).trace_id, trace_id);
    assert.equal((await create({}, { metadata: { traceparent } })).trace_id, trace_id);
    assert.equal((await create({}, { config: { metadata: { traceparent } } })).trace_id, trace_id);
    for (const malformed of ["x", `ff-${trace_id}-b7ad6b7169203331-01`, `00-${"0".repeat(32)}-b7ad6b7169203331-01`]) {
      const trace = await create({ traceparent: malformed });
      assert.equal(trace.trace_id, trace.run_id.replaceAll("-", ""));
    }
  });

  it("names the run that it repeats", async () => {
    const { run_id } = await it_.ask("POST", `/greenroom/runs/${run}/again`, {});
    await it_.ask("GET", `/threads/${thread}/runs/${run_id}/join`);
    const { links } = await it_.ask("GET", `/greenroom/traces/${run_id}`);
    assert.deepEqual(links, [{ kind: "again", run_id: run }]);
  });

  it("is deleted while its run stays", async () => {
    const [thread_id, run_id] = await ran(it_, {}, { assistant_id: "g" });
    const path = `/threads/${thread_id}/runs/${run_id}/trace`;
    await it_.ask("DELETE", path, undefined, 204);
    const { code } = await it_.ask("GET", path, undefined, 404);
    assert.equal(code, "trace_not_found");
    await it_.ask("DELETE", path, undefined, 404);
    await it_.ask("GET", `/threads/${thread_id}/runs/${run_id}`);
  });

  it("answers 404 for unknown runs, runs of other threads and malformed ids 422", async () => {
    const { thread_id: other } = await it_.ask("POST", "/threads", {});
    for (const suffix of ["", "/stream"]) {
      await it_.ask("GET", `/threads/${thread}/runs/${ABSENT}/trace${suffix}`, undefined, 404);
      await it_.ask("GET", `/threads/${other}/runs/${run}/trace${suffix}`, undefined, 404);
      await it_.ask("GET", `/greenroom/traces/${ABSENT}${suffix}`, undefined, 404);
      await it_.ask("GET", `/threads/x/runs/${run}/trace${suffix}`, undefined, 422);
      await it_.ask("GET", `/greenroom/traces/x${suffix}`, undefined, 422);
    }
    await it_.ask("DELETE", `/threads/${other}/runs/${run}/trace`, undefined, 404);
  });

  it("answers 422 for each unknown or malformed member of a query, with its place", async () => {
    const path = `/threads/${thread}/runs/${run}/trace`;
    const wrong: readonly (readonly [path: string, name: string])[] = [
      [`${path}?contents=false`, "contents"],
      [`${path}?content=maybe`, "content"],
      [`${path}/stream?content=false`, "content"],
      [`/greenroom/traces/${run}?x=1`, "x"],
      ["/greenroom/traces?unknown=1", "unknown"],
      ["/greenroom/traces?failed=maybe", "failed"],
      ["/greenroom/traces?min_active_ms=-1", "min_active_ms"],
      ["/greenroom/traces?min_active_ms=x", "min_active_ms"],
      ["/greenroom/traces?min_tokens=1.5", "min_tokens"],
      ["/greenroom/traces?limit=1001", "limit"],
      ["/greenroom/traces?limit=0", "limit"],
      ["/greenroom/traces?thread_id=x", "thread_id"],
      ["/greenroom/traces?cron_id=x", "cron_id"],
      ["/greenroom/traces?status=done", "status"],
      ["/greenroom/traces?source=post", "source"],
      ["/greenroom/traces?metadata=x", "metadata"],
      ["/greenroom/traces?metadata=[1]", "metadata"],
      ["/greenroom/traces?metadata={%22a%22:{}}", "metadata"],
      ["/greenroom/traces?started_after=yesterday", "started_after"],
      ["/greenroom/traces?created_before=x", "created_before"],
      ["/greenroom/traces?cursor=x", "cursor"],
    ];
    for (const [query, name] of wrong) {
      const { loc } = (await finding(it_, query)) as Answer;
      assert.deepEqual(loc, ["query", name], query);
    }
    const { detail } = await it_.ask("DELETE", `${path}?x=1`, undefined, 422);
    assert.deepEqual(detail[0].loc, ["query", "x"]);
  });
});

/** Returns the frames of a stream that ends. */
async function readFrames(it_: Kit, path: string): Promise<(readonly [event: string, data: Answer])[]> {
  const response = await it_.fetch(`http://greenroom${path}`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  return parseFrames(await response.text());
}

const parseFrames = (text: string): (readonly [event: string, data: Answer])[] =>
  text
    .split("\n\n")
    .filter((frame) => frame.includes("event: "))
    .map((frame) => [/^event: (.*)$/m.exec(frame)?.[1] ?? "", JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? "null")]);

describe("the list of traces", () => {
  let it_: Kit;
  let [first, second, third] = ["", "", ""];
  let thread: string;
  before(async () => {
    it_ = await kit({ agents: undefined, executor: recording } as never);
    [thread, first] = await ran(it_, {}, { assistant_id: "g", metadata: { topic: "a" } });
    [, second] = await ran(it_, { fail: true }, { assistant_id: "g", metadata: { topic: "b" } });
    [, third] = await ran(it_, {}, { assistant_id: "g" });
  });
  after(() => it_[Symbol.asyncDispose]());

  const list = async (query: string): Promise<string[]> =>
    readRunIds(await it_.ask("GET", `/greenroom/traces${query}`)).sort();

  it("has heads without spans, newest first, in pages that join", async () => {
    const all = await it_.ask("GET", "/greenroom/traces");
    assert.equal(all.next, null);
    assert.equal(all.items.length, 3);
    const { spans, segments, nodes, tools, models, failed, source } = all.items.find(
      ({ run_id }: Answer) => run_id === first,
    );
    assert.deepEqual([spans, segments], [undefined, undefined]);
    assert.deepEqual(
      [nodes, tools, models, failed, source],
      [["answer"], ["weather"], ["gpt-5"], false, "runs.create"],
    );
    const pages: string[] = [];
    for (let cursor = ""; ; ) {
      const page = await it_.ask("GET", `/greenroom/traces?limit=2${cursor}`);
      pages.push(...readRunIds(page));
      if (page.next === null) break;
      cursor = `&cursor=${page.next}`;
    }
    assert.deepEqual(pages, readRunIds(all));
  });

  it("finds the runs of each filter, and none of one that does not hold", async () => {
    const succeeded = [first, third].sort();
    const all = [first, second, third].sort();
    const { assistant_id } = await it_.ask("GET", "/assistants/g");
    const cases: readonly (readonly [query: string, ids: readonly string[]])[] = [
      ["failed=true", [second]],
      ["failed=false", succeeded],
      ["status=error", [second]],
      ["status=error,timeout", [second]],
      ["status=success&status=error", all],
      ["error_type=TypeError", [second]],
      ["error_type=RangeError", []],
      ["node=answer", all],
      ["node=weather", []],
      ["tool=weather", all],
      ["model=gpt-5", all],
      ["model=gpt", []],
      [`thread_id=${thread}`, [first]],
      [`assistant_id=${assistant_id}`, all],
      ["assistant_id=g", all],
      ["assistant_id=other", []],
      ["graph_id=g", all],
      ["graph_id=h", []],
      ["source=runs.create", all],
      ["source=cron", []],
      [`cron_id=${ABSENT}`, []],
      ["user_id=nobody", []],
      ["waiting=true", []],
      ["waiting=false", all],
      ["min_active_ms=0", all],
      ["min_active_ms=100000000", []],
      ["min_tokens=100000", []],
      ["metadata={%22topic%22:%22b%22}", [second]],
      ["started_after=2020-01-01T00:00:00Z", all],
      ["started_before=2020-01-01T00:00:00Z", []],
      ["created_after=2020-01-01T00:00:00Z", all],
      ["created_before=2020-01-01T00:00:00Z", []],
      ["failed=true&error_type=TypeError&tool=weather&status=error&metadata={%22topic%22:%22b%22}", [second]],
      ["failed=true&metadata={%22topic%22:%22a%22}", []],
    ];
    for (const [query, ids] of cases) assert.deepEqual(await list(`?${query}`), ids, query);
  });
});

describe("a run that executes", () => {
  keepAlive();

  it("has the spans so far, streams those that follow, and keeps its trace from deletion", async () => {
    const opened = Promise.withResolvers<void>();
    await using it_ = await kit({
      agents: undefined,
      executor: graph(async function* ({ trace }) {
        const node = trace?.start({ kind: "node", name: "slow" }) ?? "";
        await opened.promise;
        trace?.end(node, { status: "ok" });
        yield state({ ok: true });
      }),
    } as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const { run_id } = await it_.ask("POST", `/threads/${thread_id}/runs`, { assistant_id: "g", input: {} });
    const path = `/threads/${thread_id}/runs/${run_id}/trace`;
    const response = await it_.fetch(`http://greenroom${path}/stream`);
    await it_.ask("DELETE", path, undefined, 409);
    let trace = await it_.ask("GET", path);
    while (find(trace, "node").length === 0) trace = await it_.ask("GET", path);
    assert.deepEqual(
      find(trace, "node").map(({ status, duration_ms }) => [status, duration_ms]),
      [["open", undefined]],
    );
    assert.equal(trace.totals.spans, trace.spans.length);
    opened.resolve();
    const frames = parseFrames(await response.text());
    assert.equal(frames[0]?.[0], "trace");
    assert.equal(frames.at(-1)?.[0], "end");
    assert.equal(frames.at(-1)?.[1].status, "success");
    const spans = new Map<string, Answer>(frames[0]?.[1].spans.map((span: Answer) => [span.span_id, span]));
    for (const [event, span] of frames.slice(1, -1)) {
      assert.equal(event, "span");
      spans.set(span.span_id, span);
    }
    const whole = await it_.ask("GET", path);
    const byId = (list: Answer[]): Answer[] => list.sort((a, b) => (a.span_id < b.span_id ? -1 : 1));
    assert.deepEqual(byId([...spans.values()]), byId(whole.spans));
    assert.ok(whole.spans.every(({ status }: Answer) => status === "ok"));
  });

  it("that has not started has a trace with its request alone", async () => {
    await using it_ = await kit({ agents: undefined, executor: recording } as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const request = { assistant_id: "g", input: {}, after_seconds: 3600 };
    const { run_id } = await it_.ask("POST", `/threads/${thread_id}/runs`, request);
    const trace = await it_.ask("GET", `/threads/${thread_id}/runs/${run_id}/trace`);
    assert.deepEqual(
      trace.spans.map(({ kind }: Answer) => kind),
      ["run", "request"],
    );
    assert.equal(trace.status, "pending");
  });
});

describe("traces that are not recorded", () => {
  it("answer 404 and leave the list empty", async () => {
    await using it_ = await kit({ agents: undefined, executor: recording, traces: { record: "none" } } as never);
    const [thread, run] = await ran(it_, {}, { assistant_id: "g" });
    const { code } = await it_.ask("GET", `/threads/${thread}/runs/${run}/trace`, undefined, 404);
    assert.equal(code, "trace_not_found");
    assert.deepEqual(await it_.ask("GET", "/greenroom/traces"), { items: [], next: null });
  });
});

describe("a durable function that sleeps", () => {
  it("has a suspended segment, its sleep and its steps", async () => {
    const clock = testClock();
    await using it_ = await kit({
      environment: clock,
      agents: {
        async mailer({ step, sleep }: Answer) {
          await step("prepare", () => 1);
          await sleep("cool_off", "1h");
          await step("send", () => 2);
          return "done";
        },
      },
    } as never);
    const { thread_id } = await it_.ask("POST", "/threads", {});
    const { run_id } = await it_.ask("POST", `/threads/${thread_id}/runs`, { assistant_id: "mailer", input: {} });
    const path = `/threads/${thread_id}/runs/${run_id}/trace`;
    await clock.advance("1m");
    const suspended = await it_.ask("GET", path);
    assert.deepEqual([suspended.status, suspended.waiting], ["pending", true]);
    assert.deepEqual([find(suspended, "run")[0].status, find(suspended, "sleep")[0].status], ["waiting", "waiting"]);
    assert.equal(suspended.segments.at(-1).kind, "suspended");
    await clock.advance("1h");
    const trace = await it_.ask("GET", path);
    assert.deepEqual(
      trace.spans
        .map(({ kind, name, status }: Answer) => [kind, name, status])
        .filter(([kind]: Answer) => kind !== "queue"),
      [
        ["run", "mailer", "ok"],
        ["request", "POST /threads/{thread_id}/runs", "ok"],
        ["attempt", "mailer", "waiting"],
        ["step", "prepare", "ok"],
        ["sleep", "cool_off", "ok"],
        ["attempt", "mailer", "ok"],
        ["step", "send", "ok"],
      ],
    );
    const [before, after_] = find(trace, "attempt");
    assert.deepEqual(after_.links, [{ kind: "resumes", span_id: before.span_id }]);
    const suspensions = trace.segments.filter(({ kind }: Answer) => kind === "suspended");
    assert.equal(suspensions.length, 1);
    const gap = suspensions[0];
    const reaching = trace.spans.filter(
      ({ start_ms, duration_ms }: Answer) =>
        start_ms <= gap.start_ms && start_ms + duration_ms >= gap.start_ms + gap.duration_ms,
    );
    assert.deepEqual(reaching.map(({ kind }: Answer) => kind).sort(), ["run", "sleep"]);
  });
});
