/** Validates requests for feedback tokens. */
import type { TokenRequest } from "../../feedback/mod.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { FeedbackConfig, Page } from "../../storage/mod.ts";
import { absent, checked, type Loc, page, type Report, readJson, readKey, requiredId, single } from "./findings.ts";

const MINUTE = 60_000;
const DEFAULT_LIFE = 180 * MINUTE;
const LONGEST_DAYS = 365;
const LONGEST_LIFE = LONGEST_DAYS * 1440 * MINUTE;
const MAX_TOKENS = 100;
const CONFIGS = ["continuous", "categorical", "freeform"] as const;

/** The body of a token creation: the requests, and whether they came as a list. */
export function readTokenRequests(
  bytes: Uint8Array,
  now: number,
): { readonly requests: readonly TokenRequest[]; readonly many: boolean } {
  const body = readJson(bytes);
  const many = Array.isArray(body);
  const requests = checked((report) => {
    if (many && body.length > MAX_TOKENS) {
      report(["body"], `must have at most ${MAX_TOKENS} items`, "too_long");
      return [];
    }
    return many
      ? body.map((item, index) => tokenRequest(item, ["body", index], now, report))
      : [tokenRequest(body, ["body"], now, report)];
  });
  return { requests, many };
}

function tokenRequest(sent: Json, loc: Loc, now: number, report: Report): TokenRequest {
  if (!isObject(sent)) report(loc, "must be an object", "type_error");
  const item = isObject(sent) ? sent : {};
  if (item !== sent) return { run_id: "", feedback_key: "", expires_at: now, config: null };
  return {
    run_id: requiredId(item.run_id, [...loc, "run_id"], report),
    feedback_key: readKey(item.feedback_key, [...loc, "feedback_key"], report),
    expires_at: readExpiry(item, loc, now, report),
    config: readConfig(item.feedback_config, [...loc, "feedback_config"], report),
  };
}

function readExpiry(item: JsonObject, place: Loc, now: number, report: Report): number {
  const { expires_in, expires_at } = item;
  if (!absent(expires_at)) {
    const loc = [...place, "expires_at"];
    if (!absent(expires_in)) report(loc, "must not be given together with expires_in");
    const moment = typeof expires_at === "string" ? parseRfc3339(expires_at) : null;
    if (moment === null) report(loc, "must be a date or time in RFC 3339", "datetime_parsing");
    else if (moment <= now) report(loc, "must be later than now");
    else if (moment > now + LONGEST_LIFE) report(loc, `must not be more than ${LONGEST_DAYS} days from now`);
    return moment ?? now;
  }
  if (absent(expires_in)) return now + DEFAULT_LIFE;
  const loc = [...place, "expires_in"];
  if (!isObject(expires_in)) {
    report(loc, "must be an object", "type_error");
    return now;
  }
  let minutes = 0;
  let whole = true;
  for (const [part, length] of [
    ["days", 1440],
    ["hours", 60],
    ["minutes", 1],
  ] as const) {
    const sent = expires_in[part] ?? 0;
    if (Number.isInteger(sent)) minutes += (sent as number) * length;
    else report([...loc, part], "must be an integer", "type_error");
    whole &&= Number.isInteger(sent);
  }
  const life = minutes * MINUTE;
  if (whole && !(life > 0)) report(loc, "must be longer than nothing");
  if (whole && life > LONGEST_LIFE) report(loc, `must not be longer than ${LONGEST_DAYS} days`);
  return now + life;
}

function readConfig(sent: Json | undefined, loc: Loc, report: Report): FeedbackConfig | null {
  if (absent(sent)) return null;
  if (!isObject(sent)) {
    report(loc, "must be an object", "type_error");
    return null;
  }
  const type = CONFIGS.find((known) => known === sent.type);
  if (absent(sent.type)) report([...loc, "type"], "is required", "missing");
  else if (!type) report([...loc, "type"], `must be one of ${CONFIGS.join(", ")}`, "enum");
  const bound = (name: "min" | "max"): { [bound in "min" | "max"]?: number } => {
    const value = sent[name];
    if (absent(value)) return {};
    if (typeof value === "number" && Number.isFinite(value)) return { [name]: value };
    report([...loc, name], "must be a number", "type_error");
    return {};
  };
  const bounds = { ...bound("min"), ...bound("max") };
  const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = bounds;
  if (min > max) report(loc, "min must not be above max");
  const categories = readCategories(sent.categories, [...loc, "categories"], report);
  if (type === "categorical" && absent(sent.categories)) report([...loc, "categories"], "is required", "missing");
  if (type === "categorical" && categories?.length === 0) report([...loc, "categories"], "must have an item");
  return { type: type ?? "freeform", ...bounds, ...(categories && { categories }) };
}

function readCategories(sent: Json | undefined, loc: Loc, report: Report): FeedbackConfig["categories"] {
  if (absent(sent)) return undefined;
  if (!Array.isArray(sent)) {
    report(loc, "must be a list", "type_error");
    return undefined;
  }
  return sent.map((item, index) => {
    const { value, label = null } = isObject(item) ? item : {};
    if (!isObject(item)) report([...loc, index], "must be an object", "type_error");
    else if (absent(value)) report([...loc, index, "value"], "is required", "missing");
    else if (typeof value !== "number" || !Number.isFinite(value)) {
      report([...loc, index, "value"], "must be a number", "type_error");
    }
    if (label !== null && typeof label !== "string") report([...loc, index, "label"], "must be a string", "type_error");
    return { value: value as number, label: label as string | null };
  });
}

/** The query of a list of tokens. */
export function readTokenQuery(params: URLSearchParams): { readonly run_id: string } & Page {
  return checked((report) => ({
    run_id: requiredId(single(params, "run_id", report), ["query", "run_id"], report),
    ...page(params, report),
  }));
}
