import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import {
  ConfigError,
  combine,
  createAccounts,
  createService,
  fromFunctions,
  type LogRecord,
  type Service,
  type ServiceOptions,
} from "../../lib/mod.ts";
import { serviceInternals } from "../../lib/service.ts";
import { testClock, testIds, testService } from "../suite/kit.ts";
import { createFaultyStorage } from "../support/faulty.ts";
import { ask, contents, waited } from "./service.harness.ts";

describe("createService", () => {
  it("throws every problem of its options at once", async () => {
    const options = {
      executor: fromFunctions({ "a/b": async () => "x" }),
      worker: { concurrency: -1, lease_ms: 1 },
      deployment: { name: "no spaces here", project: "", workspace: 5 },
      public_base_url: "https://example.com/",
      auth: { mode: "agent_builder", shared: "yes", shared_agents: "write", key_prefix: "A-B" },
      feedback: { token_ttl_ms: 0, external_runs: 1 },
      usage: { enabled: "on", unreadable_workspaces: "hide" },
      retention: { tokens_ms: -1, deliveries_ms: 0.5 },
      webhooks: {
        headers: { "X-Token": `$${"{{ env.OTHER }}"}`, Host: "example.com" },
        url: { allowed_domains: ["*"], allowed_port: [443], max_url_length: 0 },
        delivery: { concurrency: 0 },
        sign: true,
      },
      http: { disable_webhooks: "no" },
      identity: {},
      nonsense: true,
    } as unknown as ServiceOptions;
    const error = await createService(options).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof ConfigError);
    const keys = error.problems.map((problem) => problem.replace(/:.*$/s, "")).filter((key) => key !== "executor");
    assert.deepEqual(
      keys.filter((key, i) => keys.indexOf(key) < i),
      [],
    );
    for (const key of [
      "storage",
      "a/b",
      "worker.concurrency",
      "worker.lease_ms",
      "deployment.name",
      "deployment.project",
      "deployment.workspace",
      "public_base_url",
      "auth.owner",
      "auth.shared:",
      "auth.shared_agents",
      "auth.key_prefix",
      "feedback.token_ttl_ms",
      "feedback.external_runs",
      "usage.enabled",
      "usage.unreadable_workspaces",
      "retention.tokens_ms",
      "retention.deliveries_ms",
      "webhooks.headers.X-Token",
      "webhooks.headers.Host",
      "webhooks.url.allowed_domains",
      "webhooks.url.allowed_port:",
      "webhooks.url.max_url_length",
      "webhooks.delivery.concurrency",
      "webhooks.sign:",
      "http.disable_webhooks",
      "identity",
      "nonsense",
    ]) {
      assert.ok(
        error.problems.some((problem) => problem.includes(key)),
        `${key} in ${error.message}`,
      );
    }
  });

  it("accepts base URLs that clients can follow, and no others", async () => {
    const executor = fromFunctions({ ok: async () => "ok" });
    for (const public_base_url of [
      "https://example.com/",
      "/agents",
      "ftp://example.com",
      "https://me:pass@example.com",
      "https://example.com?a=1",
      "https://example.com#top",
      "https://exa mple.com",
      "",
    ]) {
      const storage = nodeSqlite(":memory:");
      await assert.rejects(createService({ storage, executor, public_base_url }), /public_base_url: must be/);
      await storage.close();
    }
    for (const public_base_url of ["https://example.com", "http://127.0.0.1:2024", "https://example.com/agents"]) {
      await using kit = await testService({ executor, public_base_url });
      assert.equal(serviceInternals(kit.service).options.public_base_url, public_base_url);
    }
  });

  it("refuses an executor without graphs and a graph of two executors", async () => {
    const storage = nodeSqlite(":memory:");
    await assert.rejects(createService({ storage, executor: fromFunctions({}) }), /hosts no graph/);
    const firstExecutor = fromFunctions({ same: async () => "x" });
    await assert.rejects(
      createService({ storage, executor: combine(firstExecutor, firstExecutor) }),
      /same is hosted twice/,
    );
    for (const abandon_ms of [0, 1.5, 1_001]) {
      const late = fromFunctions({ late: { agent: async () => "x", abandon_ms } });
      await assert.rejects(
        createService({ storage, executor: late, worker: { lease_ms: 1_000 } }),
        /abandon_ms of the graph late must be a whole number from 1 to worker.lease_ms, which is 1000/,
      );
    }
    await storage.close();
  });

  it("runs two services on one executor and one storage without interference", async () => {
    const storage = nodeSqlite(":memory:");
    const executor = fromFunctions({ echo: async ({ messages }) => `${messages.length}` });
    const [first, second] = await Promise.all(
      ["one", "two"].map((name) => createService({ storage, executor, deployment: { name } })),
    );
    assert.ok(first && second);
    const thread_id = crypto.randomUUID();
    await first.threads.create({ thread_id });
    await assert.rejects(second.threads.get(thread_id), { code: "not_found" });
    await second.threads.create({ thread_id });
    assert.deepEqual(contents(await waited(first, thread_id, ask("echo"))), ["hi", "1"]);
    assert.equal((await second.threads.get(thread_id)).values, null);
    assert.equal(await first.assistants.count(), 1);
    await Promise.all([first.stop(0), second.stop(0)]);
  });

  it("uses the configured ids and clock", async () => {
    const clock = testClock();
    await using kit = await testService({
      agents: { echo: async () => "ok" },
      environment: { ...clock, uuid: testIds() },
    });
    const thread = await kit.service.threads.create();
    assert.match(thread.thread_id, /^019b76da-a800-7000-8000-/, "the time, then what the given id has");
    assert.equal(thread.created_at, "2026-01-01T00:00:00.000Z");
    await clock.advance(90_000);
    assert.deepEqual(contents(await waited(kit.service, thread.thread_id, ask("echo"))), ["hi", "ok"]);
    assert.equal((await kit.service.threads.get(thread.thread_id)).updated_at, "2026-01-01T00:01:30.000Z");
  });

  it("sets the owner of an agent without one, and keeps the owner of a transferred agent", async () => {
    const shared = createFaultyStorage();
    const { storage } = shared.share();
    const log: LogRecord[] = [];
    const serve = async (auth?: ServiceOptions["auth"]): Promise<unknown> => {
      const executor = fromFunctions({ echo: () => ({}) });
      const environment = { log: (record: LogRecord) => void log.push(record) };
      const service = await createService({ storage, executor, environment, ...(auth && { auth }) });
      await service.stop(0);
      const row = await storage.identity.getDeployment("default");
      return [row?.owner_user_id, row?.shared];
    };
    assert.deepEqual(await serve(), [null, false]);
    const accounts = createAccounts({ identity: storage.identity, environment: { now: () => 0, uuid: testIds() } });
    const ada = await accounts.createUser({ email: "ada@example.com" });
    const bob = await accounts.createUser({ email: "bob@example.com" });
    const adas = { mode: "agent_builder", owner: "ada@example.com", shared: true } as const;
    assert.deepEqual(await serve(adas), [ada.id, true]);
    await accounts.unshareAgent("default");
    assert.deepEqual(await serve(adas), [ada.id, false]);
    assert.equal(log.length, 0);
    await accounts.transferAgent("default", "bob@example.com");
    assert.deepEqual(await serve(adas), [bob.id, false]);
    assert.match(log[0]?.message ?? "", /was transferred/);
    await shared.storage.close();
  });

  it("creates a default assistant for each graph with the id that clients expect", async () => {
    await using kit = await testService({ agents: { agent: async () => "ok" } });
    const assistant = await kit.service.assistants.get("agent");
    assert.equal(assistant.assistant_id, "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
    assert.deepEqual(assistant.metadata, { created_by: "system" });
    await assert.rejects(kit.service.assistants.delete("agent"), { code: "conflict" });
  });

  it("keeps the default assistant of a graph that is no longer configured", async () => {
    const { storage } = createFaultyStorage().share();
    const serve = async (...graphs: string[]): Promise<Service> => {
      const executor = fromFunctions(Object.fromEntries(graphs.map((graph) => [graph, () => ({})])));
      return await createService({ storage, executor, environment: { log: () => {} } });
    };
    const before = await serve("stays", "leaves");
    const { assistant_id } = await before.assistants.get("leaves");
    await before.assistants.update(assistant_id, {
      graph_id: "stays",
      name: "renamed",
      metadata: { created_by: "ann" },
    });
    // The id has the same format, but belongs to no graph.
    const ownAssistant = { assistant_id: "01234567-89ab-5def-8123-456789abcdef", graph_id: "leaves" };
    await before.assistants.create(ownAssistant);
    await before.assistants.update(ownAssistant.assistant_id, { graph_id: "stays" });
    await before.stop(0);
    const { assistants, stop } = await serve("stays");
    await assert.rejects(assistants.delete(assistant_id), { code: "conflict" });
    assert.equal((await assistants.get(assistant_id)).name, "renamed");
    await assistants.delete(ownAssistant.assistant_id);
    for (const absentId of [ownAssistant.assistant_id, crypto.randomUUID(), "leaves"]) {
      await assert.rejects(assistants.delete(absentId), { code: "not_found" });
    }
    await stop(0);
    await storage.close();
  });
});
