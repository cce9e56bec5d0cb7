/** A database that goes away while the service runs: clear answers, quiet loops, nothing lost, nothing twice. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SDKS } from "../compat/sdk/reach.ts";
import type { TestService } from "../suite/kit.ts";
import { advanceUntil, collect, createClockedService } from "../support/faulty.ts";
import { follow, resumable, SECOND, whole, world } from "./outage.harness.ts";

const MINUTE = 60_000;
const here = { deployment: "default" };

const send = (kit: TestService, method: string, path: string, body?: unknown, headers = {}): Promise<Response> =>
  kit.fetch(`http://greenroom${path}`, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });

const detail = async (response: Response): Promise<string> => ((await response.json()) as { detail: string }).detail;

describe("responses while the database is unreachable", () => {
  const unreachable = "The database cannot be reached: retry later";

  it("are 503 with a Retry-After if the request can be retried, and succeed afterwards", async () => {
    await using w = world();
    const kit = await w.open();
    const { thread_id } = await kit.service.threads.create();
    const T = `/threads/${thread_id}`;
    const calls: readonly (readonly [method: string, path: string, body: unknown, again: boolean])[] = [
      ["GET", T, undefined, true],
      ["GET", `${T}/state`, undefined, true],
      ["GET", "/metrics", undefined, true],
      ["DELETE", T, undefined, true],
      ["PUT", "/store/items", { namespace: ["a"], key: "k", value: {} }, true],
      ["PATCH", T, { metadata: { a: 1 } }, false],
      ["POST", "/threads", {}, false],
      ["POST", "/threads/search", {}, false],
      ["POST", "/runs", { assistant_id: "echo" }, false],
      ["POST", "/runs/stream", { assistant_id: "echo" }, false],
      ["POST", `${T}/runs/wait`, { assistant_id: "echo" }, false],
      ["POST", "/runs/batch", [{ assistant_id: "echo" }], false],
      ["POST", "/runs/crons", { assistant_id: "echo", schedule: "* * * * *" }, false],
      ["GET", "/api/v1/feedback", undefined, true],
      ["GET", `/api/v1/feedback/tokens/${crypto.randomUUID()}?score=1`, undefined, true],
      ["POST", `/api/v1/feedback/tokens/${crypto.randomUUID()}`, { score: 1 }, false],
    ];
    w.store.away = true;
    for (const [method, path, body, again] of calls) {
      for (const headers of [{}, { "idempotency-key": "once" }]) {
        const response = await send(kit, method, path, body, headers);
        const about = `${method} ${path} ${JSON.stringify(headers)}`;
        assert.equal(response.status, 503, about);
        assert.equal(response.headers.get("retry-after"), again || "idempotency-key" in headers ? "1" : null, about);
        assert.equal(await detail(response), unreachable, about);
      }
    }
    const head = await send(kit, "HEAD", T);
    assert.deepEqual([head.status, head.headers.get("retry-after")], [503, "1"]);
    w.store.away = false;
    const { total } = await w.real.searchThreads(here, {
      limit: 10,
      offset: 0,
      sort_by: "created_at",
      sort_order: "asc",
    });
    assert.equal(total, 1, "a refused create has made something");
    for (const [method, path, body] of calls.filter(([method, path]) => method !== "DELETE" && !/tokens/.test(path))) {
      const response = send(kit, method, path, body);
      let status = 0;
      void response.then((answer) => {
        status = answer.status;
        void answer.body?.cancel();
      });
      await advanceUntil(w.clock, () => status !== 0);
      assert.ok(status === 200 || status === 204, `${method} ${path}: ${status}`);
    }
  });

  it("fail /ready and not /ok, because a new process would not help", async () => {
    await using w = world();
    const kit = await w.open();
    const ask = async (path: string): Promise<unknown> => {
      const response = await send(kit, "GET", path);
      return [response.status, await response.json()];
    };
    w.store.away = true;
    for (const wait of [0, 11 * SECOND, 3 * MINUTE]) {
      await w.clock.advance(wait);
      assert.deepEqual(await ask("/ready"), [503, { ok: false, detail: unreachable }]);
      assert.deepEqual(await ask("/ok"), [
        200,
        { ok: true, services: { worker: { ok: true }, database: { ok: false } } },
      ]);
    }
    w.store.away = false;
    await w.clock.advance(SECOND);
    assert.deepEqual(await ask("/ready"), [200, { ok: true }]);
  });

  it("say if it is unknown whether a call took effect, and such a call is not repeated by accident", async () => {
    await using w = world();
    const kit = await w.open();
    const body = { assistant_id: "echo", metadata: { mark: "lost" } };
    w.store.last = "createRun";
    const lost = await send(kit, "POST", "/runs", body);
    assert.deepEqual([lost.status, lost.headers.get("retry-after")], [409, null]);
    assert.match(await detail(lost), /whether it took effect is not known/);
    w.store.away = false;
    // Whoever has given a key may ask again, and is told to.
    const headers = { "idempotency-key": "k-1" };
    w.store.last = "createRun";
    const keyed = await send(kit, "POST", "/runs", body, headers);
    assert.deepEqual([keyed.status, keyed.headers.get("retry-after")], [503, "1"]);
    w.store.away = false;
    const again = await send(kit, "POST", "/runs", body, headers);
    const { run_id } = (await again.json()) as { run_id: string };
    assert.equal(again.status, 200);
    const once = await send(kit, "POST", "/runs", body, headers);
    assert.equal(((await once.json()) as { run_id: string }).run_id, run_id);
    // Routes that do not know the key.
    w.store.last = "createThread";
    const thread = await send(kit, "POST", "/threads", {}, headers);
    assert.deepEqual([thread.status, thread.headers.get("retry-after")], [409, null]);
    w.store.away = false;
    w.store.last = "deleteThread";
    const { thread_id } = await kit.service.threads.create();
    const deleted = await send(kit, "DELETE", `/threads/${thread_id}`);
    assert.deepEqual([deleted.status, deleted.headers.get("retry-after")], [503, "1"]);
    w.store.away = false;
    await w.clock.advance(MINUTE);
    const activity = await w.real.countActiveRuns(here, w.clock.now());
    assert.deepEqual([activity.pending, activity.running], [0, 0]);
  });

  for (const [name, Sdk] of Object.entries(SDKS)) {
    it(`make ${name} retry only if nothing was changed`, async () => {
      await using w = world();
      const kit = await w.open();
      let requestCount = 0;
      const fetch = (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
        requestCount++;
        const answer = kit.fetch(input, init);
        return requestCount === 1
          ? answer.finally(() => {
              w.store.away = false;
            })
          : answer;
      };
      const client = new Sdk({ apiUrl: "http://greenroom", callerOptions: { fetch, maxRetries: 1 } });
      w.store.away = true;
      // A GET: from 1.15.0 on the SDK repeats no POST.
      await client.assistants.get("echo");
      assert.equal(requestCount, 2);
      requestCount = 0;
      w.store.last = "createThread";
      await assert.rejects(client.threads.create(), /409.*whether it took effect is not known/);
      assert.equal(requestCount, 1);
    });
  }
});

describe("a database that is unreachable for minutes", () => {
  it("causes no busy loop and no flood of logs, and pending runs execute afterwards", async () => {
    await using w = world();
    const kit = await w.open();
    const secondStore = w.store.share();
    const { runs, threads } = kit.service;
    const thread = await threads.create();
    for (const path of [1, 2, 3].map(() => `/threads/${thread.thread_id}/stream`)) {
      // Each breaks off.
      const { body } = await send(kit, "GET", path);
      void body?.pipeTo(new WritableStream()).catch(() => {});
    }
    let brokenStreams = 0;
    const waiting = await runs.create(thread.thread_id, { ...resumable, after_seconds: 300 });
    for (let reader = 0; reader < 20; reader++) {
      const response = await send(kit, "GET", `/threads/${thread.thread_id}/runs/${waiting.run_id}/stream`);
      // These do not.
      void response.body?.pipeTo(new WritableStream()).catch(() => brokenStreams++);
    }
    await w.clock.advance(SECOND);
    w.store.away = true;
    w.store.refused = 0;
    const before = kit.log.length;
    await w.clock.advance(3 * MINUTE);
    assert.equal(brokenStreams, 0, "readers of a run were sent away");
    // Twenty readers that ask once a second, and ten calls of everything else.
    assert.ok(w.store.refused <= 3 * 60 * (20 + 10), `${w.store.refused} calls in three minutes`);
    const records = kit.log.slice(before);
    const messages = records.map(({ message }) => message);
    assert.deepEqual(messages.toSorted(), [...new Set(messages)].toSorted(), "a message came more than once");
    // Made by a process that can reach it.
    const second = await createClockedService(w.clock, {
      storage: secondStore.storage,
      agents: { echo: async () => ({}), steps: async () => ({}) },
      environment: w.clock,
      worker: { concurrency: 0 },
    });
    const { run_id, thread_id } = await second.service.runs.create(null, {
      assistant_id: "echo",
      on_completion: "keep",
    });
    await w.clock.advance(10 * SECOND);
    assert.equal((await second.service.runs.get(thread_id, run_id)).status, "pending");
    w.store.away = false;
    await w.clock.advance(SECOND);
    assert.equal((await runs.get(thread_id, run_id)).status, "success");
    const back = kit.log.filter(({ message }) => message === "the database can be reached again");
    assert.deepEqual(
      back.map(({ level, seconds }) => [level, Number(seconds) >= 190 && Number(seconds) <= 192]),
      [["info", true]],
    );
    // The next time is told again.
    w.store.away = true;
    await w.clock.advance(5 * SECOND);
    assert.equal(kit.log.filter(({ message }) => message === "claiming a run failed").length, 2);
    w.store.away = false;
    await second[Symbol.asyncDispose]();
  });

  it("causes no more claims after many wake-ups", async () => {
    await using w = world();
    const kit = await w.open();
    const { thread_id } = await kit.service.threads.create();
    await w.clock.advance(SECOND);
    w.store.away = true;
    await w.clock.advance(MINUTE);
    w.store.refused = 0;
    await w.clock.advance(MINUTE);
    const calm = w.store.refused;
    for (let i = 0; i < 50; i++) {
      w.store.away = false;
      // Wakes the worker, which finds the store away.
      const creation = kit.service.runs.create(thread_id, { assistant_id: "echo", after_seconds: 600 });
      await creation;
      w.store.away = true;
      await w.clock.advance(20);
    }
    w.store.refused = 0;
    await w.clock.advance(MINUTE);
    assert.ok(w.store.refused <= calm + 20, `${w.store.refused} calls in a minute, ${calm} before`);
    w.store.away = false;
  });

  it("lets a cron fire once afterwards, without a skipped fire time", async () => {
    await using w = world();
    const kit = await w.open();
    const { crons } = kit.service;
    const cron = await crons.create(null, { assistant_id: "echo", schedule: "* * * * *", on_run_completed: "keep" });
    await w.clock.advance(30 * SECOND);
    w.store.away = true;
    await w.clock.advance(45 * SECOND);
    assert.equal(crons && (await kit.service.healthy()), true);
    w.store.away = false;
    await w.clock.advance(11 * SECOND);
    const { crons: counters } = await kit.service.metrics();
    assert.deepEqual([counters.fired, Object.values(counters.skipped).some((count) => count > 0)], [1, false]);
    await crons.delete(cron.cron_id);
  });

  it("lets a webhook be sent afterwards under one id", async () => {
    await using w = world();
    const kit = await w.open();
    const run = await kit.service.runs.create(null, {
      assistant_id: "steps",
      input: {},
      webhook: "https://hooks.example.com/in",
      on_completion: "keep",
    });
    await w.clock.advance(9.5 * SECOND);
    w.store.away = true;
    await w.clock.advance(5 * SECOND);
    assert.deepEqual(w.webhookBodies, []);
    w.store.away = false;
    await advanceUntil(w.clock, () => w.webhookBodies.length > 0);
    await w.clock.advance(2 * MINUTE);
    assert.deepEqual(
      w.webhookBodies.map(({ run_id, status }) => [run_id, status]),
      [[run.run_id, "success"]],
    );
  });
});

describe("a run during a database outage", () => {
  for (const framed of [true, false]) {
    it(`continues if its lease is still valid (${framed ? "stored" : "plain"} frames)`, async () => {
      await using w = world();
      const kit = await w.open();
      const { thread_id } = await kit.service.threads.create();
      const { run, frames } = await kit.service.runs.stream(thread_id, { ...resumable, stream_resumable: framed });
      const collected = collect(frames);
      await w.clock.advance(3.5 * SECOND);
      w.store.away = true;
      await w.clock.advance(4 * SECOND);
      w.store.away = false;
      await advanceUntil(w.clock, collected.ended);
      whole(collected.list, [1]);
      assert.deepEqual(w.executions, { attempts: [1], most: 1 });
      assert.equal((await kit.service.runs.get(thread_id, run.run_id)).status, "success");
    });
  }

  it("is executed again once after its lease, and its readers continue", async () => {
    await using w = world();
    const kit = await w.open();
    const elsewhere = w.store.share();
    const { thread_id } = await kit.service.threads.create();
    const { run, frames } = await kit.service.runs.stream(thread_id, resumable);
    const collected = collect(frames);
    const next = await kit.service.runs.create(thread_id, resumable);
    await w.clock.advance(3.5 * SECOND);
    w.store.away = true;
    await w.clock.advance(2 * MINUTE);
    assert.equal(collected.ended(), false, "a reader was sent away");
    assert.deepEqual(w.executions.attempts, [1], "it was executed without a lease");
    // Readers in other processes, one of which comes while the store is away.
    const second = await w.open(elsewhere);
    elsewhere.away = true;
    await assert.rejects(second.service.runs.joinStream(thread_id, run.run_id), { code: "storage_unavailable" });
    elsewhere.away = false;
    const joined = follow(second, thread_id, run.run_id);
    await advanceUntil(w.clock, () => joined.list.length > 0);
    elsewhere.away = true;
    w.store.away = false;
    await w.clock.advance(5 * SECOND);
    elsewhere.away = false;
    await advanceUntil(w.clock, () => collected.ended() && joined.ended(), 100, 2_000);
    whole(collected.list, [1, 2]);
    assert.deepEqual(joined.list, collected.list);
    await advanceUntil(w.clock, async () => (await kit.service.runs.get(thread_id, next.run_id)).status === "success");
    assert.deepEqual(w.executions, { attempts: [1, 2, 1], most: 1 });
    const { values } = await kit.service.threads.state(thread_id);
    assert.equal((values as { messages: unknown[] }).messages.length, 20);
  });

  it("is claimed by a process that reaches the database, and the other one writes nothing more", async () => {
    await using w = world();
    const kit = await w.open();
    const second = await w.open(w.store.share());
    const { thread_id } = await second.service.threads.create();
    // Whoever is asked executes it.
    const { run_id } = await kit.service.runs.create(thread_id, resumable);
    await w.clock.advance(3.5 * SECOND);
    w.store.away = true;
    const followed = follow(second, thread_id, run_id);
    await advanceUntil(w.clock, followed.ended, 100, 2_000);
    w.store.away = false;
    await w.clock.advance(MINUTE);
    whole(followed.list, [1, 2]);
    assert.deepEqual(w.executions, { attempts: [1, 2], most: 1 });
    assert.equal((await kit.service.runs.get(thread_id, run_id)).status, "success");
  });

  it("never has a wrong end for its readers, which are aborted and reconnect", async () => {
    await using w = world();
    const kit = await w.open();
    const { thread_id } = await kit.service.threads.create();
    const run = await kit.service.runs.create(thread_id, resumable);
    await w.clock.advance(15 * SECOND);
    const at = `/threads/${thread_id}/runs/${run.run_id}/stream`;
    const response = await send(kit, "GET", at, undefined, { "last-event-id": "-1" });
    assert.equal(response.status, 200);
    w.store.away = true;
    const reader = response.body?.getReader() as ReadableStreamDefaultReader<Uint8Array>;
    let text = "";
    let broken = false;
    void (async () => {
      try {
        for (let part = await reader.read(); !part.done; part = await reader.read()) {
          text += new TextDecoder().decode(part.value);
        }
      } catch {
        broken = true;
      }
    })();
    await w.clock.advance(20 * SECOND);
    const ended = /^event: end$/m.test(text);
    assert.ok(ended || broken, "it neither ended nor broke off");
    const back = await send(kit, "GET", at, undefined, { "last-event-id": "3" });
    if (broken) assert.deepEqual([back.status, back.headers.get("retry-after")], [503, "1"]);
    w.store.away = false;
    await back.body?.cancel();
    const replay = await kit.service.runs.joinStream(thread_id, run.run_id, { after: 0 });
    const frames = collect(replay.frames);
    await advanceUntil(w.clock, frames.ended);
    whole(frames.list, [1]);
  });
});
