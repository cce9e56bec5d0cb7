/** Tests of metadata filters against an independent oracle: random rows, changes and filters. */

import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../../lib/json.ts";
import type { Page, Scope, SortOptions, Storage } from "../../../lib/storage/mod.ts";
import type { Filter, Scalar } from "../../../lib/storage/visibility.ts";
import { countAssistants, countCrons, countThreads } from "../counts.ts";
import { createDice } from "../workload.ts";
import {
  checkpoint,
  content,
  createAssistant,
  createSeeds,
  here,
  progress,
  type StorageTest,
  type SuiteApi,
  scaleByEffort,
} from "./material.ts";

const KEYS = [
  ..."ab",
  ..."ab",
  "owner",
  'q"uote',
  "do.t",
  "a.b",
  "$",
  "$.a",
  "[0]",
  "[]",
  "]",
  '"a"',
  "back\\slash",
  "nul\0",
  "é😀",
  "\ud800",
  "__proto__",
  "constructor",
  "toString",
  "",
  "'; drop table labels; --",
  "k".repeat(300),
];
const SCALARS: readonly Scalar[] = [
  ...["x", "y", "", 'q"', "nul\0", "\0", "1", "null", "true", "%", "_", "X", "é", "e\u0301", "\ud800", "\u2028"],
  ...["long".repeat(40), "long".repeat(100), `${"long".repeat(99)}lonG`, '"a":"x"', "x:1"],
  ...[1, 0, -0, -1.5, 1e21, 1e-7, 0.1 + 0.2, 0.3, 2 ** 53, 2 ** 53 + 2, 5e-324, 1.7976931348623157e308],
  ...[true, false, null],
];

/** Returns true if `whole` contains `part`. Computed independently of `contains`. */
function includes(part: Json, whole: Json | undefined): boolean {
  switch (getKind(part)) {
    case "object": {
      if (whole === undefined || getKind(whole) !== "object") return false;
      const members = new Map(Object.entries(whole as JsonObject));
      for (const [name, member] of Object.entries(part as JsonObject)) {
        if (!members.has(name) || !includes(member, members.get(name))) return false;
      }
      return true;
    }
    case "list": {
      if (whole === undefined || getKind(whole) !== "list") return false;
      const isFound = (element: Json): boolean =>
        (whole as Json[]).findIndex((wholeElement) => includes(element, wholeElement)) >= 0;
      return !(part as Json[]).some((element) => !isFound(element));
    }
    default:
      return getKind(whole) === getKind(part) && JSON.stringify(whole) === JSON.stringify(part);
  }
}

function getKind(value: Json | undefined): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "list";
  return typeof value;
}

/** Returns true if the visibility filter permits the metadata. Computed independently of `permits`. */
function isVisible(filter: Filter, metadata: JsonObject): boolean {
  const members = new Map(Object.entries(metadata));
  for (const condition of filter) {
    const member = members.get(condition.key);
    if ("equals" in condition) {
      if (member === undefined || getKind(member) === "list" || getKind(member) === "object") return false;
      if (!includes(condition.equals, member)) return false;
    } else if (
      !Array.isArray(member) ||
      condition.contains.some((expectedElement) => !member.some((element) => includes(expectedElement, element)))
    ) {
      return false;
    }
  }
  return true;
}

interface Row {
  readonly id: string;
  readonly created_at: number;
  updated_at: number;
  metadata: JsonObject;
}

/** A searchable noun: creates and changes rows, and names their sort fields. */
interface Noun {
  readonly id: string;
  create(id: string, metadata: JsonObject, now: number): Promise<unknown>;
  update(id: string, metadata: JsonObject, now: number): Promise<unknown>;
  remove(id: string): Promise<unknown>;
  search(
    scope: Scope,
    query: { metadata?: JsonObject } & Page & SortOptions<"created_at" | "updated_at">,
  ): Promise<{ rows: readonly object[]; total: number }>;
  count(scope: Scope, query: { metadata?: JsonObject }): Promise<number>;
}

