/** The OTLP exporter of the stand-alone server, with the SDK of OpenTelemetry and a receiver that checks the protocol. */
import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { type ReceivedSpan, requireTree, startOtlpReceiver } from "../../support/otlp-receiver.ts";
import { createTemporaryFolder, type Program, start, waitForUrl } from "../../support/programs.ts";

const packages = fileURLToPath(new URL("../../../node_modules/", import.meta.url));

/** An agent with nested spans, one of which fails. With the input "crash" the run fails, too. */
const AGENT = `
export async function agent({ input, span, spend }) {
  await span("plan", async () => {
    await span("weather", () => "rain", { kind: "tool", attributes: { city: "secret-city" } });
    await span("fake-1", () => spend({ tokens_in: 3, tokens_out: 4, cost_usd: 0.5 }), { kind: "model" });
  });
  const work = () => { throw new RangeError("secret-message"); };
  await span("search", work, { kind: "tool" }).catch(() => {});
  if (input?.crash) throw new TypeError("secret-message");
  return "secret-answer";
}
`;

/** A project with one function. Its `node_modules` have the packages of OpenTelemetry only if `isInstalled`. */
function project(traces: object, isInstalled: boolean) {
  const folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "agent.mjs"), AGENT);
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

/** Executes two runs, the second of which fails, stops the server, and returns the spans that were sent. */
async function exportRuns(traces: object, env: Readonly<Record<string, string>>) {
  await using receiver = await startOtlpReceiver();
  using app = project(traces, true);
  await using program = app.serve({ ...env, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint });
  const url = await waitForUrl(program);
  assert.ok(program.output().includes(`Traces: exported to ${receiver.endpoint}`), program.output());
  for (const crash of [false, true]) {
    const response = await fetch(`${url}/runs/wait`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ assistant_id: "agent", input: { text: "secret-prompt", crash } }),
    });
    assert.equal(response.status, 200);
    await response.body?.cancel();
  }
  assert.equal(await program.kill("SIGTERM"), 0);
  assert.deepEqual(receiver.problems, []);
  requireTree(receiver.spans);
  return { spans: [...receiver.spans], formats: new Set(receiver.formats), text: receiver.text() };
}

const [SERVER, CLIENT, INTERNAL] = [2, 3, 1];
const ERROR = 2;

/** The spans of a run as a tree: name, kind, and the names of its ancestors. */
function toPaths(spans: readonly ReceivedSpan[], trace_id: string): readonly string[] {
  const ofRun = spans.filter((span) => span.trace_id === trace_id);
  const findPath = (span: ReceivedSpan): string => {
    const parent = ofRun.find(({ span_id }) => span_id === span.parent_id);
    return `${parent ? `${findPath(parent)} > ` : ""}${span.name}`;
  };
  return ofRun.map(findPath).sort();
}

const findSpan = (spans: readonly ReceivedSpan[], name: string): ReceivedSpan => {
  const span = spans.find((candidate) => candidate.name === name);
  assert.ok(span, `${name} in ${spans.map((other) => other.name).join()}`);
  return span;
};

describe("the OTLP exporter", () => {
  for (const [protocol, compression, format] of [
    ["http/json", "none", "application/json identity"],
    ["http/protobuf", "none", "application/x-protobuf identity"],
    ["http/protobuf", "gzip", "application/x-protobuf gzip"],
  ] as const) {
    it(`sends the spans of runs by ${protocol}, compression ${compression}, the last ones at the shutdown`, async () => {
      const env = { OTEL_EXPORTER_OTLP_PROTOCOL: protocol, OTEL_EXPORTER_OTLP_COMPRESSION: compression };
      const { spans, formats, text } = await exportRuns({ content: "all" }, env);
      assert.deepEqual(formats, new Set([format]));
      const attempts = spans.filter(({ name }) => name === "invoke_agent agent");
      assert.equal(attempts.length, 2);
      for (const { trace_id, attributes } of attempts) {
        assert.equal(trace_id, String(attributes["greenroom.run_id"]).replaceAll("-", ""));
        const attempt = "POST /runs/wait > invoke_agent agent";
        assert.deepEqual(toPaths(spans, trace_id), [
          "POST /runs/wait",
          attempt,
          `${attempt} > custom plan`,
          `${attempt} > custom plan > chat fake-1`,
          `${attempt} > custom plan > execute_tool weather`,
          `${attempt} > execute_tool search`,
        ]);
      }
      const model = findSpan(spans, "chat fake-1");
      assert.deepEqual(
        [model.kind, model.attributes["gen_ai.usage.input_tokens"], model.attributes["greenroom.cost_usd"]],
        [CLIENT, 3, 0.5],
      );
      const search = findSpan(spans, "execute_tool search");
      assert.deepEqual(
        [search.kind, search.status.code, search.attributes["error.type"]],
        [INTERNAL, ERROR, "RangeError"],
      );
      assert.equal(findSpan(spans, "POST /runs/wait").kind, SERVER);
      assert.deepEqual(attempts.map(({ status }) => status.code).sort(), [0, ERROR]);
      for (const { resource, scope } of spans)
        assert.deepEqual([resource["service.name"], scope], ["greenroom", "greenroom"]);
      assert.doesNotMatch(text, /secret/);
    });
  }

  it("sends content with traces.content all and traces.otel.content, and only what traces.content keeps", async () => {
    const { spans } = await exportRuns({ content: "all", otel: { content: true } }, {});
    assert.equal(findSpan(spans, "execute_tool search").status.message, "secret-message");
    const kept = await exportRuns({ content: "references", otel: { content: true } }, {});
    assert.doesNotMatch(kept.text, /secret-(?:message|prompt|answer)/);
  });

  it("is missing without its packages: a problem if traces.otel is true, else a warning", async () => {
    using wanted = project({ otel: true }, false);
    await using refused = wanted.serve();
    assert.equal(await refused.ended, 1);
    assert.match(refused.output(), /traces\.otel: needs @opentelemetry\/sdk-node and @opentelemetry\/api: npm install/);
    using other = project({}, false);
    await using program = other.serve({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" });
    await waitForUrl(program);
    assert.match(program.output(), /OTEL_EXPORTER_OTLP_ENDPOINT: needs @opentelemetry\/sdk-node/);
    assert.ok(!program.output().includes("Traces: exported"));
  });

  it("does not start with traces.otel: false", async () => {
    using app = project({ otel: false }, true);
    await using program = app.serve({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" });
    await waitForUrl(program);
    assert.ok(!program.output().includes("Traces: exported"), program.output());
  });
});
