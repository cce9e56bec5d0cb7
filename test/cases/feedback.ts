/** Feedback cases: requests and sequences against tokens, each from no feedback. */
import assert from "node:assert/strict";
import { type TestClock, testClock } from "../suite/kit.ts";
import {
  type Case,
  createCases,
  createFailingCase,
  type Fields,
  fields,
  isFields,
  list,
  number,
  text,
  UnsupportedCaseError,
} from "./case.ts";
import {
  type Answer,
  createKinds,
  EXPECTED,
  expectAnswer,
  expectStatus,
  fillPlaceholders,
  type Kinds,
  parseBody,
} from "./expect.ts";
import { type Accounts, BASE_URL, type Host, startHost } from "./host.ts";
import { runListCase } from "./lists.ts";
import { makeToken, parseDescriptions, parseDuration, parseNames, type Recipe, readRecipe } from "./tokens.ts";

/** Groups of a feedback file. */
export const FEEDBACK_GROUPS = "format about now run_id cases sequences list_cases stored_example";

const WORKSPACES = [
  { id: "11111111-1111-4111-8111-111111111111", name: "Acme Prod" },
  { id: "22222222-2222-4222-8222-222222222222", name: "Acme Test" },
  { id: "33333333-3333-4333-8333-333333333333", name: "Not Readable" },
] as const;
/** The project of the run: the first of the first workspace. */
const PROJECT = "aaaaaaa1-0000-4000-8000-000000000001";
const ACCOUNTS: Accounts = {
  workspaces: WORKSPACES,
  projects: [{ id: PROJECT, workspace: WORKSPACES[0].id, name: "agents" }],
};
const READABLE = [WORKSPACES[0].id, WORKSPACES[1].id];
const HOUR = 3_600_000;

/** The settings of a file for all its cases. */
export interface Setting {
  readonly now: number;
  readonly run_id: string;
  readonly about: ReadonlyMap<string, string>;
}

/** A service that stands at `now`, and the tokens by their names in braces. */
export interface Stage extends AsyncDisposable {
  readonly host: Host;
  readonly clock: TestClock;
  readonly setting: Setting;
  readonly tokens: ReadonlyMap<string, string>;
  readonly kinds: Kinds;
}

export function createFeedbackCases(file: string, of: Fields): readonly Case[] {
  let setting: Setting;
  try {
    const now = Date.parse(text(of, "now"));
    if (Number.isNaN(now)) throw new UnsupportedCaseError("the field now is no moment");
    const about = typeof of["about"] === "string" ? of["about"] : "";
    setting = { now, run_id: text(of, "run_id"), about: parseDescriptions(about) };
  } catch (error) {
    return [createFailingCase(file, (error as Error).message)];
  }
  const group = (name: string, fieldNames: string, run: (entry: Fields) => Promise<void>): readonly Case[] =>
    of[name] === undefined ? [] : createCases(file, name, of[name], { fieldNames, run });
  const example = of["stored_example"];
  return [
    ...group(
      "cases",
      `id group note basis method path auth headers body raw_body expect_stored expect_stored_count ${EXPECTED}`,
      (entry) => runRequest(setting, entry),
    ),
    ...group(
      "sequences",
      "id group note basis auth headers steps repeat then_list_scores_sorted then_list_keys_sorted list",
      (entry) => runSequence(setting, entry),
    ),
    ...group(
      "list_cases",
      "id group note basis auth path status expect_detail_loc expect_detail_type expect_response",
      (entry) => runListCase(setting, entry),
    ),
    ...(example === undefined ? [] : [{ name: `${file} stored_example`, run: () => runExample(setting, example) }]),
  ];
}

