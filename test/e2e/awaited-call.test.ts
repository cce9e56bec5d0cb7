/** A program that awaits a call in process stays alive until it has its result. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { root, start } from "../support/programs.ts";

const RESULTS: Readonly<Record<string, RegExp>> = {
  ask: /"ask":\{"__interrupt__":\[\{.*Go on\?/,
  sleep: /"sleep":\{"messages":\[.*Slept\./,
  delayed: /"delayed":\{"messages":\[.*Slept\./,
  join: /"join":\{"messages":\[.*Slept\./,
  stream: /"stream":"end"/,
  joinStream: /"joinStream":"end"/,
  thread: /"thread":"run_done"/,
  events: /"events":"completed"/,
  client: /"client":\{"messages":\[.*Slept\./,
  stop: /"stop":"stopped"/,
};

describe("a program without a server", () => {
  for (const [way, result] of Object.entries(RESULTS)) {
    it(`stays alive while it awaits ${way}`, async () => {
      await using program = start("test/e2e/awaited-call.ts", [way], { cwd: root });
      const code = await program.ended;
      assert.match(program.output(), result);
      // The process also ends by itself afterwards: nothing keeps it alive then.
      assert.equal(code, 0, program.output());
    });
  }

  it("ends when it awaits nothing, although its service has delayed runs", async () => {
    await using program = start("test/e2e/awaited-call.ts", ["idle"], { cwd: root });
    const code = await program.ended;
    assert.match(program.output(), /"idle":"function"/);
    assert.equal(code, 0, program.output());
  });
});
