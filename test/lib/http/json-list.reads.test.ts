/** Lists read from the database in pages, so that other work proceeds. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type SqlDriver, sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import { parseFirstItem } from "../../../lib/json.ts";
import type { RunCreate } from "../../../lib/mod.ts";
import type { ItemCondition } from "../../../lib/storage/items.ts";
import { type TestService, type TestServiceOptions, testService } from "../../suite/kit.ts";

/** Creates a database in memory that counts the characters of its results. */
function counting(): { readonly driver: SqlDriver; characters: number } {
  const driver = nodeSqliteDriver(":memory:");
  const counted = {
    characters: 0,
    driver: {
      ...driver,
      async read(statement) {
        const rows = await driver.read(statement);
        for (const row of rows) for (const value of Object.values(row)) counted.characters += String(value).length;
        return rows;
      },
    } as SqlDriver,
  };
  return counted;
}

const LARGE = 200_000;
const large = "x".repeat(LARGE);

/** Creates threads whose states are large in and beside their messages, each with a run that has an equally large request. */
async function world(options: Partial<TestServiceOptions> = {}) {
  const database = counting();
  const kit: TestService = await testService({
    agents: { echo: () => "ok" },
    storage: sqlStorage(database.driver),
    ...options,
  });
  const handler = createHandler(kit.service);
  return { database, kit, handler, [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose]() };
}

async function ended({ service }: TestService, thread_id: string | null, input: RunCreate["input"]): Promise<void> {
  await (await service.runs.wait(thread_id, { assistant_id: "echo", input })).result;
}

async function fill(kit: TestService, threads: number): Promise<void> {
  for (let n = 0; n < threads; n += 1) {
    const { thread_id } = await kit.service.threads.create({});
    const messages = [
      { type: "human", content: `Question ${n} ${large}` },
      { type: "human", content: "More" },
    ];
    await ended(kit, thread_id, { messages, data: large });
  }
}

