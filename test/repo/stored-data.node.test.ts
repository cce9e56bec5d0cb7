/** The page for data protection officers has every table, classifies every column, and is right about what a deletion leaves. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { tables } from "../../adapters/sql/schema/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { FunctionJob } from "../../lib/mod.ts";
import type { WebhookTransport } from "../../lib/webhooks/options.ts";
import { type TestService, testService } from "../suite/kit.ts";
import { until } from "../support/until.ts";

const page = readFileSync(new URL("../../docs/operations/stored-data.md", import.meta.url), "utf8");

/** A row of the page. */
interface ListedTable {
  readonly name: string;
  readonly section: string;
  /** The columns with content or personal data. */
  readonly columns: readonly string[];
  readonly stays: string;
}

const listNames = (cell: string): readonly string[] => [...cell.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name);

const listed: readonly ListedTable[] = page.split(/^## /m).flatMap((part) => {
  const [section = ""] = part.split("\n");
  const rows = part.split("\n").filter((line) => /^\| `\w+` \|/.test(line));
  return rows.map((row) => {
    const [name = "", , content = "", personal = "", stays = ""] = row.slice(2, -2).split(" | ");
    return {
      ...{ name: name.replaceAll("`", ""), section, stays },
      columns: [...listNames(content), ...listNames(personal)],
    };
  });
});

const listSection = (section: string): readonly string[] =>
  listed.filter((table) => table.section === section).map(({ name }) => name);
const DELETED = listSection("Deleted with the thread");
const KEPT = listSection("Stays when the thread is deleted");

/** Columns with ids, times, counters and names of the program alone. A new column stands here or on the page. */
const TECHNICAL: Readonly<Record<string, string>> = {
  threads:
    "deployment thread_id created_at updated_at state_updated_at graph_id status head hidden all_events revision slot_token slot_until last_run run_count claim_count ttl_strategy ttl_ms pruned_at",
  runs: "run_id deployment thread_id seq assistant_id assistant_version graph_id status multitask_strategy stateless attempt claims counts_as_attempt claim_number due_at lease_token lease_until cancelled has_checkpoint progressed has_frames has_idempotency_key created_at updated_at started_at ended_at end_frame feedback webhook_host webhook_depth cron_id claim_log call_id resume_targets",
  run_frames: "run_id first_id last_id size",
  thread_events: "deployment thread_id first_seq last_seq run_id methods size created_at",
  checkpoints: "deployment thread_id ns checkpoint_id seq run_id parent_id type versions created_at",
  checkpoint_writes: "deployment thread_id ns checkpoint_id task_id idx run_id run_seq channel type",
  channel_values: "deployment thread_id ns channel version run_id type extends_version",
  labels: "deployment kind row_id path_hash value_hash created_at",
  calls: "deployment thread_id call_id graph_id first_run run_id due_at created_at ended_at",
  call_entries: "deployment thread_id call_id idx run_id",
  call_events: "deployment thread_id call_id seq name occurrence created_at",
  call_tokens: "token_hash deployment thread_id call_id name occurrence",
  push_configs: "push_id deployment thread_id task_id config_id last_run host created_at",
  run_traces:
    "run_id deployment thread_id graph_id assistant_id cron_id source status created_at started_at ended_at active_ms tokens failed",
  run_trace_parts: "run_id part",
  run_trace_contents: "run_id hash",
  webhook_deliveries:
    "delivery_id deployment host depth state attempts series_attempts due_at claim_token claimed_until sent_at created_at thread_id assistant_id assistant_version status multitask_strategy attempt stateless run_created_at started_at ended_at values_omitted run_id",
  delivery_attempts: "delivery_id number at status duration_ms address",
  feedback: "id run_id workspace_id project_id thread_id key source run_started_at created_at modified_at",
  traces: "trace_id deployment thread_id workspace_id project_id started_at counted tokens_in tokens_out cost_usd",
  usage_hourly: "workspace_id hour project_id traces",
  idempotency_keys: "deployment route body_hash run_id created_at",
  cron_firings: "deployment cron_id scheduled_at fired_at run_id skipped manual",
  feedback_tokens:
    "token_id deployment run_id workspace_id project_id feedback_key life_ms expires_at created_at submissions",
  deleted_thread_claims: "deployment id_suffix claim_count",
  assistants: "deployment assistant_id graph_id version created_at updated_at revision",
  assistant_versions: "deployment assistant_id version graph_id created_at",
  crons:
    "deployment cron_id assistant_id thread_id on_run_completed schedule timezone end_time enabled next_run_date failures created_at updated_at revision",
  store_items: "deployment created_at updated_at ttl_ms expires_at",
  users: "id created_at deleted_at workspace_id",
  memberships: "scope_id permissions",
  api_keys: "id organization_id kind key_hash created_at expires_at revoked_at last_used_at",
  organizations: "id created_at",
  workspaces: "id organization_id created_at deleted_at",
  projects: "id workspace_id created_at deleted_at",
  deployments: "name project_id shared",
  row_counts: "deployment kind total",
  usage_seals: "name sealed_before",
  write_probes: "id at padding",
  assertions: "holds",
};

