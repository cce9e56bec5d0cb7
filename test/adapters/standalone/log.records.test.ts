import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { formatTextLine } from "../../../adapters/standalone/log.ts";
import { waitForUrl } from "../../support/programs.ts";
import { createProject, graphs, serve } from "./config.harness.ts";

describe("the log of the stand-alone server", () => {
  it("is a line of JSON for each record if the output is no terminal", async () => {
    using folder = createProject({ graphs, http: { app: "./src/app.ts:app" } });
    await using program = serve(folder.path);
    const url = await waitForUrl(program);
    const response = await fetch(`${url}/fails`, { headers: { "x-request-id": "mine", "x-session-token": "canary" } });
    assert.equal(response.status, 500);
    await response.text();
    const [line] = await program.printed(/^\{.*"message":"A request failed".*\}$/m);
    const { time, error, ...record } = JSON.parse(line) as Record<string, unknown>;
    assert.ok(!Number.isNaN(Date.parse(String(time))));
    assert.deepEqual(record, { level: "error", message: "A request failed", method: "GET", request_id: "mine" });
    assert.equal((error as Error).message, "it failed");
    assert.ok(!program.output().includes("canary"));
  });

  it("is text on a terminal, without control characters", () => {
    const now = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
    assert.equal(
      formatTextLine(
        { level: "warn", message: "a lease was not renewed", run_id: "r", tries: 2, gone: undefined },
        now,
      ),
      "03:04:05.678 warn a lease was not renewed run_id=r tries=2",
    );
    assert.equal(
      formatTextLine({ level: "warn", message: "webhook delivery failed", status: 500, error: "bad_status" }, now),
      "03:04:05.678 warn webhook delivery failed status=500 error=bad_status",
    );
    const error = Object.assign(new Error("no"), { stack: "Error: no\u001b[2J\n    at x" });
    assert.equal(
      formatTextLine({ level: "error", message: "failed", thread_id: "a\r\nb", error }, now),
      "03:04:05.678 error failed thread_id=a\\x0d\\x0ab\n  Error: no\\x1b[2J\n      at x",
    );
  });
});
