/** Runs that are stopped, started later or in one go, and requests that are sent again. */
import assert from "node:assert/strict";
import type { Client } from "langgraph-sdk-2";
import type { JsonObject } from "../../../lib/json.ts";
import {
  ABSENT,
  assertRefused,
  type Bench,
  collect,
  createHumanInput,
  createThread,
  FAMILIES,
  type Frame,
  filterData,
  listEventNames,
  readContents,
  readContentsOrNone,
  type Suite,
  until,
} from "./bench.ts";

type Target = {
  readonly threadId?: string;
  readonly runIds?: string[];
  readonly status?: "pending" | "running" | "all";
};
type Many = { cancelMany?(options: Target & { readonly action?: "interrupt" | "rollback" }): Promise<void> };

/** SDK 2.0.0 does not have it. */
async function cancelMany({ client, send }: Bench, target: Target, action?: "interrupt" | "rollback"): Promise<void> {
  const runs = client.runs as unknown as Many;
  if (runs.cancelMany) return await runs.cancelMany({ ...target, ...(action ? { action } : {}) });
  const { threadId: thread_id, runIds: run_ids, status } = target;
  const body = JSON.stringify({ thread_id, run_ids, status });
  const answer = await send(`/runs/cancel${action ? `?action=${action}` : ""}`, { method: "POST", body });
  if (answer.ok) assert.equal(answer.status, 204);
  else throw Object.assign(new Error(`HTTP ${answer.status}`), { status: answer.status });
}

const status = async (client: Client, id: string, run_id: string): Promise<string> =>
  (await client.runs.get(id, run_id)).status;