describe("a list reads only what it returns", () => {
  it("of threads: titles from the start of their messages", async () => {
    await using it = await world();
    await fill(it.kit, 5);
    it.database.characters = 0;
    const { items } = await it.kit.service.threads.list();
    assert.deepEqual(
      items.map(({ title }) => title?.slice(0, 13)),
      [4, 3, 2, 1, 0].map((n) => `Question ${n} xx`),
    );
    assert.ok(it.database.characters < LARGE / 2, `${it.database.characters} characters`);
    it.database.characters = 0;
    assert.equal((await it.kit.service.threads.list({ text: "question 3" })).items.length, 1);
    assert.ok(it.database.characters < LARGE / 2, `${it.database.characters} characters`);
  });

  it("of threads without messages: no states", async () => {
    await using it = await world();
    const { thread_id } = await it.kit.service.threads.create({});
    await it.kit.service.threads.create({
      metadata: { graph_id: "echo" },
      supersteps: [{ updates: [{ as_node: "echo", values: { data: large } }] }],
    });
    it.database.characters = 0;
    const { items } = await it.kit.service.threads.list();
    assert.deepEqual(
      items.map(({ title }) => title),
      [null, null],
    );
    assert.equal(items[1]?.thread_id, thread_id);
    assert.ok(it.database.characters < LARGE / 2, `${it.database.characters} characters`);
  });

  it("of runs: no requests and results, which a single run has", async () => {
    await using it = await world();
    await fill(it.kit, 3);
    await ended(it.kit, null, { messages: [], data: large });
    it.database.characters = 0;
    const { items } = await it.kit.service.runs.search();
    assert.equal(items.length, 4);
    assert.ok(it.database.characters < LARGE / 2, `${it.database.characters} characters`);
    const [run] = items;
    const detail = await it.kit.service.runs.inspect(run?.run_id as string);
    assert.equal((detail.kwargs.input as { data: string }).data, large);
    assert.equal((detail.result as { data: string }).data, large);
  });

  it("of runs of a thread: in parts, so that other work proceeds", async () => {
    await using it = await world();
    const { thread_id } = await it.kit.service.threads.create({});
    const threadIds: string[] = [];
    for (let n = 0; n < 45; n += 1) {
      const { run, result } = await it.kit.service.runs.wait(thread_id, {
        assistant_id: "echo",
        input: { n, data: large },
      });
      threadIds.unshift(run.run_id);
      await result;
    }
    let ticks = 0;
    let over = false;
    const tick = (): void => {
      ticks += 1;
      if (!over) setImmediate(tick);
    };
    setImmediate(tick);
    const all = await it.kit.service.runs.list(thread_id, { limit: 1000 });
    over = true;
    assert.ok(ticks >= 1, `${ticks} ticks`);
    assert.deepEqual(
      all.map(({ run_id }) => run_id),
      threadIds,
    );
    const ids = async (limit: number, offset: number) =>
      (await it.kit.service.runs.list(thread_id, { limit, offset })).map(({ run_id }) => run_id);
    assert.deepEqual(await ids(30, 7), threadIds.slice(7, 37));
    assert.deepEqual(await ids(20, 0), threadIds.slice(0, 20));
    assert.deepEqual(await ids(50, 44), threadIds.slice(44));
  });

  it("of a history: the common values of its states once", async () => {
    await using it = await world();
    const { thread_id } = await it.kit.service.threads.create({});
    const part = large.slice(0, 20_000);
    for (let n = 0; n < 40; n += 1) {
      await ended(it.kit, thread_id, { messages: [{ type: "human", content: `${n} ${part}` }] });
    }
    it.database.characters = 0;
    const { threads } = it.kit.service;
    const history = await threads.history(thread_id, { limit: 100 });
    const [newest] = history;
    const size = JSON.stringify(newest?.values).length;
    assert.ok(size > 40 * part.length);
    // It reads the newest state, then the values of older ones since their last full copy.
    assert.ok(it.database.characters < 3 * size, `${it.database.characters} of ${size}`);
    for (const state of history.filter((_, n) => n % 9 === 0)) {
      const { checkpoint_id } = state.checkpoint ?? assert.fail();
      assert.deepEqual(state, await threads.stateAt(thread_id, { checkpoint_id }));
    }
  });

  it("of store items: those that may match the filter, newest first if there are many", async () => {
    const database = counting();
    const storage = sqlStorage(database.driver);
    await storage.migrate();
    const scope = { deployment: "d" };
    const items = Array.from({ length: 2_000 }, (_, n) => ({
      namespace: ["a"],
      key: `k${n}`,
      value: { text: large.slice(0, 1_000), n, kind: `kind ${n % 2}` },
      ttl_ms: null,
      vectors: [],
    }));
    for (let n = 0; n < items.length; n += 1) await storage.putItems(scope, items.slice(n, n + 1), n);
    const searches: [ItemCondition, string][] = [
      [["n", "lt", 2], "k1 k0"],
      [["n", "gte", 1_998], "k1999 k1998"],
      [["kind", "eq", "kind 0"], "k1998 k1996"],
      [["kind", "ne", "kind 0"], "k1999 k1997"],
    ];
    for (const [condition, keys] of searches) {
      database.characters = 0;
      const query = { namespace_prefix: [], conditions: [condition], refresh: false, limit: 2, offset: 0 };
      const items = await storage.searchItems(scope, query, 5_000);
      assert.equal(items.map(({ key }) => key).join(" "), keys);
      assert.ok(database.characters < 250_000, `${condition}: ${database.characters} characters`);
    }
    await storage.close();
  });

  it("of a search without values: no states", async () => {
    await using it = await world();
    await fill(it.kit, 3);
    it.database.characters = 0;
    const page = await it.kit.service.threads.search({ select: ["thread_id", "metadata", "interrupts"] });
    assert.equal(page.items.length, 3);
    assert.ok(it.database.characters < LARGE / 2, `${it.database.characters} characters`);
  });
});

describe("the title of a thread", () => {
  const readTitle = async (values: unknown): Promise<string | null | undefined> => {
    await using it = await world();
    await it.kit.service.threads.create({
      metadata: { graph_id: "echo" },
      supersteps: [{ updates: [{ as_node: "echo", values: values as never }] }],
    });
    return (await it.kit.service.threads.list()).items[0]?.title;
  };

  it("is the text of the first message, whatever follows", async () => {
    assert.equal(
      await readTitle({
        messages: [
          { type: "human", content: "One" },
          { type: "ai", content: large },
        ],
      }),
      "One",
    );
    const content = [
      { type: "image_url", image_url: { url: "data:," } },
      { type: "text", text: "Two" },
      { type: "text", text: "words" },
    ];
    assert.equal(await readTitle({ messages: [{ type: "human", content }] }), "Two words");
    assert.equal(await readTitle({ messages: [] }), null);
  });

  it("comes also from a list that was stored in parts", async () => {
    await using it = await world();
    const { thread_id } = await it.kit.service.threads.create({});
    for (let n = 0; n < 4; n += 1) {
      const messages = [{ type: "human", content: `Part ${n} ${"y".repeat(2_000)}` }];
      await ended(it.kit, thread_id, { messages });
    }
    assert.match((await it.kit.service.threads.list()).items[0]?.title ?? "", /^Part 0 y/);
  });

  it("of a running thread comes from its newest state", async () => {
    const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await using it = await world({
      agents: {
        slow: async function* () {
          yield "One";
          reached.resolve();
          await gate.promise;
        },
      },
    });
    const { thread_id } = await it.kit.service.threads.create({});
    const run = await it.kit.service.runs.wait(thread_id, {
      assistant_id: "slow",
      input: { messages: [{ type: "human", content: "Now" }] },
      durability: "sync",
    });
    await reached.promise;
    const { items } = await it.kit.service.threads.list();
    gate.resolve();
    await run.result;
    assert.equal(items[0]?.title, "Now");
    assert.equal((await it.kit.service.threads.list()).items[0]?.title, "Now");
  });
});

