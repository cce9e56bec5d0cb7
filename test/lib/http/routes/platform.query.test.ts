/** The query of a usage report and its timestamps: valid ones and findings. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { InputError } from "../../../../lib/errors.ts";
import { readCsvQuotes, readUsageQuery } from "../../../../lib/http/routes/platform.ts";
import { formatRfc3339, parseRfc3339 } from "../../../../lib/rfc3339.ts";

const W1 = "11111111-1111-4111-8111-11111111111a";
const W2 = "22222222-2222-4222-8222-222222222222";
const range = "start_time=2026-01-01T00:00:00Z&end_time=2026-01-02T00:00:00Z";

function findQueryIssues(query: string): readonly unknown[] {
  try {
    readUsageQuery(new URLSearchParams(query));
  } catch (error) {
    assert.ok(error instanceof InputError);
    return error.issues.map(({ loc, type }) => [loc.slice(1).join("."), type]);
  }
  return [];
}

describe("readUsageQuery", () => {
  it("reads repeated ids, a comma-separated list, and groups", () => {
    const upper = W1.toUpperCase();
    const read = (query: string): unknown => {
      const { workspace_ids, group_by } = readUsageQuery(new URLSearchParams(`${range}${query}`));
      return [...workspace_ids, group_by];
    };
    assert.deepEqual(read(`&workspace_ids=${W1}&workspace_ids=&workspace_ids=${W2}&group_by=api_key`), [
      W1,
      W2,
      "api_key",
    ]);
    assert.deepEqual(read(`&workspace_ids=${W2},${upper},,${W1}`), [W2, W1, "workspace"]);
    assert.deepEqual(read(`&workspace_ids=${W2}&group_by=user&kind=x&trace_tier=longlived`), [W2, "user"]);
  });

  it("reads which CSV cells are quoted", () => {
    const read = (query: string) => readCsvQuotes(new URLSearchParams(query));
    assert.deepEqual([read(""), read("quote=needed"), read("quote=text")], ["needed", "needed", "text"]);
    for (const query of ["quote=", "quote=all", "quote=text&quote=text"]) assert.throws(() => read(query), InputError);
  });

  it("reports every finding", () => {
    assert.deepEqual(findQueryIssues(`${range}&workspace_ids=${W1}&group_by=`), [["group_by", "enum"]]);
    assert.deepEqual(findQueryIssues(`start_time=2026-01-01&${range}&end_time=&workspace_ids=${W1}`), [
      ["start_time", "value_error"],
      ["end_time", "value_error"],
    ]);
    assert.deepEqual(findQueryIssues("group_by=Project"), [
      ["start_time", "missing"],
      ["end_time", "missing"],
      ["workspace_ids", "missing"],
      ["group_by", "enum"],
    ]);
    assert.deepEqual(
      findQueryIssues(`start_time=&end_time=1767225600&workspace_ids=x,${W1},y&group_by=user&group_by=user`),
      [
        ["start_time", "missing"],
        ["end_time", "datetime_parsing"],
        ["workspace_ids.0", "uuid_parsing"],
        ["workspace_ids.2", "uuid_parsing"],
        ["group_by", "value_error"],
      ],
    );
    // Repeated parameters are not split at commas.
    assert.deepEqual(findQueryIssues(`${range}&workspace_ids=${W1}&workspace_ids=${W1},${W2}`), [
      ["workspace_ids.1", "uuid_parsing"],
    ]);
  });

  it("requires ordered bounds with at most 3660 days between them, after rounding", () => {
    const bounds = (start: string, end: string): unknown =>
      findQueryIssues(`start_time=${start}&end_time=${end}&workspace_ids=${W1}`);
    const wrong = [["end_time", "value_error"]];
    assert.deepEqual(bounds("2026-01-01", "2036-01-09"), []);
    assert.deepEqual(bounds("2026-01-01", "2036-01-09T00:00:00.0001Z"), wrong);
    assert.deepEqual(bounds("2026-01-01T00:00:00.0001Z", "2026-01-01T00:00:00.0009Z"), wrong);
    assert.deepEqual(bounds("2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.0011Z"), []);
    assert.deepEqual(bounds("2026-01-02", "2026-01-01"), wrong);
  });

  it("accepts at most a thousand workspaces", () => {
    const id = (i: number): string => `00000000-0000-4000-8000-${String(i).padStart(12, "0")}`;
    const ids = (count: number): string => Array.from({ length: count }, (_, i) => id(i)).join(",");
    assert.deepEqual(findQueryIssues(`${range}&workspace_ids=${ids(1000)},${id(5)}`), []);
    assert.deepEqual(findQueryIssues(`${range}&workspace_ids=${ids(1001)}`), [["workspace_ids", "too_long"]]);
  });
});

describe("timestamps", () => {
  const READ: readonly (readonly [string, string | null])[] = [
    ["2026-01-15", "2026-01-15T00:00:00Z"],
    ["2026-01-15T10:00:00", "2026-01-15T10:00:00Z"],
    ["2026-01-15t10:00:00z", "2026-01-15T10:00:00Z"],
    ["2026-01-15 10:00:00.5", "2026-01-15T10:00:00.500Z"],
    ["2026-01-15T10:00:00+02:00", "2026-01-15T08:00:00Z"],
    ["2026-01-15T10:00:00 02:00", "2026-01-15T08:00:00Z"],
    ["2026-01-15T10:00:00-05:30", "2026-01-15T15:30:00Z"],
    ["2026-01-15T10:00:00.123000", "2026-01-15T10:00:00.123Z"],
    ["2026-01-15T10:00:00.123000000001Z", "2026-01-15T10:00:00.124Z"],
    ["2026-12-31T23:59:59.9991Z", "2027-01-01T00:00:00Z"],
    ["1969-12-31T23:59:59.9985Z", "1969-12-31T23:59:59.999Z"],
    ["2024-02-29", "2024-02-29T00:00:00Z"],
    ["0050-01-01", "0050-01-01T00:00:00Z"],
    ["2026-02-29", null],
    ["2026-04-31T00:00:00Z", null],
    ["2026-13-01", null],
    ["2026-00-10", null],
    ["2026-01-15T24:00:00Z", null],
    ["2026-12-31T23:59:60Z", null],
    ["2026-01-15T10:60:00Z", null],
    ["2026-01-15T10:00Z", null],
    ["2026-01-15T10:00:00+0200", null],
    ["2026-01-15T10:00:00+24:00", null],
    ["2026-01-15T10:00:00,5Z", null],
    ["2026-01-15T10:00:00.Z", null],
    ["2026-01-15Z", null],
    ["2026-1-15", null],
    ["20260115", null],
    ["1768435200", null],
    ["1768435200000", null],
    ["9999-12-31T23:59:59.9999Z", null],
    ["0000-01-01T00:00:00+00:01", null],
    [" 2026-01-15", null],
    ["2026-01-15\n", null],
    ["now", null],
  ];

  it("are parsed as in RFC 3339, with UTC as the default", () => {
    for (const [query, expected] of READ) {
      const read = parseRfc3339(query);
      assert.equal(read === null ? null : formatRfc3339(read), expected, query);
    }
  });
});