/** Starts a service with the run and with the tokens that are named. */
export async function openStage(setting: Setting, names: readonly string[]): Promise<Stage> {
  const { now, run_id, about } = setting;
  const recipes = [...new Set(names)].map((name): [string, Recipe] => [
    name,
    name === "run" ? { kind: "unknown" } : readRecipe(name, about, now),
  ]);
  const early = recipes.flatMap(([, recipe]) =>
    recipe.kind === "minted" && recipe.expires_at !== null ? recipe.expires_at : [],
  );
  const clock = testClock(Math.min(now, ...early.map((moment) => moment - HOUR)));
  const host = await startHost({
    accounts: ACCOUNTS,
    readable: READABLE,
    environment: { now: clock.now, timer: clock.timer },
    // Works until it is told to stop.
    agent: ({ signal }) =>
      new Promise((resolve) => {
        if (signal.aborted) resolve("stopped");
        else signal.addEventListener("abort", () => resolve("stopped"), { once: true });
      }),
  });
  try {
    await host.test.addTraces([{ trace_id: run_id, started_at: now - HOUR }]);
    const tokens = new Map<string, string>([["run", run_id]]);
    const make = async (past: boolean): Promise<void> => {
      for (const [name, recipe] of recipes) {
        const first = recipe.kind === "minted" && recipe.expires_at !== null;
        if (name !== "run" && first === past) tokens.set(name, await makeToken(host, run_id, name, recipe));
      }
    };
    await make(true);
    if (clock.now() < now) await clock.set(now);
    await make(false);
    return {
      host,
      clock,
      setting,
      tokens,
      kinds: createKinds(BASE_URL),
      [Symbol.asyncDispose]: () => host[Symbol.asyncDispose](),
    };
  } catch (error) {
    await host[Symbol.asyncDispose]();
    throw error;
  }
}

/** Returns the path with ids in place of the names in braces. */
const fillNames = (path: string, { tokens }: Stage): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => tokens.get(name) as string);

function readHeaders(of: Fields): Readonly<Record<string, string>> {
  if (of["headers"] === undefined) return {};
  const headers = fields(of, "headers");
  for (const [name, headerValue] of Object.entries(headers)) {
    if (typeof headerValue !== "string") throw new UnsupportedCaseError(`the header ${name} is no text`);
  }
  return headers as Readonly<Record<string, string>>;
}

/** Lists all records, newest first. */
export async function listRecords({ host }: Stage): Promise<readonly Fields[]> {
  const records: Fields[] = [];
  for (;;) {
    const path = `/api/v1/feedback?limit=100&offset=${records.length}`;
    const answer = await host.ask("GET", path, { auth: "reader" });
    expectStatus(answer, 200);
    const page = parseBody(answer);
    assert.ok(Array.isArray(page), "a list of records is an array");
    records.push(...(page as Fields[]));
    if (page.length < 100) return records;
  }
}

async function runRequest(setting: Setting, of: Fields): Promise<void> {
  const path = text(of, "path");
  await using stage = await openStage(setting, parseNames(path));
  const raw = of["raw_body"];
  if (raw !== undefined && (typeof raw !== "string" || of["body"] !== undefined)) {
    throw new UnsupportedCaseError("raw_body is no text, or beside a body");
  }
  const answer = await stage.host.ask(text(of, "method"), fillNames(path, stage), {
    auth: of["auth"],
    headers: readHeaders(of),
    ...(Object.hasOwn(of, "body") ? { body: of["body"] } : {}),
    ...(raw === undefined ? {} : { raw: raw as string }),
  });
  expectAnswer(answer, of, stage.kinds);
  const [stored, count] = [of["expect_stored"], of["expect_stored_count"]];
  if (stored === undefined && count === undefined) return;
  const records = await listRecords(stage);
  if (count !== undefined) assert.equal(records.length, number(of, "expect_stored_count"), "records that are stored");
  if (stored === undefined) return;
  assert.ok(records.length > 0, "a record is stored");
  expectStored(records[0] as Fields, fields(of, "expect_stored"), stage.kinds);
}

