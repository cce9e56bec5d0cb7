/** The feedback tokens that stand for the names in braces. */
import assert from "node:assert/strict";
import { type Fields, Unknown } from "./case.ts";
import { bodyOf, expectStatus, kindsOf } from "./expect.ts";
import { BASE_URL, type Host } from "./host.ts";

/** How a token is made. */
export type Recipe =
  | { readonly kind: "minted"; readonly config: Fields | null; readonly expires_at: number | null }
  | { readonly kind: "rolled_back" | "deleted" | "unknown" };

/** Where the file leaves a name out. */
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

/** Milliseconds of an amount such as `one second`, `24 h` or `90 days`. */
export function spanOf(amount: string): number {
  const [, count = "", unit = ""] = /^(\d+(?:\.\d+)?|an?|one)\s*([a-z]+)$/.exec(amount) ?? [];
  const width = UNITS[unit] ?? UNITS[unit.replace(/s$/, "")];
  if (width === undefined) throw new Unknown(`unknown length of time: ${amount}`);
  return (/^\d/.test(count) ? Number(count) : 1) * width;
}

/** What the file's `about` says of the names in braces: `{a}, {b}: description;` */
export function descriptionsIn(about: string): ReadonlyMap<string, string> {
  const found = [...about.matchAll(/((?:\{\w+\}(?:,| and)? ?)+): ?([^;{}]+?)(?:[;.](?=\s|$)|$)/g)];
  return new Map(
    found.flatMap(([, names = "", description = ""]) =>
      [...names.matchAll(/\{(\w+)\}/g)].map(([, name]): [string, string] => [name as string, description]),
    ),
  );
}

/** The recipe of a name; a digit behind a name makes another token of the kind. */
export function recipeOf(name: string, about: ReadonlyMap<string, string>, now: number): Recipe {
  const kin = name.replace(/\d+$/, "");
  const known = Object.hasOwn(WELL_KNOWN, kin) ? WELL_KNOWN[kin] : undefined;
  const said = about.get(name) ?? about.get(kin) ?? known;
  if (said === undefined) throw new Unknown(`unknown name {${name}}`);
  try {
    return recipe(said.trim(), name, now);
  } catch (error) {
    if (known === undefined) throw error;
    return recipe(known, name, now);
  }
}

function recipe(description: string, name: string, now: number): Recipe {
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
    const span = moment[1] === undefined ? 0 : spanOf(moment[1]);
    return minted(null, moment[2] === "after" ? now + span : now - span);
  }
  if (description === "no config") return minted(null);
  const [type = "", ...rest] = description.split(/,\s*/);
  const config: Record<string, unknown> = { type };
  const categories: Fields[] = [];
  for (const part of rest) {
    const bound = /^(min|max) (-?[\d.]+)$/.exec(part);
    const category = /^(-?[\d.]+) = (.+)$/.exec(part);
    if (bound) config[bound[1] as string] = Number(bound[2]);
    else if (category) {
      categories.push({ value: Number(category[1]), label: category[2] === "no label" ? null : category[2] });
    } else throw new Unknown(`{${name}}: ${part} is not understood`);
  }
  if (!["continuous", "categorical", "freeform"].includes(type)) {
    throw new Unknown(`{${name}}: ${description} is not understood`);
  }
  return minted(categories.length > 0 ? { ...config, categories } : config);
}

/** The names in braces of a path. */
export const namesIn = (path: string): readonly string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);

/** Makes one token through the API, in the state that its recipe says; gives its id. */
export async function makeToken(host: Host, run_id: string, name: string, made: Recipe): Promise<string> {
  switch (made.kind) {
    case "minted": {
      const { config, expires_at } = made;
      const answer = await host.ask("POST", "/api/v1/feedback/tokens", {
        auth: "reader",
        body: {
          run_id,
          feedback_key: KEYS[name] ?? KEYS[name.replace(/\d+$/, "")] ?? `user_${name}`,
          ...(config === null ? {} : { feedback_config: config }),
          ...(expires_at === null ? {} : { expires_at: new Date(expires_at).toISOString() }),
        },
      });
      return idIn(answer, `{${name}}`);
    }
    case "unknown":
      return crypto.randomUUID();
    default:
      return await tokenOfLostRun(host, made.kind);
  }
}

function idIn(answer: Awaited<ReturnType<Host["ask"]>>, what: string): string {
  expectStatus(answer, 200);
  const { id } = bodyOf(answer) as { readonly id?: unknown };
  assert.ok(kindsOf(BASE_URL)["uuid v4"]?.(id, null), `${what}: no token was made`);
  return id as string;
}

/** The token of a run that executed, and then was rolled back, or deleted by its caller. */
async function tokenOfLostRun(host: Host, how: "rolled_back" | "deleted"): Promise<string> {
  const auth = "owner";
  const asked = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const answer = await host.ask(method, path, { auth, body });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.text === "" ? null : bodyOf(answer);
  };
  const { thread_id } = (await asked("POST", "/threads", {})) as { thread_id: string };
  const request = { assistant_id: "agent", input: {}, feedback_keys: ["user_score"] };
  const { run_id } = (await asked("POST", `/threads/${thread_id}/runs`, request)) as { run_id: string };
  const listed = (await asked("GET", `/api/v1/feedback/tokens?run_id=${run_id}`)) as { id: string }[];
  const [token] = listed;
  assert.ok(token, "a run with feedback_keys has a token");
  const action = how === "rolled_back" ? "rollback" : "interrupt";
  await asked("POST", `/threads/${thread_id}/runs/${run_id}/cancel?action=${action}&wait=true`);
  if (how === "deleted") await asked("DELETE", `/threads/${thread_id}/runs/${run_id}`);
  return token.id;
}
