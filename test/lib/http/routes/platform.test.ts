/** Usage reports: the case file from the query string to the bytes of the response, and more. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../../adapters/sqlite/node.ts";
import { errorResponse } from "../../../../lib/http/respond.ts";
import {
  createUsageCsvResponse,
  createUsageJsonResponse,
  formatCsvRow,
  readUsageQuery,
} from "../../../../lib/http/routes/platform.ts";
import { parseRfc3339 } from "../../../../lib/rfc3339.ts";
import type { Caller, IdentityStore, Permission } from "../../../../lib/storage/identity.ts";
import type { Storage } from "../../../../lib/storage/mod.ts";
import { createUsage, type Usage, type UsageOptions, type UsageReport } from "../../../../lib/usage/mod.ts";
import { chooseStride } from "../../../../lib/usage/report.ts";
import { addTraces } from "../../../suite/traces.ts";

type Fields = Readonly<Record<string, unknown>>;

interface Cases {
  readonly format: number;
  readonly about: string;
  readonly rules: Fields;
  readonly dataset: {
    readonly workspaces: Readonly<Record<string, { readonly id: string; readonly name: string }>>;
    readonly projects: Readonly<Record<string, { readonly id: string; readonly name: string }>>;
    readonly users: Readonly<Record<string, { readonly id: string; readonly email: string | null }>>;
    readonly api_keys: Readonly<Record<string, { readonly short_key: string }>>;
    readonly traces: readonly {
      readonly at: string;
      readonly workspace: string;
      readonly project: string;
      readonly user: string | null;
      readonly api_key: string | null;
      readonly n: number;
    }[];
  };
  readonly stride_cases: readonly {
    readonly start_time: string;
    readonly end_time: string;
    readonly milliseconds: number;
    readonly stride: Fields;
  }[];
  readonly queries: readonly {
    readonly id: string;
    readonly note: string;
    readonly query_string?: string;
    readonly start_time: string;
    readonly end_time: string;
    readonly workspace_ids: readonly string[];
    readonly group_by?: string;
    readonly expect_status: number;
    readonly expect_total: number;
    readonly expect_json: unknown;
    readonly expect_csv: string;
  }[];
  readonly error_cases: readonly {
    readonly id: string;
    readonly auth?: string;
    readonly note: string;
    readonly query_string: string;
    readonly expect_status: number;
    readonly expect_detail_loc?: readonly unknown[];
    readonly expect_detail_type?: string;
  }[];
  readonly csv_cells: readonly { readonly value: string | null; readonly cell: string; readonly csv: string }[];
}

const cases = JSON.parse(readFileSync(new URL("../../../cases/usage.json", import.meta.url), "utf8")) as Cases;
const { dataset } = cases;

/** Fails for members that these tests do not know, because they would not be tested. */
function knows(of: object, members: string): void {
  const unknown = Object.keys(of).filter((key) => !members.split(" ").includes(key));
  assert.deepEqual(unknown, [], `unknown members in ${JSON.stringify(of).slice(0, 80)}`);
}

function requireMember<Value>(of: Readonly<Record<string, Value>>, name: string): Value {
  assert.ok(Object.hasOwn(of, name), `${name} is in the data set`);
  return of[name] as Value;
}

const WORKSPACES = Object.values(dataset.workspaces);
const [W1, W2, W3] = WORKSPACES.map(({ id }) => id) as [string, string, string];

const identity: Pick<IdentityStore, "readNames"> = {
  async readNames({ workspaces = [], projects = [], users = [] }) {
    const pick = <Value>(ids: readonly string[], all: readonly (readonly [string, Value])[]): Map<string, Value> =>
      new Map(all.filter(([id]) => ids.includes(id)));
    return {
      workspaces: pick(
        workspaces,
        WORKSPACES.map(({ id, name }) => [id, name]),
      ),
      projects: pick(
        projects,
        Object.values(dataset.projects).map(({ id, name }) => [id, name]),
      ),
      users: pick(
        users,
        Object.values(dataset.users).map(({ id, email }) => [id, email]),
      ),
    };
  },
};

function aCaller(permissions: readonly Permission[], readable: readonly string[] = [W1, W2]): Caller {
  const workspaces = new Map<string, ReadonlySet<Permission>>([
    ...readable.map((id) => [id, new Set<Permission>(["workspaces:read"])] as const),
    [W3, new Set<Permission>(["runs:read"])],
  ]);
  const ids = { organization_id: "o", user_id: null, api_key: null, key_id: null };
  return { ...ids, permissions: new Set(permissions), workspaces, projects: new Map() };
}

const reader = aCaller(["organization:read"]);
const CALLERS: Readonly<Record<string, Caller>> = { reader, no_org_read: aCaller([]) };