/** Fields of a record by their names; `source_…` are those of `feedback_source`. */
function expectStored(record: Fields, expected: Fields, kinds: Kinds): void {
  const source = isFields(record["feedback_source"]) ? record["feedback_source"] : {};
  const member = (name: string): unknown => {
    if (Object.hasOwn(record, name)) return record[name];
    const inner = /^source_(.+)$/.exec(name)?.[1];
    if (inner !== undefined && Object.hasOwn(source, inner)) return source[inner];
    throw new UnsupportedCaseError(`expect_stored: a record has no field ${name}`);
  };
  const actual = Object.fromEntries(Object.keys(expected).map((name) => [name, member(name)]));
  assert.deepEqual(actual, fillPlaceholders(expected, actual, kinds));
}

/** `[method, path, body, status]` or `["clock", moment]`. */
type Step = readonly unknown[];

function readSteps(of: Fields, name: string): readonly Step[] {
  return list(of, name).map((step) => {
    if (!Array.isArray(step)) throw new UnsupportedCaseError(`${name}: ${JSON.stringify(step)} is no list`);
    return step;
  });
}

async function runSequence(setting: Setting, of: Fields): Promise<void> {
  const paths = [
    ...(of["steps"] === undefined ? [] : readSteps(of, "steps")).map(([, path]) => path),
    ...(of["repeat"] === undefined ? [] : [list(of, "repeat")[1]]),
    ...(of["list"] === undefined ? [] : readSteps(of, "list")).map(([request]) => request),
  ];
  const names = paths.flatMap((path) => (typeof path === "string" ? parseNames(path) : []));
  // Steps may speak of a token's expiry without naming it in a path.
  await using stage = await openStage(setting, names.length > 0 ? names : ["plain"]);
  const headers = readHeaders(of);
  const repeats = new Map<string, string>();

  async function send(method: unknown, path: unknown, body: unknown, status: unknown): Promise<void> {
    if (typeof method !== "string" || typeof path !== "string")
      throw new UnsupportedCaseError("a step is [method, path, body, status]");
    const at = fillNames(path, stage);
    const empty = body === undefined || (body === null && !["POST", "PUT", "PATCH"].includes(method));
    const requestOptions = { auth: authFor(of, at, status), headers, ...(empty ? {} : { body }) };
    const answer = await stage.host.ask(method, at, requestOptions);
    expectStatus(answer, status);
    expectSameAnswer(answer, `${method} ${at} ${JSON.stringify(body)}`);
  }
  /** With an idempotency key what is sent again is answered as the first time. */
  function expectSameAnswer(answer: Answer, request: string): void {
    if (answer.status >= 300 || !Object.keys(headers).some((name) => name.toLowerCase() === "idempotency-key")) return;
    const first = repeats.get(request);
    if (first === undefined) repeats.set(request, answer.text);
    else assert.equal(answer.text, first, "the repeated request is answered as the first");
  }

  const run: Readonly<Record<string, () => Promise<void>>> = {
    async steps() {
      for (const step of readSteps(of, "steps")) {
        if (step[0] === "clock" && step.length === 2) {
          await stage.clock.set(await readMoment(step[1], stage));
          repeats.clear();
        } else if (step.length === 4) await send(step[0], step[1], step[2], step[3]);
        else throw new UnsupportedCaseError(`unknown step ${JSON.stringify(step)}`);
      }
    },
    async repeat() {
      const [method, path, body, times, ...extraParts] = list(of, "repeat");
      if (typeof path !== "string" || !Number.isInteger(times) || extraParts.length > 0) {
        throw new UnsupportedCaseError("repeat is [method, path, body, times]");
      }
      // `…/{a} and {b}`: the same path with each of them in turn.
      const all = parseNames(path).map((name) => `${path.slice(0, path.indexOf("{"))}{${name}}`);
      const turns = all.length > 1 ? all : [path];
      for (let i = 0; i < (times as number); i++) await send(method, turns[i % turns.length], body, 200);
    },
    async then_list_scores_sorted() {
      const scores = (await listRecords(stage)).map(({ score }) => score);
      assert.deepEqual(sortValues(scores), sortValues(list(of, "then_list_scores_sorted")));
    },
    async then_list_keys_sorted() {
      const keys = (await listRecords(stage)).map(({ key }) => key);
      assert.deepEqual(sortValues(keys), sortValues(list(of, "then_list_keys_sorted")));
    },
    async list() {
      for (const [request, count, ...extraParts] of readSteps(of, "list")) {
        const [, method, path] = /^([A-Z]+) (\S+)$/.exec(String(request)) ?? [];
        if (!method || !path || !Number.isInteger(count) || extraParts.length > 0) {
          throw new UnsupportedCaseError("list is of [request, number of records]");
        }
        const answer = await stage.host.ask(method, fillNames(path, stage), { auth: of["auth"] ?? "reader" });
        expectStatus(answer, 200);
        const page = parseBody(answer);
        assert.ok(Array.isArray(page), `${path}: the answer is an array`);
        assert.equal(page.length, count, `${path}: records`);
      }
    },
  };
  // As they are written: what is repeated may come before the steps, or after them.
  for (const name of Object.keys(of)) if (Object.hasOwn(run, name)) await run[name]?.();
}

