/** The case file of feedback tokens, from the request to the stored record. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { FeedbackRecord } from "../../../../lib/feedback/mod.ts";
import { assertCode } from "../../../support/error-codes.ts";
import { BASE, type FeedbackKit, feedbackKit, NOW, P1, RUN, RUN2, THREAD } from "../../feedback/feedback.harness.ts";

type Fields = Readonly<Record<string, unknown>>;
type Headers = Readonly<Record<string, string>>;
type Step = readonly [method: string, path: string, body: unknown, status: number];

interface Case {
  readonly id: string;
  readonly note: string;
  readonly method: string;
  readonly path: string;
  readonly auth?: string;
  readonly headers?: Headers;
  readonly body?: unknown;
  readonly raw_body?: string;
  readonly expect_status: number;
  readonly expect_response?: unknown;
  readonly expect_detail_loc?: unknown;
  readonly expect_stored?: Fields;
  readonly expect_stored_count?: number;
}

interface Sequence {
  readonly id: string;
  readonly note: string;
  readonly headers?: Headers;
  readonly steps?: readonly (Step | readonly ["clock", string])[];
  readonly repeat?: readonly [method: string, path: string, body: unknown, times: number];
  readonly then_list_scores_sorted?: readonly number[];
  readonly then_list_keys_sorted?: readonly string[];
  readonly list?: readonly (readonly [request: string, count: number])[];
}

interface Cases {
  readonly format: number;
  readonly now: string;
  readonly run_id: string;
  readonly cases: readonly Case[];
  readonly sequences: readonly Sequence[];
  readonly list_cases: readonly {
    readonly id: string;
    readonly path: string;
    readonly status?: number;
    readonly note: string;
  }[];
  readonly stored_example: Fields;
}

const file = JSON.parse(readFileSync(new URL("../../../cases/feedback.json", import.meta.url), "utf8")) as Cases;

const CASE =
  "id group note basis method path auth headers body raw_body expect_status expect_response expect_detail_loc";
const KNOWN: Readonly<Record<string, readonly string[]>> = {
  file: "format about now run_id cases sequences list_cases stored_example".split(" "),
  case: `${CASE} expect_stored expect_stored_count`.split(" "),
  sequence: "id basis note headers steps repeat then_list_scores_sorted then_list_keys_sorted list".split(" "),
  list: "id basis path note status".split(" "),
};

function onlyKnown(kind: string, of: object): void {
  assert.deepEqual(
    Object.keys(of).filter((name) => !KNOWN[kind]?.includes(name)),
    [],
    `members of a ${kind}`,
  );
}

/** Expands texts that the file writes as [text, times]. */
function repeated(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(repeated);
  if (typeof value !== "object" || value === null) return value;
  const { $repeat } = value as { readonly $repeat?: readonly [string, number] };
  if ($repeat) return $repeat[0].repeat($repeat[1]);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, repeated(item)]));
}

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-V[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
const TEXTS: Readonly<Record<string, RegExp>> = {
  "<uuid v4>": new RegExp(`^${UUID.replace("V", "4")}$`),
  "<uuid v7>": new RegExp(`^${UUID.replace("V", "7")}$`),
  "<uuid>": new RegExp(`^${UUID.replace("V", "[0-9a-f]")}$`),
};

function assertLike(actual: unknown, expected: unknown, id: unknown): void {
  if (Array.isArray(expected)) {
    assert.ok(Array.isArray(actual));
    assert.equal(actual.length, expected.length);
    for (const [i, item] of expected.entries()) assertLike(actual[i], item, (actual[i] as Fields)?.id);
  } else if (typeof expected === "object" && expected !== null) {
    assert.deepEqual(Object.keys(actual as object).sort(), Object.keys(expected).sort());
    for (const [key, item] of Object.entries(expected)) assertLike((actual as Fields)[key], item, id);
  } else if (typeof expected === "string" && expected.includes("<")) {
    const text = TEXTS[expected];
    if (text) assert.match(String(actual), text);
    else {
      assert.match(expected, /^<base_url>[\w/.]+<id>$/, "a form of text that is known");
      assert.equal(actual, expected.replace("<base_url>", BASE).replace("<id>", String(id)));
    }
  } else assert.deepEqual(actual, expected);
}

async function stored(kit: FeedbackKit): Promise<FeedbackRecord[]> {
  const response = await kit.send("GET", "/api/v1/feedback?limit=100");
  assert.equal(response.status, 200);
  return (await response.json()) as FeedbackRecord[];
}

describe("the case file of feedback", () => {
  it("has the format of this test", () => {
    onlyKnown("file", file);
    assert.equal(file.format, 1);
    assert.equal(Date.parse(file.now), NOW);
    assert.equal(file.run_id, RUN);
  });
});

describe("feedback cases: requests", () => {
  for (const testCase of file.cases) {
    it(`${testCase.id}: ${testCase.note}`, async () => {
      onlyKnown("case", testCase);
      assert.ok(
        testCase.auth === undefined || testCase.auth === "reader",
        `auth ${testCase.auth} is the server's to refuse`,
      );
      await using kit = await feedbackKit();
      const { headers, raw_body } = testCase;
      const body = testCase.body === undefined ? {} : { body: repeated(testCase.body) };
      const raw = raw_body === undefined ? {} : { raw: raw_body };
      const response = await kit.send(testCase.method, testCase.path, { ...(headers && { headers }), ...body, ...raw });
      const text = await response.text();
      assert.equal(response.status, testCase.expect_status, text);

      const expected = testCase.expect_response as Fields | readonly unknown[] | undefined;
      const names = Object.keys(expected ?? {}).filter((name) => name.startsWith("header "));
      for (const name of names) assert.equal(response.headers.get(name.slice(7)), (expected as Fields)[name], name);
      if (expected && names.length === 0) {
        const answer: unknown = response.status >= 400 ? assertCode(text) : JSON.parse(text);
        assertLike(answer, expected, (answer as Fields).id);
      }
      if (testCase.expect_detail_loc) {
        const { detail } = JSON.parse(text) as { detail: { loc: unknown; msg: unknown; type: unknown }[] };
        assert.deepEqual(detail[0]?.loc, testCase.expect_detail_loc);
        assert.ok(detail[0].msg && detail[0].type);
      }
      const records = await stored(kit);
      if (testCase.expect_stored_count !== undefined) assert.equal(records.length, testCase.expect_stored_count);
      for (const [name, value] of Object.entries(testCase.expect_stored ?? {})) {
        const record = records[0] as unknown as Fields;
        const source = record.feedback_source as Fields;
        const flat: Fields = { ...record, source_metadata: source.metadata };
        assert.ok(Object.hasOwn(flat, name), `a record has ${name}`);
        assert.deepEqual(flat[name], value, name);
      }
    });
  }
});

describe("feedback cases: sequences", () => {
  for (const sequence of file.sequences) {
    it(`${sequence.id}: ${sequence.note}`, async () => {
      onlyKnown("sequence", sequence);
      await using kit = await feedbackKit();
      const headers = sequence.headers ?? {};
      const send = async (method: string, path: string, body: unknown, status: number): Promise<unknown> => {
        const response = await kit.send(method, path, { headers, ...(body === undefined ? {} : { body }) });
        const text = await response.text();
        assert.equal(response.status, status, text);
        return text === "" ? null : JSON.parse(text);
      };
      if (sequence.repeat) {
        const [method, path, body, times] = sequence.repeat;
        const tokens = [...path.matchAll(/\{\w+\}/g)].map(([name]) => `/api/v1/feedback/tokens/${name}`);
        for (let i = 0; i < times; i++) await send(method, tokens[i % tokens.length] as string, body, 200);
      }
      const answers: unknown[] = [];
      for (const step of sequence.steps ?? []) {
        if (step[0] === "clock") {
          const early = { "expires_at - 1 ms": 1, expires_at: 0 }[step[1] as string];
          assert.notEqual(early, undefined, `the clock goes to ${step[1]}`);
          await kit.clock.advance(NOW + 3 * 3_600_000 - (early as number) - kit.clock.now());
        } else answers.push(await send(...(step as Step)));
      }
      const records = await stored(kit);
      if (sequence.then_list_scores_sorted) {
        const scores = records.map(({ score }) => score).sort((a, b) => Number(a) - Number(b));
        assert.deepEqual(scores, sequence.then_list_scores_sorted);
        if (scores.length === 1 && sequence.headers?.["Idempotency-Key"]) {
          const [first] = answers as Fields[];
          for (const answer of answers as Fields[]) {
            if ("feedback_id" in answer) assert.deepEqual(answer, first);
          }
        }
      }
      if (sequence.then_list_keys_sorted) {
        assert.deepEqual(records.map(({ key }) => key).sort(), sequence.then_list_keys_sorted);
      }
      for (const [request, count] of sequence.list ?? []) {
        const [method, path] = request.split(" ") as [string, string];
        assert.equal(((await send(method, path, undefined, 200)) as unknown[]).length, count, request);
      }
    });
  }
});

describe("feedback cases: lists", () => {
  for (const testCase of file.list_cases) {
    it(`${testCase.id}: ${testCase.note}`, async () => {
      onlyKnown("list", testCase);
      await using kit = await feedbackKit();
      for (const [i, run_id] of [RUN, RUN2, RUN, RUN2].entries()) {
        for (const key of ["a", "b", "c"]) {
          await kit.clock.advance(1);
          assert.equal((await kit.send("POST", "/api/v1/feedback", { body: { run_id, key, score: i } })).status, 200);
        }
      }
      const response = await kit.send("GET", testCase.path);
      const { status = 200 } = testCase;
      assert.equal(response.status, status);
      const answer = (await response.json()) as FeedbackRecord[];
      if (status !== 200) return;
      const queryParams = new URLSearchParams(testCase.path.split("?")[1]);
      const runs = queryParams.getAll("run").map((run) => ({ "{run}": RUN, "{run2}": RUN2 })[run] ?? run);
      const keys = queryParams.getAll("key");
      const all = (await stored(kit))
        .filter(({ run_id }) => runs.length === 0 || runs.includes(run_id as string))
        .filter(({ key }) => keys.length === 0 || keys.includes(key));
      const offset = Number(queryParams.get("offset") ?? 0);
      assert.deepEqual(answer, all.slice(offset, offset + Number(queryParams.get("limit") ?? 100)));
      assert.ok(answer.length > 0);
      const times = answer.map(({ created_at }) => created_at);
      assert.deepEqual(times, [...times].sort().reverse(), "newest first");
    });
  }
});

describe("a stored feedback record", () => {
  it("matches the example", async () => {
    await using kit = await feedbackKit();
    const body = { score: 1, comment: "hi", metadata: { a: 1 }, key: "ignored", extra: { ignored: true } };
    assert.equal((await kit.send("POST", "/api/v1/feedback/tokens/{plain}", { body })).status, 200);
    const [record] = await stored(kit);
    const { session_id, start_time, feedback_thread_id, ...example } = file.stored_example;
    const expected = { session_id: P1, start_time: "2026-11-20T11:59:00.000Z", feedback_thread_id: THREAD };
    assert.ok(session_id && start_time && feedback_thread_id);
    assertLike(record, { ...example, ...expected }, record?.id);
  });
});
