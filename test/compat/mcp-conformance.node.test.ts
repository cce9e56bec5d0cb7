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
import { createConformanceExecutor, prepareTools } from "./mcp/agents.ts";

const SUITE = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/conformance/package.json")),
  "dist/index.js",
);

/** The suite runs these with 2026-07-28, and exits with 0 also when they fail: they belong to an extension. */
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

describe("the MCP conformance suite", () => {
  let service: Service;
  let server: Listener;
  // The suite saves its results in the current folder.
  const folder = mkdtempSync(join(tmpdir(), "mcp-conformance-"));

  before(async () => {
    service = await createService({
      storage: nodeSqlite(":memory:"),
      executor: createConformanceExecutor(),
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

  async function run(...args: string[]): Promise<string> {
    const url = `http://127.0.0.1:${server.port}/mcp`;
    const child = spawn(process.execPath, [SUITE, "server", "--url", url, ...args], { cwd: folder });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text) => (output += text));
    const code = await new Promise((done) => child.on("close", done));
    assert.equal(code, 0, output);
    return output;
  }

  for (const [version, extension] of [
    ["2025-11-25", []],
    ["2026-07-28", TASKS],
  ] as const) {
    it(`passes the requirements of ${version}, except for the listed ones`, async () => {
      const file = fileURLToPath(new URL(`mcp/expected-failures-${version}.yaml`, import.meta.url));
      const output = await run("--requirements", version, "--expected-failures", file);
      for (const scenario of extension) {
        assert.match(output, new RegExp(`✓ ${scenario}: [1-9]\\d* passed, 0 failed`));
      }
    });
  }
});
