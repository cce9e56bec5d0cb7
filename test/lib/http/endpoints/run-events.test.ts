/** The run events from which the protocol endpoints are built: each part is opened, extended and closed once, also in a replay. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { describeInterrupt, parseApproval, toApprovalResumeValue } from "../../../../lib/executor/approvals.ts";
import { readProtocolRequest } from "../../../../lib/http/endpoints/protocol-requests.ts";
import { RUN_EVENT_MODES, type RunEvent, RunEventMapper } from "../../../../lib/http/endpoints/run-events.ts";
import type { Json } from "../../../../lib/json.ts";
import { serviceInternals } from "../../../../lib/service.ts";
import { testService } from "../../../suite/mod.ts";

type Fed = readonly [event: string, data: unknown];

/** Maps literal frames to events. */
function mapped(...frames: readonly Fed[]): RunEvent[] {
  const mapper = new RunEventMapper();
  return frames.flatMap(([event, data]) => mapper.map({ event, data: JSON.stringify(data) }));
}

/** Removes the members that all events of a message share. */
const brief = (events: readonly RunEvent[]): unknown[] =>
  events.map((event) => {
    const { namespace: _, node: _node, message_id: _id, ...eventFields } = event as RunEvent & Record<string, unknown>;
    return eventFields;
  });

const about = { langgraph_node: "agent", langgraph_checkpoint_ns: "agent:t1" };
const chunk = (chunkFields: object): Fed => [
  "messages",
  [{ type: "AIMessageChunk", id: "m1", content: "", ...chunkFields }, about],
];
const piece = (args: string, chunkFields: object = {}): Fed =>
  chunk({ tool_call_chunks: [{ index: 0, args, type: "tool_call_chunk", ...chunkFields }] });

describe("RunEventMapper", () => {
  it("parses a large frame once for all readers", () => {
    const frame = { event: "values", data: JSON.stringify({ report: { text: "x".repeat(100_000) } }) };
    const [first, again] = [frame, frame].map((input) => new RunEventMapper().map(input)[0]);
    assert.ok(first?.type === "values" && again?.type === "values");
    const [firstReport, second] = [first, again].map(({ values }) => (values as { readonly report: object }).report);
    assert.equal(firstReport, second);
  });

  it("opens, extends and closes the parts of a streamed message", () => {
    const events = mapped(
      ["metadata", { run_id: "r1", attempt: 1 }],
      chunk({ content: [{ type: "reasoning", reasoning: "Hm", index: 0 }] }),
      chunk({ content: [{ type: "text", text: "He", index: 1 }] }),
      chunk({ content: [{ type: "text", text: "llo", index: 1 }] }),
      piece('{"q":', { id: "c1", name: "search" }),
      piece('"a"}'),
      ["updates", { agent: { messages: [{ type: "ai", id: "m1", content: "Hello" }] } }],
      ["messages", [{ type: "tool", id: "t1", tool_call_id: "c1", name: "search", content: "found" }, about]],
      ["end", { run_id: "r1", status: "success" }],
    );
    assert.deepEqual(brief(events), [
      { type: "start", run_id: "r1", attempt: 1 },
      { type: "message-open", role: "ai" },
      { type: "reasoning-open", id: "m1:0" },
      { type: "reasoning-delta", id: "m1:0", delta: "Hm" },
      { type: "reasoning-close", id: "m1:0", block: { type: "reasoning", reasoning: "Hm" } },
      { type: "text-open", id: "m1:1" },
      { type: "text-delta", id: "m1:1", delta: "He" },
      { type: "text-delta", id: "m1:1", delta: "llo" },
      { type: "text-close", id: "m1:1", block: { type: "text", text: "Hello" } },
      { type: "tool-call-open", id: "m1:2", tool_call_id: "c1", name: "search" },
      { type: "tool-call-delta", id: "m1:2", tool_call_id: "c1", delta: '{"q":' },
      { type: "tool-call-delta", id: "m1:2", tool_call_id: "c1", delta: '"a"}' },
      { type: "tool-call-close", id: "m1:2", tool_call_id: "c1", name: "search", args: { q: "a" }, error: null },
      { type: "message-close", reason: "tool_use", usage: null },
      { type: "update", values: { messages: [{ type: "ai", id: "m1", content: "Hello" }] } },
      { type: "tool-result", tool_call_id: "c1", name: "search", content: "found", is_error: false },
      { type: "end", status: "success" },
    ]);
  });

  it("streams the arguments of a call without a gap, however long they are", () => {
    const args = JSON.stringify({ text: "x".repeat(10_000) });
    const parts = args.match(/.{1,7}/g) ?? [];
    const events = mapped(...parts.map((part, index) => piece(part, index === 0 ? { id: "c1", name: "write" } : {})), [
      "end",
      { run_id: "r1", status: "success" },
    ]);
    const deltas = events.flatMap((event) => (event.type === "tool-call-delta" ? [event.delta] : []));
    assert.equal(deltas.join(""), args);
    const [closed] = events.filter(({ type }) => type === "tool-call-close");
    assert.deepEqual(closed && "args" in closed && closed.args, JSON.parse(args));
  });

  it("closes all parts when the run fails or starts again", () => {
    const attempt = (number: number): Fed[] => [
      ["metadata", { run_id: "r1", attempt: number }],
      chunk({ content: "Half" }),
      piece('{"q', { id: "c1", name: "search" }),
    ];
    const events = mapped(
      ...attempt(1),
      ...attempt(2),
      ["error", { error: "Error", message: "It broke" }],
      ["end", { run_id: "r1", status: "error" }],
    );
    const once = [
      "start message-open text-open text-delta text-close tool-call-open tool-call-delta",
      "tool-call-close message-close",
    ].join(" ");
    assert.equal(events.map(({ type }) => type).join(" "), `${once} ${once} error end`);
    const cut = events.flatMap((event) => (event.type === "tool-call-close" ? [event.error] : []));
    assert.deepEqual(cut, ["The arguments are not a JSON object", "The call was cut off"]);
  });

  it("names each interrupt once, and emits no state for a frame that only contains it", () => {
    const interruptValues = { __interrupt__: [{ id: "i1", value: "Sure?" }] };
    const events = mapped(
      ["updates|inner:t1", interruptValues],
      ["values", interruptValues],
      ["updates", interruptValues],
      ["values", { n: 1 }],
    );
    assert.deepEqual(events, [
      { type: "interrupt", namespace: ["inner:t1"], id: "i1", value: "Sure?" },
      { type: "values", values: { n: 1 } },
    ]);
  });

  it("maps live and stored frames to the same events", async () => {
    await using test = await testService({
      agents: {
        async *talks({ emit }) {
          yield "One ";
          emit({ name: "note", payload: 1 });
          yield "two";
          yield { messages: [{ type: "ai", id: "whole", content: "Three", tool_calls: [] }] };
        },
      },
    });
    const { service } = test;
    const request = { assistant_id: "talks", input: { messages: "Hi" }, stream_mode: RUN_EVENT_MODES };
    const thread = await service.threads.create();
    const { run, frames } = await service.runs.stream(thread.thread_id, { ...request, stream_resumable: true });
    const live = new RunEventMapper();
    const events: RunEvent[] = [];
    for await (const frame of frames) events.push(...live.map(frame));
    const replay = new RunEventMapper();
    const again: RunEvent[] = [];
    const { frames: stored } = await service.runs.joinStream(thread.thread_id, run.run_id);
    for await (const frame of stored) again.push(...replay.map(frame));
    assert.deepEqual(again, events);
    const texts = events.flatMap((event) => (event.type === "text-delta" ? [event.delta] : []));
    assert.deepEqual(texts, ["One ", "two", "Three"]);
    const { values } = await service.threads.state(thread.thread_id);
    const ids = events.flatMap((event) => (event.type === "message-open" ? [event.message_id] : []));
    const aiMessages = (values as { messages: { id: string; type: string }[] }).messages.filter(
      ({ type }) => type === "ai",
    );
    assert.deepEqual(
      ids,
      aiMessages.map(({ id }) => id),
    );
  });
});

