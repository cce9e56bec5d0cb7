/** Usage cases: reports as JSON and as CSV over a data set. */
import assert from "node:assert/strict";
import { testClock } from "../suite/kit.ts";
import {
  type Case,
  createCases,
  createFailingCase,
  type Fields,
  fields,
  isFields,
  list,
  number,
  requireKnownFields,
  text,
  UnsupportedCaseError,
} from "./case.ts";
import { createKinds, EXPECTED, expectAnswer, expectStatus, formatAnswer, parseBody } from "./expect.ts";
import { type Accounts, BASE_URL, type Host, startHost } from "./host.ts";

/** Groups of a usage file. */
export const USAGE_GROUPS = "format about rules dataset stride_cases queries error_cases csv_cells";

const REPORT = "/api/v1/orgs/current/billing/granular-usage";
const ROUTES = [REPORT, `${REPORT}/export`] as const;
/** Workspaces that the reader may read, by their names in data sets. */
const READABLE = ["w1", "w2"];

type Trace = Parameters<Host["test"]["addTraces"]>[0][number];

/** A data set as the product is given it, and what of it is not understood. */
interface Data {
  readonly accounts: Accounts;
  readonly readable: readonly string[];
  readonly traces: readonly Trace[];
  readonly problems: readonly string[];
}

/** Two services with equal data: one with unsealed hours, and one with sealed ones. */
interface Hosts {
  readonly open: Host;
  readonly sealed: Host;
}

/** Services for a file's cases are started by the first that asks and live as long as the process. */
export function createUsageCases(file: string, of: Fields): readonly Case[] {
  let data: Data;
  try {
    data = readDataset(fields(of, "dataset"));
  } catch (error) {
    return [createFailingCase(`${file} dataset`, (error as Error).message)];
  }
  let started: Promise<Hosts> | null = null;
  const startHosts = (): Promise<Hosts> => {
    started ??= Promise.all([startData(data, false), startData(data, true)]).then(([open, sealed]) => ({
      open,
      sealed,
    }));
    return started;
  };
  const group = (name: string, fieldNames: string, run: (entry: Fields) => Promise<void>): readonly Case[] =>
    of[name] === undefined ? [] : createCases(file, name, of[name], { fieldNames, run });
  const queryFields = "id group note basis auth query_string start_time end_time workspace_ids group_by";
  return [
    ...data.problems.map((problem) => createFailingCase(`${file} dataset`, problem)),
    ...group("stride_cases", "id note basis start_time end_time milliseconds stride", async (entry) =>
      runStride(await startHosts(), data, entry),
    ),
    ...group("queries", `${queryFields} expect_total expect_json expect_csv ${EXPECTED}`, async (entry) =>
      runQuery(await startHosts(), entry),
    ),
    ...group("error_cases", `${queryFields} ${EXPECTED}`, async (entry) => runError(await startHosts(), entry)),
    ...group("csv_cells", "id note basis value cell csv", runCell),
  ];
}

