/** List cases of feedback: the expected response is computed from the query and the stored records. */
import assert from "node:assert/strict";
import { type Fields, isFields, text, UnsupportedCaseError } from "./case.ts";
import { EXPECTED, expectAnswer, expectStatus, parseBody } from "./expect.ts";
import { authFor, openStage, type Setting, type Stage } from "./feedback.ts";
import { parseNames } from "./tokens.ts";

/** Returns the id of a further run, for `{run2}` and so on. */
const toRunId = (name: string): string => `0f0f0f0f-1111-4222-8333-${name.slice(3).padStart(12, "5")}`;

interface Stored extends Fields {
  readonly id: string;
  readonly run_id: string | null;
  readonly session_id: string;
  readonly key: string;
  readonly score: unknown;
  readonly comment: unknown;
  readonly created_at: string;
  readonly feedback_source: Fields;
}

export async function runListCase(setting: Setting, of: Fields): Promise<void> {
  const path = text(of, "path");
  const otherNames = parseNames(path).filter((name) => /^run\d+$/.test(name));
  const strange = parseNames(path).find((name) => name !== "run" && !otherNames.includes(name));
  if (strange !== undefined) throw new UnsupportedCaseError(`unknown name {${strange}}`);
  await using stage = await openStage(setting, []);
  const runs = [...new Set([setting.run_id, ...["run2", ...otherNames].map(toRunId)])];
  const started_at = setting.now - 60_000;
  await stage.host.test.addTraces(runs.slice(1).map((trace_id) => ({ trace_id, started_at })));
  const records = await store(stage, runs);
  const tokens = await storeTokens(stage, runs);

  const sentPath = path.replace(/\{(\w+)\}/g, (_, name: string) => (name === "run" ? setting.run_id : toRunId(name)));
  const { status = 200 } = of;
  const answer = await stage.host.ask("GET", sentPath, { auth: authFor(of, sentPath, status) });
  const expected = Object.entries(of).filter(([name]) => EXPECTED.split(" ").includes(name));
  expectAnswer(answer, { ...Object.fromEntries(expected), expect_status: status }, stage.kinds);
  if (status !== 200) return;
  const url = new URL(sentPath, "http://greenroom.test");
  const body = parseBody(answer);
  switch (url.pathname) {
    case "/api/v1/feedback":
      assert.deepEqual(
        body,
        selectPage(records.filter(createFilter(url.searchParams)).sort(newestFirst), url.searchParams),
      );
      return;
    case "/api/v1/feedback/tokens": {
      const of_run = tokens.filter(({ run_id }) => run_id === url.searchParams.get("run_id"));
      assert.deepEqual(
        (body as readonly Fields[]).map(({ id }) => id),
        selectPage(of_run, url.searchParams).map(({ id }) => id),
      );
      return;
    }
    case "/api/v1/feedback/stats":
      assert.deepEqual(body, computeStats(records.filter(createFilter(url.searchParams))));
      return;
    default:
      throw new UnsupportedCaseError(`a list at ${url.pathname}`);
  }
}

/** Records of both runs and of the project alone, under three keys, from every source, some of one millisecond. */
async function store(stage: Stage, runs: readonly string[]): Promise<readonly Stored[]> {
  const records: Stored[] = [];
  const sources = ["api", "model", "app", "auto_eval", "api"];
  for (let i = 0; i < 30; i++) {
    if (i % 3 === 0) await stage.clock.set(stage.clock.now() + 1);
    const run_id = runs[i % runs.length];
    const content = [{ score: i / 10 }, { score: i % 2 === 0 }, { comment: `c${i}` }, { value: "label" }][i % 4];
    const where = i === 7 ? { session_id: stage.host.test.service.deployment.project_id } : { run_id };
    const body = {
      ...where,
      ...content,
      key: ["a", "b", "c"][i % 3 === 0 ? 0 : i % 5 === 0 ? 2 : 1],
      feedback_source: { type: sources[i % 5] },
    };
    const answer = await stage.host.ask("POST", "/api/v1/feedback", { auth: "reader", body });
    expectStatus(answer, 200);
    records.push(parseBody(answer) as Stored);
  }
  return records;
}

/** Tokens of each run, oldest first; the first of them have expired. */
async function storeTokens(stage: Stage, runs: readonly string[]): Promise<readonly Fields[]> {
  const tokens: Fields[] = [];
  for (let i = 0; i < 4; i++) {
    for (const run_id of runs) {
      const body = { run_id, feedback_key: `k${i}`, expires_in: i === 0 ? { minutes: 1 } : { hours: 1 } };
      const answer = await stage.host.ask("POST", "/api/v1/feedback/tokens", { auth: "reader", body });
      expectStatus(answer, 200);
      tokens.push({ ...(parseBody(answer) as Fields), run_id });
    }
    await stage.clock.set(stage.clock.now() + 90_000);
  }
  return tokens;
}

/** Values of one name: any of them. Names: all of them. */
function createFilter(params: URLSearchParams): (record: Stored) => boolean {
  const matchesAny = (name: string, value: unknown): boolean => {
    const sentPath = params.getAll(name).filter((paramValue) => paramValue !== "");
    return sentPath.length === 0 || sentPath.includes(String(value));
  };
  const flag = (name: string, value: boolean): boolean =>
    params.get(name) === null || (params.get(name) === "true") === value;
  const bound = (name: string, otherwise: number): number => Date.parse(params.get(name) ?? "") || otherwise;
  return ({ run_id, session_id, key, score, comment, created_at, feedback_source }) =>
    matchesAny("run", run_id) &&
    matchesAny("session", session_id) &&
    matchesAny("key", key) &&
    matchesAny("source", isFields(feedback_source) ? feedback_source["type"] : undefined) &&
    matchesAny("user", isFields(feedback_source) ? feedback_source["user_id"] : undefined) &&
    matchesAny("level", run_id === null ? "session" : "run") &&
    flag("has_score", score !== null) &&
    flag("has_comment", comment !== null) &&
    Date.parse(created_at) >= bound("min_created_at", Number.NEGATIVE_INFINITY) &&
    Date.parse(created_at) <= bound("max_created_at", Number.POSITIVE_INFINITY);
}

const newestFirst = (a: Stored, b: Stored): number =>
  Date.parse(b.created_at) - Date.parse(a.created_at) || (a.id < b.id ? -1 : 1);

function selectPage<Item>(items: readonly Item[], params: URLSearchParams): readonly Item[] {
  const offset = Number(params.get("offset") ?? 0);
  return items.slice(offset, offset + Number(params.get("limit") ?? 100));
}

/** Booleans are 0 and 1; what has no score counts in `n` alone. */
function computeStats(records: readonly Stored[]): Fields {
  const keys = [...new Set(records.map(({ key }) => key))];
  return Object.fromEntries(
    keys.map((key) => {
      const keyRecords = records.filter((record) => record.key === key);
      const scores = keyRecords.flatMap(({ score }) => (score === null ? [] : Number(score)));
      const values: Record<string, number> = {};
      for (const { value } of keyRecords) if (typeof value === "string") values[value] = (values[value] ?? 0) + 1;
      const none = scores.length === 0;
      const sum = scores.reduce((total, score) => total + score, 0);
      const [min, max] = [Math.min(...scores), Math.max(...scores)].map((bound) => (none ? null : bound));
      return [key, { n: keyRecords.length, avg: none ? null : sum / scores.length, min, max, values }];
    }),
  );
}
