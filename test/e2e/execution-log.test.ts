import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type Line, parseLine } from "../soak/executions.ts";

describe("the execution log", () => {
  const line: Line = {
    at: 1,
    pid: 2,
    mark: "killed",
    run: "",
    thread: "",
    key: "",
    attempt: 0,
    token: "",
    step: 0,
    version: 0,
  };

  it("can be read after a process was killed in the middle of a line", () => {
    const text = JSON.stringify(line);
    assert.deepEqual(parseLine(text), line);
    for (const length of [1, 9, 30, text.length - 1]) {
      const torn = JSON.stringify({ ...line, pid: 3 }).slice(0, length);
      assert.deepEqual(parseLine(torn + text), line);
      assert.throws(() => parseLine(torn), SyntaxError);
    }
  });
});
