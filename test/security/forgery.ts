/** Forged feedback tokens: ids that are none, ids of something else, and ids of what is gone, sent to a whole service. */
import assert from "node:assert/strict";
import type { FunctionJob } from "../../lib/mod.ts";
import { serviceInternals } from "../../lib/service.ts";
import { type TestService, testService } from "../suite/kit.ts";

const TOKENS = "http://greenroom/api/v1/feedback/tokens";

export interface Forgeries {
  readonly tried: number;
  /** Different answers to each kind of request, with the first id that got them. */
  readonly answers: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** Records that came of it. */
  readonly recorded: number;
}

export interface ForgeryWorld extends AsyncDisposable {
  readonly kit: TestService;
  /** A good token. */
  readonly token: string;
  /** Tokens of runs that were rolled back or deleted, or whose thread was. */
  readonly dead: readonly string[];
  /** Ids that exist and are no tokens, of this workspace and of another one. */
  readonly otherIds: readonly string[];
  /** A run of another workspace, which the key does not reach. */
  readonly foreign_run: string;
  /** Sends a request with the key of the first workspace. */
  ask(method: string, path: string, body?: unknown): Promise<Response>;
  /** Sends so many forged ids. The same seed forges in the same way. */
  forge(count: number, seed?: number): Promise<Forgeries>;
}

/** Creates a generator of numbers in [0, 1) with mulberry32. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const SHAPES: readonly ((id: string) => string)[] = [
  (id) => id.slice(1),
  (id) => id.slice(0, -1),
  (id) => `${id}0`,
  (id) => `0${id}`,
  (id) => `${id}/`,
  (id) => `/${id}`,
  (id) => `${id}/x`,
  (id) => `${id}.`,
  (id) => `${id}%00`,
  (id) => `%20${id}`,
  (id) => `${id}%0a`,
  (id) => `${id}%2f`,
  (id) => `{${id}}`,
  (id) => `urn:uuid:${id}`,
  (id) => id.replaceAll("-", ""),
  (id) => id.replaceAll("-", "_"),
  (id) => id.replace("-", "%e2%80%90"),
  (id) => `${id.slice(0, 8)}%25`,
  (id) => `${id.slice(0, 18)}${id}`,
  (id) => `${id},${id}`,
  (id) => `${id}'--`,
  () => "",
  () => "%25",
  () => "'%20or%20'1'='1",
  () => "null",
  () => "undefined",
  () => "stats",
  () => "tokens",
  () => "00000000-0000-0000-0000-000000000000",
  () => "ffffffff-ffff-ffff-ffff-ffffffffffff",
  () => "%f0%9f%98%80",
  () => "%ff",
  () => "%",
  () => "x".repeat(4096),
];

/** Yields forged ids: random, mutated, malformed, of other rows, and of deleted runs. */
function* forged({ token, dead, otherIds }: Pick<ForgeryWorld, "token" | "dead" | "otherIds">, random: () => number) {
  const below = (limit: number): number => Math.floor(random() * limit);
  const digit = (): string => below(16).toString(16);
  const places = [...token].flatMap((char, index) => (char === "-" ? [] : [index]));
  const mutated = (): string => {
    const chars = [...token];
    for (let i = 0; i <= below(3); i++) chars[places[below(places.length)] as number] = digit();
    const id = chars.join("");
    return id === token ? mutated() : random() < 0.2 ? id.toUpperCase() : id;
  };
  const like = (version: string): string => {
    const id = token.replace(/[0-9a-f]/g, digit);
    return `${id.slice(0, 14)}${version}${id.slice(15, 19)}8${id.slice(20)}`;
  };
  const unusableIds = [...dead, ...otherIds];
  for (let i = 0; ; i++) {
    const kind = i % 8;
    if (kind < 3) yield like("4");
    else if (kind < 5) yield mutated();
    else if (kind === 5) yield like(["1", "7", "0", "f"][below(4)] as string);
    else if (kind === 6) yield unusableIds[(i >> 3) % unusableIds.length] as string;
    else yield (SHAPES[(i >> 3) % SHAPES.length] as (id: string) => string)(random() < 0.5 ? token : like("4"));
  }
}

const REQUESTS: readonly (readonly [kind: string, query: string, init: RequestInit])[] = [
  ["POST", "", { method: "POST", body: '{"score":1}' }],
  ["POST nothing", "", { method: "POST", body: "{}" }],
  ["GET", "?score=1", { method: "GET" }],
  ["GET as a page", "?score=1", { method: "GET", headers: { accept: "text/html" } }],
];

/** Formats a response without its request id. */
async function readAnswer(response: Response): Promise<string> {
  const headers = [...response.headers]
    .filter(([name]) => name !== "x-request-id")
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([response.status, headers, await response.text()]);
}

