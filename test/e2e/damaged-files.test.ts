/** A server whose database files are cut while it works, or may not grow. */
import assert from "node:assert/strict";
import { readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { createTemporaryFolder, start, waitForUrl } from "../support/programs.ts";

/** Creates a folder with an agent and the configuration of a server. */
function project(): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "agents.ts"), "export const echo = () => 'ok';");
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs: { echo: "./agents.ts:echo" } }));
  return folder;
}

const ARGUMENTS = ["--port", "0", "--database", "agents.db"];

const post = (url: string, body: unknown): Promise<Response> =>
  fetch(`${url}/threads`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });

/** Waits until `/ready` does not return 200. Returns null if something else happens first. */
async function notReady(url: string, isOver = (): boolean => false): Promise<Response | null> {
  for (;;) {
    const over = isOver();
    const response = await fetch(`${url}/ready`);
    if (response.status !== 200) return response;
    await response.body?.cancel();
    if (over) return null;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Reads the salts that SQLite renews when it restarts the log. */
const readSalts = (log: string): string => readFileSync(log).subarray(16, 24).toString("hex");

/** Cuts the log, and once more where all of it was in the database already: then nothing was lost. Gives `/ready`. */
async function cutInHalf(log: string, url: string, onCut: () => void): Promise<Response> {
  for (;;) {
    const salts = readSalts(log);
    truncateSync(log, Math.floor(statSync(log).size / 2));
    onCut();
    const red = await notReady(url, () => readSalts(log) !== salts);
    if (red) return red;
  }
}

describe("a server", { timeout: 120_000 }, () => {
  for (const load of [8, 0]) {
    it(`whose log is cut in half ${load > 0 ? "under load" : "while it is idle"} acknowledges no later write, fails /ready, and does not start again`, async () => {
      using folder = project();
      const path = join(folder.path, "agents.db");
      const acknowledged: string[] = [];
      const later: { readonly cut: number; readonly status: number }[] = [];
      let cuts = 0;
      {
        await using program = start("server.ts", ARGUMENTS, { cwd: folder.path });
        const url = await waitForUrl(program);
        for (let n = 0; n < 50; n += 1) assert.equal((await post(url, { metadata: { n } })).status, 200);
        let over = false;
        const writers = Array.from({ length: load }, async () => {
          while (!over) {
            const cut = cuts;
            const { status, ...response } = await post(url, { metadata: { body: "x".repeat(2_000) } }).then(
              async (answer) => ({ status: answer.status, body: (await answer.json()) as { thread_id: string } }),
            );
            if (cut > 0) later.push({ cut, status });
            else if (status === 200) acknowledged.push(response.body.thread_id);
          }
        });
        while (acknowledged.length < 40 * Math.min(1, load)) await new Promise((resolve) => setTimeout(resolve, 5));
        const red = await cutInHalf(`${path}-wal`, url, () => void cuts++);
        assert.equal(red.status, 503);
        assert.match(await red.text(), /damaged, deleted or replaced .* restore a backup/);
        for (let n = 0; n < 5; n += 1) {
          const refused = await post(url, {});
          assert.equal(refused.status, 503);
          assert.match(await refused.text(), /restore a backup/);
        }
        assert.equal((await fetch(`${url}/threads/${crypto.randomUUID()}`)).status, 503);
        over = true;
        await Promise.all(writers);
      }
      assert.deepEqual(
        later.filter(({ cut, status }) => cut === cuts && status !== 503),
        [],
      );
      await using again = start("server.ts", ARGUMENTS, { cwd: folder.path });
      assert.equal(await again.ended, 1);
      assert.match(again.output(), /agents\.db: its file or its log was cut or overwritten/);
    });
  }

  for (const name of ["agents.db", "file:agents.db"])
    it(`whose files cannot grow answers 507, serves reads, and keeps what it has acknowledged (${name})`, async () => {
      using folder = project();
      const acknowledged: string[] = [];
      {
        // The signal would end the process before a write could fail.
        const limits = { cwd: folder.path, first: "trap '' XFSZ; ulimit -f 4096" };
        await using program = start("server.ts", [...ARGUMENTS.slice(0, -1), name], limits);
        const url = await waitForUrl(program);
        /** Creates threads until one is refused. */
        const fill = async (): Promise<Response> => {
          for (let n = 0; n < 200; n += 1) {
            const response = await post(url, { metadata: { body: "x".repeat(100_000) } });
            if (response.status !== 200) return response;
            acknowledged.push((await response.json()).thread_id);
          }
          throw new Error(`200 threads were created:\n${program.output()}`);
        };
        // A server that pauses moves the log into the file, which makes room once: then it is full again after more threads.
        let ready: Response;
        do {
          const full = await fill();
          assert.equal(full.status, 507, program.output());
          assert.match(await full.text(), /disk of the database is full/);
          ready = await fetch(`${url}/ready`);
        } while (ready.status === 200);
        assert.equal(ready.status, 503);
        assert.match(await ready.text(), /disk of the database is full/);
        assert.equal((await fetch(`${url}/threads/${acknowledged[0]}`)).status, 200);
      }
      const database = new DatabaseSync(join(folder.path, "agents.db"));
      const stored = new Set(
        database
          .prepare("select thread_id from threads")
          .all()
          .map((row) => row.thread_id),
      );
      assert.deepEqual(
        acknowledged.filter((thread_id) => !stored.has(thread_id)),
        [],
      );
    });
});
