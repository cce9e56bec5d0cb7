/** Every case file beside this one, a test for each case; and that what does not hold, or is not known, fails. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Case, Fields } from "./case.ts";
import { createTextCases, readCases } from "./files.ts";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));

describe("case files", () => {
  for (const { name, run } of readCases(FOLDER)) it(name, run);
});

type Entry = Record<string, unknown>;
type File = Record<string, unknown>;

const read = (file: string): File => JSON.parse(readFileSync(`${FOLDER}/${file}`, "utf8")) as File;
const entry = (file: File, group: string, holds: (entry: Entry) => boolean): Entry => {
  const match = (file[group] as Entry[]).find(holds);
  assert.ok(match, `${group} has such an entry`);
  return structuredClone(match);
};

/** Returns the message of each case of the file; null when it passes. */
async function outcomes(file: File): Promise<readonly (string | null)[]> {
  const cases = createTextCases("test.json", JSON.stringify(file));
  const messages: (string | null)[] = [];
  for (const { run } of cases as readonly Case[]) {
    messages.push(
      await run().then(
        () => null,
        (error: unknown) => (error as Error).message,
      ),
    );
  }
  return messages;
}

/** The file with one entry of one group alone. */
const only = (file: File, group: string, singleEntry: unknown): File => ({
  ...Object.fromEntries(Object.entries(file).filter(([, value]) => !Array.isArray(value) && typeof value !== "object")),
  ...Object.fromEntries(Object.entries(file).filter(([name]) => name === "dataset" || name === "policies")),
  [group]: [singleEntry],
});

/** An entry of a sample file that holds, and the same with one thing that does not. */
const BROKEN: readonly (readonly [
  file: string,
  group: string,
  pick: (entry: Entry) => boolean,
  broken: (entry: Entry) => Fields,
])[] = [
  ["feedback.json", "cases", ({ id }) => id === "f003", () => ({ expect_status: 201 })],
  [
    "feedback.json",
    "cases",
    ({ id }) => id === "f003",
    ({ expect_response }) => ({
      expect_response: { ...(expect_response as object), expires_at: "2026-11-20T15:00:01Z" },
    }),
  ],
  [
    "feedback.json",
    "cases",
    ({ id }) => id === "f003",
    ({ expect_response }) => ({ expect_response: { ...(expect_response as object), id: "<uuid v7>" } }),
  ],
  ["feedback.json", "cases", ({ id }) => id === "f003", () => ({ auth: "bad" })],
  ["feedback.json", "cases", ({ id }) => id === "f011", () => ({ expect_detail_loc: ["body", 0, "feedback_key"] })],
  ["feedback.json", "cases", ({ id }) => id === "f033", () => ({ expect_stored_count: 2 })],
  ["feedback.json", "cases", ({ id }) => id === "f033", () => ({ expect_stored: { score: 2 } })],
  [
    "feedback.json",
    "cases",
    ({ id }) => id === "f104",
    () => ({ expect_response: { "header access-control-allow-origin": "https://app.example.com" } }),
  ],
  ["feedback.json", "sequences", ({ id }) => id === "s1", () => ({ then_list_scores_sorted: [0.8, 0.8] })],
  [
    "feedback.json",
    "sequences",
    ({ id }) => id === "s4",
    () => ({ repeat: ["POST", "/api/v1/feedback/tokens/{plain}", { score: 1 }, 99] }),
  ],
  [
    "feedback.json",
    "sequences",
    ({ id }) => id === "s5",
    () => ({
      steps: [
        ["clock", "expires_at"],
        ["POST", "/api/v1/feedback/tokens/{plain}", { score: 1 }, 200],
      ],
    }),
  ],
  ["feedback.json", "sequences", ({ id }) => id === "s6", () => ({ then_list_keys_sorted: ["user_liked"] })],
  [
    "feedback.json",
    "sequences",
    ({ id }) => id === "s7",
    () => ({ list: [["GET /api/v1/feedback?limit=100&offset=0", 99]] }),
  ],
  ["feedback.json", "list_cases", ({ id }) => id === "l4", () => ({ status: 200 })],
  ["usage.json", "stride_cases", () => true, () => ({ stride: { days: 0, hours: 2 } })],
  ["usage.json", "queries", ({ id }) => id === "q06", () => ({ expect_total: 17 })],
  [
    "usage.json",
    "queries",
    ({ id }) => id === "q06",
    ({ expect_json }) => {
      const { stride, usage } = expect_json as { readonly stride: unknown; readonly usage: readonly unknown[] };
      return { expect_json: { stride, usage: usage.toReversed() } };
    },
  ],
  ["usage.json", "queries", ({ id }) => id === "q06", ({ expect_csv }) => ({ expect_csv: `${expect_csv}\r\n` })],
  ["usage.json", "error_cases", ({ id }) => id === "e05", () => ({ expect_detail_type: "missing" })],
  ["usage.json", "error_cases", ({ id }) => id === "e05", () => ({ auth: "none" })],
  ["usage.json", "csv_cells", ({ value }) => value === "-1", () => ({ cell: "-1", csv: "-1,x" })],
  ["webhook-urls.json", "url_cases", ({ id }) => id === "u007", () => ({ verdict: "reject", reason: "empty" })],
  ["webhook-urls.json", "url_cases", ({ id }) => id === "u017", () => ({ reason: "too_long" })],
  [
    "webhook-urls.json",
    "url_cases",
    ({ id }) => id === "u099",
    ({ canonical }) => ({ canonical: { ...(canonical as object), port: 443 } }),
  ],
  ["webhook-urls.json", "url_cases", ({ id }) => id === "u256", () => ({ verdict: "accept", reason: "ok" })],
  ["webhook-urls.json", "delivery_cases", ({ id }) => id === "d02", () => ({ connect_to: ["93.184.215.14"] })],
  ["webhook-urls.json", "delivery_cases", ({ id }) => id === "d03", () => ({ reason: "ip_not_public" })],
  ["webhook-urls.json", "delivery_cases", ({ id }) => id === "d10", () => ({ verdict: "reject" })],
  [
    "webhook-urls.json",
    "header_templates",
    ({ id }) => id === "h04",
    () => ({ resolved: { Authorization: "Bearer" } }),
  ],
  ["webhook-urls.json", "header_templates", ({ id }) => id === "h06", () => ({ startup_error: "env_not_allowed" })],
  ["webhook-urls.json", "config_cases", ({ id }) => id === "c01", () => ({ url: {} })],
  [
    "webhook-urls.json",
    "config_cases",
    ({ id }) => id === "c12",
    () => ({ normalised: { allowed_domains: ["Hooks.Example.COM."] } }),
  ],
];

