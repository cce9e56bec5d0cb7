/** promtool of Prometheus accepts the metrics, the alerts and the configuration, where that program is installed. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { createMetricsText } from "../../support/metrics-server.ts";

const PROMTOOL = process.env["PROMTOOL"] ?? "promtool";
const hasPromtool = spawnSync(PROMTOOL, ["--version"]).status === 0;
const folder = fileURLToPath(new URL("../../../examples/monitoring/", import.meta.url));

/** Runs promtool, which must succeed, and returns what it prints. */
function run(args: readonly string[], input = ""): string {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { input, cwd: folder, encoding: "utf8" });
  assert.equal(status, 0, `${stdout}${stderr}`);
  return `${stdout}${stderr}`;
}

// The other tests of these files run everywhere: metrics-text.served.test.ts, test/repo/monitoring.node.test.ts.
if (hasPromtool)
  describe("promtool", () => {
    it("accepts /metrics without a remark", async () => {
      const { text } = await createMetricsText();
      assert.equal(run(["check", "metrics"], text), "");
      const { status, stderr } = spawnSync(PROMTOOL, ["check", "metrics"], {
        input: `${text}x{ 1\n`,
        encoding: "utf8",
      });
      assert.notEqual(status, 0, stderr);
    });

    it("accepts the alerts and the configuration of Prometheus", () => {
      assert.match(run(["check", "rules", "alerts.yml"]), /SUCCESS: \d+ rules found/);
      assert.match(run(["check", "config", "prometheus.yml"]), /SUCCESS: prometheus\.yml is valid/);
    });
  });
