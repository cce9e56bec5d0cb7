/** The routes under /greenroom, and the same calls in process. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentFunction } from "../../../../lib/mod.ts";
import { serviceInternals } from "../../../../lib/service.ts";
import type { Permission } from "../../../../lib/storage/identity.ts";
import type { WebhookTransport } from "../../../../lib/webhooks/options.ts";
import { keepAlive } from "../../../support/alive.ts";
import { createFaultyStorage } from "../../../support/faulty.ts";
import { until } from "../../../support/until.ts";
import { type Answer, finding, type Kit, kit, ran, readRunIds } from "./operations.harness.ts";

const SECRET = "Bearer of-the-receiver";

/** Creates a key with these permissions, and returns the header that authenticates with it. */
async function createKeyHeaders(
  it: Kit,
  permissions: readonly Permission[],
): Promise<{ readonly "x-api-key": string }> {
  const { key } = await it.service.accounts.createKey({ kind: "sk", description: "test", permissions });
  return { "x-api-key": key };
}

describe("GET /greenroom/runs", () => {
  it("finds runs of all threads in pages", async () => {
    await using it = await kit();
    const [t1, r1] = await ran(it, { messages: [] }, { metadata: { team: "a" } });
    const [, r2] = await ran(it, { fail: true });
    const { run_id: r3, thread_id: hidden } = await it.ask("POST", "/runs", { assistant_id: "agent", input: {} });
    await it.ask("GET", `/runs/${r3}/stream`, undefined, 200).catch(() => {});
    const delayed = { assistant_id: "agent", input: {}, after_seconds: 3600 };
    const { run_id: r4 } = await it.ask("POST", `/threads/${t1}/runs`, delayed);
    const all = await it.ask("GET", "/greenroom/runs");
    assert.deepEqual(readRunIds(all).sort(), [r1, r2, r3, r4].sort());
    assert.equal(readRunIds(all)[0], r4, "it is due in the future");
    assert.equal(all.next, null);

    const find = async (query: string): Promise<string[]> =>
      readRunIds(await it.ask("GET", `/greenroom/runs?${query}`));
    assert.deepEqual(await find("status=error,timeout"), [r2]);
    assert.deepEqual((await find("status=error&status=pending")).sort(), [r2, r4].sort());
    assert.deepEqual((await find(`thread_id=${t1}`)).sort(), [r1, r4].sort());
    assert.deepEqual(await find(`thread_id=${hidden}`), [r3]);
    assert.deepEqual(await find('metadata={"team":"a"}'), [r1]);
    assert.equal((await find("assistant_id=agent")).length, 4);
    assert.deepEqual(await find("assistant_id=nobody"), []);
    assert.deepEqual(await find("graph_id=other"), []);
    assert.deepEqual(await find("started_before=2001-01-01"), []);
    assert.deepEqual(await find("error_type=TypeError"), [r2]);
    assert.deepEqual(await find("error_type=RangeError"), []);
    assert.deepEqual((await find("min_active_ms=0")).sort(), [r1, r2, r3].sort(), "r4 has not started");
    assert.deepEqual(await find("min_active_ms=1000000000"), []);
    assert.deepEqual(await find("waiting=true"), [], "r4 is delayed, not suspended");
    assert.equal((await find("waiting=false")).length, 4);
    assert.deepEqual(await find("error_type=TypeError&min_active_ms=0&waiting=false&status=error"), [r2]);
    assert.deepEqual(await find(`created_after=${all.items[0].created_at}`), [r4]);
    assert.equal((await find(`created_before=${all.items[0].created_at}`)).length, 3);

    const paged: string[] = [];
    for (let cursor = ""; ; ) {
      const page = await it.ask("GET", `/greenroom/runs?limit=1${cursor}`);
      paged.push(...readRunIds(page));
      if (page.next === null) break;
      cursor = `&cursor=${page.next}`;
    }
    assert.deepEqual(paged, readRunIds(all));

    const row = all.items.find(({ run_id }: Answer) => run_id === r2);
    assert.deepEqual(row.error, { error: "TypeError", message: "No refunds" });
    assert.deepEqual(row.usage, { tokens_in: 0, tokens_out: 0, cost_usd: 0 });
    assert.deepEqual(row.started_by, { user_id: null, api_key: null, cron_id: null });
    assert.ok(row.wait_ms >= 0 && row.duration_ms >= 0 && row.lease_until === null);
    const waiting = all.items[0];
    assert.deepEqual([waiting.wait_ms, waiting.duration_ms, waiting.usage], [0, null, null]);
    assert.deepEqual(await it.service.runs.search({ status: ["error"] }), { items: [row], next: null });
  });

  it("refuses invalid input with its location", async () => {
    await using it = await kit();
    const refused = async (query: string): Promise<unknown> => await finding(it, `/greenroom/runs?${query}`);
    const of = (field: string, msg: string) => ({ loc: ["query", field], msg, type: "value_error" });
    assert.deepEqual(await refused("limit=0"), of("limit", "must be between 1 and 1000"));
    assert.deepEqual(await refused("thread_id=x"), of("thread_id", "must be a UUID"));
    assert.deepEqual(await refused("created_after=soon"), of("created_after", "must be a date or time in RFC 3339"));
    assert.deepEqual(await refused("cursor=x"), of("cursor", "must be the `next` of the page before"));
    assert.deepEqual(
      await refused("status=done"),
      of("status", "must be one of pending, running, success, error, timeout, interrupted"),
    );
    assert.deepEqual(await refused("metadata=x"), of("metadata", "must be an object"));
    assert.deepEqual(await refused("min_active_ms=-1"), of("min_active_ms", "must be at least 0"));
    assert.deepEqual(await refused("waiting=maybe"), of("waiting", "must be true or false"));
    const nested = of("metadata", "a must be a text, a number, a boolean or null");
    assert.deepEqual(await refused('metadata={"a":{"b":1}}'), nested);
  });

  it("is disabled with its group", async () => {
    await using it = await kit({ http: { disable_operations: true } });
    for (const path of ["/greenroom/runs", "/greenroom/server"]) await it.ask("GET", path, undefined, 404);
    const { paths } = await it.ask("GET", "/openapi.json");
    assert.deepEqual(
      Object.keys(paths).filter((path) => path.startsWith("/greenroom")),
      // This route of agents belongs to runs.
      ["/greenroom/events/{address}"],
    );
  });
});