/** Reads a data set. Omits entries that it does not support, and returns them as problems. */
function readDataset(dataset: Fields): Data {
  const problems: string[] = [];
  for (const name of Object.keys(dataset)) {
    if (!["workspaces", "projects", "users", "api_keys", "traces"].includes(name))
      problems.push(`unknown field ${name}`);
  }
  /** Rows of a section by their names, as `read` gives them. */
  function readSection<Row>(name: string, fieldNames: string, read: (row: Fields) => Row): ReadonlyMap<string, Row> {
    const rows = new Map<string, Row>();
    for (const [key, row] of Object.entries(dataset[name] === undefined ? {} : fields(dataset, name))) {
      try {
        if (!isFields(row)) throw new UnsupportedCaseError("is no object");
        requireKnownFields(row, fieldNames);
        rows.set(key, read(row));
      } catch (error) {
        problems.push(`${name}.${key}: ${(error as Error).message}`);
      }
    }
    return rows;
  }
  const find = <Row>(rows: ReadonlyMap<string, Row>, name: unknown): Row => {
    const row = typeof name === "string" ? rows.get(name) : undefined;
    if (row === undefined) throw new UnsupportedCaseError(`unknown name ${JSON.stringify(name)}`);
    return row;
  };
  const findOrNull = <Row>(rows: ReadonlyMap<string, Row>, name: unknown): Row | null =>
    name === null ? null : find(rows, name);

  const workspaces = readSection("workspaces", "id name", (row) => ({ id: text(row, "id"), name: text(row, "name") }));
  const projects = readSection("projects", "id workspace name", (row) => ({
    id: text(row, "id"),
    name: text(row, "name"),
    workspace: find(workspaces, row["workspace"]).id,
  }));
  const users = readSection("users", "id email name", (row) => ({
    id: text(row, "id"),
    email: row["email"] === null ? null : text(row, "email"),
  }));
  const api_keys = readSection("api_keys", "id short_key", (row) => text(row, "short_key"));

  const traces: Trace[] = [];
  for (const [i, row] of list(dataset, "traces").entries()) {
    try {
      if (!isFields(row)) throw new UnsupportedCaseError("is no object");
      requireKnownFields(row, "at workspace project user api_key n note");
      const started_at = Date.parse(text(row, "at"));
      if (Number.isNaN(started_at)) throw new UnsupportedCaseError("at is no moment");
      const trace: Trace = {
        workspace_id: find(workspaces, row["workspace"]).id,
        project_id: find(projects, row["project"]).id,
        user_id: findOrNull(users, row["user"])?.id ?? null,
        api_key: findOrNull(api_keys, row["api_key"]),
        started_at,
      };
      for (let n = number(row, "n"); n > 0; n--) traces.push(trace);
    } catch (error) {
      problems.push(`traces.${i}: ${(error as Error).message}`);
    }
  }
  return {
    accounts: {
      workspaces: [...workspaces.values()],
      projects: [...projects.values()],
      users: [...users.values()],
    },
    readable: READABLE.flatMap((name) => workspaces.get(name)?.id ?? []),
    traces,
    problems,
  };
}

async function startData({ accounts, readable, traces }: Data, sealed: boolean): Promise<Host> {
  const last = traces.reduce((latest, { started_at = 0 }) => Math.max(latest, started_at), 0);
  const { now, timer } = testClock(last + 7 * 86_400_000);
  const host = await startHost({ accounts, readable, environment: { now, timer } });
  for (let at = 0; at < traces.length; at += 100) await host.test.addTraces(traces.slice(at, at + 100));
  if (sealed) await host.test.service.usage.sealHours();
  return host;
}

/** The query, as it stands or made from its parts. */
function createQuery(of: Fields): string {
  if (of["query_string"] !== undefined) return text(of, "query_string");
  const params = new URLSearchParams({ start_time: text(of, "start_time"), end_time: text(of, "end_time") });
  const ids = of["workspace_ids"];
  for (const id of typeof ids === "string" ? [ids] : list(of, "workspace_ids"))
    params.append("workspace_ids", String(id));
  if (of["group_by"] !== undefined) params.set("group_by", text(of, "group_by"));
  return params.toString();
}

async function runStride({ open }: Hosts, { readable }: Data, of: Fields): Promise<void> {
  const [start, end] = [text(of, "start_time"), text(of, "end_time")];
  if (of["milliseconds"] !== undefined) assert.equal(Date.parse(end) - Date.parse(start), number(of, "milliseconds"));
  const query = new URLSearchParams({ start_time: start, end_time: end, workspace_ids: readable[0] ?? "" });
  const answer = await open.ask("GET", `${REPORT}?${query}`, { auth: "reader" });
  expectStatus(answer, 200);
  assert.deepEqual((parseBody(answer) as Fields)["stride"], fields(of, "stride"));
}

