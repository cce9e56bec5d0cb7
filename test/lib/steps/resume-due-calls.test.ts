/** Durable functions wait for sleeps, external events and retries without a worker slot, and survive restarts. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { runBackup } from "../../../adapters/standalone/backup.ts";
import type { AgentFunction, Json } from "../../../lib/mod.ts";
import { type TestClock, type TestService, testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { until } from "../../support/until.ts";

keepAlive();

const folder = mkdtempSync(join(tmpdir(), "steps-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newFile = (): string => join(folder, `${++files}.db`);

const kitOn = (file: string, agent: AgentFunction, clock?: TestClock): Promise<TestService> =>
  testService({
    storage: nodeSqlite(file),
    agents: { agent },
    public_base_url: "https://agents.example",
    ...(clock ? { environment: clock } : {}),
  });

const texts = (values: Json): string[] =>
  (values as { messages: { content: string }[] }).messages.map(({ content }) => content);

/** Advances the clock in small steps until the condition holds, so that new timers of a run fire too. */
async function soon(clock: TestClock, fact: () => Promise<boolean>): Promise<void> {
  await until(async () => {
    await clock.advance(60);
    return await fact();
  });
}

const suspended = (kit: TestService, thread_id: string, run_id: string) => async (): Promise<boolean> =>
  (await kit.service.runs.get(thread_id, run_id)).waiting_for !== undefined;

const ended = (kit: TestService, thread_id: string, run_id: string) => async (): Promise<boolean> =>
  !["pending", "running"].includes((await kit.service.runs.get(thread_id, run_id)).status);