describe("parseFirstItem", () => {
  const item = { a: 'b"\\ \u2028 \n', c: [1, { d: null }, "]}"], e: { f: "ü€😀" } };
  const text = JSON.stringify([item, { g: 1 }]).replaceAll("ü", "\\u00fc");

  it("returns the first item of a list", () => {
    assert.deepEqual(parseFirstItem(text), item);
    assert.deepEqual(parseFirstItem("[1]"), 1);
    assert.deepEqual(parseFirstItem('["a","b"]'), "a");
    assert.deepEqual(parseFirstItem(" [1]"), undefined);
    assert.deepEqual(parseFirstItem("[]"), undefined);
    assert.deepEqual(parseFirstItem("{}"), undefined);
  });

  it("returns the complete part of a text that was cut off anywhere", () => {
    const end = text.indexOf(',{"g"');
    const restStart = text.indexOf(',"c"');
    for (let at = text.indexOf("b"); at <= end; at += 1) {
      const firstItem = parseFirstItem(text.slice(0, at)) as { a: string };
      if (at < restStart) assert.ok(item.a.startsWith(firstItem.a), `${at}: ${firstItem.a}`);
      else assert.equal(firstItem.a, item.a, `${at}`);
    }
  });
});

describe("a search with values", () => {
  it("lets other work proceed between large states, and holds one at a time", async () => {
    // Each read of the clock is 5 ms later, so that every state takes time.
    let now = 0;
    await using it = await world({ environment: { monotonic: () => (now += 5) } });
    await fill(it.kit, 6);
    let ticks = 0;
    let over = false;
    const tick = (): void => {
      ticks += 1;
      if (!over) setImmediate(tick);
    };
    setImmediate(tick);
    const response = await it.handler(
      new Request("http://localhost/threads/search", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ limit: 5 }),
      }),
    );
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("x-pagination-total"), "6");
    assert.equal(response.headers.get("x-pagination-next"), "5");
    // The list is sent while it is created, so a reader that stalls blocks it.
    for (let n = 0; n < 200; n += 1) await new Promise((resolve) => setImmediate(resolve));
    const read = it.database.characters;
    for (let n = 0; n < 50; n += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(it.database.characters, read);
    const before = ticks;
    const threads = (await response.json()) as { values: { data: string } }[];
    over = true;
    assert.deepEqual(
      threads.map(({ values }) => values.data.length),
      Array.from({ length: 5 }, () => LARGE),
    );
    assert.ok(it.database.characters > read);
    assert.ok(ticks - before >= 3, `${ticks - before} ticks`);
  });

  it("filters by values and returns the requested page", async () => {
    await using it = await world();
    for (let n = 0; n < 7; n += 1) {
      await it.kit.service.threads.create({
        metadata: { graph_id: "echo" },
        supersteps: [{ updates: [{ as_node: "echo", values: { n, odd: { is: n % 2 === 1 } } }] }],
      });
    }
    const query = { values: { odd: { is: true } }, limit: 2 } as const;
    const pages = await Promise.all([0, 2].map((offset) => it.kit.service.threads.search({ ...query, offset })));
    assert.deepEqual(
      pages.map(({ total, next, items }) => [total, next, items.length]),
      [
        [3, 2, 2],
        [3, null, 1],
      ],
    );
    const numbers = pages.flatMap(({ items }) => items.map(({ values }) => (values as { n: number }).n));
    assert.deepEqual(numbers.sort(), [1, 3, 5]);
  });

  it("stops reading when its client disconnects", async () => {
    await using it = await world();
    await fill(it.kit, 6);
    const response = await it.handler(
      new Request("http://localhost/threads/search", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: "{}",
      }),
    );
    await response.body?.cancel();
    for (let n = 0; n < 50; n += 1) await new Promise((resolve) => setImmediate(resolve));
    const read = it.database.characters;
    for (let n = 0; n < 50; n += 1) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(it.database.characters, read);
  });
});
