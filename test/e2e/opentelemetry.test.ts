import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Tracer, traceRuns } from "../../examples/opentelemetry.ts";
import type { JsonObject } from "../../lib/json.ts";
import { testClock, testService } from "../suite/mod.ts";

type Options = Parameters<Tracer["startSpan"]>[1];
interface Recorded extends Options {
  readonly name: string;
  status?: object;
  ended?: Date;
}

/** Keeps what it is told. */
function fakeTracer(): { readonly tracer: Tracer; readonly spans: Recorded[] } {
  const spans: Recorded[] = [];
  return {
    spans,
    tracer: {
      startSpan(name, options) {
        const span: Recorded = { name, ...options };
        spans.push(span);
        return {
          setStatus(status) {
            span.status = status;
            return this;
          },
          end(time) {
            assert.equal(span.ended, undefined, "a span ends once");
            span.ended = time;
          },
        };
      },
    },
  };
}

const HERE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("opentelemetry.ts", () => {
  it("creates one span for each ended run, with its times, its status and a link to its caller", async () => {
    const { tracer, spans } = fakeTracer();
    const { now, timer, advance } = testClock();
    let notifyExported: () => void = () => {};
    const trace = traceRuns(tracer);
    await using test = await testService({
      environment: { now, timer },
      agents: {
        async *working() {
          await advance(1_500);
          yield "done";
        },
        failing() {
          throw new TypeError("There is no flour");
        },
      },
      onRunFinished(run) {
        trace(run);
        notifyExported();
      },
    });
    const run = async (assistant_id: string, metadata: JsonObject): Promise<JsonObject> => {
      const heard = new Promise<void>((resolve) => {
        notifyExported = resolve;
      });
      const body = JSON.stringify({ assistant_id, input: { messages: "Hello" }, metadata });
      const response = await test.fetch("http://greenroom/runs", { method: "POST", body });
      assert.equal(response.status, 200);
      await heard;
      return (await response.json()) as JsonObject;
    };
    const runs = [
      await run("working", { traceparent: HERE }),
      await run("failing", { traceparent: "00-not-one-of-these" }),
    ] as const;

    assert.deepEqual(
      spans.map(({ name, kind, attributes, status }) => [name, kind, attributes, status]),
      [
        ["invoke_agent working", 1, of(runs[0], "success", "working"), undefined],
        ["invoke_agent failing", 1, of(runs[1], "error", "failing"), { code: 2, message: "There is no flour" }],
      ],
    );
    const [working, failing] = spans as [Recorded, Recorded];
    assert.equal(working.ended?.getTime(), working.startTime.getTime() + 1_500);
    assert.ok((failing.ended?.getTime() ?? 0) >= failing.startTime.getTime());
    const context = { traceId: HERE.slice(3, 35), spanId: HERE.slice(36, 52), traceFlags: 1, isRemote: true };
    assert.deepEqual(working.links, [{ context }]);
    assert.deepEqual(failing.links, []);
  });

  it("creates a span without duration for a run that never started", () => {
    const { tracer, spans } = fakeTracer();
    const at = "2026-11-21T12:00:00.000Z";
    const ids = { run_id: "r", thread_id: "t", assistant_id: "a", graph_id: "g" };
    traceRuns(tracer)({ ...ids, status: "interrupted", metadata: {}, attempt: 0, started_at: null, ended_at: at });
    assert.deepEqual([spans[0]?.startTime, spans[0]?.ended, spans[0]?.status], [new Date(at), new Date(at), undefined]);
  });
});

function of({ run_id, thread_id }: JsonObject, status: string, graph_id: string): JsonObject {
  return {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": graph_id,
    "gen_ai.conversation.id": thread_id as string,
    "greenroom.run_id": run_id as string,
    "greenroom.status": status,
    "greenroom.attempt": 1,
  };
}