async function runQuery(startHosts: Hosts, of: Fields): Promise<void> {
  const query = createQuery(of);
  const { auth = "reader", expect_json, expect_csv, expect_total } = of;
  for (const [name, host] of Object.entries(startHosts) as [string, Host][]) {
    const json = await host.ask("GET", `${ROUTES[0]}?${query}`, { auth });
    expectAnswer(json, of, createKinds(BASE_URL));
    if (expect_json !== undefined) assert.deepEqual(parseBody(json), expect_json, `hours ${name}`);
    if (expect_total !== undefined) {
      const { usage } = parseBody(json) as { readonly usage: readonly { readonly traces: number }[] };
      assert.equal(
        usage.reduce((total, { traces }) => total + traces, 0),
        expect_total,
        `total, hours ${name}`,
      );
    }
    const csv = await host.ask("GET", `${ROUTES[1]}?${query}`, { auth });
    expectStatus(csv, of["expect_status"]);
    if (expect_csv === undefined) continue;
    assert.equal(csv.text, expect_csv, `CSV, hours ${name}`);
    assert.equal(csv.headers.get("content-type"), "text/csv; charset=utf-8");
  }
}

/** On both routes; refusals of the export are JSON. */
async function runError({ open }: Hosts, of: Fields): Promise<void> {
  const query = createQuery(of);
  for (const route of ROUTES) {
    const answer = await open.ask("GET", `${route}?${query}`, { auth: of["auth"] });
    try {
      expectAnswer(answer, of, createKinds(BASE_URL));
      if (answer.status >= 400)
        assert.equal(answer.headers.get("content-type"), "application/json", formatAnswer(answer));
    } catch (error) {
      throw new Error(`${route}: ${(error as Error).message}`, { cause: error });
    }
  }
}

const ID = {
  workspace: "11111111-1111-4111-8111-111111111111",
  project: "aaaaaaa1-0000-4000-8000-000000000001",
  user: "bbbbbbb1-0000-4000-8000-000000000001",
} as const;

/** The cell as it stands in the row, which is `csv` without its `,x`. */
async function runCell(of: Fields): Promise<void> {
  const { value } = of;
  if (value !== null && typeof value !== "string") throw new UnsupportedCaseError("value is no text");
  const row = text(of, "csv");
  assert.ok(row.endsWith(",x"), "csv ends with ,x");
  const cell = row.slice(0, -2);
  const read = /^"([\s\S]*)"$/.exec(cell)?.[1]?.replaceAll('""', '"') ?? cell;
  assert.equal(read, text(of, "cell"), "cell and csv of the case agree");
  const started_at = Date.parse("2026-01-01T12:00:00Z");
  // A short key is never empty: to the store that is none.
  const short_key = value === "" ? null : value;
  await using host = await startData(
    {
      accounts: {
        workspaces: [{ id: ID.workspace, name: value ?? "w" }],
        projects: [{ id: ID.project, workspace: ID.workspace, name: value ?? "p" }],
        users: [{ id: ID.user, email: value }],
      },
      readable: [ID.workspace],
      traces: [
        { workspace_id: ID.workspace, project_id: ID.project, user_id: ID.user, started_at },
        ...(short_key === null
          ? []
          : [{ workspace_id: ID.workspace, project_id: ID.project, api_key: short_key, started_at }]),
      ],
      problems: [],
    },
    false,
  );
  const day = "2026-01-01T00:00:00Z,2026-01-02T00:00:00Z";
  const query = `start_time=2026-01-01&end_time=2026-01-02&workspace_ids=${ID.workspace}`;
  const rows: Readonly<Record<string, readonly string[]>> =
    short_key === null
      ? { user: [`${day},,,,,${ID.user},${cell},,1`] }
      : {
          workspace: [`${day},${ID.workspace},${cell},,,,,,2`],
          project: [`${day},,,${ID.project},${cell},,,,2`],
          user: [`${day},,,,,${ID.user},${cell},,1`, `${day},,,,,,,,1`],
          api_key: [`${day},,,,,,,${cell},1`, `${day},,,,,,,,1`],
        };
  for (const [group, expected] of Object.entries(rows)) {
    const answer = await host.ask("GET", `${ROUTES[1]}?${query}&group_by=${group}`, { auth: "reader" });
    expectStatus(answer, 200);
    const body = answer.text.slice(answer.text.indexOf("\r\n") + 2);
    assert.equal(body, expected.map((line) => `${line}\r\n`).join(""), group);
  }
}