/** Creates a usage report of the data set. Each trace is stored before or after its hour is sealed. */
async function onData(
  body: (usage: Usage, storage: Storage) => Promise<void>,
  { sealed = "nothing", ...options }: Partial<UsageOptions> & { sealed?: "nothing" | "before" | "after" } = {},
): Promise<void> {
  const storage = nodeSqlite(":memory:");
  try {
    await storage.migrate();
    const environment = { now: () => Date.parse("2030-01-01T00:00:00Z") };
    const terms = { storage, identity, environment, enabled: true, unreadable_workspaces: "refuse" } as const;
    const usage = createUsage({ ...terms, ...options });
    if (sealed === "before") await usage.sealHours();
    for (const [i, row] of dataset.traces.entries()) {
      knows(row, "at workspace project user api_key n");
      const trace = {
        thread_id: null,
        workspace_id: requireMember(dataset.workspaces, row.workspace).id,
        project_id: requireMember(dataset.projects, row.project).id,
        user_id: row.user === null ? null : requireMember(dataset.users, row.user).id,
        api_key: row.api_key === null ? null : requireMember(dataset.api_keys, row.api_key).short_key,
        started_at: Date.parse(row.at),
        counted: true,
      };
      await addTraces(
        storage,
        Array.from({ length: row.n }, (_, j) => ({ trace_id: `${i}-${j}`, ...trace })),
      );
    }
    if (sealed === "after") await usage.sealHours();
    await body(usage, storage);
  } finally {
    await storage.close();
  }
}

/** Formats the report as the route does. */
async function ask(
  usage: Usage,
  by: Caller,
  query: string,
  write: (report: UsageReport) => Response = createUsageJsonResponse,
): Promise<Response> {
  try {
    usage.admit(by);
    return write(await usage.report(by, readUsageQuery(new URLSearchParams(query))));
  } catch (error) {
    return errorResponse(error, {}, { issues: "exact" });
  }
}

describe("usage cases", () => {
  it("have no group that this test does not know", () => {
    knows(cases, "format about rules dataset stride_cases queries error_cases csv_cells");
    knows(dataset, "workspaces projects users api_keys traces");
    assert.equal(cases.format, 1);
  });

  it("have the expected strides", () => {
    for (const { start_time, end_time, milliseconds, stride, ...timeRange } of cases.stride_cases) {
      knows(timeRange, "note");
      const [start, end] = [parseRfc3339(start_time) as number, parseRfc3339(end_time) as number];
      assert.equal(end - start, milliseconds);
      assert.deepEqual(chooseStride(start, end), stride, `${milliseconds} ms`);
    }
  });

  for (const sealed of ["nothing", "before", "after"] as const) {
    it(`have the expected JSON and CSV with ${sealed === "nothing" ? sealed : `all hours`} sealed ${sealed}`, () =>
      onData(
        async (usage) => {
          for (const query of cases.queries) {
            knows(
              query,
              "id note query_string start_time end_time workspace_ids group_by expect_status expect_total expect_json expect_csv",
            );
            const params = new URLSearchParams({ start_time: query.start_time, end_time: query.end_time });
            for (const id of query.workspace_ids) params.append("workspace_ids", id);
            if (query.group_by) params.set("group_by", query.group_by);
            for (const queryText of [
              query.query_string ?? params.toString(),
              params.toString().replaceAll("%3A", ":"),
            ]) {
              const json = await ask(usage, reader, queryText);
              assert.equal(json.status, query.expect_status, query.id);
              const body = (await json.json()) as { usage: { traces: number }[] };
              assert.deepEqual(body, query.expect_json, query.id);
              assert.equal(
                body.usage.reduce((sum, { traces }) => sum + traces, 0),
                query.expect_total,
                query.id,
              );
              const csv = await ask(usage, reader, queryText, createUsageCsvResponse);
              assert.deepEqual(
                new Uint8Array(await csv.arrayBuffer()),
                new TextEncoder().encode(query.expect_csv),
                query.id,
              );
            }
          }
        },
        { sealed },
      ));
  }

  it("have the expected errors", () =>
    onData(async (usage) => {
      for (const errorCase of cases.error_cases) {
        knows(errorCase, "id auth note query_string expect_status expect_detail_loc expect_detail_type");
        // Keys are checked before the query.
        if (errorCase.auth === undefined || errorCase.auth === "none" || errorCase.auth === "bad") {
          assert.equal(errorCase.expect_status, 401, errorCase.id);
          continue;
        }
        for (const write of [createUsageJsonResponse, createUsageCsvResponse]) {
          const response = await ask(usage, requireMember(CALLERS, errorCase.auth), errorCase.query_string, write);
          assert.equal(response.status, errorCase.expect_status, `${errorCase.id}: ${errorCase.note}`);
          if (response.status === 200) continue;
          const { detail } = (await response.json()) as { detail: unknown };
          if (!errorCase.expect_detail_loc) continue;
          assert.ok(Array.isArray(detail), errorCase.id);
          const [issue, ...otherIssues] = detail as { loc: unknown; type: unknown; msg: unknown }[];
          assert.deepEqual(otherIssues, [], errorCase.id);
          assert.deepEqual(issue?.loc, errorCase.expect_detail_loc, errorCase.id);
          assert.equal(issue?.type, errorCase.expect_detail_type, errorCase.id);
          assert.equal(typeof issue?.msg, "string");
        }
      }
    }));

  it("have the expected CSV cells", () => {
    for (const cellCase of cases.csv_cells) {
      knows(cellCase, "value cell csv");
      assert.equal(formatCsvRow([cellCase.value, "x"]), `${cellCase.csv}\r\n`);
    }
  });
});