describe("a case with a wrong expectation", () => {
  for (const [name, group, pick, broken] of BROKEN) {
    const file = read(name);
    const sound = entry(file, group, pick);
    const change = broken(sound);
    it(`fails: ${name} ${group} ${String(sound["id"] ?? "")} with ${JSON.stringify(change).slice(0, 80)}`, async () => {
      const [before, after] = [only(file, group, sound), only(file, group, { ...sound, ...change })];
      assert.deepEqual(await outcomes(before), [null]);
      const messages = await outcomes(after);
      assert.equal(messages.length, 1);
      assert.notEqual(messages[0], null);
    });
  }
});

/** A change to a file, and the message of the case that fails for it. */
const STRANGE: readonly (readonly [file: string, group: string, change: (entry: Entry) => Fields, said: RegExp])[] = [
  ["feedback.json", "cases", () => ({ expect_weather: "fine" }), /unknown field expect_weather/],
  ["feedback.json", "cases", () => ({ auth: "admin" }), /unknown auth admin/],
  ["feedback.json", "cases", () => ({ path: "/api/v1/feedback/tokens/{secret}" }), /unknown name \{secret\}/],
  ["feedback.json", "cases", () => ({ expect_response: { id: "<number>" } }), /unknown placeholder <number>/],
  ["feedback.json", "cases", () => ({ expect_status: "ok" }), /"ok" is no status/],
  ["feedback.json", "sequences", () => ({ steps: [["wait", 5]] }), /unknown step \["wait",5\]/],
  ["feedback.json", "sequences", () => ({ steps: [["clock", "noon"]] }), /unknown moment "noon"/],
  ["feedback.json", "list_cases", () => ({ path: "/api/v1/feedback?run={project}" }), /unknown name \{project\}/],
  ["usage.json", "queries", () => ({ expect_rows: 3 }), /unknown field expect_rows/],
  ["usage.json", "error_cases", () => ({ auth: "nobody" }), /unknown auth nobody/],
  ["webhook-urls.json", "url_cases", () => ({ policy: "strict" }), /unknown policy strict/],
  ["webhook-urls.json", "url_cases", () => ({ verdict: "maybe" }), /unknown verdict maybe/],
  ["webhook-urls.json", "delivery_cases", () => ({ tls: true }), /unknown field tls/],
  ["webhook-urls.json", "config_cases", () => ({ headers: {} }), /unknown field headers/],
];

describe("an unknown name in a case file", () => {
  for (const [name, group, change, expected] of STRANGE) {
    it(`fails with this name: ${name} ${group} ${expected.source}`, async () => {
      const file = read(name);
      const sound = entry(file, group, () => true);
      const messages = await outcomes({
        ...only(file, group, sound),
        [group]: [sound, { ...sound, ...change(sound) }],
      });
      assert.equal(messages[0], null, "the other case runs");
      assert.match(String(messages[1]), expected);
    });
  }

  it("fails with its name: a group, a format, a field of the data set, a name in a trace", async () => {
    const file = read("usage.json");
    const dataset = file["dataset"] as { readonly traces: readonly object[] };
    const singleEntryFile = only(
      file,
      "stride_cases",
      entry(file, "stride_cases", () => true),
    );
    const strange = { ...dataset, teams: {}, traces: [...dataset.traces, { ...dataset.traces[0], user: "u9" }] };
    const messages = await outcomes({ ...singleEntryFile, format: 2, weather: [], dataset: strange });
    assert.equal(messages.filter((text) => text === null).length, 1, "the case that is known runs");
    const all = messages.join("\n");
    for (const part of [/unknown format 2/, /unknown group weather/, /unknown field teams/, /unknown name "u9"/]) {
      assert.match(all, part);
    }
  });

  it("fails if the file is no JSON, no object, of no kind, or without a case", async () => {
    const readMessage = async (text: string): Promise<string> =>
      (await createTextCases("test.json", text)[0]
        ?.run()
        .then(
          () => "passed",
          (error: unknown) => (error as Error).message,
        )) ?? "no case";
    assert.match(await readMessage("{"), /no JSON/);
    assert.match(await readMessage("[]"), /no object/);
    assert.match(await readMessage('{"format":1,"crons":[]}'), /no group is known: format, crons/);
    assert.match(await readMessage('{"format":1,"url_cases":[]}'), /no case/);
    assert.match(await readMessage('{"format":1,"url_cases":{}}'), /no list/);
  });
});
