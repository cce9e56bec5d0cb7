/** Newer clients send cancel reasons and namespaces, and read the size of a thread. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ExecutorEvent } from "../../../../lib/executor/contract.ts";
import { type Executor, fromFunctions, type JsonObject, ServiceError } from "../../../../lib/mod.ts";
import { catchWebhooks, type TestService, testService } from "../../../suite/mod.ts";

const at = "http://greenroom";

async function ask(
  kit: TestService,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ readonly status: number; readonly json: JsonObject }> {
  const response = await kit.fetch(at + path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: (text === "" ? {} : JSON.parse(text)) as JsonObject };
}

/** Creates an agent that waits for its signal. */
function waiting(): {
  readonly started: Promise<void>;
  readonly agent: (job: { signal: AbortSignal }) => Promise<object>;
} {
  const started = Promise.withResolvers<void>();
  return {
    started: started.promise,
    async agent({ signal }) {
      started.resolve();
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return {};
    },
  };
}

describe("the reason of a cancel", () => {
  it("is returned with the run and sent to its webhook", async () => {
    await using hooks = await catchWebhooks({ socket: false });
    const { started, agent } = waiting();
    await using kit = await testService({ agents: { agent: agent as never }, webhooks: hooks.webhooks });
    const { thread_id } = (await ask(kit, "POST", "/threads", {})).json;
    const runs = `/threads/${thread_id}/runs`;
    const { json: run } = await ask(kit, "POST", runs, { assistant_id: "agent", webhook: hooks.url });
    assert.equal(run.cancel_reason, null);
    await started;
    const { json: queued } = await ask(kit, "POST", runs, { assistant_id: "agent" });
    const refused = await ask(kit, "POST", `${runs}/${run.run_id}/cancel?action=rollback&reason=taken`);
    assert.equal(refused.status, 422);
    assert.match(String(refused.json.detail), /^reason: only with action interrupt/);
    assert.equal((await ask(kit, "POST", `${runs}/${run.run_id}/cancel?reason=${"x".repeat(1001)}`)).status, 422);
    assert.equal((await ask(kit, "POST", `${runs}/${queued.run_id}/cancel?wait=1&reason=not%20needed`)).status, 204);
    assert.equal((await ask(kit, "POST", `${runs}/${run.run_id}/cancel?wait=1&reason=taken`)).status, 204);
    const { json: ended } = await ask(kit, "GET", `${runs}/${run.run_id}`);
    assert.equal(ended.status, "interrupted");
    assert.match(String(ended.cancel_reason), /^taken:/);
    const selected = await ask(kit, "GET", `${runs}?select=run_id,cancel_reason`);
    assert.deepEqual(selected.json, [
      { run_id: queued.run_id, cancel_reason: "not needed" },
      { run_id: run.run_id, cancel_reason: ended.cancel_reason },
    ]);
    assert.equal((await hooks.next()).body.cancel_reason, ended.cancel_reason);
  });

  it("is accepted from callers in process, except with a rollback, and is null if none was given", async () => {
    const { started, agent } = waiting();
    await using kit = await testService({ agents: { agent: agent as never } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const run = await runs.create(thread_id, { assistant_id: "agent" });
    await started;
    await assert.rejects(
      runs.cancel(thread_id, run.run_id, { action: "rollback", reason: "x" }),
      (error) => error instanceof ServiceError && error.code === "invalid",
    );
    const next = await runs.create(thread_id, { assistant_id: "agent", multitask_strategy: "interrupt" });
    await (await runs.join(thread_id, run.run_id)).result;
    assert.deepEqual((await runs.get(thread_id, run.run_id)).cancel_reason, null);
    await runs.cancel(thread_id, next.run_id, { wait: true, reason: "enough" });
    assert.deepEqual((await runs.get(thread_id, next.run_id)).cancel_reason, "enough");
  });
});

describe("namespaces of a run's stream", () => {
  const places = [[], ["child:1"], ["child:1", "deep:2"], ["child:10"], ["tools:t"], ["tools:t", "model:3"]];
  const base = fromFunctions({ agent: () => ({}) });
  const executor: Executor = {
    ...base,
    graphs: () => base.graphs(),
    async *execute(job, signal, environment) {
      for (const namespace of places) {
        yield { type: "stream", mode: "custom", namespace, data: namespace.join("|") } satisfies ExecutorEvent;
      }
      yield* base.execute(job, signal, environment);
    },
  };
  const table: readonly (readonly [query: string, expected: readonly string[]])[] = [
    ["", ["", "child:1", "child:1|deep:2", "child:10", "tools:t", "tools:t|model:3"]],
    ["?namespace=", ["", "child:1", "child:1|deep:2", "child:10"]],
    ["?namespace=child:1", ["child:1", "child:1|deep:2"]],
    ["?namespace=tools:t", ["tools:t", "tools:t|model:3"]],
    ["?namespace=&namespace=tools:t", ["", "child:1", "child:1|deep:2", "child:10", "tools:t", "tools:t|model:3"]],
    ["?namespace=none", []],
  ];
  const readFrames = async (response: Response): Promise<readonly (readonly string[])[]> => {
    const frames = [...(await response.text()).matchAll(/^event: (.*)\n?.*\n?data: (.*)$/gm)];
    const custom = frames
      .filter(([, event]) => event?.startsWith("custom"))
      .map(([, , data]) => JSON.parse(data ?? ""));
    return [custom, frames.filter(([, event]) => /^(metadata|end)$/.test(event ?? "")).map(([, event]) => event ?? "")];
  };
  for (const [query, expected] of table) {
    it(`with ${query || "none"} have ${expected.length} frames, and always the first and the last`, async () => {
      await using kit = await testService({ executor });
      const runRequest = { assistant_id: "agent", input: {}, stream_mode: ["custom"], stream_subgraphs: true };
      const body = JSON.stringify({ ...runRequest, stream_resumable: true });
      const { thread_id } = (await ask(kit, "POST", "/threads", {})).json;
      const createResponse = await kit.fetch(`${at}/threads/${thread_id}/runs/stream${query}`, {
        method: "POST",
        body,
      });
      const location = createResponse.headers.get("location");
      assert.deepEqual(await readFrames(createResponse), [expected, ["metadata", "end"]]);
      const joined = await kit.fetch(`${at}${location}${query}`, { headers: { "last-event-id": "-1" } });
      assert.deepEqual(await readFrames(joined), [expected, ["metadata", "end"]]);
    });
  }
});

describe("GET /threads/{id}/storage", () => {
  it("returns the sum of the sizes of the thread's checkpoints", async () => {
    await using kit = await testService({ agents: { agent: ({ input }) => ({ said: (input as JsonObject).text }) } });
    const { thread_id } = (await ask(kit, "POST", "/threads", {})).json;
    const path = `/threads/${thread_id}/storage`;
    assert.equal((await ask(kit, "GET", path)).json.total_bytes, 0);
    const size = async (text: string): Promise<number> => {
      await ask(kit, "POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "agent", input: { text } });
      const { status, json } = await ask(
        kit,
        "GET",
        path.toUpperCase().replace("/THREADS", "/threads").replace("/STORAGE", "/storage"),
      );
      assert.equal(status, 200);
      const { checkpoints, channel_values, pending_writes, total_bytes } = json as Record<string, { bytes: number }> & {
        total_bytes: number;
      };
      const parts = [checkpoints, channel_values, pending_writes].map((part) => part?.bytes ?? Number.NaN);
      assert.equal(total_bytes, (parts[0] ?? 0) + (parts[1] ?? 0) + (parts[2] ?? 0));
      assert.deepEqual(json, await kit.service.threads.storage(String(thread_id)));
      return total_bytes;
    };
    const small = await size("a");
    assert.ok((await size("b".repeat(5_000))) >= small + 5_000);
    assert.equal((await ask(kit, "GET", "/threads/99999999-9999-4999-8999-999999999999/storage")).status, 404);
    assert.equal((await ask(kit, "GET", "/threads/x/storage")).status, 422);
  });
});
