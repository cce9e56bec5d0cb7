import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createHandler, type HandlerOptions } from "../../lib/http/handler.ts";
import { combine, type Executor, fromFunctions, type RunCreate, ServiceError } from "../../lib/mod.ts";
import { testService } from "../suite/mod.ts";

async function* echo(): AsyncGenerator<string> {
  yield "Hello";
}

describe("unknown keys and values", () => {
  it("of a run request are refused with the key, and nothing is created", async () => {
    await using test = await testService({ agents: { echo } });
    const { runs, threads } = test.service;
    const wrong = { assistantId: "echo" } as unknown as RunCreate;
    const misspelt = { assistant_id: "echo", foo: 1 } as unknown as RunCreate;
    const { thread_id } = await threads.create({});
    for (const call of [runs.create, runs.stream, runs.wait] as (typeof runs.create)[]) {
      await assert.rejects(call(null, wrong), { message: 'unknown key "assistantId"; did you mean assistant_id?' });
      await assert.rejects(call(thread_id, misspelt), (error: unknown) => {
        return (
          error instanceof ServiceError && error.code === "invalid" && /^unknown key "foo"; known/.test(error.message)
        );
      });
    }
    await assert.rejects(runs.createBatch([wrong]), { code: "invalid" });
    await assert.rejects(runs.create(null, {} as RunCreate), { message: "assistant_id: must be a string" });
    await assert.rejects(runs.create(null, null as unknown as RunCreate), { code: "invalid" });
    assert.deepEqual(await runs.list(thread_id), []);
  });

  it("of enumerated members of a run request are refused", async () => {
    await using test = await testService({ agents: { echo } });
    const { runs, threads } = test.service;
    const { thread_id } = await threads.create({});
    const wrong: [keyof RunCreate, unknown][] = [
      ["stream_mode", "nope"],
      ["stream_mode", ["values", "nope"]],
      ["stream_mode", 5],
      ["multitask_strategy", "nope"],
      ["multitask_strategy", ["enqueue"]],
      ["if_not_exists", "nope"],
      ["on_disconnect", "toString"],
      ["durability", "later"],
    ];
    for (const [key, value] of wrong) {
      const request = { assistant_id: "echo", [key]: value } as RunCreate;
      for (const call of [runs.create, runs.stream, runs.wait] as (typeof runs.create)[]) {
        for (const thread of [null, thread_id]) {
          await assert.rejects(call(thread, request), (error: unknown) => {
            const starts = error instanceof Error && error.message.startsWith(`${key}: must be one of `);
            return starts && error instanceof ServiceError && error.code === "invalid";
          });
        }
      }
    }
    assert.deepEqual(await runs.list(thread_id), []);
    const absent = Object.fromEntries(wrong.map(([key]) => [key, null]));
    const { result } = await runs.wait(null, { assistant_id: "echo", ...absent, stream_mode: [] });
    assert.ok(await result);
  });

  it("of a handler are refused with the key", async () => {
    await using test = await testService({ agents: { echo } });
    const make = (options: object) => () => createHandler(test.service, options as HandlerOptions);
    assert.throws(make({ basePath: "/x" }), { message: "createHandler: basePath: unknown option" });
    assert.throws(make({ openMetrics: true }), /openMetrics: unknown option; did you mean open_metrics\?$/);
    assert.throws(make({ hosts: "localhost" }), /createHandler: hosts: must be a list of host names$/);
  });

  it("in place of an executor are refused by combine", () => {
    const agents = { echo } as unknown as Executor;
    assert.throws(() => combine(agents), /^TypeError: combine: argument 1 is not an executor\. Pass executors/);
    assert.throws(() => combine(fromFunctions({ echo }), undefined as unknown as Executor), /argument 2/);
  });
});