export async function forgeryWorld(): Promise<ForgeryWorld> {
  const stop = new AbortController();
  const kit = await testService({
    agents: {
      echo: () => "done",
      waits: (job: FunctionJob) =>
        new Promise<void>((resolve) => {
          for (const signal of [job.signal, stop.signal]) signal.addEventListener("abort", () => resolve());
        }),
    },
    auth: { mode: "api_key" },
    public_base_url: "http://greenroom",
  });
  const { accounts, deployment, environment } = serviceInternals(kit.service);
  const ours = await accounts.createKey({ kind: "sk", workspaces: [deployment.workspace_id] });
  const otherWorkspace = await accounts.createWorkspace("other");
  const [project] = await accounts.listProjects(otherWorkspace.id);
  assert.ok(project);
  const ask = (method: string, path: string, body?: unknown): Promise<Response> =>
    kit.fetch(`http://greenroom${path}`, {
      method,
      headers: { "x-api-key": ours.key },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  const json = async (answer: Promise<Response>) => (await answer).json();
  const readTokens = async (run_id: string): Promise<string[]> =>
    (await json(ask("GET", `/api/v1/feedback/tokens?run_id=${run_id}`))).map(({ id }: { id: string }) => id);

  const run = (assistant_id: string) => ({ assistant_id, input: {}, feedback_keys: ["a", "b"] });
  const otherIds: string[] = [];
  const dead: string[] = [];
  const threads: string[] = [];
  for (let i = 0; i < 3; i++) threads.push((await json(ask("POST", "/threads", {}))).thread_id);
  const [rolled, deleted, closed] = threads as [string, string, string];
  for (const [thread, assistant] of [
    [rolled, "waits"],
    [rolled, "echo"],
    [deleted, "echo"],
    [closed, "echo"],
  ] as const) {
    const { run_id } = await json(ask("POST", `/threads/${thread}/runs`, run(assistant)));
    otherIds.push(run_id);
    const tokens = await readTokens(run_id);
    assert.equal(tokens.length, 2);
    dead.push(...tokens);
  }
  const [running, pending, ended] = otherIds;
  for (const id of [pending, running]) await ask("POST", `/threads/${rolled}/runs/${id}/cancel?action=rollback&wait=1`);
  await (await ask("GET", `/threads/${deleted}/runs/${ended}/join`)).text();
  await (await ask("GET", `/threads/${closed}/runs/${otherIds[3]}/join`)).text();
  assert.equal((await ask("DELETE", `/threads/${deleted}/runs/${ended}`)).status, 204);
  assert.equal((await ask("DELETE", `/threads/${closed}`)).status, 204);

  const [good] = await kit.addTraces([{}]);
  const traceFields = { workspace_id: otherWorkspace.id, project_id: project.id };
  const [foreign_run] = await kit.addTraces([traceFields]);
  assert.ok(good && foreign_run);
  const [token] = await kit.addTokens([{ run_id: good, feedback_key: "score" }]);
  assert.ok(token);
  await kit.addTokens([{ run_id: foreign_run, feedback_key: "score", ...traceFields }]);
  const { id: record } = await json(ask("POST", "/api/v1/feedback", { run_id: good, key: "k", score: 1 }));
  const existingIds = [good, foreign_run, record, ours.row.id, otherWorkspace.id, project.id, deployment.workspace_id];
  otherIds.push(...existingIds, ...threads, environment.uuid());
  const records = async (): Promise<number> => (await json(ask("GET", "/api/v1/feedback?limit=100"))).length;
  const before = await records();

  return {
    kit,
    token,
    dead,
    otherIds,
    foreign_run,
    ask,
    async forge(count, seed = 1) {
      const answers = new Map(REQUESTS.map(([kind]) => [kind, new Map<string, string>()]));
      let tried = 0;
      for (const id of forged({ token, dead, otherIds }, randomFrom(seed))) {
        if (tried === count) break;
        // One kind after the other, each with every kind of forgery.
        const [kind, query, init] = REQUESTS[
          Math.floor(tried / 8 / SHAPES.length) % REQUESTS.length
        ] as (typeof REQUESTS)[0];
        tried++;
        const answer = await readAnswer(await kit.fetch(`${TOKENS}/${id}${query}`, init));
        const idsByAnswer = answers.get(kind);
        if (idsByAnswer && idsByAnswer.size < 20 && !idsByAnswer.has(answer)) idsByAnswer.set(answer, id);
      }
      return { tried, answers, recorded: (await records()) - before };
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await kit[Symbol.asyncDispose]();
    },
  };
}