describe("docs/operations/stored-data.md", () => {
  it("lists each table of the schema once, and says how long its rows stay", () => {
    assert.deepEqual(listed.map(({ name }) => name).sort(), Object.keys(tables).sort());
    for (const { name, stays } of listed) assert.match(stays, /^[A-Z0-9]/, name);
  });

  it("classifies every column: as content or personal data on the page, or as technical here", () => {
    for (const { name, columns } of listed) {
      const all = Object.keys(tables[name as keyof typeof tables].columns);
      const classified = [...columns, ...(TECHNICAL[name] ?? "").split(" ")];
      assert.deepEqual(classified.toSorted(), all.toSorted(), name);
    }
  });

  it("names options that exist", () => {
    const configuration = readFileSync(new URL("../../docs/reference/configuration.md", import.meta.url), "utf8");
    const options = page.match(/`(?:traces|retention|store|checkpointer)\.[\w.]+/g) ?? [];
    assert.ok(options.length > 10);
    for (const option of options)
      assert.ok(
        configuration.includes(option.replace("store.ttl", "store.ttl.default_ttl")) ||
          configuration.includes(`${option}.`),
        option,
      );
  });
});

const MARKER = "marker-of-a-person";

/** An agent that is a durable function with a step, and that streams. */
async function* agent({ input, step, span, emit }: FunctionJob): AsyncGenerator<string | { note: string }> {
  const { text } = input as { readonly text: string };
  await step("look_up", () => `${text} found`);
  await span("weather", () => text, { kind: "tool" });
  emit({ text });
  yield { note: text };
  yield text;
}

/** Returns the names of the tables that have a row with this text. */
function findTables(database: DatabaseSync, text: string): readonly string[] {
  const names = database.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[];
  return names
    .map(({ name }) => name)
    .filter((name) =>
      database
        .prepare(`select * from "${name}"`)
        .all()
        .some((row) =>
          Object.values(row).some((value) =>
            (value instanceof Uint8Array ? Buffer.from(value).toString("latin1") : String(value)).includes(text),
          ),
        ),
    )
    .sort();
}

/** Long enough to stand beside its span. */
const TEXT = `${MARKER} ${"x".repeat(300)}`;

/** Executes a run with a webhook, frames and feedback, and calls `inspect` with the database. */
async function withRun(
  traces: { readonly content?: "all" },
  inspect: (database: DatabaseSync, service: TestService, ids: { thread_id: string; run_id: string }) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-stored-"));
  const file = join(folder, "agents.db");
  const transport: WebhookTransport = {
    resolve: async () => ["93.184.215.14"],
    send: async () => ({ status: 200, retry_after: null, address: "93.184.215.14", body: new Uint8Array() }),
  };
  try {
    await using service = await testService({
      ...{ storage: nodeSqlite(file), agents: { agent }, public_base_url: "https://agents.example", traces },
      webhooks: { transport },
    });
    const { threads, runs, feedback, webhooks } = service.service;
    const { thread_id } = await threads.create({ metadata: { owner: MARKER } });
    const { run, result } = await runs.wait(thread_id, {
      ...{ assistant_id: "agent", input: { text: TEXT }, metadata: { note: MARKER } },
      ...{ webhook: "https://hooks.example/in", feedback_keys: ["user"], stream_resumable: true },
    });
    await result;
    const { run_id } = run;
    await until(async () => (await webhooks.get(run_id)).state === "delivered");
    const caller = await service.service.caller(new Request("http://localhost/"));
    const scores = { score: 1, value: null, correction: null, source: "api", source_metadata: null, extra: null };
    await feedback.create(caller, { run_id, key: "user", comment: MARKER, ...scores });
    using database = new DatabaseSync(file, { readOnly: true });
    await inspect(database, service, { thread_id, run_id });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const TRACE_TABLES = ["run_traces", "run_trace_parts", "run_trace_contents"];

describe("a thread that is deleted", () => {
  it("leaves rows only in the tables that the page says", () =>
    withRun({ content: "all" }, async (database, { service }, { thread_id, run_id }) => {
      const before = findTables(database, run_id);
      for (const name of ["runs", "run_traces", "webhook_deliveries", "feedback", "feedback_tokens", "traces", "calls"])
        assert.ok(before.includes(name), `${name} in ${before.join()}`);
      const marked = findTables(database, MARKER);
      for (const name of ["threads", "runs", "run_frames", "channel_values", "call_entries", "run_trace_contents"])
        assert.ok(marked.includes(name), `${name} in ${marked.join()}`);
      await service.threads.delete(thread_id);
      const after = [run_id, thread_id, MARKER].flatMap((text) => findTables(database, text));
      assert.deepEqual(
        after.filter((name) => DELETED.includes(name)),
        [],
      );
      assert.deepEqual(
        after.filter((name) => !KEPT.includes(name)),
        [],
      );
      for (const name of ["webhook_deliveries", "feedback", "traces"]) assert.ok(after.includes(name), name);
    }));
});

describe("the tables of traces", () => {
  it("have no text of the run by default, and no text is in a table whose columns the page calls technical", () =>
    withRun({}, async (database, _service, { run_id }) => {
      assert.ok(findTables(database, run_id).includes("run_traces"));
      const marked = findTables(database, MARKER);
      assert.deepEqual(
        marked.filter((name) => TRACE_TABLES.includes(name)),
        [],
      );
      for (const name of marked) assert.notDeepEqual(listed.find((table) => table.name === name)?.columns, [], name);
    }));

  it("lose the trace of a run that is asked for", () =>
    withRun({ content: "all" }, async (database, { service }, { thread_id, run_id }) => {
      await service.traces.delete(thread_id, run_id);
      assert.deepEqual(
        findTables(database, run_id).filter((name) => TRACE_TABLES.includes(name)),
        [],
      );
    }));
});