function createNouns(storage: Storage): readonly Noun[] {
  const cron = {
    assistant_id: "host",
    thread_id: null,
    on_run_completed: "delete",
    schedule: "* * * * *",
    timezone: null,
    end_time: null,
    enabled: true,
    next_run_date: null,
    payload: {},
    user_id: null,
    auth_user: null,
  } as const;
  return [
    {
      id: "thread_id",
      create: (thread_id, metadata, now) =>
        storage.createThread(here, { thread_id, metadata, config: {}, stateless: false }, now),
      update: (id, metadata, now) => storage.updateThread(here, id, () => ({ metadata }), now),
      remove: (id) => storage.deleteThread(here, id),
      search: (scope, query) => storage.searchThreads(scope, query),
      count: (scope, query) => countThreads(storage, scope, query),
    },
    {
      id: "assistant_id",
      create: (assistant_id, metadata, now) =>
        storage.createAssistant(here, { assistant_id, ...content, metadata, graph_id: "sought" }, now),
      update: (id, metadata, now) => storage.updateAssistant(here, id, (active) => ({ ...active, metadata }), now),
      remove: (id) => storage.deleteAssistant(here, id, { delete_threads: false }),
      search: (scope, query) => storage.searchAssistants(scope, { ...query, graph_id: "sought" }),
      count: (scope, query) => countAssistants(storage, scope, { ...query, graph_id: "sought" }),
    },
    {
      id: "cron_id",
      create: (cron_id, metadata, now) => storage.createCron(here, { ...cron, cron_id, metadata }, now),
      update: (id, metadata, now) => storage.updateCron(here, id, (row) => ({ ...row, metadata }), now),
      remove: (id) => storage.deleteCron(here, id),
      search: (scope, query) => storage.searchCrons(scope, query),
      count: (scope, query) => countCrons(storage, scope, query),
    },
  ];
}

/** The number of rows per noun. */
const ROWS = 40;

/**
 * Runs `count` random searches, counts and lists on an empty storage and compares each answer with the oracle. Returns the total number
 * of rows found.
 */
