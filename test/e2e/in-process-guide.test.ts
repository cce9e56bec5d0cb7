/** The snippets of docs/guides/in-process.md, run as the one program that they are. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import type {
  AssistantVersion,
  Cron,
  FeedbackRecord,
  FeedbackToken,
  Json,
  PageOf,
  Run,
  StoreItem,
  Thread,
  ThreadState,
  UsageReport,
} from "../../lib/mod.ts";
import { createTemporaryFolder, root } from "../support/programs.ts";

interface GuideExports {
  readonly assistant_id: string;
  readonly thread_id: string;
  readonly versions: readonly AssistantVersion[];
  readonly found: PageOf<Partial<Thread>>;
  readonly tokens: readonly string[];
  readonly values: { readonly messages: readonly { readonly content: string }[] };
  readonly created: Run;
  readonly joined: Json;
  readonly events: readonly string[];
  readonly listed: readonly Run[];
  readonly state: ThreadState;
  readonly history: readonly ThreadState[];
  readonly cron: Cron;
  readonly items: readonly StoreItem[];
  readonly link: FeedbackToken;
  readonly record: FeedbackRecord;
  readonly spent: unknown;
  readonly report: UsageReport;
  readonly codes: readonly string[];
}

const NAMES: readonly (keyof GuideExports)[] = [
  "assistant_id",
  "thread_id",
  "versions",
  "found",
  "tokens",
  "values",
  "created",
  "joined",
  "events",
  "listed",
  "state",
  "history",
  "cron",
  "items",
  "link",
  "record",
  "spent",
  "report",
  "codes",
];

/** The TypeScript of a page, with the package's names replaced by the sources of this checkout. */
function extractProgram(page: string): string {
  const { exports } = JSON.parse(readFileSync(join(root, "jsr.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, string>>;
  };
  const source = [...page.matchAll(/^```ts[^\n]*\n([\s\S]*?)^```$/gm)].map(([, block]) => block).join("\n");
  return source.replace(/from "greenroom(\/[\w-]+)?"/g, (_whole, name: string | undefined) => {
    const file = exports[`.${name ?? ""}`] as string;
    return `from ${JSON.stringify(pathToFileURL(join(root, file)).href)}`;
  });
}

describe("docs/guides/in-process.md", () => {
  it("shows what its code does", async () => {
    using folder = createTemporaryFolder();
    const file = join(folder.path, "page.ts");
    const program = extractProgram(readFileSync(join(root, "docs/guides/in-process.md"), "utf8"));
    writeFileSync(file, `${program}\nexport { ${NAMES.join(", ")} };\n`);
    const exported = (await import(pathToFileURL(file).href)) as GuideExports;

    assert.deepEqual(
      exported.versions.map(({ version, name }) => [version, name]),
      [
        [2, "Greeter for Ann"],
        [1, "Untitled"],
      ],
    );
    assert.deepEqual(
      [exported.found.total, exported.found.next, exported.found.items[0]?.thread_id],
      [1, null, exported.thread_id],
    );
    assert.deepEqual(exported.tokens, ["Hello, Ann. ", "This is message 1."]);
    assert.equal(exported.values.messages.at(-1)?.content, "Hello, Ann. This is message 3.");
    assert.deepEqual([exported.created.thread_id, exported.created.status], [exported.thread_id, "pending"]);
    assert.equal(
      (exported.joined as unknown as GuideExports["values"]).messages.at(-1)?.content,
      "Hello, Ann. This is message 5.",
    );
    assert.deepEqual([exported.events[0], exported.events.at(-1)], ["metadata", "end"]);
    assert.equal(exported.listed.length, 3);
    assert.equal((exported.state.values as unknown as GuideExports["values"]).messages.length, 6);
    assert.equal(exported.history.length, 2);
    assert.deepEqual(
      [exported.cron.schedule, exported.cron.timezone, exported.cron.enabled],
      ["@daily", "Europe/Berlin", true],
    );
    assert.deepEqual(
      exported.items.map(({ key, value }) => [key, value]),
      [["food", { text: "likes pizza", stars: 5 }]],
    );
    assert.match(exported.link.url, /^https:\/\/app\.example\/agents\/api\/v1\/feedback\/tokens\//);
    assert.deepEqual(
      [exported.record.key, exported.record.score, exported.record.comment],
      ["reviewed", 1, "Read by a person"],
    );
    assert.deepEqual(exported.spent, { tokens_in: 10, tokens_out: 7, cost_usd: 0 });
    assert.equal(
      exported.report.usage.reduce((sum, { traces }) => sum + traces, 0),
      4,
    );
    assert.deepEqual(exported.codes, ["not_found", "conflict", "invalid", "bad_request"]);
  });
});
