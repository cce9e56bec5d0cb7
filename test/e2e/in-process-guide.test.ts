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
import { root, temporaryFolder } from "../support/programs.ts";

interface Told {
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

const NAMES: readonly (keyof Told)[] = [
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
function programOf(page: string): string {
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
  it("says what happens", async () => {
    using folder = temporaryFolder();
    const file = join(folder.path, "page.ts");
    const program = programOf(readFileSync(join(root, "docs/guides/in-process.md"), "utf8"));
    writeFileSync(file, `${program}\nexport { ${NAMES.join(", ")} };\n`);
    const told = (await import(pathToFileURL(file).href)) as Told;

    assert.deepEqual(
      told.versions.map(({ version, name }) => [version, name]),
      [
        [2, "Greeter for Ann"],
        [1, "Untitled"],
      ],
    );
    assert.deepEqual([told.found.total, told.found.next, told.found.items[0]?.thread_id], [1, null, told.thread_id]);
    assert.deepEqual(told.tokens, ["Hello, Ann. ", "This is message 1."]);
    assert.equal(told.values.messages.at(-1)?.content, "Hello, Ann. This is message 3.");
    assert.deepEqual([told.created.thread_id, told.created.status], [told.thread_id, "pending"]);
    assert.equal((told.joined as unknown as Told["values"]).messages.at(-1)?.content, "Hello, Ann. This is message 5.");
    assert.deepEqual([told.events[0], told.events.at(-1)], ["metadata", "end"]);
    assert.equal(told.listed.length, 3);
    assert.equal((told.state.values as unknown as Told["values"]).messages.length, 6);
    assert.equal(told.history.length, 2);
    assert.deepEqual([told.cron.schedule, told.cron.timezone, told.cron.enabled], ["@daily", "Europe/Berlin", true]);
    assert.deepEqual(
      told.items.map(({ key, value }) => [key, value]),
      [["food", { text: "likes pizza", stars: 5 }]],
    );
    assert.match(told.link.url, /^https:\/\/app\.example\/agents\/api\/v1\/feedback\/tokens\//);
    assert.deepEqual([told.record.key, told.record.score, told.record.comment], ["reviewed", 1, "Read by a person"]);
    assert.deepEqual(told.spent, { tokens_in: 10, tokens_out: 7, cost_usd: 0 });
    assert.equal(
      told.report.usage.reduce((sum, { traces }) => sum + traces, 0),
      4,
    );
    assert.deepEqual(told.codes, ["not_found", "conflict", "invalid", "bad_request"]);
  });
});