export async function fuzzFilters(storage: Storage, count: number, seed: number): Promise<number> {
  const { below, pick } = createDice(seed);
  const createValue = (depth: number): Json => {
    const roll = below(10);
    if (depth > 0 && roll < 2) return Array.from({ length: below(4) }, () => createValue(depth - 1));
    if (depth > 0 && roll < 4) return object(depth - 1, below(3));
    return pick(SCALARS);
  };
  const object = (depth: number, size: number): JsonObject =>
    Object.fromEntries(Array.from({ length: size }, () => [pick(KEYS), createValue(depth)]));
  /** A random part of a value; the value contains it. */
  const takePart = (whole: Json): Json => {
    if (Array.isArray(whole)) return whole.filter(() => below(2) === 0).map(takePart);
    if (typeof whole !== "object" || whole === null) return whole;
    const keptMembers = Object.entries(whole).filter(() => below(3) > 0);
    return Object.fromEntries(keptMembers.map(([key, item]) => [key, takePart(item)]));
  };
  /** Returns the part with a random change; the value may not contain it any more. */
  const mutate = (part: Json): Json => {
    if (below(4) === 0) return createValue(2);
    if (Array.isArray(part)) return below(3) === 0 ? [...part, createValue(1)] : part.map((element) => mutate(element));
    if (typeof part !== "object" || part === null) return pick(SCALARS);
    const entries = Object.entries(part);
    const at = below(entries.length + 1);
    return Object.fromEntries(
      at === entries.length
        ? [...entries, [pick(KEYS), createValue(1)]]
        : entries.map(([key, item], i) => [key, i === at ? mutate(item) : item]),
    );
  };
  const createRow = (like: readonly { readonly metadata: JsonObject }[] = []): JsonObject => {
    const roll = below(4);
    // Differs from another row in one place, so that a row can match all but one label of a filter.
    if (like.length === 0 || roll > 1) return object(3, roll === 2 ? 24 : below(6));
    const { metadata } = pick(like);
    const changed = mutate(metadata);
    return getKind(changed) === "object" ? (changed as JsonObject) : metadata;
  };
  const filterOn = (rows: readonly { readonly metadata: JsonObject }[]): JsonObject => {
    const roll = below(10);
    if (roll === 0 || rows.length === 0) return object(2, below(3));
    const part = takePart(pick(rows).metadata) as JsonObject;
    if (roll > 3) return part;
    const changed = mutate(part);
    return getKind(changed) === "object" ? (changed as JsonObject) : part;
  };
  const createReach = (rows: readonly Row[]): Filter => {
    const entries = Object.entries(rows.length > 0 ? pick(rows).metadata : {});
    const conditions = entries.slice(0, 1 + below(2)).map(([key, member]): Filter[number] => {
      const scalars = (Array.isArray(member) ? member : []).filter((item): item is Scalar => typeof item !== "object");
      if (Array.isArray(member)) return { key, contains: scalars.slice(0, below(3)) };
      return { key, equals: typeof member === "object" ? pick(SCALARS) : member };
    });
    return below(6) === 0 ? [...conditions, { key: pick(KEYS), equals: pick(SCALARS) }] : conditions;
  };

  let now = 1000;
  await createAssistant(storage, { assistant_id: "host" }, now);
  const nouns = createNouns(storage).map((noun) => ({ noun, rows: [] as Row[] }));
  let rowCount = 0;
  const add = async ({ noun, rows }: (typeof nouns)[number]): Promise<void> => {
    // Several rows with the same time, so that ids decide the order.
    now += below(2);
    const row = { id: `r${rowCount++}`, created_at: now, updated_at: now, metadata: createRow(rows) };
    await noun.create(row.id, row.metadata, now);
    rows.push(row);
  };
  for (const each of nouns) for (let i = 0; i < ROWS; i++) await add(each);
  const states = await createCheckpoints(
    storage,
    Array.from({ length: ROWS }, () => createRow()),
  );

  let matchCount = 0;
  for (let i = 0; i < count; i++) {
    const at = below(7);
    if (at === 6) {
      const metadata = filterOn(states);
      const limit = 1 + below(ROWS);
      const expected = states.filter((state) => includes(metadata, state.metadata)).slice(0, limit);
      const listed = await storage.listCheckpoints(here, "states", { metadata, limit });
      assert.deepEqual(
        listed.map((state) => state.checkpoint_id),
        expected.map((state) => state.id),
        `filter ${i} of seed ${seed} on checkpoints: ${JSON.stringify(metadata)}`,
      );
      matchCount += listed.length;
      continue;
    }
    const each = nouns[at % nouns.length] as (typeof nouns)[number];
    const { noun, rows } = each;
    if (below(20) === 0) {
      const row = pick(rows);
      if (below(3) === 0) {
        await noun.remove(row.id);
        rows.splice(rows.indexOf(row), 1);
        await add(each);
      } else {
        now += below(2);
        row.metadata = createRow(below(2) === 0 ? rows : [row]);
        row.updated_at = now;
        await noun.update(row.id, row.metadata, now);
      }
    }
    const metadata = filterOn(rows);
    const filter = below(5) === 0 ? createReach(rows) : [];
    const scope: Scope = filter.length > 0 ? { ...here, filter } : here;
    const sort_by = below(3) === 0 ? "updated_at" : "created_at";
    const sort_order = below(2) === 0 ? "asc" : "desc";
    const [limit, offset] = [1 + below(below(4) === 0 ? ROWS : 6), below(3) === 0 ? below(12) : 0];
    const sign = sort_order === "asc" ? 1 : -1;
    const expected = rows
      .filter((row) => includes(metadata, row.metadata) && isVisible(filter, row.metadata))
      .sort((a, b) => sign * (a[sort_by] - b[sort_by] || (a.id < b.id ? -1 : 1)));
    const description = `filter ${i} of seed ${seed} on ${noun.id}: ${JSON.stringify({ metadata, filter, sort_by, sort_order, limit, offset })}`;
    const answer = await noun.search(scope, { metadata, sort_by, sort_order, limit, offset });
    assert.deepEqual(
      answer.rows.map((row) => (row as Record<string, unknown>)[noun.id]),
      expected.slice(offset, offset + limit).map((row) => row.id),
      description,
    );
    assert.equal(answer.total, expected.length, description);
    if (i % 2 === 0) assert.equal(await noun.count(scope, { metadata }), expected.length, description);
    matchCount += expected.length;
  }
  return matchCount;
}

/** Creates a thread `states` with a checkpoint for each of these metadata; newest first. */
async function createCheckpoints(
  storage: Storage,
  metadata: readonly JsonObject[],
): Promise<readonly { readonly id: string; readonly metadata: JsonObject }[]> {
  const states = metadata.map((rowMetadata, i) => ({ id: `c${i}`, metadata: rowMetadata }));
  const saved = states.map((state) => ({ ...checkpoint(state.id, {}), metadata: state.metadata }));
  const state = { graph_id: "echo", progress: progress(saved), head: `c${states.length - 1}`, scalars: {} };
  await storage.createThread(here, { thread_id: "states", metadata: {}, config: {}, stateless: true, state }, 1000);
  return states.reverse();
}

/** The number of filters per test with effort 1. */
const FILTERS = 400;

export function filterTests(api: SuiteApi, test: StorageTest): void {
  const filters = scaleByEffort(api, FILTERS);
  api.describe("random filters on metadata", () => {
    for (const seed of createSeeds(api, 3)) {
      test(`find and count the rows that an oracle finds and counts, page by page, seed ${seed}`, async (storage) => {
        assert.ok((await fuzzFilters(storage, filters, seed)) > filters, "the filters find something");
      });
    }
  });
}
