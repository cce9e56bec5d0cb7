/** docs/reference/run-requests.md: what the page says of each field is what the server does. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { CRON_RUN_OPTIONS } from "../../lib/crons/cron-run.ts";
import { runCreate } from "../../lib/http/run-request.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { createOpenApi } from "../../scripts/openapi/mod.ts";
import { FIELD_TEXTS, runFieldsPage } from "../../scripts/openapi/run-fields.ts";
import { testService } from "../suite/kit.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");
const { version } = JSON.parse(read("package.json")) as { version: string };
const document = createOpenApi(version);

/** Returns the cells of each row of the page by the path of the field. */
function readRows(page: string): ReadonlyMap<string, readonly string[]> {
  const rows = [...page.matchAll(/^\| `([\w.]+)` \| (.*) \|$/gm)];
  return new Map(rows.map(([, path = "", cells = ""]) => [path, cells.split(" | ")]));
}

/** Returns a request with an example value of one field. */
function createRequest(path: string, example: Json): JsonObject {
  const [name = "", member] = path.split(".");
  return { assistant_id: "echo", [name]: member === undefined ? example : { [member]: example } };
}

describe("docs/reference/run-requests.md", () => {
  const page = read("docs/reference/run-requests.md");
  const rows = readRows(page);

  it("equals the output of scripts/openapi/mod.ts", () => {
    assert.equal(page, runFieldsPage(document), "run: node scripts/openapi/mod.ts");
  });

  it("has a row for each field of the schema that reads run requests", () => {
    const names = new Set([...rows.keys()].map((path) => path.split(".")[0]));
    assert.deepEqual([...names].sort(), Object.keys(runCreate.entries).sort());
    const crons = [...rows].filter(([, cells]) => cells[4] === "✓").map(([path]) => path.split(".")[0] as string);
    assert.deepEqual(
      CRON_RUN_OPTIONS.filter((name) => !crons.includes(name)),
      [],
    );
  });

  it("stops the script for a field without a text, and for a text without a field", () => {
    const { schemas } = document.components as unknown as { schemas: Record<string, JsonObject> };
    const properties = schemas.RunCreate?.properties as JsonObject;
    const change = (fields: JsonObject): JsonObject => ({
      components: { schemas: { ...schemas, RunCreate: { ...schemas.RunCreate, properties: fields } } },
    });
    assert.throws(() => runFieldsPage(change({ ...properties, priority: {} })), /Describe priority in/);
    const { webhook: _, ...fields } = properties;
    assert.throws(() => runFieldsPage(change(fields)), /describes fields that do not exist: webhook/);
    const described = change({ ...properties, webhook: { type: "string", description: "Another text" } });
    assert.match(runFieldsPage(described), /\| `webhook` .* \| Another text \|$/m);
  });

  it("says which requests refuse a field", async () => {
    await using test = await testService({
      agents: { echo: () => "Hi" },
      public_base_url: "https://agents.example",
      http: { disable_webhooks: true },
    });
    const post = async (path: string, body: JsonObject): Promise<number> =>
      (await test.fetch(new Request(`http://localhost${path}`, { method: "POST", body: JSON.stringify(body) }))).status;
    for (const [path, { example, stateless }] of Object.entries(FIELD_TEXTS)) {
      const request = createRequest(path, example);
      const { thread_id } = await test.service.threads.create({});
      // A thread without an open interrupt or this checkpoint: the field is taken, and what it names is missing.
      const expected = path === "command.resume" ? 409 : stateless === "refuses" ? 404 : 200;
      assert.equal(await post(`/threads/${thread_id}/runs`, request), expected, `${path} on a thread`);
      assert.equal(await post("/runs", request), stateless === "refuses" ? 400 : 200, `${path} without a thread`);
      assert.equal(rows.get(path)?.[3] === "400", stateless === "refuses", path);
    }
  });

  it("has the defaults of a run that names no field", async () => {
    await using test = await testService({ agents: { echo: () => "Hi" } });
    const { thread_id } = await test.service.threads.create({});
    const onThread = await test.service.runs.create(thread_id, { assistant_id: "echo" });
    const stateless = await test.service.runs.create(null, { assistant_id: "echo" });
    const getDefault = (path: string): string | undefined => rows.get(path)?.[1];
    const { kwargs, multitask_strategy } = onThread;
    assert.equal(getDefault("multitask_strategy"), `\`${multitask_strategy}\``);
    assert.deepEqual([`\`${kwargs.stream_mode}\``], [getDefault("stream_mode")]);
    assert.equal(getDefault("stream_subgraphs"), `\`${kwargs.subgraphs}\``);
    assert.equal(getDefault("stream_resumable"), `\`${kwargs.resumable}\``);
    assert.equal(
      getDefault("durability"),
      `\`${kwargs.durability}\`; \`${stateless.kwargs.durability}\` for a stateless run`,
    );
    assert.deepEqual([kwargs.interrupt_before ?? [], getDefault("interrupt_before")], [[], "none"]);
    const missing = "0f0f0f0f-1111-4222-8333-444444444444";
    await assert.rejects(test.service.runs.create(missing, { assistant_id: "echo" }), { reason: "thread_not_found" });
    assert.equal(getDefault("if_not_exists"), "`reject`");
  });
});
