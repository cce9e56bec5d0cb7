/**
 * A program in an installation without the packages of OpenTelemetry. Prints what came of it as JSON: the packages that an app and a run
 * asked for, the names of the run's spans, and the error of the exporter's import.
 */
import { registerHooks } from "node:module";

const requested: string[] = [];
registerHooks({
  resolve(specifier, context, next) {
    if (!specifier.startsWith("@opentelemetry/")) return next(specifier, context);
    requested.push(specifier);
    throw Object.assign(new Error(`Cannot find package '${specifier}'`), { code: "ERR_MODULE_NOT_FOUND" });
  },
});

const { createApp } = await import("../../../adapters/app.ts");
await import("../../../adapters/standalone/main.ts");
const agents = {
  echo: async ({ span }: { span: (name: string, work: () => string) => Promise<string> }) =>
    await span("say", () => "Hi"),
};
const app = await createApp({ agents, database: ":memory:" } as never);
const body = JSON.stringify({ assistant_id: "echo", input: {} });
const response = await app.fetch(new Request("http://127.0.0.1/runs/wait", { method: "POST", body }));
await response.text();
const { items } = await app.service.traces.search();
const { spans } = await app.service.traces.get(null, items[0]?.run_id as string);
await app.service.stop();
const requestedByRun = [...requested];
const exporterError = await import("../../../adapters/otel/mod.ts").then(
  () => null,
  (error: Error) => error.message,
);
const names = spans.map(({ name }) => name);
console.log(JSON.stringify({ status: response.status, names, requestedByRun, exporterError }));