describe("a usage report", () => {
  const january = `start_time=2026-01-01&end_time=2026-02-01`;
  const all = `${january}&workspace_ids=${W1}&workspace_ids=${W2}`;

  it("answers 403 `workspace_forbidden` if one workspace cannot be read, whether it exists or not, without its name", () =>
    onData(async (usage) => {
      for (const otherWorkspace of [W3, "44444444-4444-4444-8444-444444444444"]) {
        const response = await ask(usage, reader, `${all}&workspace_ids=${otherWorkspace}`);
        assert.equal(response.status, 403);
        assert.deepEqual(await response.json(), {
          detail: "No read access to one of the workspaces",
          code: "workspace_forbidden",
        });
      }
    }));

  it("excludes such workspaces with `unreadable_workspaces: omit`", () =>
    onData(
      async (usage) => {
        const answer = async (query: string): Promise<unknown> => (await ask(usage, reader, query)).json();
        assert.deepEqual(await answer(`${all}&workspace_ids=${W3}`), await answer(all));
        assert.deepEqual(await answer(`${january}&workspace_ids=${W3}`), {
          stride: { days: 1, hours: 0 },
          usage: [],
        });
      },
      { unreadable_workspaces: "omit" },
    ));

  it("answers 404 `usage_disabled` to every query while reporting is disabled", () =>
    onData(
      async (usage) => {
        for (const query of [all, "start_time=x"]) {
          const response = await ask(usage, reader, query);
          assert.equal(response.status, 404);
          assert.deepEqual(await response.json(), { detail: "Usage reporting is not enabled", code: "usage_disabled" });
        }
      },
      { enabled: false },
    ));

  it("requires organization:read", () =>
    onData(async (usage) => {
      assert.equal((await ask(usage, CALLERS.no_org_read as Caller, "start_time=x")).status, 403);
      await assert.rejects(
        usage.report(CALLERS.no_org_read as Caller, readUsageQuery(new URLSearchParams(all))),
        /organization:read/,
      );
    }));

  it("names only the dimensions of its grouping", () =>
    onData(async (usage) => {
      const members = async (group: string): Promise<string[]> => {
        const { usage: records } = (await (await ask(usage, reader, `${all}&group_by=${group}`)).json()) as {
          usage: { dimensions: object }[];
        };
        return [...new Set(records.flatMap(({ dimensions }) => Object.keys(dimensions)))];
      };
      assert.deepEqual(await members("workspace"), ["workspace_id", "workspace_name"]);
      assert.deepEqual(await members("project"), ["project_id", "project_name"]);
      assert.deepEqual(await members("user"), ["user_id", "user_email"]);
      assert.deepEqual(await members("api_key"), ["api_key_short_key"]);
    }));

  it("is a CSV attachment", () =>
    onData(async (usage) => {
      const csv = await ask(usage, reader, `${all}&group_by=api_key`, createUsageCsvResponse);
      assert.equal(csv.headers.get("content-type"), "text/csv; charset=utf-8");
      assert.equal(
        csv.headers.get("content-disposition"),
        'attachment; filename="granular-usage-api_key-2026-01-01-2026-02-01.csv"',
      );
      assert.match(await csv.text(), /\r\n2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,,,,,,,lsv2_sk_\.\.\.a1b2,3\r\n/);
      const json = await ask(usage, reader, all);
      assert.equal(json.headers.get("content-type"), "application/json");
      await json.body?.cancel();
    }));

  it("has tokens and costs at the end of each record if requested", () =>
    onData(async (usage, storage) => {
      await storage.addTraceUsage("0-0", { tokens_in: 3, tokens_out: 4, cost_usd: 0.5 });
      for (const group of ["workspace", "project", "user", "api_key"]) {
        const query = `${all}&group_by=${group}`;
        const lines = async (query: string): Promise<string[]> =>
          (await (await ask(usage, reader, query, createUsageCsvResponse)).text()).split("\r\n").slice(0, -1);
        const plain = await lines(query);
        const tokenLines = await lines(`${query}&include=tokens`);
        assert.equal(tokenLines[0], `${plain[0]},Tokens In,Tokens Out,Cost USD`);
        const sums = tokenLines.slice(1).map((line, i) => {
          assert.ok(line.startsWith(`${plain[i + 1]},`), line);
          return line.split(",").slice(-3).map(Number);
        });
        assert.deepEqual(
          [0, 1, 2].map((column) => sums.reduce((sum, cells) => sum + (cells[column] as number), 0)),
          [3, 4, 0.5],
        );
        const json = (await (await ask(usage, reader, `${query}&include=tokens`)).json()) as {
          readonly usage: readonly Record<string, unknown>[];
        };
        assert.deepEqual(
          json.usage.map((record) => [record.tokens_in, record.tokens_out, record.cost_usd]),
          sums,
        );
      }
      for (const [query, type] of [
        ["include=cost", "enum"],
        ["include=", "enum"],
        ["include=tokens&include=tokens", "value_error"],
      ]) {
        const refused = await ask(usage, reader, `${all}&${query}`);
        assert.equal(refused.status, 422);
        const { detail } = (await refused.json()) as { readonly detail: readonly unknown[] };
        const msg = type === "enum" ? "include must be tokens" : "include must be given once";
        assert.deepEqual(detail, [{ loc: ["query", "include"], msg, type }]);
      }
    }));

  it("quotes every text cell if requested", async () => {
    const dimensions = { project_id: null, project_name: '=a;b "c"' };
    const usage = [{ time_bucket: "2026-01-01T00:00:00Z", dimensions, traces: 3 }];
    const request = { start_time: 0, end_time: 1, workspace_ids: [], group_by: "project" } as const;
    const report = { stride: { days: 1, hours: 0 }, request, usage };
    const [head, row] = (await createUsageCsvResponse(report, "text").text()).split("\r\n");
    assert.match(head ?? "", /^"Time Bucket Start","Time Bucket End",.*,"Traces"$/);
    assert.equal(row, `"2026-01-01T00:00:00Z","2026-01-02T00:00:00Z",,,,"\t=a;b ""c""",,,,3`);
    const plain = { ...report, usage: [{ ...usage[0], dimensions: { project_id: null, project_name: "a;\tb" } }] };
    assert.match(await createUsageCsvResponse(plain as typeof report).text(), /,a;\tb,/);
  });

  it("is complete when it is long", async () => {
    const usage = Array.from({ length: 2345 }, (_, i) => ({
      time_bucket: "2026-01-01T00:00:00Z",
      dimensions: { api_key_short_key: `=${i}` },
      traces: i + 1,
    }));
    const request = { start_time: 0, end_time: 1, workspace_ids: [], group_by: "api_key" } as const;
    const stride = { days: 1, hours: 0 };
    for (const count of [0, 1, 499, 500, 501, 1000, 2345]) {
      const report = { stride, request, usage: usage.slice(0, count) };
      assert.deepEqual(await createUsageJsonResponse(report).json(), { stride, usage: report.usage });
      const lines = (await createUsageCsvResponse(report).text()).split("\r\n");
      assert.equal(lines.length, count + 2);
      if (count > 0)
        assert.equal(lines[count], `2026-01-01T00:00:00Z,2026-01-02T00:00:00Z,,,,,,,\t=${count - 1},${count}`);
    }
  });

  it("has null for names that no longer exist", () =>
    onData(
      async (usage) => {
        const { usage: records } = (await (await ask(usage, reader, `${all}&group_by=project`)).json()) as {
          usage: { dimensions: { project_name: unknown } }[];
        };
        assert.ok(records.length > 0);
        assert.ok(records.every(({ dimensions }) => dimensions.project_name === null));
      },
      { identity: { readNames: async () => ({ workspaces: new Map(), projects: new Map(), users: new Map() }) } },
    ));

  it("contains what a run reported", () =>
    onData(async (usage, storage) => {
      await storage.addTraceUsage("0-0", { tokens_in: 3, tokens_out: 4, cost_usd: 0.5 });
      assert.deepEqual(await usage.traceUsage("0-0"), { tokens_in: 3, tokens_out: 4, cost_usd: 0.5 });
      assert.equal(await usage.traceUsage("unknown"), null);
    }));
});
