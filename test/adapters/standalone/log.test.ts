/** Checks the log records of the stand-alone server, their formats, and the values that it never logs. */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { createLog, type LogFormat, type LogLevel, type Output } from "../../../adapters/standalone/log.ts";
import type { Handler } from "../../../lib/http/handler.ts";
import { createService, fromFunctions, type LogRecord } from "../../../lib/mod.ts";
import { createTemporaryFolder, start, waitForUrl } from "../../support/programs.ts";

const TOKEN = "9f0f0f0f-1111-4222-8333-444444444444";

/** Returns a log, and the list of lines that it writes. */
function createRecordedLog(level: LogLevel, color = false, format: LogFormat = "text") {
  const lines: string[] = [];
  const to = (name: string): Output => ({ color, write: (line) => void lines.push(`${name} ${line}`) });
  return { log: createLog({ level, format, out: to("out"), err: to("err") }), lines };
}

const createEchoService =
  (status: number): Handler =>
  async () =>
    new Response("", { status, headers: { "x-request-id": "r1" } });

const removeTimes = (lines: readonly string[]): string[] =>
  lines.map((line) => line.replace(/\d\d:\d\d:\d\d\.\d{3}/, "T").replace(/\b\d+ ms/, "N ms"));

describe("the log of the stand-alone server", () => {
  it("has a line for each request, without queries and the ids of feedback tokens", async () => {
    const { log, lines } = createRecordedLog("info");
    const handler = log.wrapHandler(createEchoService(200));
    for (const path of [
      "/threads/a%20b?api_key=secret#x",
      "",
      `/api/v1/feedback/tokens/${TOKEN}?score=1`,
      `/api/v1/feedback/tokens%2F${TOKEN}`,
      `/api/v1/feedback//tokens//${TOKEN}/more`,
    ]) {
      await handler(new Request(`http://x${path}`, { method: "POST" }));
    }
    assert.deepEqual(removeTimes(lines), [
      "out T POST /threads/a%20b 200 N ms request_id=r1",
      "out T POST / 200 N ms request_id=r1",
      "out T POST /api/v1/feedback/tokens/*** 200 N ms request_id=r1",
      "out T POST /api/v1/feedback/tokens%2F*** 200 N ms request_id=r1",
      "out T POST /api/v1/feedback//tokens//*** 200 N ms request_id=r1",
    ]);
  });

  it("has polled routes at level debug only, and does not wrap the handler above level info", async () => {
    for (const [level, count] of [
      ["debug", 4],
      ["info", 1],
    ] as const) {
      const { log, lines } = createRecordedLog(level);
      const handler = log.wrapHandler(createEchoService(200));
      for (const path of ["/ok", "/ready", "/metrics?format=json", "/info"]) {
        await handler(new Request(`http://x${path}`));
      }
      assert.equal(lines.length, count);
    }
    const { log, lines } = createRecordedLog("warn");
    const handler = createEchoService(500);
    assert.equal(log.wrapHandler(handler), handler);
    assert.equal(log.onRunFinished, undefined);
    log.write({ level: "info", message: "quiet" });
    log.write({ level: "warn", message: "loud" });
    assert.deepEqual(removeTimes(lines), ["err T warn loud"]);
  });

  it("has colours if they are supported", async () => {
    const { log, lines } = createRecordedLog("info", true);
    await log.wrapHandler(createEchoService(404))(new Request("http://x/nowhere"));
    assert.ok((lines[0] ?? "").includes("GET /nowhere \u001b[33m404\u001b[0m"));
  });

  it("has a line for each ended run, and leaves failed runs to the library", () => {
    const { log, lines } = createRecordedLog("info");
    const run = { run_id: "r", thread_id: "t", assistant_id: "a", graph_id: "agent", metadata: {}, attempt: 1 };
    const times = { started_at: "2026-01-01T00:00:00.000Z", ended_at: "2026-01-01T00:00:01.500Z" };
    for (const status of ["success", "interrupted", "error", "timeout"] as const) {
      log.onRunFinished?.({ ...run, ...times, status });
    }
    assert.deepEqual(
      lines.map((line) => line.replace(/\d\d:\d\d:\d\d\.\d{3}/, "T")),
      ["success", "interrupted"].map((status) => `out T run agent ${status} 1500 ms attempt=1 run_id=r thread_id=t`),
    );
  });

  it("of a program is JSON: a failed run is there once, with its stack, and so is a 501 for its route", async () => {
    using folder = createTemporaryFolder();
    mkdirSync(join(folder.path, "src"));
    writeFileSync(
      join(folder.path, "src/agents.mjs"),
      'export async function* broken() { throw new TypeError("it broke"); }\n',
    );
    writeFileSync(
      join(folder.path, "greenroom.json"),
      JSON.stringify({ graphs: { broken: "./src/agents.mjs:broken" } }),
    );
    const runFails = async (env: Record<string, string>): Promise<Record<string, unknown>[]> => {
      await using program = start("server.ts", ["--port", "0", "--database", ":memory:"], { cwd: folder.path, env });
      const url = await waitForUrl(program);
      const post = { method: "POST", body: JSON.stringify({ assistant_id: "broken" }) };
      await (await fetch(`${url}/runs/wait`, post)).text();
      for (const path of ["/ui/x", "/ui/x", "/ok", `/api/v1/feedback/tokens/${TOKEN}?score=1`]) {
        await (await fetch(url + path, { method: path === "/ui/x" ? "POST" : "GET" })).text();
      }
      assert.equal(await program.kill("SIGTERM"), 0);
      assert.ok(!program.output().includes(TOKEN));
      const lines = program.output().split("\n");
      return lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line) as Record<string, unknown>);
    };
    const records = await runFails({});
    const warnings = records.filter(({ level }) => level !== "info");
    assert.deepEqual(
      warnings.map(({ level, message }) => [level, message]),
      [
        ["error", "a run failed"],
        ["warn", "a route was called that is not built yet"],
      ],
    );
    const [{ run_id, thread_id, graph_id, error } = {}] = warnings;
    assert.match(`${run_id} ${thread_id} ${graph_id}`, /^[0-9a-f-]{36} [0-9a-f-]{36} broken$/);
    assert.match((error as { stack: string }).stack, /it broke[\s\S]*agents\.mjs/);
    assert.deepEqual(
      records.filter(({ message }) => message === "request").map(({ method, path, status }) => [method, path, status]),
      [
        ["POST", "/runs/wait", 200],
        ["POST", "/ui/x", 501],
        ["POST", "/ui/x", 501],
        ["GET", "/api/v1/feedback/tokens/***", 404],
      ],
    );
    const errors = await runFails({ GREENROOM_LOG_LEVEL: "error" });
    assert.deepEqual(
      errors.map(({ message }) => message),
      ["a run failed"],
    );
  });

  it("is text with that setting, and rejects other levels and formats", async () => {
    using folder = createTemporaryFolder();
    writeFileSync(join(folder.path, "agents.mjs"), "export async function* idle() {}\n");
    writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs: { idle: "./agents.mjs:idle" } }));
    const at = { cwd: folder.path };
    await using program = start("server.ts", ["--port=0", "--database=:memory:", "--log-format", "text"], at);
    await (await fetch(`${await waitForUrl(program)}/info`)).text();
    await program.printed(/^\d\d:\d\d:\d\d\.\d{3} GET \/info 200 \d+ ms request_id=\S+$/m);
    await using refused = start("server.ts", ["--log-level=loud"], { ...at, env: { GREENROOM_LOG_FORMAT: "xml" } });
    assert.equal(await refused.ended, 1);
    assert.match(refused.output(), /--log-level: loud is none of debug, info, warn, error$/m);
    assert.match(refused.output(), /GREENROOM_LOG_FORMAT: xml is none of text, json$/m);
  });
});

describe("an embedded service", () => {
  it("logs a failed run once, as an error with its stack", async () => {
    const log: LogRecord[] = [];
    const thrown = new RangeError("out of range");
    const service = await createService({
      storage: nodeSqlite(":memory:"),
      executor: fromFunctions({
        fails: async () => {
          throw thrown;
        },
        works: async () => "done",
      }),
      environment: { log: (record) => void log.push(record) },
    });
    const runAgent = async (assistant_id: string): Promise<string> => {
      const { run, result } = await service.runs.wait(null, { assistant_id });
      await result;
      return run.run_id;
    };
    await runAgent("works");
    const run_id = await runAgent("fails");
    await service.stop(0);
    const failed = log.filter((record) => record.run_id === run_id);
    assert.deepEqual(
      failed.map(({ level, message, graph_id, error }) => [level, message, graph_id, error === thrown]),
      [["error", "a run failed", "fails", true]],
    );
    assert.equal(log.filter(({ level }) => level === "error").length, 1);
  });
});
