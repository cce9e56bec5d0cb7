/** The OTLP exporter of the stand-alone server, with the SDK of OpenTelemetry and a receiver for what it sends. */
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { createTemporaryFolder, type Program, start, waitForUrl } from "../../support/programs.ts";

const packages = fileURLToPath(new URL("../../../node_modules/", import.meta.url));

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string };
}
interface SentSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly Attribute[];
}
interface SentTraces {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[];
  }[];
}

const bodies: SentTraces[] = [];
const receiver = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    if (request.url === "/v1/traces") bodies.push(JSON.parse(Buffer.concat(chunks).toString()) as SentTraces);
    response.setHeader("content-type", "application/json").end("{}");
  });
});
let endpoint = "";

/** A project with one function. Its `node_modules` have the packages of OpenTelemetry only if `isInstalled`. */
function project(traces: object, isInstalled: boolean) {
  const folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "agent.mjs"), 'export const agent = ({ span }) => span("rank", () => "secret");\n');
  const graphs = { agent: "./agent.mjs:agent" };
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, traces }));
  if (isInstalled) {
    mkdirSync(join(folder.path, "node_modules"));
    symlinkSync(join(packages, "@opentelemetry"), join(folder.path, "node_modules/@opentelemetry"));
  }
  const serve = (env: Readonly<Record<string, string>> = {}): Program =>
    start("server.ts", ["--port", "0", "--database", ":memory:"], {
      cwd: folder.path,
      env: {
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_METRICS_EXPORTER: "none",
        OTEL_LOGS_EXPORTER: "none",
        ...env,
      },
    });
  return { serve, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

const readText = (attributes: readonly Attribute[], name: string): string | undefined =>
  attributes.find(({ key }) => key === name)?.value.stringValue;

describe("the OTLP exporter", () => {
  before(async () => {
    await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
    const address = receiver.address();
    assert.ok(typeof address === "object" && address);
    endpoint = `http://127.0.0.1:${address.port}`;
  });
  after(() => receiver.close());

  it("sends the spans of runs with the ids of their trace, the last ones at the shutdown", async () => {
    using app = project({ content: "all" }, true);
    await using program = app.serve({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    const url = await waitForUrl(program);
    assert.ok(program.output().includes(`Traces: exported to ${endpoint}`), program.output());
    const response = await fetch(`${url}/runs/wait`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ assistant_id: "agent", input: { text: "secret" } }),
    });
    assert.equal(response.status, 200);
    await response.body?.cancel();
    assert.equal(await program.kill("SIGTERM"), 0);
    const resources = bodies.flatMap(({ resourceSpans }) => resourceSpans);
    assert.equal(readText(resources[0]?.resource.attributes ?? [], "service.name"), "greenroom");
    const spans = resources.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
    const attempt = spans.find(({ name }) => name === "invoke_agent agent");
    const custom = spans.find(({ name }) => name === "custom rank");
    assert.ok(attempt && custom, spans.map(({ name }) => name).join());
    const run_id = readText(attempt.attributes, "greenroom.run_id");
    assert.deepEqual([attempt.traceId, custom.traceId], [run_id?.replaceAll("-", ""), attempt.traceId]);
    assert.equal(custom.parentSpanId, attempt.spanId);
    assert.ok(!JSON.stringify(bodies).includes("secret"));
  });

  it("is missing without its packages: a problem if traces.otel is true, else a warning", async () => {
    using wanted = project({ otel: true }, false);
    await using refused = wanted.serve();
    assert.equal(await refused.ended, 1);
    assert.match(refused.output(), /traces\.otel: needs @opentelemetry\/sdk-node and @opentelemetry\/api: npm install/);
    using other = project({}, false);
    await using program = other.serve({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    await waitForUrl(program);
    assert.match(program.output(), /OTEL_EXPORTER_OTLP_ENDPOINT: needs @opentelemetry\/sdk-node/);
    assert.ok(!program.output().includes("Traces: exported"));
  });

  it("does not start with traces.otel: false", async () => {
    using app = project({ otel: false }, true);
    await using program = app.serve({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint });
    await waitForUrl(program);
    assert.ok(!program.output().includes("Traces: exported"), program.output());
  });
});