/** Returns the caller of a case. Default: the reader, whom the keyed routes require. */
export function authFor(of: Fields, path: string, status: unknown): unknown {
  if (of["auth"] !== undefined) return of["auth"];
  return status === 401 || /^\/api\/v1\/feedback\/tokens\/./.test(path) ? "none" : "reader";
}

/** Numbers by their size, everything else by its text. */
const sortValues = (values: readonly unknown[]): readonly unknown[] =>
  [...values].sort((a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    const [leftText, rightText] = [String(a), String(b)];
    return leftText < rightText ? -1 : Number(leftText > rightText);
  });

/** Parses `expires_at - 1 ms`, `now + 24 h`, `+ 1 s` (from the time of the clock), or a time as text. */
async function readMoment(expression: unknown, { host, clock, setting, tokens }: Stage): Promise<number> {
  const moment = typeof expression === "string" ? /^(expires_at|now)?\s*(?:([+-])\s*(.+))?$/.exec(expression) : null;
  if (!moment || expression === "") {
    const time = typeof expression === "string" ? Date.parse(expression) : Number.NaN;
    if (Number.isNaN(time)) throw new UnsupportedCaseError(`unknown moment ${JSON.stringify(expression)}`);
    return time;
  }
  const [, from, sign, amount] = moment;
  const span = amount === undefined ? 0 : parseDuration(amount) * (sign === "-" ? -1 : 1);
  if (from === "now") return setting.now + span;
  if (from === undefined) return clock.now() + span;
  const answer = await host.ask("GET", `/api/v1/feedback/tokens?run_id=${setting.run_id}`, { auth: "reader" });
  expectStatus(answer, 200);
  const listedTokens = parseBody(answer) as readonly { readonly id: string; readonly expires_at: string }[];
  const token = listedTokens.find(({ id }) => [...tokens.values()].includes(id));
  assert.ok(token, "a token is listed");
  return Date.parse(token.expires_at) + span;
}

/** The record that the example's content makes has the example's form. */
async function runExample(setting: Setting, example: unknown): Promise<void> {
  if (!isFields(example)) throw new UnsupportedCaseError("stored_example is no object");
  await using stage = await openStage(setting, ["plain"]);
  const { score, value, comment, correction } = example;
  const { metadata } = isFields(example["feedback_source"]) ? example["feedback_source"] : {};
  const body = { score, value, comment, correction, metadata };
  expectStatus(await stage.host.ask("POST", fillNames("/api/v1/feedback/tokens/{plain}", stage), { body }), 200);
  const [record] = await listRecords(stage);
  const kinds: Kinds = {
    ...stage.kinds,
    "project id of the run": (id) => id === PROJECT,
    "start of the run": (moment) => moment === new Date(setting.now - HOUR).toISOString(),
    "thread id or null": (id) => id === null || stage.kinds["uuid"]?.(id, null) === true,
  };
  assert.deepEqual(record, fillPlaceholders(example, record, kinds));
}
