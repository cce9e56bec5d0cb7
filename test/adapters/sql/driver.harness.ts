import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { libsqlDriver } from "../../../adapters/libsql/mod.ts";
import type { SqlDriver, SqlRow, SqlStatement, SqlValue } from "../../../adapters/sql/driver.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import type { SqliteOptions } from "../../../adapters/sqlite/writer.ts";
import type { Scope, Storage } from "../../../lib/storage/mod.ts";

export type Open = (path: string, options?: SqliteOptions) => SqlDriver;

export const openers: Record<string, Open> = {
  "node:sqlite": nodeSqliteDriver,
  libSQL: (path, options) => libsqlDriver({ url: `file:${path}`, timer: options?.timer }),
  ...("Bun" in globalThis && { "bun:sqlite": (await import("../../../adapters/sqlite/bun.ts")).bunSqliteDriver }),
};

export const toStatement = (sql: string, ...args: SqlValue[]): SqlStatement => ({ sql, args });

export const readIds = (rows: readonly SqlRow[]): SqlValue[] => rows.map((row) => row.item_id as SqlValue);

export async function withFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-faults-"));
  try {
    await test(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

// --------------------------------------------------------------- damaged files

export const scope: Scope = { deployment: "d" };

export const THREADS = 12;

/** Writes threads with runs, checkpoints and frames. It writes the same bytes every time. */
export async function fill(storage: Storage): Promise<void> {
  await storage.migrate();
  const content = { graph_id: "g", name: "n", description: null, config: {}, context: {}, metadata: {} };
  const { assistant } = await storage.createAssistant(scope, { assistant_id: "a", ...content }, 1);
  for (let t = 0; t < THREADS; t += 1) {
    const readIds = { run_id: `r${t}`, thread_id: `t${t}`, assistant_id: "a", graph_id: "g" };
    const outcome = await storage.createRun(scope, {
      run: {
        ...readIds,
        metadata: {},
        kwargs: { text: "x".repeat(500) },
        multitask_strategy: "enqueue",
        stateless: false,
        resumable: true,
        created_at: 5,
      },
      expected: { assistant_revision: assistant.revision, thread_revision: null },
      create_thread: { thread_id: `t${t}`, metadata: { t }, config: {}, stateless: false },
      claim: { token: `k${t}`, lease_until: 100 },
      now: 5,
    });
    assert.ok(outcome.kind === "created" && outcome.claimed);
    for (let c = 0; c < 4; c += 1) {
      const text = JSON.stringify("hello ".repeat(c === 3 ? 2000 : 50));
      const values = [{ channel: "m", version: `${c}`, type: "json", data: text }];
      const checkpoint = { ns: "", checkpoint_id: `c${c}`, parent_id: null, payload: { type: "json", data: "{}" } };
      await storage.saveProgress(
        scope,
        outcome.claimed.lease,
        {
          checkpoints: [{ ...checkpoint, metadata: {}, versions: { m: `${c}` }, values, created_at: 6 }],
          writes: [],
          frames: { first_id: c + 1, list: [{ event: "e", data: `"${c}"` }] },
        },
        6,
      );
    }
  }
}
