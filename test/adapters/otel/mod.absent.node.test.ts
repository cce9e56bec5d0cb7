/** An installation without the packages of OpenTelemetry: everything starts, and only the exporter asks for them. */
import assert from "node:assert/strict";
import { registerHooks } from "node:module";
import { describe, it } from "node:test";

const asked: string[] = [];
registerHooks({
  resolve(specifier, context, next) {
    if (!specifier.startsWith("@opentelemetry/")) return next(specifier, context);
    asked.push(specifier);
    throw Object.assign(new Error(`Cannot find package '${specifier}'`), { code: "ERR_MODULE_NOT_FOUND" });
  },
});

describe("an installation without OpenTelemetry", () => {
  it("runs agents, keeps their traces, and asks for no package of it", async () => {
    const { createApp } = await import("../../../adapters/app.ts");
    await import("../../../adapters/standalone/main.ts");
    const agents = {
      echo: async ({ span }: { span: (name: string, work: () => string) => Promise<string> }) =>
        await span("say", () => "Hi"),
    };
    const app = await createApp({ agents, database: ":memory:" } as never);
    const response = await app.fetch(
      new Request("http://127.0.0.1/runs/wait", {
        method: "POST",
        body: JSON.stringify({ assistant_id: "echo", input: {} }),
      }),
    );
    assert.equal(response.status, 200);
    await response.text();
    const { items } = await app.service.traces.search();
    const { spans } = await app.service.traces.get(null, items[0]?.run_id as string);
    assert.ok(spans.some(({ kind, name }) => kind === "custom" && name === "say"));
    await app.service.stop();
    assert.deepEqual(asked, []);
  });

  it("names the package that the exporter needs", async () => {
    await assert.rejects(import("../../../adapters/otel/mod.ts"), /@opentelemetry\/api/);
    assert.ok(asked.includes("@opentelemetry/api"));
  });
});