describe("approvals", () => {
  const actions = [{ name: "refund", args: { amount: 30 }, description: "Refund 30 euros?" }];
  const js = {
    actionRequests: actions,
    reviewConfigs: [{ actionName: "refund", allowedDecisions: ["approve", "edit"] }],
  };
  const py = { action_requests: actions, review_configs: [{ action_name: "refund", allowed_decisions: ["reject"] }] };

  it("are parsed, and answered, in both spellings", () => {
    assert.deepEqual(
      parseApproval(js)?.actions.map(({ allowed }) => allowed),
      [["approve", "edit"]],
    );
    assert.deepEqual(
      parseApproval(py)?.actions.map(({ allowed }) => allowed),
      [["reject"]],
    );
    assert.equal(describeInterrupt(js), "Refund 30 euros?");
    for (const [value, edited] of [
      [js, "editedAction"],
      [py, "edited_action"],
    ] as const) {
      const approval = parseApproval(value);
      assert.ok(approval);
      assert.deepEqual(toApprovalResumeValue(approval, [{ type: "edit", args: { amount: 3 } }]), {
        decisions: [{ type: "edit", [edited]: { name: "refund", args: { amount: 3 } } }],
      });
    }
  });

  it("are recognized from no other values", () => {
    const values: Json[] = ["refund?", null, 3, [], {}, { actionRequests: [] }, { actionRequests: [{}] }];
    for (const value of values) {
      assert.equal(parseApproval(value), null);
    }
    assert.equal(describeInterrupt({ amount: 3 }), '{"amount":3}');
    assert.equal(describeInterrupt({ question: "Sure?" }), "Sure?");
  });
});

describe("protocol requests", () => {
  it("include the runs that resume them, whoever created these", async () => {
    await using test = await testService({
      agents: {
        asks({ interrupt, command }) {
          if (command?.resume === undefined) return interrupt("One?");
          return command.resume === "yes" ? interrupt("Two?") : "Done";
        },
      },
    });
    const nouns = serviceInternals(test.service).authorizeRequest(() => ({
      user_id: null,
      api_key: null,
      threads: {},
      user: null,
    })).resources;
    const { thread_id } = await nouns.threads.create();
    const send = async (request: object) => {
      const { run, result } = await nouns.runs.wait(thread_id, { assistant_id: "asks", ...request });
      await result;
      return run;
    };
    const run = await send({ input: { messages: "Go" } });
    const first = () => nouns.runs.get(null, run.run_id);
    const requestState = await readProtocolRequest(nouns, await first());
    assert.deepEqual(
      [requestState.newestRun.run_id, requestState.pending.map(({ value }) => value)],
      [run.run_id, ["One?"]],
    );
    const second = await send({ command: { resume: "yes" } });
    const again = await readProtocolRequest(nouns, await first());
    assert.deepEqual([again.newestRun.run_id, again.pending.map(({ value }) => value)], [second.run_id, ["Two?"]]);
    const third = await send({ command: { resume: "no" } });
    const done = await readProtocolRequest(nouns, await first());
    assert.deepEqual([done.newestRun.run_id, done.pending, done.isSuperseded], [third.run_id, [], false]);
    await send({ input: { messages: "Another" } });
    const later = await readProtocolRequest(nouns, await first());
    assert.deepEqual([later.newestRun.run_id, later.pending, later.isSuperseded], [third.run_id, [], true]);
  });
});
