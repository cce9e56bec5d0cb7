/** The conformance suite of the Model Context Protocol, against agents that are its tools. The files in `mcp` list what servers of tools cannot meet. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { type Listener, serve } from "../../adapters/node/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { createService, type Service } from "../../lib/service.ts";
import { conformanceExecutor, prepareTools } from "./mcp/agents.ts";

const SUITE = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json")),
  "dist/index.js",
);

const TASKS = [
  "tasks-lifecycle",
  "tasks-capability-negotiation",
  "tasks-wire-fields",
  "tasks-request-state-removal",
  "tasks-mrtr-input",
  "tasks-request-headers",
  "tasks-dispatch-and-envelope",
  "tasks-required-task-error",
  "tasks-mrtr-composition",
];

// The scenarios mostly wait for timers of their own, so they do it together.
describe("the MCP conformance suite", { concurrency: 4 }, () => {
  let service: Service;
  let server: Listener;
  const folder = mkdtempSync(join(tmpdir(), "mcp-conformance-"));

  before(async () => {
    service = await createService({
      storage: nodeSqlite(":memory:"),
      executor: conformanceExecutor(),
      // Some tools fail on purpose.
      environment: { log: () => {} },
    });
    await prepareTools(service);
    const handler = createHandler(service, { hosts: ["127.0.0.1", "localhost"] });
    server = await serve(handler, { port: 0, hostname: "127.0.0.1" });
  });
  after(async () => {
    await server.close();
    await service.stop();
    rmSync(folder, { recursive: true });
  });

  async function run(...args: string[]): Promise<void> {
    const url = `http://127.0.0.1:${server.port}/mcp`;
    // The suite saves its results in the current folder, by scenario and time.
    const cwd = mkdtempSync(join(folder, "run-"));
    const child = spawn(process.execPath, [SUITE, "server", "--url", url, ...args], { cwd });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += text));
    const code = await new Promise((done) => child.on("close", done));
    assert.equal(code, 0, output);
  }

  for (const version of ["2025-11-25", "2026-07-28"]) {
    it(`passes what ${version} requires, but for the listed`, async () => {
      const file = fileURLToPath(new URL(`mcp/expected-failures-${version}.yaml`, import.meta.url));
      await run("--requirements", version, "--expected-failures", file);
    });
  }

  for (const scenario of TASKS) {
    it(`passes ${scenario}`, () => run("--scenario", scenario, "--force", "--spec-version", "2026-07-28"));
  }
});
