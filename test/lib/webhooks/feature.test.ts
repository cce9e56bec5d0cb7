/** Runs emit feedback links in their streams and send webhooks at their end. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { Frame, RunCreate, ServiceOptions } from "../../../lib/mod.ts";
import type { Storage } from "../../../lib/storage/types.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { findDelivery } from "../../suite/storage/material.ts";
import { until } from "../../support/until.ts";

const BASE = "https://agents.example";
const here = { deployment: "default" };

interface World extends AsyncDisposable {
  readonly kit: TestService;
  readonly storage: Storage;
  /** Sent bodies by run id. */
  readonly sentBodies: Map<string, Record<string, unknown>[]>;
}

async function world(options: Partial<ServiceOptions> = {}): Promise<World> {
  const sentBodies: World["sentBodies"] = new Map();
  const storage = options.storage ?? nodeSqlite(":memory:");
  const kit = await testService({
    storage,
    agents: {
      async *echo() {
        yield { messages: [], done: true };
      },
      async *failing() {
        yield { messages: [] };
        throw new Error("no");
      },
      async *asking({ interrupt }) {
        yield interrupt("sure?");
      },
      async *waiting({ signal }) {
        yield { messages: [] };
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
    },
    public_base_url: BASE,
    webhooks: {
      transport: {
        resolve: async () => ["93.184.215.14"],
        async send({ body }) {
          const payload = JSON.parse(body);
          sentBodies.set(payload.run_id, [...(sentBodies.get(payload.run_id) ?? []), payload]);
          return { status: 200, retry_after: null, address: "93.184.215.14" };
        },
      },
    },
    ...options,
  });
  return { kit, storage, sentBodies, [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose]() };
}

async function all(frames: AsyncIterable<Frame>): Promise<Frame[]> {
  const list: Frame[] = [];
  for await (const frame of frames) list.push(frame);
  return list;
}

const createRunRequest = (assistant_id: string, runFields: Partial<RunCreate> = {}): RunCreate => ({
  assistant_id,
  input: {},
  feedback_keys: ["liked", "__proto__", "liked"],
  ...runFields,
});
const names = (frames: readonly Frame[]): string[] => frames.map(({ event }) => event);

describe("the feedback event", () => {
  for (const [agent, tail] of [
    ["echo", ["feedback", "end"]],
    ["failing", ["feedback", "error", "end"]],
    ["asking", ["feedback", "end"]],
  ] as const) {
    it(`comes last before error and end: ${agent}`, async () => {
      await using at = await world();
      const { service } = at.kit;
      const { thread_id } = await service.threads.create();
      const { run, frames } = await service.runs.stream(thread_id, createRunRequest(agent, { stream_resumable: true }));
      const live = await all(frames);
      assert.deepEqual(names(live).slice(-tail.length), tail);
      assert.deepEqual(names(live).filter((name) => name === "feedback").length, 1);
      const urls = JSON.parse(live.find(({ event }) => event === "feedback")?.data ?? "") as Record<string, string>;
      assert.deepEqual(Object.keys(urls).sort(), ["__proto__", "liked"]);
      for (const url of Object.values(urls))
        assert.match(url, /^https:\/\/agents\.example\/api\/v1\/feedback\/tokens\/[0-9a-f-]{36}$/);
      // Joins receive it too, also after the end.
      assert.deepEqual(await all((await service.runs.joinStream(thread_id, run.run_id)).frames), live);
    });
  }

  for (const agent of ["echo", "failing", "asking"] as const) {
    it(`has its links also in the results of wait and join: ${agent}`, async () => {
      await using at = await world();
      const { runs, threads } = at.kit.service;
      const { thread_id } = await threads.create();
      const live = await runs.wait(thread_id, createRunRequest(agent));
      const { run_id } = live.run;
      const { __feedback__, ...answer } = (await live.result) as Record<string, unknown>;
      const { frames } = await runs.joinStream(thread_id, run_id);
      const feedbackEvent = (await all(frames)).find(({ event }) => event === "feedback")?.data;
      assert.deepEqual(__feedback__, JSON.parse(String(feedbackEvent)));
      assert.deepEqual(await (await runs.join(thread_id, run_id)).result, { ...answer, __feedback__ });
      const runResult = await (await runs.wait(null, createRunRequest(agent))).result;
      assert.ok(Object.hasOwn(runResult as object, "__feedback__"), "of a stateless run");
      const plain = await (await runs.wait(null, { assistant_id: agent, input: {} })).result;
      assert.ok(!Object.hasOwn(plain as object, "__feedback__"), "without feedback keys");
    });
  }

  it("is emitted for a run that was cancelled before its start, and is the same after a restart", async () => {
    const storage = nodeSqlite(":memory:");
    const close = storage.close;
    const keptStorage = Object.assign(storage, { close: async () => {} });
    let before: readonly Frame[] = [];
    let runAddress = { thread_id: "", run_id: "" };
    {
      await using at = await world({ storage: keptStorage, worker: { concurrency: 0 } });
      const { runs, threads } = at.kit.service;
      const { thread_id } = await threads.create();
      const { run, frames } = await runs.stream(thread_id, createRunRequest("echo"));
      runAddress = { thread_id, run_id: run.run_id };
      await runs.cancel(thread_id, run.run_id, { wait: true });
      before = await all(frames);
      assert.deepEqual(names(before), ["feedback", "end"]);
    }
    {
      await using at = await world({ storage: keptStorage });
      const { frames } = await at.kit.service.runs.joinStream(runAddress.thread_id, runAddress.run_id);
      assert.deepEqual(await all(frames), before);
    }
    await close();
  });

  it("is not emitted for a rolled-back run, whose links are dead", async () => {
    await using at = await world();
    const { service } = at.kit;
    const { thread_id } = await service.threads.create();
    const { run, frames } = await service.runs.stream(thread_id, createRunRequest("waiting"));
    const row = await at.storage.getRun(here, run.run_id);
    const token = row?.feedback[0]?.[1] as string;
    assert.equal((await at.storage.getFeedbackToken(token))?.expires_at, null);
    const waited = service.runs.join(thread_id, run.run_id);
    await waited;
    await service.runs.cancel(thread_id, run.run_id, { action: "rollback", wait: true });
    assert.deepEqual(names(await all(frames)).slice(-2), ["error", "end"]);
    const answer = await (await waited).result;
    assert.deepEqual(Object.keys(answer as object), ["__error__"]);
    assert.equal(await at.storage.getFeedbackToken(token), null);
  });

  it("requires public_base_url, and without it nothing is created", async () => {
    await using kit = await testService({
      agents: {
        async *echo() {
          yield { messages: [] };
        },
      },
    });
    await assert.rejects(kit.service.runs.create(null, createRunRequest("echo")), /public_base_url is not set/);
    const { thread_id } = await kit.service.threads.create();
    await assert.rejects(kit.service.runs.create(thread_id, createRunRequest("echo")), /public_base_url is not set/);
    assert.deepEqual(await kit.service.runs.list(thread_id), []);
    await kit.service.runs.create(thread_id, createRunRequest("echo", { feedback_keys: [] }));
  });

  it("has links that are valid for their time after the end", async () => {
    await using at = await world({ feedback: { token_ttl_ms: 1_000 } });
    const { run, result } = await at.kit.service.runs.wait(null, createRunRequest("echo"));
    await result;
    const row = await at.storage.getRun(here, run.run_id);
    const token = await at.storage.getFeedbackToken(row?.feedback[0]?.[1] as string);
    assert.equal(token?.expires_at, (row?.ended_at as number) + 1_000);
  });
});

describe("the webhook of a run", () => {
  const webhook = "https://hooks.example.com/x?token=secret";

  it("is sent once for every end except a rollback", async () => {
    await using at = await world();
    const { runs, threads } = at.kit.service;
    const ended = async (agent: string): Promise<string> => {
      const { thread_id } = await threads.create();
      const { run, result } = await runs.wait(thread_id, { assistant_id: agent, input: {}, webhook });
      if (agent === "waiting") await runs.cancel(thread_id, run.run_id, { wait: true });
      await result;
      return run.run_id;
    };
    const ids = [await ended("echo"), await ended("failing"), await ended("asking"), await ended("waiting")];
    const stateless = await runs.wait(null, { assistant_id: "echo", input: {}, webhook });
    await stateless.result;
    ids.push(stateless.run.run_id);
    const { thread_id } = await threads.create();
    const cancelledRun = await runs.create(thread_id, { assistant_id: "waiting", input: {}, webhook });
    await runs.cancel(thread_id, cancelledRun.run_id, { action: "rollback", wait: true });
    await until(() => at.sentBodies.size === ids.length);
    const payloads = ids.map((id) => at.sentBodies.get(id)?.[0] as Record<string, unknown>);
    assert.deepEqual(
      payloads.map(({ status }) => status),
      ["success", "error", "success", "interrupted", "success"],
    );
    assert.deepEqual(payloads[0]?.values, { messages: [], done: true });
    assert.deepEqual(payloads[1]?.error, { error: "Error", message: "no" });
    assert.ok(!("values" in (payloads[4] as object)));
    assert.ok(!JSON.stringify(payloads).includes("secret"));
    assert.equal(await findDelivery(at.storage, here, cancelledRun.run_id), null);
    assert.ok([...at.sentBodies.values()].every((list) => list.length === 1));
  });

  it("is sent for a run that was cancelled before its start", async () => {
    await using at = await world();
    const { runs, threads } = at.kit.service;
    const { thread_id } = await threads.create();
    const run = await runs.create(thread_id, { assistant_id: "echo", input: {}, webhook, after_seconds: 60 });
    await runs.cancel(thread_id, run.run_id, { wait: true });
    await until(() => at.sentBodies.has(run.run_id));
    assert.equal(at.sentBodies.get(run.run_id)?.[0]?.status, "interrupted");
  });

  it("refuses the run before a rollback if its URL is not allowed", async () => {
    await using at = await world();
    const { runs, threads } = at.kit.service;
    const { thread_id } = await threads.create();
    const first = await runs.create(thread_id, { assistant_id: "waiting", input: {} });
    const bad = {
      assistant_id: "echo",
      input: {},
      webhook: "http://127.0.0.1/x",
      multitask_strategy: "rollback",
    } as const;
    await assert.rejects(runs.create(thread_id, bad), /^ServiceError: Invalid webhook URL: ip_not_public$/);
    await assert.rejects(runs.create(null, { ...bad, webhook: "/here" }), /loopback_unavailable/);
    await assert.rejects(
      runs.createBatch([{ assistant_id: "echo" }, { ...bad, multitask_strategy: null }]),
      /ip_not_public/,
    );
    assert.deepEqual(
      (await runs.list(thread_id)).map(({ run_id }) => run_id),
      [first.run_id],
    );
    await runs.cancel(thread_id, first.run_id, { wait: true });
  });

  it("is returned without its query", async () => {
    await using at = await world({ worker: { concurrency: 0 } });
    const { runs, threads } = at.kit.service;
    const { thread_id } = await threads.create();
    const run = await runs.create(thread_id, { assistant_id: "echo", input: {}, webhook, feedback_keys: ["a"] });
    assert.equal(run.kwargs["webhook"], "https://hooks.example.com/x?…");
    assert.deepEqual(run.kwargs["feedback_keys"], ["a"]);
  });

  it("is accepted unchecked and not sent while webhooks are disabled", async () => {
    await using at = await world({ http: { disable_webhooks: true } });
    const { run, result } = await at.kit.service.runs.wait(null, { assistant_id: "echo", webhook: "not a URL" });
    await result;
    assert.equal(await findDelivery(at.storage, here, run.run_id), null);
  });

  it("is sent for at most five levels of relative webhooks", async () => {
    const depths: (string | null)[] = [];
    let fetch: TestService["fetch"] | undefined;
    await using at = await world({
      webhooks: {
        async loopback(request) {
          const depth = request.headers.get("x-webhook-depth");
          depths.push(depth);
          const body = JSON.stringify({ assistant_id: "echo", webhook: "/again" });
          const headers = { "x-webhook-depth": depth ?? "" };
          return (fetch as TestService["fetch"])("http://greenroom/runs", { method: "POST", body, headers });
        },
        delivery: { schedule_ms: [] },
      },
    });
    fetch = at.kit.fetch;
    await at.kit.service.runs.create(null, { assistant_id: "echo", webhook: "/again" });
    await until(async () => (await at.storage.listDeliveries(here, { state: "failed", limit: 10 })).length > 0);
    assert.deepEqual(depths, ["1", "2", "3", "4", "5"]);
  });
});
