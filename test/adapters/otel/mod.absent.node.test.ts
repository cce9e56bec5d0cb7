/** An installation without the packages of OpenTelemetry: everything starts, and only the exporter asks for them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { root, start } from "../../support/programs.ts";

describe("an installation without OpenTelemetry", () => {
  it("runs agents and keeps their traces without its packages, which the exporter names", async () => {
    // A process of its own: its hooks would hide the packages from the tests beside it.
    await using program = start("test/adapters/otel/mod.absent.harness.ts", [], { cwd: root });
    const [line] = await program.printed(/^\{.*\}$/m);
    const { status, names, requestedByRun, exporterError } = JSON.parse(line);
    assert.equal(status, 200);
    assert.ok(names.includes("say"), line);
    assert.deepEqual(requestedByRun, []);
    assert.match(exporterError, /@opentelemetry\/api/);
  });
});
