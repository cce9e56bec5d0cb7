/** The demo of a checkout, `npm start`. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createTemporaryFolder, root, start, waitForUrl } from "../support/programs.ts";

interface Thread {
  readonly thread_id: string;
  readonly status: string;
  readonly values: { readonly messages: readonly { readonly content: string }[] };
}

const threadsAt = async (url: string): Promise<readonly Thread[]> => {
  const response = await fetch(`${url}/threads/search`, { method: "POST", body: "{}" });
  return (await response.json()) as readonly Thread[];
};

describe("the demo", () => {
  it("creates example threads in a new database, and only once", async () => {
    using folder = createTemporaryFolder();
    const serve = (...args: readonly string[]) =>
      start("scripts/demo.ts", ["--port", "0", ...args], { cwd: folder.path });
    const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: { start: string } };
    assert.equal(scripts.start, "bun scripts/demo.ts");
    let ids: readonly string[] = [];
    {
      await using first = serve();
      const url = await waitForUrl(first);
      await first.printed(/^Two threads to look at/m);
      const threads = await threadsAt(url);
      ids = threads.map(({ thread_id }) => thread_id);
      assert.deepEqual(
        threads.map(({ status, values }) => [status, values.messages[0]?.content]),
        [
          ["interrupted", "Please refund 30 euros."],
          ["idle", "What is a green room?"],
        ],
      );
      assert.equal(threads[1]?.values.messages.length, 4);
      assert.equal(await first.kill("SIGTERM"), 0);
    }
    {
      await using second = serve();
      const url = await waitForUrl(second);
      assert.deepEqual(
        (await threadsAt(url)).map(({ thread_id }) => thread_id),
        ids,
      );
      for (const id of ids) await fetch(`${url}/threads/${id}`, { method: "DELETE" });
      assert.equal(await second.kill("SIGTERM"), 0);
      assert.doesNotMatch(second.output(), /Two threads/);
    }
    await using third = serve();
    const url = await waitForUrl(third);
    await fetch(`${url}/threads`, { method: "POST", body: "{}" });
    assert.equal((await threadsAt(url)).length, 1);
  });

  it("leaves a database with threads unchanged, and one that requires keys", async () => {
    using folder = createTemporaryFolder();
    await using privateServer = start(
      "server.ts",
      ["--port", "0", "--config", join(root, "examples/demo/greenroom.json")],
      {
        cwd: folder.path,
      },
    );
    await fetch(`${await waitForUrl(privateServer)}/threads`, { method: "POST", body: "{}" });
    assert.equal(await privateServer.kill("SIGTERM"), 0);
    await using program = start("scripts/demo.ts", ["--port", "0"], { cwd: folder.path });
    assert.equal((await threadsAt(await waitForUrl(program))).length, 1);
    using privateFolder = createTemporaryFolder();
    const env = { GREENROOM_API_KEYS: "k".repeat(40) };
    await using guarded = start("scripts/demo.ts", ["--port", "0"], { cwd: privateFolder.path, env });
    const url = await waitForUrl(guarded);
    const headers = { "x-api-key": env.GREENROOM_API_KEYS };
    const response = await fetch(`${url}/threads/count`, { method: "POST", body: "{}", headers });
    assert.equal(await response.json(), 0);
    assert.equal(await guarded.kill("SIGTERM"), 0);
  });
});
