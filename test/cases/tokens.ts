/** The feedback tokens that stand for the names in braces. */
import assert from "node:assert/strict";
import { type Fields, UnsupportedCaseError } from "./case.ts";
import { createKinds, expectStatus, parseBody } from "./expect.ts";
import { BASE_URL, type Host } from "./host.ts";

/** The recipe of a token. */
export type Recipe =
  | { readonly kind: "minted"; readonly config: Fields | null; readonly expires_at: number | null }
  | { readonly kind: "rolled_back" | "deleted" | "unknown" };

/** The recipes of names that a file does not describe. */
const WELL_KNOWN: Readonly<Record<string, string>> = {
  plain: "no config",
  liked: "no config",
  disliked: "no config",
  cont: "continuous, min 0, max 1",
  cat: "categorical, 1 = good, 0 = bad",
  free: "freeform",
  expired: "expires_at one second before now",
  rolled_back: "its run was deleted by a rollback",
  deleted: "its run was deleted by a caller",
  unknown: "unknown",
};

const KEYS: Readonly<Record<string, string>> = {
  plain: "user_score",
  liked: "user_liked",
  disliked: "user_disliked",
};

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  millisecond: 1,
  s: 1_000,
  second: 1_000,
  min: 60_000,
  minute: 60_000,
  h: 3_600_000,
  hour: 3_600_000,
  d: 86_400_000,
  day: 86_400_000,
};

/** Parses an amount such as `one second`, `24 h` or `90 days`. Returns milliseconds. */
export function parseDuration(amount: string): number {
  const [, count = "", unit = ""] = /^(\d+(?:\.\d+)?|an?|one)\s*([a-z]+)$/.exec(amount) ?? [];
  const width = UNITS[unit] ?? UNITS[unit.replace(/s$/, "")];
  if (width === undefined) throw new UnsupportedCaseError(`unknown length of time: ${amount}`);
  return (/^\d/.test(count) ? Number(count) : 1) * width;
}

/** Parses the descriptions of the names in braces in the file's `about`: `{a}, {b}: description;` */
export function parseDescriptions(about: string): ReadonlyMap<string, string> {
  const matches = [...about.matchAll(/((?:\{\w+\}(?:,| and)? ?)+): ?([^;{}]+?)(?:[;.](?=\s|$)|$)/g)];
  return new Map(
    matches.flatMap(([, names = "", description = ""]) =>
      [...names.matchAll(/\{(\w+)\}/g)].map(([, name]): [string, string] => [name as string, description]),
    ),
  );
}

/** Returns the recipe of a name; a digit behind a name makes another token of the kind. Throws if the name is unknown. */
export function readRecipe(name: string, about: ReadonlyMap<string, string>, now: number): Recipe {
  const kin = name.replace(/\d+$/, "");
  const wellKnown = Object.hasOwn(WELL_KNOWN, kin) ? WELL_KNOWN[kin] : undefined;
  const description = about.get(name) ?? about.get(kin) ?? wellKnown;
  if (description === undefined) throw new UnsupportedCaseError(`unknown name {${name}}`);
  try {
    return parseRecipe(description.trim(), name, now);
  } catch (error) {
    if (wellKnown === undefined) throw error;
    return parseRecipe(wellKnown, name, now);
  }
}

function parseRecipe(description: string, name: string, now: number): Recipe {
  if (/roll(?:ed)?[- ]?back/.test(description)) return { kind: "rolled_back" };
  if (/deleted/.test(description)) return { kind: "deleted" };
  if (/^(?:unknown|random|no token|of no )/.test(description)) return { kind: "unknown" };
  const minted = (config: Fields | null, expires_at: number | null = null): Recipe => ({
    kind: "minted",
    config,
    expires_at,
  });
  const moment = /^expires_at (?:at )?(?:(.+) (before|after) )?now$/.exec(description);
  if (moment) {
    const span = moment[1] === undefined ? 0 : parseDuration(moment[1]);
    return minted(null, moment[2] === "after" ? now + span : now - span);
  }
  if (description === "no config") return minted(null);
  const [type = "", ...parts] = description.split(/,\s*/);
  const config: Record<string, unknown> = { type };
  const categories: Fields[] = [];
  for (const part of parts) {
    const bound = /^(min|max) (-?[\d.]+)$/.exec(part);
    const category = /^(-?[\d.]+) = (.+)$/.exec(part);
    if (bound) config[bound[1] as string] = Number(bound[2]);
    else if (category) {
      categories.push({ value: Number(category[1]), label: category[2] === "no label" ? null : category[2] });
    } else throw new UnsupportedCaseError(`{${name}}: ${part} is not understood`);
  }
  if (!["continuous", "categorical", "freeform"].includes(type)) {
    throw new UnsupportedCaseError(`{${name}}: ${description} is not understood`);
  }
  return minted(categories.length > 0 ? { ...config, categories } : config);
}

/** Returns the names in braces of a path. */
export const parseNames = (path: string): readonly string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);

/** Creates one token through the API, in the state of its recipe. Returns its id. */
export async function makeToken(host: Host, run_id: string, name: string, tokenRecipe: Recipe): Promise<string> {
  switch (tokenRecipe.kind) {
    case "minted": {
      const { config, expires_at } = tokenRecipe;
      const answer = await host.ask("POST", "/api/v1/feedback/tokens", {
        auth: "reader",
        body: {
          run_id,
          feedback_key: KEYS[name] ?? KEYS[name.replace(/\d+$/, "")] ?? `user_${name}`,
          ...(config === null ? {} : { feedback_config: config }),
          ...(expires_at === null ? {} : { expires_at: new Date(expires_at).toISOString() }),
        },
      });
      return requireTokenId(answer, `{${name}}`);
    }
    case "unknown":
      return crypto.randomUUID();
    default:
      return await createTokenOfLostRun(host, tokenRecipe.kind);
  }
}

function requireTokenId(answer: Awaited<ReturnType<Host["ask"]>>, what: string): string {
  expectStatus(answer, 200);
  const { id } = parseBody(answer) as { readonly id?: unknown };
  assert.ok(createKinds(BASE_URL)["uuid v4"]?.(id, null), `${what}: no token was made`);
  return id as string;
}

/** The token of a run that executed, and then was rolled back, or deleted by its caller. */
async function createTokenOfLostRun(host: Host, how: "rolled_back" | "deleted"): Promise<string> {
  const auth = "owner";
  const sendRequest = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const answer = await host.ask(method, path, { auth, body });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.text === "" ? null : parseBody(answer);
  };
  const { thread_id } = (await sendRequest("POST", "/threads", {})) as { thread_id: string };
  const request = { assistant_id: "agent", input: {}, feedback_keys: ["user_score"] };
  const { run_id } = (await sendRequest("POST", `/threads/${thread_id}/runs`, request)) as { run_id: string };
  const listed = (await sendRequest("GET", `/api/v1/feedback/tokens?run_id=${run_id}`)) as { id: string }[];
  const [token] = listed;
  assert.ok(token, "a run with feedback_keys has a token");
  const action = how === "rolled_back" ? "rollback" : "interrupt";
  await sendRequest("POST", `/threads/${thread_id}/runs/${run_id}/cancel?action=${action}&wait=true`);
  if (how === "deleted") await sendRequest("DELETE", `/threads/${thread_id}/runs/${run_id}`);
  return token.id;
}
