/** Crons, as a stock client has them. What they do at their time is not for a client to see. */
import assert from "node:assert/strict";
import { ABSENT, assertRefused, createThread, type Suite, UUID } from "./bench.ts";

/** What the server answers; the client's types know it as something else in places. */
interface Cron {
  readonly cron_id: string;
  readonly assistant_id: string;
  readonly thread_id: string | null;
  readonly schedule: string;
  readonly timezone: string | null;
  readonly end_time: string | null;
  readonly enabled: boolean;
  readonly on_run_completed: string | null;
  readonly next_run_date: string | null;
  readonly payload: Record<string, unknown>;
  readonly metadata: Record<string, unknown>;
}

const toCron = (answer: unknown): Cron => answer as Cron;
const yearly = "0 0 1 1 *";

export function crons({ describe, it, name, bench }: Suite): void {
  describe(`${name}: crons`, () => {
    it("are created, with a thread and without one", async () => {
      await using at = await bench();
      const { client } = at;
      const { assistant_id } = await client.assistants.get("agent");
      const cron = toCron(
        await client.crons.create("agent", {
          schedule: yearly,
          input: { messages: [] },
          config: { tags: ["t"] },
          context: { tone: "dry" },
          metadata: { team: "a" },
          webhook: "https://hooks.example.com/in?key=s3cret",
          interruptBefore: ["agent"],
          multitaskStrategy: "reject",
          durability: "sync",
          onRunCompleted: "keep",
        }),
      );
      assert.match(cron.cron_id, UUID);
      assert.deepEqual([cron.assistant_id, cron.thread_id, cron.on_run_completed], [assistant_id, null, "keep"]);
      assert.deepEqual([cron.schedule, cron.timezone, cron.enabled], [yearly, null, true]);
      assert.match(cron.next_run_date ?? "", /-01-01T00:00:00\.000Z$/);
      assert.deepEqual(cron.metadata, { team: "a" });
      const { payload } = cron;
      assert.deepEqual(payload.input, { messages: [] });
      assert.deepEqual([payload.config, payload.context], [{ tags: ["t"] }, { tone: "dry" }]);
      assert.deepEqual([payload.webhook, payload.multitask_strategy], ["https://hooks.example.com/in?…", "reject"]);

      const thread_id = await createThread(client);
      const threadCron = toCron(await client.crons.createForThread(thread_id, "agent", { schedule: "@yearly" }));
      assert.deepEqual(
        [threadCron.thread_id, threadCron.on_run_completed, threadCron.timezone],
        [thread_id, null, null],
      );
      assert.match(threadCron.next_run_date ?? "", /-01-01T00:00:00\.000Z$/);
      assert.deepEqual(await client.runs.list(thread_id), [], "it does not run at once");
    });

    it("are changed and deleted", async () => {
      await using at = await bench();
      const { client } = at;
      const before = toCron(
        await client.crons.create("agent", { schedule: yearly, input: { a: 1 }, metadata: { a: 1, b: 1 } }),
      );
      const { cron_id } = before;
      const changed = toCron(
        await client.crons.update(cron_id, {
          schedule: "0 12 1 6 *",
          input: { a: 2 },
          metadata: { b: 2 },
          endTime: "2999-01-01T00:00:00Z",
          onRunCompleted: "keep",
        }),
      );
      assert.deepEqual([changed.schedule, changed.on_run_completed], ["0 12 1 6 *", "keep"]);
      assert.equal(changed.end_time, "2999-01-01T00:00:00.000Z");
      assert.match(changed.next_run_date ?? "", /-06-01T12:00:00\.000Z$/);
      assert.deepEqual([changed.payload.input, changed.metadata], [{ a: 2 }, { a: 1, b: 2 }]);
      const off = toCron(await client.crons.update(cron_id, { enabled: false, endTime: null as unknown as string }));
      assert.deepEqual([off.enabled, off.next_run_date, off.end_time], [false, null, null]);
      assert.equal(off.schedule, "0 12 1 6 *");
      await client.crons.delete(cron_id);
      await assertRefused(client.crons.update(cron_id, { enabled: true }), 404, /Cron/);
      await assertRefused(client.crons.delete(cron_id), 404, /Cron/);
    });

    it("are found and counted by filters", async () => {
      await using at = await bench();
      const { client } = at;
      const thread_id = await createThread(client);
      const { assistant_id } = await client.assistants.create({ graphId: "agent" });
      const first = toCron(await client.crons.create("agent", { schedule: yearly, metadata: { team: "a" } }));
      const second = toCron(await client.crons.createForThread(thread_id, assistant_id, { schedule: yearly }));
      const third = toCron(await client.crons.create("agent", { schedule: "@monthly", enabled: false }));
      const ids = async (query: Parameters<typeof client.crons.search>[0]): Promise<string[]> =>
        (await client.crons.search(query)).map(({ cron_id }) => cron_id);
      assert.deepEqual((await ids({})).sort(), [first, second, third].map(({ cron_id }) => cron_id).sort());
      assert.deepEqual(await ids({ threadId: thread_id }), [second.cron_id]);
      assert.deepEqual(await ids({ assistantId: assistant_id }), [second.cron_id]);
      assert.deepEqual(await ids({ assistantId: "agent", sortBy: "next_run_date", sortOrder: "desc", limit: 1 }), [
        first.cron_id,
      ]);
      const selected = await client.crons.search({ threadId: thread_id, select: ["cron_id", "schedule"] });
      assert.deepEqual(selected, [{ cron_id: second.cron_id, schedule: yearly }]);
      assert.equal(await client.crons.count({}), 3);
      assert.equal(await client.crons.count({ assistantId: "agent" }), 2);
      assert.equal(await client.crons.count({ threadId: thread_id }), 1);

      const search = (body: object): Promise<Response> =>
        at.send("/runs/crons/search", { method: "POST", body: JSON.stringify(body) });
      const matches = (await (await search({ metadata: { team: "a" } })).json()) as Cron[];
      assert.deepEqual(matches, [first]);
      const paged = await search({ limit: 2 });
      assert.equal(((await paged.json()) as unknown[]).length, 2);
      const { headers } = paged;
      assert.deepEqual([headers.get("x-pagination-total"), headers.get("x-pagination-next")], ["3", "2"]);
      assert.deepEqual(await (await at.send(`/runs/crons/${third.cron_id}`)).json(), third);

      await client.threads.delete(thread_id);
      assert.equal(await client.crons.count({}), 2);
    });

    it("are rejected with a status and a text", async () => {
      await using at = await bench();
      const { client } = at;
      const create = (payload: Partial<Parameters<typeof client.crons.create>[1]>) =>
        client.crons.create("agent", { schedule: yearly, ...payload });
      await assertRefused(create({ schedule: "0 0 30 2 *" }), 422, /^schedule: /);
      await assertRefused(create({ schedule: "0 0 12 * * *" }), 422, /^schedule: /);
      await assertRefused(create({ schedule: "2030-01-01T00:00:00" }), 422, /^schedule: /);
      const { cron_id } = await create({});
      await assertRefused(client.crons.update(cron_id, { endTime: "2020-01-01T00:00:00Z" }), 422, /^end_time: /);
      await assertRefused(client.crons.create("nobody", { schedule: yearly }), 404, /nobody/);
      await assertRefused(client.crons.createForThread(ABSENT, "agent", { schedule: yearly }), 404, /Thread/);
      await assertRefused(client.crons.search({ limit: 0 }), 422, /^limit: /);
      assert.equal(await client.crons.count({}), 1);
    });

    // docs/guides/crons.md warns of this.
    if (name.startsWith("SDK 2.")) {
      it("lose their time zone and their end when they are created", async () => {
        await using at = await bench();
        const options = { timezone: "Europe/Berlin", endTime: "2999-01-01T00:00:00Z" };
        const cron = (await at.client.crons.create("agent", { schedule: yearly, ...options })) as unknown as Cron;
        assert.deepEqual([cron.timezone, cron.end_time], [null, null]);
      });
    }

    // What the newer family sends beyond that.
    if (name.startsWith("SDK 1.")) {
      it("have a time zone and an end, and are found by their metadata", async () => {
        await using at = await bench();
        const crons = at.client.crons as unknown as {
          create(assistant: string, payload: object): Promise<Cron>;
          update(cron_id: string, payload: object): Promise<Cron>;
          search(query: object): Promise<Cron[]>;
          count(query: object): Promise<number>;
        };
        const options = { timezone: "Europe/Berlin", endTime: "2999-01-01T00:00:00Z", streamMode: "updates" };
        const cron = await crons.create("agent", { schedule: yearly, metadata: { team: "a" }, ...options });
        assert.deepEqual([cron.timezone, cron.end_time], ["Europe/Berlin", "2999-01-01T00:00:00.000Z"]);
        assert.match(cron.next_run_date ?? "", /-12-31T23:00:00\.000Z$/);
        assert.equal(cron.payload.stream_mode, "updates");
        await crons.create("agent", { schedule: yearly });
        assert.deepEqual(await crons.search({ metadata: { team: "a" } }), [cron]);
        assert.equal(await crons.count({ metadata: { team: "a" } }), 1);
        assert.equal(await crons.count({ metadata: { team: "b" } }), 0);
        const changed = await crons.update(cron.cron_id, { timezone: "UTC", endTime: null, streamMode: ["values"] });
        assert.deepEqual([changed.timezone, changed.end_time], ["UTC", null]);
        assert.match(changed.next_run_date ?? "", /-01-01T00:00:00\.000Z$/);
        assert.deepEqual(changed.payload.stream_mode, ["values"]);
        const wrong = { schedule: yearly, timezone: "Mars/Phobos" };
        await assertRefused(crons.create("agent", wrong), 422, /^timezone: /);
        await assertRefused(crons.create("agent", { schedule: yearly, endTime: "2020-01-01" }), 422, /^end_time: /);
      });
    }
  });
}