describe("GET /greenroom/runs/stats", () => {
  it("counts by status and minute", async () => {
    await using it = await kit();
    await ran(it, {});
    await ran(it, { fail: true });
    const stats = await it.ask("GET", "/greenroom/runs/stats");
    const none = { pending: 0, running: 0, success: 0, error: 0, timeout: 0, interrupted: 0 };
    assert.deepEqual(stats.statuses, { ...none, success: 1, error: 1 });
    assert.equal(stats.minutes.length, 60);
    const sum = (name: string): number =>
      stats.minutes.reduce((total: number, minute: Answer) => total + minute[name], 0);
    assert.deepEqual(["created", "started", "ended", "failed", "queued"].map(sum), [2, 2, 2, 1, 0]);
    assert.equal(stats.complete, true);
    const busy = stats.minutes.findLast(({ ended }: Answer) => ended > 0);
    assert.deepEqual(Object.keys(busy.wait_ms), ["p50", "p95", "p99"]);
  });
});

describe("GET /greenroom/runs/{run_id}", () => {
  it("returns what is stored without secrets", async () => {
    const answers = [`No: ${SECRET}`, `${"x".repeat(2040)}${SECRET}`, "\0\u0001"];
    const transport: WebhookTransport = {
      resolve: async () => ["93.184.215.14"],
      send: async () => {
        const body = new TextEncoder().encode(answers.shift());
        return { status: 500, retry_after: null, address: "93.184.215.14", body };
      },
    };
    const webhooks = { transport, headers: { authorization: SECRET } };
    await using it = await kit({ webhooks });
    const secrets = { config: { configurable: { openai_api_key: "sk-secret" } }, feedback_keys: ["user"] };
    const runFields = { ...secrets, webhook: "https://hooks.example/in?key=secret", stream_resumable: true };
    const [thread_id, run_id] = await ran(it, { messages: [] }, runFields);
    await until(async () => (await it.service.webhooks.get(run_id)).attempt_list.length > 0);
    const detail = await it.ask("GET", `/greenroom/runs/${run_id}`);
    assert.deepEqual(detail.kwargs.input, { messages: [] });
    assert.deepEqual(detail.usage, { tokens_in: 3, tokens_out: 4, cost_usd: 0.5 });
    const state = await it.ask("GET", `/threads/${thread_id}/state/${detail.checkpoint_id}`);
    assert.equal(state.checkpoint.checkpoint_id, detail.checkpoint_id);
    assert.deepEqual(detail.frames.stored, true);
    assert.deepEqual(
      detail.feedback.map(({ feedback_key }: Answer) => feedback_key),
      ["user"],
    );
    const [attempt] = detail.delivery.attempt_list;
    assert.deepEqual([attempt.number, attempt.status, attempt.error], [1, 500, "bad_status"]);
    assert.equal(attempt.answer, "No: ***");
    assert.ok(!/secret|of-the-receiver/.test(JSON.stringify(detail)), JSON.stringify(detail));
    assert.deepEqual(await it.service.runs.inspect(run_id), detail);
    await it.ask("GET", "/greenroom/runs/11111111-1111-4111-8111-111111111111", undefined, 404);
    await it.ask("GET", "/greenroom/runs/x", undefined, 404);

    const list = await it.ask("GET", "/greenroom/webhooks?state=pending,failed");
    assert.deepEqual(readRunIds(list), [run_id]);
    assert.equal(list.items[0].url, "https://hooks.example/in?…");
    assert.ok(list.items[0].next_attempt_at > list.items[0].first_sent_at);
    assert.deepEqual(readRunIds(await it.ask("GET", "/greenroom/webhooks?state=delivered")), []);
    assert.deepEqual(await it.ask("GET", `/greenroom/webhooks/${run_id}`), detail.delivery);
    await it.ask("POST", `/greenroom/webhooks/${run_id}/send`, undefined, 202);
    await until(async () => (await it.service.webhooks.get(run_id)).attempt_list.length > 1);
    await it.ask("POST", `/greenroom/webhooks/${run_id}/send`, undefined, 202);
    await until(async () => (await it.service.webhooks.get(run_id)).attempt_list.length > 2);
    const { attempt_list } = await it.ask("GET", `/greenroom/webhooks/${run_id}`);
    const responseBodies = attempt_list.map(({ answer }: Answer) => answer);
    assert.deepEqual(
      responseBodies,
      ["No: ***", `${"x".repeat(2040)}***`, null],
      "not even a part of a header's value",
    );
    const unknown = "11111111-1111-4111-8111-111111111111";
    await it.ask("GET", `/greenroom/webhooks/${unknown}`, undefined, 404);
    await it.ask("POST", `/greenroom/webhooks/${unknown}/send`, undefined, 404);
    const stateFinding = {
      loc: ["query", "state"],
      msg: "must be one of pending, delivered, failed",
      type: "value_error",
    };
    assert.deepEqual(await finding(it, "/greenroom/webhooks?state=lost"), stateFinding);
  });
});

