/** Usage in the storage and in the resource: the source of counts, and when hours are sealed. */

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import type { UsageQuery } from "../../../lib/storage/mod.ts";
import { createUsage } from "../../../lib/usage/mod.ts";
import { addTraces } from "../../suite/traces.ts";

const HOUR = 3_600_000;

describe("usage counts", () => {
  it("read sealed hours from their sums, and raw rows for the rest only", async () => {
    const driver = nodeSqliteDriver(":memory:");
    const storage = sqlStorage(driver);
    try {
      await storage.migrate();
      const at = [0.5, 1, 1.5, 2, 3, 3.5, 4.5];
      const of = { thread_id: null, workspace_id: "w", project_id: "p", user_id: null, api_key: null, counted: true };
      await addTraces(
        storage,
        at.map((hour, i) => ({ trace_id: `r${i}`, started_at: hour * HOUR, ...of })),
      );
      while (await storage.sealUsage(3 * HOUR));
      const query: UsageQuery = {
        workspace_ids: ["w"],
        start: 0.5 * HOUR,
        end: 4.75 * HOUR,
        origin: 0,
        stride_ms: HOUR,
        group_by: "user",
      };
      const counts = async (extraQuery: Partial<UsageQuery> = {}): Promise<unknown> =>
        (await storage.countUsage({ ...query, ...extraQuery })).map(({ bucket, traces }) => [bucket, traces]);
      const all = [
        [0, 1],
        [1, 2],
        [2, 1],
        [3, 2],
        [4, 1],
      ];
      assert.deepEqual(await counts(), all);
      // Raw rows of the hours 1 and 2, which are sealed.
      await driver.batch([
        { sql: "delete from traces where started_at >= ? and started_at < ?", args: [HOUR, 3 * HOUR] },
      ]);
      assert.deepEqual(await counts(), all);
      // Strides that cut hours, and a range within one hour, can be counted from raw rows only.
      assert.deepEqual(await counts({ stride_ms: HOUR / 2, end: 2 * HOUR }), [[1, 1]]);
      assert.deepEqual(await counts({ start: HOUR, end: 2 * HOUR - 1 }), []);
      assert.deepEqual(await counts({ start: HOUR, end: 2 * HOUR }), [[1, 2]]);
      await driver.batch([{ sql: "delete from usage_hourly", args: [] }]);
      assert.deepEqual(
        await counts(),
        all.filter(([hour]) => hour === 0 || (hour as number) > 2),
      );
    } finally {
      await storage.close();
    }
  });
});

describe("sealing of usage hours", () => {
  it("leaves an hour unsealed for two minutes after its end, and continues until all are sealed", async () => {
    const calls: number[] = [];
    const storage = {
      countUsage: async () => [],
      getTrace: async () => null,
      async sealUsage(before: number) {
        calls.push(before);
        return calls.length % 3 !== 0;
      },
    };
    let now = 10 * HOUR + 119_999;
    const identity = { readNames: () => assert.fail("nothing is to be named") };
    const terms = { storage, identity, enabled: true, unreadable_workspaces: "refuse" } as const;
    const usage = createUsage({ ...terms, environment: { now: () => now } });
    await usage.sealHours();
    now++;
    await usage.sealHours();
    assert.deepEqual(
      calls,
      [9, 9, 9, 10, 10, 10].map((hour) => hour * HOUR),
    );
  });
});