describe("a durable function", () => {
  it("reads nothing while it is suspended or after its end", async () => {
    const clock = testClock();
    let reads = 0;
    const storage = nodeSqlite(newFile());
    const counted = {
      ...storage,
      readCallEvents: (...of: Parameters<typeof storage.readCallEvents>) => {
        reads += 1;
        return storage.readCallEvents(...of);
      },
    };
    const agent: AgentFunction = async ({ wait }) => ({ got: await wait("parcel") });
    await using kit = await testService({ storage: counted, agents: { agent }, environment: clock });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: {} });
    await soon(clock, suspended(kit, thread_id, run_id));
    reads = 0;
    await clock.advance(60_000);
    assert.equal(reads, 0);
    await threads.send(thread_id, "parcel", "RX-7");
    await soon(clock, ended(kit, thread_id, run_id));
    reads = 0;
    await clock.advance(60_000);
    assert.equal(reads, 0);
  });

  it("sleeps without a worker slot, and continues at its time", async () => {
    const clock = testClock();
    let pays = 0;
    await using kit = await kitOn(
      newFile(),
      async function* ({ step, sleep }) {
        yield "Before. ";
        await step("pay", () => ++pays);
        await sleep("cool off", "2d");
        yield "After.";
      },
      clock,
    );
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
    await soon(clock, suspended(kit, thread_id, run_id));
    const run = await runs.get(thread_id, run_id);
    assert.equal(run.status, "pending");
    assert.equal((await threads.get(thread_id)).status, "busy");
    assert.deepEqual(
      run.waiting_for?.map(({ kind, name }) => [kind, name]),
      [["sleep", "cool off"]],
    );
    assert.equal((await kit.service.metrics()).worker.executing, 0);
    await clock.advance("1d");
    assert.equal((await runs.get(thread_id, run_id)).status, "pending");
    await clock.advance("1d");
    await soon(clock, ended(kit, thread_id, run_id));
    assert.deepEqual(texts((await threads.state(thread_id)).values), ["Hi", "Before. After."]);
    assert.equal(pays, 1);
  });

  it("waits for an event by its address, and accepts it once", async () => {
    let url = "";
    await using kit = await kitOn(newFile(), async function* ({ wait }) {
      const parcel = await wait("parcel", {
        schema: { type: "object", required: ["code"] },
        begin: (to) => {
          url = to.url;
        },
      });
      yield `Shipped as ${parcel.code}.`;
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
    await until(suspended(kit, thread_id, run_id));
    const { pathname } = new URL(url);
    const token = pathname.split("/").at(-1) as string;
    const { calls } = kit.service;
    await assert.rejects(calls.deliver("0".repeat(64), {}), { code: "not_found" });
    await assert.rejects(calls.deliver(token, null), { code: "invalid" });
    await assert.rejects(calls.deliver(token, "x".repeat(300_000)), { code: "too_large" });
    await assert.rejects(calls.deliver(token, { other: 1 }), { reason: "event_misfit" });
    await calls.deliver(token, { code: 7 });
    await calls.deliver(token, { code: 7 });
    await assert.rejects(calls.deliver(token, { code: 8 }), { reason: "event_answered" });
    await until(ended(kit, thread_id, run_id));
    assert.deepEqual(texts((await threads.state(thread_id)).values), ["Hi", "Shipped as 7."]);
    await calls.deliver(token, { code: 7 });
    const { steps, events } = await runs.steps(thread_id, run_id);
    assert.deepEqual(
      steps.map(({ kind, name, status }) => [kind, name, status]),
      [
        ["wait", "parcel", "done"],
        ["begin", "parcel", "done"],
      ],
    );
    assert.deepEqual(events, [{ name: "parcel", payload: { code: 7 }, used: true }]);
  });

  it("receives early events in their order, one for each wait", async () => {
    await using kit = await kitOn(newFile(), async function* ({ step, wait, ask }) {
      await step("begin", () => 1);
      await ask("go", "?");
      for (let i = 0; i < 2; i++) yield `${await wait("tick")} `;
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    await assert.rejects(threads.send(thread_id, "tick", 1), { reason: "event_not_awaited" });
    await (await runs.wait(thread_id, { assistant_id: "agent", input: { messages: "Hi" } })).result;
    await threads.send(thread_id, "tick", 1);
    await threads.send(thread_id, "tick", 1);
    const { result } = await runs.wait(thread_id, { assistant_id: "agent", command: { resume: true } });
    assert.deepEqual(texts(await result), ["Hi", "1 1 "]);
    await assert.rejects(threads.send(thread_id, "tick", 3), { reason: "call_ended" });
  });

  it("returns null after a timeout, and retries failed steps at their time", async () => {
    const clock = testClock();
    let tries = 0;
    await using kit = await kitOn(
      newFile(),
      async function* ({ step, wait, ask }) {
        const none = await wait("never", { timeout: "1h" });
        const value = await step(
          "flaky",
          ({ attempt }) => {
            tries++;
            if (attempt < 3) throw new Error(`failed ${attempt}`);
            return attempt;
          },
          { retries: 5, backoff: "1m" },
        );
        const askResult = await ask("ok", "?", { timeout: "1d" });
        yield JSON.stringify([none, value, askResult]);
      },
      clock,
    );
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
    await soon(clock, suspended(kit, thread_id, run_id));
    await clock.advance("1h");
    await until(async () => {
      await clock.advance(5_000);
      return (await threads.get(thread_id)).status === "interrupted";
    });
    assert.equal(tries, 3);
    await clock.advance("1d");
    await until(async () => {
      await clock.advance(1_000);
      return (await threads.get(thread_id)).status === "idle";
    });
    assert.deepEqual(texts((await threads.state(thread_id)).values), ["Hi", "[null,3,null]"]);
    assert.equal((await runs.list(thread_id)).length, 2);
  });

  it("continues in a restored backup with its journal, at once if its time has passed", async () => {
    const file = newFile();
    const calls: string[] = [];
    const agent: AgentFunction = async function* ({ step, sleep, wait }) {
      const order = await step("find order", () => {
        calls.push("find order");
        return "A-1";
      });
      await sleep("night", "12h");
      yield `${order}: ${await wait("parcel")}`;
    };
    const clock = testClock();
    const copy = newFile();
    let ids: { readonly thread_id: string; readonly run_id: string };
    {
      await using kit = await kitOn(file, agent, clock);
      const { thread_id } = await kit.service.threads.create();
      const { run_id } = await kit.service.runs.create(thread_id, {
        assistant_id: "agent",
        input: { messages: "Hi" },
      });
      await soon(clock, suspended(kit, thread_id, run_id));
      const lines: string[] = [];
      const line = (text: string): void => void lines.push(text);
      const databaseArgs = [copy, "--database", file];
      assert.equal(await runBackup(databaseArgs, { out: line, err: line, env: {} }), 0, lines.join("\n"));
      // The copy has nothing that was stored after it.
      await kit.service.runs.cancel(thread_id, run_id);
      ids = { thread_id, run_id };
    }
    const { thread_id, run_id } = ids;
    await clock.advance("2d");
    await using kit = await kitOn(copy, agent, clock);
    const { runs, threads } = kit.service;
    await soon(clock, async () => (await runs.get(thread_id, run_id)).waiting_for?.[0]?.kind === "wait");
    await threads.send(thread_id, "parcel", "RX-7");
    await soon(clock, ended(kit, thread_id, run_id));
    assert.deepEqual(texts((await threads.state(thread_id)).values), ["Hi", "A-1: RX-7"]);
    assert.deepEqual(calls, ["find order"]);
    assert.deepEqual(
      (await runs.steps(thread_id, run_id)).steps.map(({ name, status }) => [name, status]),
      [
        ["find order", "done"],
        ["night", "done"],
        ["parcel", "done"],
      ],
    );
  });

  it("resumes two pending asks one by one", async () => {
    await using kit = await kitOn(newFile(), async function* ({ ask }) {
      const [a, b] = await Promise.all([ask("a", "A?"), ask("b", "B?")]);
      yield `${a} ${b}`;
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const interruptedValues = (await (
      await runs.wait(thread_id, { assistant_id: "agent", input: { messages: "Hi" } })
    ).result) as {
      __interrupt__: { id: string; value: string }[];
    };
    assert.deepEqual(
      interruptedValues.__interrupt__.map(({ value }) => value),
      ["A?", "B?"],
    );
    const [a, b] = interruptedValues.__interrupt__.map(({ id }) => id) as [string, string];
    const second = await (await runs.wait(thread_id, { assistant_id: "agent", command: { resume: { [b]: "two" } } }))
      .result;
    assert.deepEqual(
      (second as typeof interruptedValues).__interrupt__.map(({ id }) => id),
      [a],
    );
    const third = await (await runs.wait(thread_id, { assistant_id: "agent", command: { resume: "one" } })).result;
    assert.deepEqual(texts(third), ["Hi", "one two"]);
  });

  it("retries once a minute to continue a call whose assistant is gone", async () => {
    const clock = testClock();
    let refused = 0;
    const storage = nodeSqlite(newFile());
    const agent: AgentFunction = async ({ step, sleep, ask }) => {
      await step("begin", () => 1);
      await Promise.all([ask("go", "?"), sleep("rest", "1h")]);
    };
    await using kit = await testService({
      storage,
      agents: { agent },
      environment: { ...clock, log: ({ message }) => void (message === "a call could not be continued" && refused++) },
    });
    const { assistants, runs, threads } = kit.service;
    const { assistant_id } = await assistants.create({ graph_id: "agent" });
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id, input: {} });
    await soon(clock, ended(kit, thread_id, run_id));
    await assistants.delete(assistant_id);
    await clock.set(clock.now() + 3_600_000);
    await soon(clock, async () => refused > 0);
    for (let i = 0; i < 30; i++) await clock.advance(1_000);
    assert.equal(refused, 1);
    for (let i = 0; i < 60; i++) await clock.advance(1_000);
    assert.equal(refused, 2);
  });
});
