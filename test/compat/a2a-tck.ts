/**
 * Runs a checkout of the A2A TCK (a2aproject/a2a-tck, for 1.0) against agents of this server, and compares its report with
 * `a2a-tck.json`: a requirement that fails or is not tested must be listed there, and one that is listed must not pass.
 *
 * node test/compat/a2a-tck.ts PATH [PYTHON]
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { serve } from "../../adapters/node/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { type AgentFunction, fromFunctions, type JsonObject } from "../../lib/mod.ts";
import { createService } from "../../lib/service.ts";

const [checkout, python = "python3"] = process.argv.slice(2);
if (checkout === undefined) throw new Error("Name the folder of a checkout of the TCK");

const says = (...content: JsonObject[]): JsonObject => ({ messages: [{ type: "ai", content }] });
const file = (source: JsonObject): JsonObject =>
  says({ type: "file", mime_type: "text/plain", metadata: { filename: "output.txt" }, ...source });

/** The longest prefix of the message's id decides, as in the scenarios of the TCK. */
const ANSWERS: readonly (readonly [prefix: string, answer: (job: Parameters<AgentFunction>[0]) => unknown])[] = [
  ["tck-artifact-file-url", () => file({ source_type: "url", url: "https://example.com/output.txt" })],
  ["tck-artifact-file", () => file({ source_type: "base64", data: "dGNr" })],
  ["tck-artifact-data", () => says({ type: "text", text: '{"key":"value","count":42}' })],
  ["tck-artifact-text", () => "Generated text content"],
  ["tck-message-response", () => "Direct message response"],
  ["tck-input-required", ({ interrupt }) => interrupt("What next?")],
  ["tck-auth-required", ({ interrupt }) => interrupt("Sign in, then answer")],
  [
    "tck-delayed-complete",
    async ({ signal }) => {
      await wait(2000, undefined, { signal });
      return "Done after delay";
    },
  ],
  ["tck-stream-001", () => "Stream hello from TCK"],
  ["tck-stream-003", () => "Stream task lifecycle"],
  ["tck-stream-ordering-001", () => "Ordered output"],
];

const agent: AgentFunction = (job) => {
  if (job.command?.resume !== undefined) return "Hello from TCK";
  const id = String(job.messages.at(-1)?.id ?? "");
  const [, answer = () => "Hello from TCK"] = ANSWERS.find(([prefix]) => id.startsWith(prefix)) ?? [];
  return answer(job);
};

interface Requirement {
  readonly status: "PASS" | "FAIL" | "SKIPPED" | "NOT TESTED";
  readonly errors: readonly string[];
}
type Explained = Readonly<Record<string, JsonObject | string>>;

/** Finds the listed name of a test. A listed name that ends with a star stands for all names with this beginning. */
const findListedName = (id: string, listed: Explained): string | undefined =>
  Object.keys(listed).find((name) => (name.endsWith("*") ? id.startsWith(name.slice(0, -1)) : id === name));

/** Returns the differences between the report and the lists. */
function differences(
  report: Readonly<Record<string, Requirement>>,
  failures: Explained,
  untested: Explained,
): string[] {
  const listedNames = new Set<string>();
  const problems: string[] = [];
  for (const [id, { status, errors }] of Object.entries(report)) {
    const name = status === "PASS" ? undefined : findListedName(id, status === "FAIL" ? failures : untested);
    if (name !== undefined) listedNames.add(name);
    else if (status !== "PASS") problems.push(`${id} is not listed: ${[status, ...errors].join("; ").slice(0, 500)}`);
  }
  for (const name of Object.keys({ ...failures, ...untested })) {
    if (!listedNames.has(name)) problems.push(`${name} is listed, but the suite has no such result any more`);
  }
  return problems;
}

const service = await createService({
  storage: nodeSqlite(":memory:"),
  executor: fromFunctions({ tck: agent }),
  webhooks: {
    // The suite's receiver has any free port.
    url: { allow_private_network: true, allowed_ports: Array.from({ length: 65_535 }, (_, at) => at + 1) },
  },
});
const [assistant] = (await service.assistants.search({ graph_id: "tck" })).items;
if (!assistant) throw new Error("There is no assistant");
const metadata = { ...assistant.metadata, a2a: { input_modes: ["text/plain", "application/json"] } };
await service.assistants.update(assistant.assistant_id, { metadata });
const server = await serve(createHandler(service), { port: 0, hostname: "127.0.0.1" });
const folder = mkdtempSync(join(tmpdir(), "a2a-tck-"));
try {
  const host = `http://127.0.0.1:${server.port}/a2a/${assistant.assistant_id}`;
  const path = join(folder, "report");
  const args = ["--sut-host", host, "--transport", "jsonrpc", "--compatibility-report", path, "-p", "no:cacheprovider"];
  const options = ["--webhook-host", "127.0.0.1", "-q", "--tb=line"];
  const child = spawn(python, ["-m", "pytest", "tests/compatibility", ...args, ...options], {
    cwd: checkout,
    env: { ...process.env, PYTHONPATH: "." },
    stdio: "inherit",
  });
  await new Promise((done) => child.on("close", done));
  const report = JSON.parse(readFileSync(`${path}.json`, "utf8")).per_requirement as Record<string, Requirement>;
  const { failures, not_tested } = JSON.parse(readFileSync(new URL("a2a-tck.json", import.meta.url), "utf8"));
  const problems = differences(report, failures, not_tested);
  for (const problem of problems) console.log(problem);
  const count = (status: Requirement["status"]): number =>
    Object.values(report).filter((requirement) => requirement.status === status).length;
  console.log(
    `${count("PASS")} requirements pass, ${count("FAIL")} fail, ${count("SKIPPED") + count("NOT TESTED")} are not tested`,
  );
  if (problems.length > 0) process.exitCode = 1;
} finally {
  await server.close();
  await service.stop();
  rmSync(folder, { recursive: true });
}
