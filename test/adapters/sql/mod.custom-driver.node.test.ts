import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { type SqlDriver, sqlStorage } from "../../../adapters/sql/mod.ts";
import { clientDriver } from "../../../examples/storage-adapter.ts";
import { storageSuite } from "../../suite/mod.ts";
import { faults, openClient } from "./custom-driver/faults.ts";
import { brief } from "./efforts.ts";

const guide = readFileSync(new URL("../../../docs/storage-adapter.md", import.meta.url), "utf8");

describe("a storage over the driver of the guide", () => {
  storageSuite(brief, async () => sqlStorage(clientDriver(openClient())));
});

describe("the guide to storage adapters", () => {
  it("shows the tested driver", () => {
    const example = readFileSync(new URL("../../../examples/storage-adapter.ts", import.meta.url), "utf8");
    const [, code = ""] = /```ts\n([\s\S]*?)```/.exec(guide) ?? [];
    assert.equal(code, example.slice(example.indexOf("\n") + 1));
  });

  const rows = [...guide.matchAll(/^\| ([A-Z][^|]+) \| `([^`|]+ > [^`|]+)` \|$/gm)];
  it("names every injected fault", () => {
    assert.deepEqual(
      rows.map(([, fault]) => fault),
      Object.keys(faults),
    );
  });
  for (const [, fault = "", name = ""] of rows) {
    it(`names a test that finds this fault: ${fault}`, async () => {
      const make = faults[fault];
      assert.ok(make, fault);
      await assert.rejects(runSuiteTest(name, make));
      await runSuiteTest(name, () => clientDriver(openClient()));
    });
  }
});

/** Runs the test of the suite that has this name. */
async function runSuiteTest(suiteName: string, open: () => SqlDriver): Promise<void> {
  const groups: string[] = [];
  const tests: (() => Promise<void>)[] = [];
  const describe = (name: string, body: () => void): void => {
    groups.push(name);
    body();
    groups.pop();
  };
  const it = (name: string, body: () => Promise<void>): void => {
    if ([...groups, name].join(" > ") === suiteName) tests.push(body);
  };
  storageSuite({ describe, it }, async () => sqlStorage(open()));
  assert.equal(tests.length, 1, `tests named ${suiteName}`);
  await tests[0]?.();
}
