import assert from "node:assert/strict";
import { existsSync, statSync } from "node:fs";
import { copyFile, mkdir, open as openFile, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { ConfigError } from "../../../lib/errors.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import { createDice } from "../../suite/workload.ts";
import { fill, openers, scope, THREADS, toStatement, withFolder } from "./driver.harness.ts";
import { all } from "./efforts.ts";

/** The commit's, as in the simulation. */
const seed = Number(process.env.GREENROOM_TEST_SEED ?? 1);

/** Reads everything that a client can read. */
async function readEverything(storage: Storage): Promise<{ readonly threads: number; readonly text: string }> {
  const page = { limit: 100, offset: 0, sort_order: "asc" } as const;
  const threads = await storage.searchThreads(scope, { ...page, sort_by: "thread_id" });
  const rows: unknown[] = [threads, await storage.searchAssistants(scope, { ...page, sort_by: "name" })];
  for (let t = 0; t < THREADS; t += 1) {
    const thread_id = `t${t}`;
    rows.push(await storage.getThread(scope, thread_id), await storage.listRuns(scope, thread_id, page));
    rows.push(await storage.listCheckpoints(scope, thread_id, { limit: 100 }));
    rows.push(await storage.readFrames(scope, `r${t}`, 0));
  }
  return { threads: threads.total, text: JSON.stringify(rows) };
}

for (const [name, open] of Object.entries(openers)) {
  describe(`${name}: a damaged file`, () => {
    const startStorage = async (path: string): Promise<Storage> => {
      const storage = sqlStorage(open(path));
      try {
        await storage.migrate();
        return storage;
      } catch (error) {
        await storage.close();
        throw error;
      }
    };

    const createFilledFile = async (folder: string): Promise<string> => {
      const path = join(folder, "whole.db");
      const storage = sqlStorage(open(path));
      await fill(storage);
      await storage.close();
      return path;
    };

    /** Checks that the start fails with the damage and the remedy, and that the files stay unchanged. */
    const assertRefused = async (path: string, message: RegExp): Promise<void> => {
      const files = [path, `${path}-wal`].filter((file) => existsSync(file) && statSync(file).isFile());
      const before = await Promise.all(files.map((file) => readFile(file)));
      await assert.rejects(startStorage(path), (error: Error) => {
        assert.match(error.message, message);
        assert.match(
          error.message,
          /restore it from a backup|Restore both from a backup|choose another path|may read|or a backup/,
        );
        return true;
      });
      const after = await Promise.all(files.map((file) => readFile(file)));
      for (const [i, bytes] of before.entries())
        assert.ok(bytes.equals(after[i] as Uint8Array), `${files[i]} was changed`);
    };

    it("that is shorter, by a byte or by a page, is rejected", () =>
      withFolder(async (folder) => {
        const whole = await createFilledFile(folder);
        const { size } = statSync(whole);
        for (const less of [1, 100, 4095, 4096, 4097, 40_960, size - 4096, size - 512]) {
          const path = join(folder, `less-${less}.db`);
          await copyFile(whole, path);
          await truncate(path, size - less);
          await assertRefused(path, /malformed|not a database/);
        }
      }));

    it("that is empty or deleted beside its log is rejected, and the log is kept", () =>
      withFolder(async (folder) => {
        const path = join(folder, "a.db");
        const storage = sqlStorage(open(path));
        await fill(storage);
        for (const [location, prepare] of [
          ["empty.db", (file: string) => writeFile(file, "")],
          ["gone.db", async () => {}],
        ] as const) {
          await prepare(join(folder, location));
          await copyFile(`${path}-wal`, join(folder, `${location}-wal`));
          await assertRefused(join(folder, location), /is (?:empty|missing), but .*-wal exists/);
        }
        // Here the database and its log are both there, as a process that was killed leaves them.
        await copyFile(path, join(folder, "killed.db"));
        await copyFile(`${path}-wal`, join(folder, "killed.db-wal"));
        const killed = await startStorage(join(folder, "killed.db"));
        assert.equal((await readEverything(killed)).text, (await readEverything(storage)).text);
        await killed.close();
        await storage.close();
      }));

    it("that was in use and is empty now is rejected", () =>
      withFolder(async (folder) => {
        const used = join(folder, "used.db");
        const storage = await startStorage(used);
        assert.equal(await storage.becomeWorker(1), true);
        await storage.close();
        // Elsewhere: libSQL lets go of a file only when its connection is collected.
        const path = join(folder, "empty.db");
        await writeFile(path, "");
        await copyFile(`${used}.worker`, `${path}.worker`);
        await assertRefused(path, /is empty, but .*\.worker exists/);
        // Without any trace it is a new one.
        await rm(`${path}.worker`);
        const fresh = await startStorage(path);
        await fresh.close();
      }));

    it("whose log has its missing pages is whole", () =>
      withFolder(async (folder) => {
        const path = join(folder, "a.db");
        const storage = sqlStorage(open(path));
        await fill(storage);
        // A process was killed while it moved the log: the file has begun to grow.
        const half = join(folder, "half.db");
        await copyFile(path, half);
        await copyFile(`${path}-wal`, `${half}-wal`);
        const file = await openFile(half, "a");
        await file.write(new Uint8Array(4096 + 1000));
        await file.close();
        const again = await startStorage(half);
        assert.equal((await readEverything(again)).text, (await readEverything(storage)).text);
        await again.close();
        await storage.close();
      }));

    it("whose first page is garbage, that is another program's or a folder, is rejected", () =>
      withFolder(async (folder) => {
        const whole = await createFilledFile(folder);
        const bytes = await readFile(whole);
        const { below } = createDice(1);
        const createGarbage = (from: number, to: number): Uint8Array =>
          bytes.map((byte, at) => (at >= from && at < to ? below(256) : byte));
        for (const [i, content] of [
          createGarbage(0, 4096),
          createGarbage(0, 100),
          createGarbage(100, 4096),
          "name,age\nAda,36\n".repeat(500),
          "x\n",
          new Uint8Array(4096),
        ].entries()) {
          const path = join(folder, `garbage-${i}.db`);
          await writeFile(path, content);
          await assertRefused(path, /not a database|malformed/);
        }
        await mkdir(join(folder, "folder.db"));
        await assertRefused(join(folder, "folder.db"), /Cannot use the database .*folder\.db/);
      }));

    it("of a newer version is rejected", () =>
      withFolder(async (folder) => {
        const path = await createFilledFile(folder);
        const driver = open(path);
        await driver.batch([toStatement("insert into greenroom_versions (version) values (99)")]);
        await driver.close();
        await assert.rejects(
          startStorage(path),
          (error) => error instanceof ConfigError && /version 99/.test(error.message),
        );
      }));

    // libSQL's own library ends the process over text that is no UTF-8.
    if (name !== "libSQL") {
      it("with any bit flipped never starts empty, and differs only if SQLite itself finds nothing", () =>
        withFolder(async (folder) => {
          const whole = await createFilledFile(folder);
          const bytes = await readFile(whole);
          const first = await startStorage(whole);
          const expected = await readEverything(first);
          await first.close();
          const { below } = createDice(8);
          const counts = { refused: 0, unreadable: 0, same: 0, different: 0 };
          for (let i = 0; i < 300; i += 1) {
            const at = i < 100 ? i : Math.floor(((i - 100 + 0.5) * bytes.length) / 200);
            const bit = 1 << below(8);
            // A third of the places for each commit; `npm run test:all` tries all of them.
            if (!all && (i + seed) % 3 !== 0) continue;
            const path = join(folder, `flip-${i}.db`);
            await writeFile(
              path,
              bytes.map((byte, index) => (index === at ? byte ^ bit : byte)),
            );
            const storage = await startStorage(path).catch(() => undefined);
            if (!storage) counts.refused += 1;
            else {
              const contents = await readEverything(storage).catch(() => undefined);
              await storage.close();
              if (!contents) counts.unreadable += 1;
              else if (contents.text === expected.text) counts.same += 1;
              else {
                counts.different += 1;
                assert.equal(contents.threads, THREADS, `bit flip at ${at}`);
                const database = new DatabaseSync(path);
                // It knows nothing of the texts themselves, but for those that a constraint looks at. Two entries of a page for one
                // row are found by a check of the whole file alone, not by the reads of a start.
                const { quick_check } = database.prepare("pragma quick_check").get() as { quick_check: string };
                assert.match(
                  quick_check,
                  /^ok$|constraint failed|^NULL value|Multiple uses for byte/,
                  `bit flip at ${at}`,
                );
                database.close();
              }
            }
            for (const end of ["", "-wal", "-shm"]) await rm(path + end, { force: true });
          }
          assert.ok(counts.refused > (all ? 20 : 5), JSON.stringify(counts));
        }));
    }

    it("that is truncated under a running service fails its reads", () =>
      withFolder(async (folder) => {
        const path = await createFilledFile(folder);
        const storage = await startStorage(path);
        await truncate(path, 8192);
        await assert.rejects(readEverything(storage), /malformed|disk I\/O error|not a database|were damaged/);
        await storage.close();
        await assertRefused(path, /malformed|was cut or overwritten/);
      }));
  });
}