describe("the attempts of a run", () => {
  keepAlive();

  it("are returned with their workers", async () => {
    const shared = createFaultyStorage();
    let started = (): void => {};
    const starts = new Promise<void>((resolve) => {
      started = resolve;
    });
    const start = (agent: AgentFunction): Promise<Kit> => kit({ storage: shared.share().storage, agents: { agent } });
    const startedRun = await start(({ signal }) => {
      started();
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const { thread_id } = await startedRun.ask("POST", "/threads", {});
    const { run_id } = await startedRun.ask("POST", `/threads/${thread_id}/runs`, { assistant_id: "agent", input: {} });
    await starts;
    const running = await startedRun.ask("GET", `/greenroom/runs/${run_id}`);
    const [{ at, worker }] = running.attempts;
    assert.deepEqual(running.attempts, [{ at: running.started_at, until: running.lease_until, worker }]);
    await startedRun[Symbol.asyncDispose]();

    const two = await start(() => "done");
    await two.ask("GET", `/threads/${thread_id}/runs/${run_id}/join`);
    const { attempts, ended_at, status } = await two.ask("GET", `/greenroom/runs/${run_id}`);
    await two[Symbol.asyncDispose]();
    await shared.storage.close();
    const [, again] = attempts;
    assert.deepEqual(attempts, [
      { at, until: again.at, worker },
      { at: again.at, until: ended_at, worker: again.worker },
    ]);
    assert.notEqual(again.worker, worker);
    assert.equal(status, "success");
  });
});

describe("error stacks and worker names", () => {
  it("are returned with the run, stacks only to callers who see every run, and nowhere else", async () => {
    const bodies: string[] = [];
    const transport: WebhookTransport = {
      resolve: async () => ["93.184.215.14"],
      async send({ body }) {
        bodies.push(body);
        return { status: 204, retry_after: null, address: "93.184.215.14", body: new Uint8Array() };
      },
    };
    await using it = await kit({ webhooks: { transport } });
    const runFields = { webhook: "https://hooks.example/", stream_resumable: true };
    const [thread_id, run_id] = await ran(it, { fail: true }, runFields);
    const { stack, error, attempts } = await it.ask("GET", `/greenroom/runs/${run_id}`);
    const [{ worker }] = attempts;
    assert.match(worker, /^[0-9a-f]{8}$/);
    assert.match(stack, /operations\.harness\.ts/);
    const hidden = new RegExp(`greenroom\\.test\\.ts|${worker}|claim_log`);
    assert.deepEqual(error, { error: "TypeError", message: "No refunds" });
    await until(() => bodies.length > 0);
    const run = `/threads/${thread_id}/runs/${run_id}`;
    const paths = [`/threads/${thread_id}`, `/threads/${thread_id}/state`, `/threads/${thread_id}/history`, run];
    paths.push(`/threads/${thread_id}/runs`, "/greenroom/runs", `/greenroom/webhooks/${run_id}`, `${run}/join`);
    for (const path of paths) bodies.push(JSON.stringify(await it.ask("GET", path)));
    const stream = await it.fetch(`http://greenroom${run}/stream`, { headers: { "last-event-id": "-1" } });
    bodies.push(await stream.text());
    const wait = { assistant_id: "agent", input: { fail: true } };
    bodies.push(JSON.stringify(await it.ask("POST", `/threads/${thread_id}/runs/wait`, wait)));
    for (const body of bodies) assert.doesNotMatch(body, hidden);
    assert.ok(bodies.filter((body) => body.includes("No refunds")).length > 4);
    const { metadata } = await it.ask("GET", run);
    const filter = [{ key: "assistant_id", equals: metadata.assistant_id }];
    await it.ask("PATCH", `/threads/${thread_id}`, { metadata: { assistant_id: metadata.assistant_id } });
    assert.equal(
      (await serviceInternals(it.service).internalResources.runs.inspect({ deployment: "default", filter }, run_id))
        .stack,
      null,
    );
  });
});

describe("POST /greenroom/runs/{run_id}/again", () => {
  it("creates a run with the same request without its credentials", async () => {
    await using it = await kit();
    const config = { configurable: { openai_api_key: "sk-secret", tone: "calm" }, tags: ["x"] };
    const runFields = { config, metadata: { team: "a" }, stream_mode: ["updates"], context: { lang: "it" } };
    const [thread_id, run_id] = await ran(it, { messages: ["hi"] }, runFields);
    const key = { "idempotency-key": "once" };
    const again = await it.ask("POST", `/greenroom/runs/${run_id}/again`, undefined, 200, key);
    assert.equal(again.thread_id, thread_id);
    assert.notEqual(again.run_id, run_id);
    const repeated = await it.ask("POST", `/greenroom/runs/${run_id}/again`, undefined, 200, key);
    assert.equal(repeated.run_id, again.run_id);
    await it.ask("GET", `/threads/${thread_id}/runs/${again.run_id}/join`);
    const { kwargs, metadata, status } = await it.ask("GET", `/threads/${thread_id}/runs/${again.run_id}`);
    assert.deepEqual([status, metadata.team, kwargs.input], ["success", "a", { messages: ["hi"] }]);
    assert.deepEqual([kwargs.stream_mode, kwargs.config.tags, kwargs.context], [["updates"], ["x"], { lang: "it" }]);
    assert.equal(kwargs.config.configurable.tone, "calm");
    const { values } = await it.ask("GET", `/threads/${thread_id}/state`);
    assert.equal(values.key, null, "the agent has not got the key of the first caller");
    await it.ask("POST", "/greenroom/runs/11111111-1111-4111-8111-111111111111/again", undefined, 404);
  });

  it("keeps a stateless run stateless", async () => {
    await using it = await kit();
    const { run_id } = await it.ask("POST", "/runs", { assistant_id: "agent", input: {} });
    await until(async () => (await it.ask("GET", `/greenroom/runs/${run_id}`)).status === "success");
    const again = await it.service.runs.rerun(run_id);
    const first = await it.ask("GET", `/greenroom/runs/${run_id}`);
    const { temporary, thread_id } = await it.ask("GET", `/greenroom/runs/${again.run_id}`);
    assert.deepEqual([temporary, thread_id === first.thread_id], [true, false]);
    assert.deepEqual(first.result, { key: null });
  });
});

describe("GET /greenroom/server", () => {
  it("returns versions, health, load and configuration without secrets", async () => {
    const webhooks = { headers: { authorization: SECRET }, signing_secret: `whsec_${"c2VjcmV0".repeat(6)}` };
    await using it = await kit({ webhooks, worker: { concurrency: 3 } });
    await ran(it, {});
    const report = await it.ask("GET", "/greenroom/server");
    assert.deepEqual(report.database, { kind: "sqlite", ok: true, shared: false });
    assert.deepEqual(report.health, { ok: true, ready: true, detail: null, draining: false, standby: false });
    assert.deepEqual([report.worker.slots, report.worker.ended.success], [3, 1]);
    assert.deepEqual(report.queue, { pending: 0, scheduled: 0, running: 0, oldest_pending_seconds: 0 });
    assert.equal(report.configuration["worker.concurrency"], 3);
    assert.equal(report.configuration["worker.lease_ms"], 10_000);
    assert.equal(report.configuration["webhooks.signed"], true);
    assert.match(report.runtime, /^(?:Node\.js|Bun|Deno)\//);
    for (const value of Object.values(report.configuration)) {
      assert.ok(value === null || ["string", "number", "boolean"].includes(typeof value));
    }
    assert.ok(!/of-the-receiver|whsec_|agents\.example/.test(JSON.stringify(report)));
  });

  it("requires organization:manage", async () => {
    await using it = await kit({ auth: { mode: "api_key" } });
    const reader = await createKeyHeaders(it, ["runs:read"]);
    await it.ask("GET", "/greenroom/server", undefined, 401);
    await it.ask("GET", "/greenroom/server", undefined, 403, reader);
    await it.ask("GET", "/greenroom/runs", undefined, 200, reader);
    await it.ask("GET", "/greenroom/feedback/links", undefined, 403, reader);
  });
});

describe("a key without runs:create", () => {
  it("gets 403 for each call that would start a run, send a webhook or change a cron", async () => {
    await using it = await kit({ auth: { mode: "api_key" } });
    const writer = await createKeyHeaders(it, ["runs:create", "runs:read"]);
    const reader = await createKeyHeaders(it, ["runs:read"]);
    const { run_id } = await it.ask("POST", "/runs", { assistant_id: "agent", input: {} }, 200, writer);
    const cron = { assistant_id: "agent", schedule: "0 0 1 1 *" };
    const { cron_id } = await it.ask("POST", "/runs/crons", cron, 200, writer);
    await it.ask("POST", `/greenroom/runs/${run_id}/again`, undefined, 403, reader);
    await it.ask("POST", `/greenroom/webhooks/${run_id}/send`, undefined, 403, reader);
    await it.ask("POST", `/greenroom/crons/${cron_id}/run`, undefined, 403, reader);
    await it.ask("PATCH", `/runs/crons/${cron_id}`, { schedule: "0 0 2 2 *" }, 403, reader);
    await it.ask("DELETE", `/runs/crons/${cron_id}`, undefined, 403, reader);
    const { schedule } = await it.ask("GET", `/runs/crons/${cron_id}`, undefined, 200, reader);
    assert.equal(schedule, cron.schedule);
  });
});
