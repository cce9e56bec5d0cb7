/** Reads the query of a usage report. */
import { parseRfc3339 } from "../../rfc3339.ts";
import type { UsageGroup } from "../../storage/mod.ts";
import type { UsageRequest } from "../../usage/mod.ts";
import type { CsvQuotes } from "../csv.ts";
import { checked } from "./findings.ts";
import { UUID } from "./pieces.ts";

const DAY = 86_400_000;
const MAX_DAYS = 3660;
const MAX_WORKSPACES = 1000;
const GROUPS: readonly UsageGroup[] = ["workspace", "project", "user", "api_key"];

/** `quote` of the CSV file: `needed` (the default) or `text`. Throws an InputError. */
export function readCsvQuotes(params: URLSearchParams): CsvQuotes {
  return checked((refuse) => {
    const [quotes = "needed", ...more] = params.getAll("quote");
    if (more.length > 0) refuse(["query", "quote"], "quote must be given once", "value_error");
    if (quotes === "needed" || quotes === "text") return quotes;
    refuse(["query", "quote"], "quote must be one of needed, text", "enum");
    return "needed";
  });
}

/**
 * The query of a usage report. Throws an InputError with all findings, in the order start_time, end_time, workspace_ids, group_by.
 * An empty time or id counts as absent. Types: `missing`, `datetime_parsing`, `uuid_parsing` (with the
 * index of the id), `value_error` (order and length of the range; a time or group_by given twice), `too_long` (too many ids),
 * `enum` (unknown or empty group_by).
 */
export function readUsageQuery(params: URLSearchParams): UsageRequest {
  return checked((refuse) => usageRequest(params, (at, msg, type) => refuse(["query", ...at], msg, type)));
}

function usageRequest(
  params: URLSearchParams,
  report: (at: readonly (string | number)[], msg: string, type: string) => void,
): UsageRequest {
  const moment = (name: string): number | null => {
    const [sent = "", ...more] = params.getAll(name);
    if (more.length > 0) report([name], `${name} must be given once`, "value_error");
    if (sent === "") {
      report([name], `${name} is required`, "missing");
      return null;
    }
    const read = parseRfc3339(sent);
    if (read === null) report([name], `${name} must be a date or time in RFC 3339`, "datetime_parsing");
    return read;
  };
  const start_time = moment("start_time") ?? Number.NaN;
  const end_time = moment("end_time") ?? Number.NaN;
  if (end_time <= start_time) report(["end_time"], "end_time must be after start_time", "value_error");
  if (end_time - start_time > MAX_DAYS * DAY) {
    report(["end_time"], `end_time must not be more than ${MAX_DAYS} days after start_time`, "value_error");
  }

  const given = params.getAll("workspace_ids");
  const list = given.length === 1 ? (given[0] as string).split(",") : given;
  const ids = new Set<string>();
  for (const [index, id] of list.entries()) {
    if (UUID.test(id)) ids.add(id.toLowerCase());
    else if (id !== "") report(["workspace_ids", index], `workspace_ids.${index} must be a UUID`, "uuid_parsing");
  }
  if (list.every((id) => id === "")) report(["workspace_ids"], "workspace_ids is required", "missing");
  if (ids.size > MAX_WORKSPACES) {
    report(["workspace_ids"], `workspace_ids must have at most ${MAX_WORKSPACES} ids`, "too_long");
  }

  const groups = params.getAll("group_by");
  const group_by = GROUPS.find((group) => group === (groups[0] ?? "workspace"));
  if (groups.length > 1) report(["group_by"], "group_by must be given once", "value_error");
  else if (!group_by) report(["group_by"], `group_by must be one of ${GROUPS.join(", ")}`, "enum");

  return { start_time, end_time, workspace_ids: [...ids], group_by: group_by ?? "workspace" };
}