export function stops({ describe, it, name, bench }: Suite): void {
  for (const { kind, graph, wait, half } of FAMILIES) {
    describe(`${name}: stopping ${kind} runs`, () => {
      it("waits for the end if requested, and the agent receives the reason", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        await client.runs.wait(id, graph, { input: createHumanInput("zero") });
        const { run_id } = await client.runs.create(id, half, { input: createHumanInput("a") });
        await gates.reached("a");
        // An agent may be at its gate before its step is recorded.
        await until(async () => readContentsOrNone((await client.threads.getState(id)).values).includes("began a"));
        const reader = collect(client.runs.joinStream(id, run_id, { lastEventId: "-1" }));
        await client.runs.cancel(id, run_id, true);
        assert.equal(await status(client, id, run_id), "interrupted");
        assert.equal(await gates.stopped("a"), "cancelled");
        const frames = await reader;
        assert.ok(!listEventNames(frames).includes("error"));
        assert.deepEqual(filterData(frames, "end"), [{ run_id, status: "interrupted" }]);
        const { status: threadStatus, values } = await client.threads.get(id);
        assert.equal(threadStatus, "interrupted");
        assert.deepEqual(readContents(values), ["zero", "You said: zero", "a", "began a"]);
        // Stopping it again changes nothing, whatever is asked for.
        for (const action of ["interrupt", "rollback"] as const) {
          for (const wait of [true, false]) await client.runs.cancel(id, run_id, wait, action);
        }
        assert.equal(await status(client, id, run_id), "interrupted");
        gates.open("a");
        const on = await client.runs.wait(id, graph, { input: createHumanInput("b") });
        assert.deepEqual(readContents(on).slice(2), ["a", "began a", "b", "You said: b"]);
      });

      it("rolls back if requested", async () => {
        await using at = await bench();
        const { client, gates } = at;
        for (const wait of [true, false]) {
          const id = await createThread(client);
          await client.runs.wait(id, graph, { input: createHumanInput("zero") });
          const { length } = await client.threads.getHistory(id);
          const text = `a ${wait}`;
          const { run_id } = await client.runs.create(id, half, { input: createHumanInput(text), durability: "sync" });
          await gates.reached(text);
          // Nothing of its step is on its way any more: else the agent may hear first that this was refused.
          await until(async () =>
            readContentsOrNone((await client.threads.getState(id)).values).includes(`began ${text}`),
          );
          for await (const { data } of client.runs.joinStream(id, run_id, { lastEventId: "-1" })) {
            if (JSON.stringify(data).includes(`began ${text}`)) break;
          }
          // The run may be gone before the reader is there.
          const reader = collect(client.runs.joinStream(id, run_id, { lastEventId: "-1" })).catch(
            (error: { status?: number }) => {
              assert.equal(error.status, 404);
              return null;
            },
          );
          await client.runs.cancel(id, run_id, wait, "rollback");
          await assertRefused(client.runs.get(id, run_id), 404, /not found/);
          assert.equal(await gates.stopped(text), "rolled_back");
          assert.equal((await client.threads.getHistory(id)).length, length);
          assert.equal((await client.runs.list(id)).length, 1);
          const frames = await reader;
          if (frames) assert.equal(filterData(frames, "end")[0]?.status, "rollback");
          const { status: threadStatus, values } = await client.threads.get(id);
          assert.deepEqual([threadStatus, readContents(values)], ["idle", ["zero", "You said: zero"]]);
          const on = await client.runs.wait(id, graph, { input: createHumanInput("b") });
          assert.deepEqual(readContents(on).slice(2), ["b", "You said: b"]);
        }
      });

      it("removes a run from the queue, and changes no other", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const make = async (text: string): Promise<string> =>
          (await client.runs.create(id, wait, { input: createHumanInput(text) })).run_id;
        const [a, b, c, d] = [await make("a"), await make("b"), await make("c"), await make("d")];
        await gates.reached("a");
        const reader = collect(client.runs.joinStream(id, b as string));
        const result = client.runs.join(id, b as string);
        await client.runs.cancel(id, b as string, true);
        await client.runs.cancel(id, c as string, false, "rollback");
        assert.deepEqual(await Promise.all([a, b, d].map((run_id) => status(client, id, run_id as string))), [
          "running",
          "interrupted",
          "pending",
        ]);
        await assertRefused(client.runs.get(id, c as string), 404, /not found/);
        assert.deepEqual(listEventNames(await reader), ["end"]);
        await result;
        gates.open("a", "b", "c", "d");
        const values = await client.runs.join(id, d as string);
        assert.deepEqual(readContents(values), ["a", "waited for a", "d", "waited for d"]);
      });

      it("takes effect however early it comes", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        await Promise.all(
          Array.from({ length: 10 }, async (_, n) => {
            const { run_id } = await client.runs.create(id, wait, { input: createHumanInput(`never ${n}`) });
            await client.runs.cancel(id, run_id, n % 2 === 0);
            await client.runs.join(id, run_id);
            assert.equal(await status(client, id, run_id), "interrupted");
          }),
        );
        assert.ok(["idle", "interrupted"].includes((await client.threads.get(id)).status));
        const values = await client.runs.wait(id, graph, { input: createHumanInput("on") });
        assert.deepEqual(readContents(values).slice(-2), ["on", "You said: on"]);
      });

      it("happens when the reader of a stream or a result disconnects, if requested", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const disconnect = new AbortController();
        const payload = { input: createHumanInput("a"), onDisconnect: "cancel", signal: disconnect.signal } as const;
        const result = client.runs.wait(id, wait, payload).then(
          () => assert.fail("ended"),
          () => {},
        );
        await gates.reached("a");
        const [run] = await client.runs.list(id);
        disconnect.abort();
        await result;
        assert.equal(await gates.stopped("a"), "cancelled");
        await client.runs.join(id, run?.run_id as string);
        assert.equal(await status(client, id, run?.run_id as string), "interrupted");

        const otherRun = await client.runs.create(id, wait, { input: createHumanInput("b") });
        await gates.reached("b");
        const readerDisconnect = new AbortController();
        const joined = { cancelOnDisconnect: true, lastEventId: "-1", signal: readerDisconnect.signal };
        await collect(client.runs.joinStream(id, otherRun.run_id, joined), () => readerDisconnect.abort()).catch(
          () => {},
        );
        assert.ok(readerDisconnect.signal.aborted);
        assert.equal(await gates.stopped("b"), "cancelled");
        await client.runs.join(id, otherRun.run_id);
        assert.equal(await status(client, id, otherRun.run_id), "interrupted");
      });

      it("continues without input from the last finished step", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const { run_id } = await client.runs.create(id, half, { input: createHumanInput("a") });
        await gates.reached("a");
        await until(async () => readContentsOrNone((await client.threads.getState(id)).values).includes("began a"));
        await client.runs.cancel(id, run_id, true);
        const { next } = await client.threads.getState(id);
        assert.equal(next.length, 1);
        if (kind === "function") return;
        gates.open("a");
        assert.deepEqual(readContents(await client.runs.wait(id, half, { input: null })), [
          "a",
          "began a",
          "waited for a",
        ]);
      });

      it("comes with a run that starts later", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const later = await client.runs.create(id, graph, { input: createHumanInput("later"), afterSeconds: 3600 });
        assert.equal(later.status, "pending");
        assert.ok(Date.parse(later.created_at) > Date.now() + 3_000_000);
        assert.equal((await client.threads.get(id)).status, "busy");
        // It holds nobody up.
        const soon = await client.runs.wait(id, graph, { input: createHumanInput("soon"), afterSeconds: 0.1 });
        assert.deepEqual(readContents(soon), ["soon", "You said: soon"]);
        assert.equal((await client.threads.get(id)).status, "busy");
        await client.runs.cancel(id, later.run_id, true);
        assert.equal(await status(client, id, later.run_id), "interrupted");
        assert.equal((await client.threads.get(id)).status, "idle");
        await assertRefused(
          client.runs.create(id, graph, { input: createHumanInput("x"), afterSeconds: -1 }),
          422,
          /after_seconds/,
        );
        const frames = await collect(
          client.runs.stream(id, graph, { input: createHumanInput("x"), afterSeconds: 0.1 }),
        );
        assert.deepEqual(listEventNames(frames), ["metadata", "values", "values", "end"]);
      });
    });
  }

  describe(`${name}: stopping`, () => {
    it("rejects invalid requests", async () => {
      await using at = await bench();
      const { client, send } = at;
      const id = await createThread(client);
      await assertRefused(client.runs.cancel(id, ABSENT), 404, /not found/);
      await assertRefused(client.runs.cancel(id, ABSENT, true, "rollback"), 404, /not found/);
      const { run_id } = await client.runs.create(id, "agent", { input: createHumanInput("a") });
      await client.runs.join(id, run_id);
      await assertRefused(client.runs.cancel(await createThread(client), run_id), 404, /not found/);
      await assertRefused(client.runs.cancel(id, run_id, false, "vanish" as "rollback"), 422, /action/);
      const answer = await send(`/threads/${id}/runs/${run_id}/cancel?wait=perhaps`, { method: "POST" });
      assert.equal(answer.status, 422);
      const statuses = [];
      for (const query of ["wait=0", "wait=1", "wait=1&action=rollback"]) {
        statuses.push((await send(`/threads/${id}/runs/${run_id}/cancel?${query}`, { method: "POST" })).status);
      }
      assert.deepEqual(statuses, [202, 204, 204]);
      assert.equal(await status(client, id, run_id), "success");
    });

    it("stops many runs at once: some of a thread, or all of a status", async () => {
      await using at = await bench();
      const { client, gates } = at;
      const ids = [await createThread(client), await createThread(client)] as const;
      const make = async (id: string, text: string): Promise<string> =>
        (await client.runs.create(id, "wait", { input: createHumanInput(text) })).run_id;
      const [a, b, c] = [await make(ids[0], "a"), await make(ids[0], "b"), await make(ids[0], "c")];
      const [d, e] = [await make(ids[1], "d"), await make(ids[1], "e")];
      await Promise.all([gates.reached("a"), gates.reached("d")]);
      await cancelMany(at, { threadId: ids[0], runIds: [b as string, ABSENT] });
      assert.equal(await status(client, ids[0], b as string), "interrupted");
      assert.equal(await status(client, ids[0], c as string), "pending");
      await cancelMany(at, { status: "pending" });
      assert.deepEqual(await Promise.all([status(client, ids[0], c as string), status(client, ids[1], e as string)]), [
        "interrupted",
        "interrupted",
      ]);
      assert.deepEqual(await Promise.all([status(client, ids[0], a as string), status(client, ids[1], d as string)]), [
        "running",
        "running",
      ]);
      await cancelMany(at, { status: "all" }, "rollback");
      for (const [id, run_id] of [
        [ids[0], a],
        [ids[1], d],
      ] as const) {
        await assertRefused(client.runs.get(id, run_id as string), 404, /not found/);
      }
      for (const id of ids) {
        assert.deepEqual(readContents(await client.runs.wait(id, "agent", { input: createHumanInput("x") })), [
          "x",
          "You said: x",
        ]);
      }
      await assert.rejects(cancelMany(at, { threadId: ids[0], runIds: [ABSENT] }), { status: 404 });
      await assert.rejects(cancelMany(at, { threadId: ids[0], runIds: [b as string], status: "all" }), { status: 422 });
      await assert.rejects(cancelMany(at, {}), { status: 422 });
    });

    it("creates many stateless runs in one call, all or none", async () => {
      await using at = await bench();
      const { client } = at;
      const texts = ["a", "b", "c"];
      const batch = await client.runs.createBatch(
        texts.map((text, n) => ({
          assistantId: n === 1 ? "chat" : "agent",
          input: createHumanInput(text),
          metadata: { n },
        })),
      );
      assert.deepEqual(
        batch.map((run) => (run.metadata as JsonObject).n),
        [0, 1, 2],
      );
      const streams = await Promise.all(
        batch.map((run) => collect(client.runs.joinStream(null, run.run_id, { lastEventId: "-1" }))),
      );
      assert.deepEqual(
        streams.map((frames: Frame[]) => readContents(filterData(frames, "values").at(-1))),
        texts.map((text) => [text, `You said: ${text}`]),
      );
      assert.equal(await client.threads.count(), 0);
      await assertRefused(client.runs.createBatch([]), 422, /./);
      await assertRefused(
        client.runs.createBatch([{ assistantId: "agent" }, { assistantId: "nobody" }]),
        404,
        /nobody/,
      );
    });

    it("creates one run for a request that is repeated with its key", async () => {
      await using at = await bench();
      const { client, gates, send } = at;
      const id = await createThread(client);
      const post = async (path: string, text: string, key: string): Promise<Response> =>
        await send(path, {
          method: "POST",
          headers: { "content-type": "application/json", "idempotency-key": key },
          body: JSON.stringify({ assistant_id: "wait", input: createHumanInput(text) }),
        });
      const create = `/threads/${id}/runs`;
      const answers = await Promise.all(Array.from({ length: 5 }, () => post(create, "a", "one")));
      const runs = (await Promise.all(answers.map((answer) => answer.json()))) as { run_id: string }[];
      assert.deepEqual(
        answers.map((answer) => answer.status),
        [200, 200, 200, 200, 200],
      );
      assert.equal(new Set(runs.map((run) => run.run_id)).size, 1);
      assert.equal((await client.runs.list(id)).length, 1);
      assert.equal((await post(create, "other", "one")).status, 422);
      await gates.reached("a");
      gates.open("a");
      const { run_id } = runs[0] as { run_id: string };
      await client.runs.join(id, run_id);
      // A stream that is asked for again goes on with the run that is there.
      const streamed = await Promise.all([post(`${create}/stream`, "a", "two"), post(`${create}/stream`, "a", "two")]);
      const [first, second] = await Promise.all(streamed.map((answer) => answer.text()));
      assert.equal(streamed[0]?.headers.get("content-location"), streamed[1]?.headers.get("content-location"));
      for (const text of [first, second]) assert.equal(text?.match(/^event: end$/gm)?.length, 1);
      const waited = await Promise.all([post("/runs/wait", "a", "three"), post("/runs/wait", "a", "three")]);
      assert.deepEqual(await waited[0]?.json(), await waited[1]?.json());
      // What was rolled back does not come back.
      const createdRun = (await (await post(create, "z", "four")).json()) as { run_id: string };
      await client.runs.cancel(id, createdRun.run_id, true, "rollback");
      const again = await post(create, "z", "four");
      assert.equal(again.status, 409);
      await again.text();
      await assertRefused(client.runs.get(id, createdRun.run_id), 404, /not found/);
      assert.equal((await client.runs.list(id)).length, 2);
    });
  });
}
