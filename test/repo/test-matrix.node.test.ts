/** Checks the tests that `npm test` leaves to `npm run test:all`, so that nothing is left out by mistake. */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { describe, it } from "node:test";
import { canRun, getRuntimes, RULES, RUNTIMES } from "../../scripts/test-matrix.ts";

const files = globSync("test/**/*.test.ts")
  .map((file) => file.replaceAll("\\", "/"))
  .filter((file) => !file.startsWith("test/browser/"));

describe("the test matrix", () => {
  it("runs every file in some lane, except for those of test:all", () => {
    const unassigned = files.filter((file) => !getRuntimes(file).some((runtime) => canRun(file, runtime)));
    assert.deepEqual(unassigned.sort(), [
      "test/adapters/libsql/mod.storage.test.ts",
      "test/adapters/postgres/mod.pglite.test.ts",
      "test/adapters/sql/mod.custom-driver.node.test.ts",
      "test/adapters/standalone/backup.postgres.node.test.ts",
      "test/compat/prefix-slash.node.test.ts",
      "test/compat/sdk-libsql.node.test.ts",
      "test/compat/sdk-postgres.node.test.ts",
      "test/e2e/docker.node.test.ts",
      "test/e2e/next-example.node.test.ts",
      "test/e2e/postgres-outage.node.test.ts",
    ]);
  });

  it("runs the drivers, the streams and the clients on every runtime", () => {
    for (const file of [
      "adapters/sql/mod.storage",
      "adapters/sql/driver",
      "compat/thread-streams",
      "lib/streams/thread-subscription",
      "lib/http/sse",
    ])
      assert.deepEqual(getRuntimes(`test/${file}.test.ts`), RUNTIMES, file);
    // Its suite on Node is left to test:all.
    assert.deepEqual(getRuntimes("test/compat/sdk.test.ts"), ["bun", "deno"]);
  });

  it("has no rule without effect", () => {
    const first = files.map((file) => RULES.findIndex((rule) => rule.files.test(file)));
    assert.deepEqual(
      RULES.filter((_, index) => !first.includes(index)),
      [],
    );
    // Names in a rule that no file has any more.
    for (const { files: pattern } of RULES)
      for (const name of /\(\?:([\w|\\/.-]+)\)/.exec(pattern.source)?.[1]?.replaceAll("\\", "").split("|") ?? [])
        assert.ok(
          files.some((file) => pattern.test(file) && file.includes(name)),
          `${pattern}: ${name}`,
        );
  });
});
