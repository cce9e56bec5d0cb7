import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import {
  callable,
  findIssues,
  findProblems,
  flag,
  integerBetween,
  strictSection,
  stringEnum,
  suggestName,
  UNKNOWN_OPTION,
} from "../../lib/validation.ts";

const schema = strictSection({
  worker: strictSection({ concurrency: integerBetween(0, 10), lease_ms: integerBetween(1, 5) }),
  ports: v.array(integerBetween(1, 9), "must be a list"),
  mode: stringEnum(["on", "off"]),
  transport: strictSection({ resolve: callable, send: callable }, ["resolve", "send"]),
  enabled: flag,
});

describe("a section of options", () => {
  it("reports every finding with its path, in the order of the input", () => {
    assert.deepEqual(
      findIssues(schema, { mode: "x", ports: [0, 1, 10], worker: { concurrency: -1, lease_ms: 1.5 } }, ["a"]),
      [
        { loc: ["a", "mode"], msg: "must be one of on, off", type: "picklist" },
        { loc: ["a", "ports", 0], msg: "must be a whole number from 1 to 9", type: "custom" },
        { loc: ["a", "ports", 2], msg: "must be a whole number from 1 to 9", type: "custom" },
        { loc: ["a", "worker", "concurrency"], msg: "must be a whole number from 0 to 10", type: "custom" },
        { loc: ["a", "worker", "lease_ms"], msg: "must be a whole number from 1 to 5", type: "custom" },
      ],
    );
  });

  it("treats undefined as absent, except for required members", () => {
    assert.deepEqual(findIssues(schema, { worker: undefined, ports: undefined }), []);
    assert.deepEqual(findProblems(schema, { transport: { send: undefined } }), [
      "transport.resolve: must be a function",
      "transport.send: must be a function",
    ]);
  });

  it("reports each unknown member, also those that every object inherits", () => {
    const input = JSON.parse(
      '{"constructor": 1, "__proto__": {}, "toString": 1, "worker": {"hasOwnProperty": 1}}',
    ) as object;
    const issues = findIssues(schema, { ...input, valueOf: undefined });
    assert.deepEqual(
      issues.map(({ loc, type }) => [loc.join("."), type]),
      ["constructor", "__proto__", "toString", "worker.hasOwnProperty", "valueOf"].map((key) => [key, UNKNOWN_OPTION]),
    );
  });

  it("suggests a name for a misspelt member, or lists all members if they are few", () => {
    assert.deepEqual(findProblems(schema, { worker: { concurency: 1, leaseMs: 1, size: 1 } }, "x"), [
      "x.worker.concurency: unknown option; did you mean concurrency?",
      "x.worker.leaseMs: unknown option; did you mean lease_ms?",
      "x.worker.size: unknown option; known: concurrency, lease_ms",
    ]);
    const many = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`option_${"abcdefghi"[i]}xyz`, flag]));
    assert.deepEqual(findProblems(strictSection(many, [], "unknown key"), { other: 1 }), ["other: unknown key"]);
  });

  it("refuses values that are no objects", () => {
    for (const value of [null, [], "x", 5, () => {}]) {
      assert.deepEqual(findProblems(schema, { worker: value }), ["worker: must be an object"]);
    }
  });
});

describe("suggestName", () => {
  it("finds names with missing, added, wrong or swapped letters, and prefers the nearest", () => {
    const knownFlags = ["--port", "--host", "--public-base-url", "--user", "--log-level", "--log-format"];
    for (const [word, meant] of [
      ["--prot", "--port"],
      ["--usr", "--user"],
      ["--hosst", "--host"],
      ["--log-levl", "--log-level"],
      ["--publicBaseUrl", "--public-base-url"],
      ["--post", "--port"],
    ] as const) {
      assert.equal(suggestName(word, knownFlags), `; did you mean ${meant}?`, word);
    }
    for (const word of ["--elsewhere", "--x", "", "--"])
      assert.equal(suggestName(word, knownFlags, "; see --help"), "; see --help");
    assert.equal(suggestName("runs", ["run", "runs"]), "; did you mean runs?");
  });
});
