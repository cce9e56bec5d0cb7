/**
 * Every call of a user in process (`service.as`), for what is the user's own, another user's, and nobody's: the last two have the same
 * outcome, and change nothing. A call without a row fails.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { AuthContext } from "../../lib/auth/custom.ts";
import type { JsonObject, Service } from "../../lib/mod.ts";
import type { Caller } from "../../lib/storage/identity.ts";
import { customWorld, owning, type World } from "../http/custom-world.ts";
import { until } from "../support/until.ts";
import { userNamed } from "../support/users.ts";

type Nouns = ReturnType<Service["as"]>;

interface Things {
  readonly assistant_id: string;
  readonly thread_id: string;
  readonly run_id: string;
  readonly checkpoint_id: string;
  readonly cron_id: string;
  readonly feedback_id: string;
  readonly token_id: string;
  /** In the metadata of all of them, and the key of the item. */
  readonly mark: string;
}

type Call = (nouns: Nouns, its: Things, by: Caller) => unknown;

interface Row {
  readonly call: Call;
  /** Names nothing of anybody, or shows it to nobody: one's own has the outcome of what is not there. */
  readonly alike?: true;
  /** What another's has instead of the outcome of nobody's: an id that a client chooses is taken. */
  readonly taken?: string;
}

const call = (call: Call, rest: Omit<Row, "call"> = {}): Row => ({ call, ...rest });
const alike = (of: Call): Row => call(of, { alike: true });
const at = { schedule: "0 0 1 1 *" };
const page = { limit: 10, offset: 0 };
const range = { start: "2026-01-01", end: "2026-02-01" };
const input = { said: 1 };
const record = (run_id: string) => ({
  ...{ run_id, key: "k", score: 1, value: null, comment: null, correction: null },
  ...{ source: "api", source_metadata: null, extra: null },
});
const link = (run_id: string) => ({ run_id, feedback_key: "k", expires_at: 9e12, config: null });

const ROWS: Readonly<Record<string, Row>> = {
  "assistants.create": call(
    (n, { assistant_id }) => n.assistants.create({ graph_id: "agent", assistant_id, if_exists: "do_nothing" }),
    { taken: "conflict" },
  ),
  "assistants.get": call((n, { assistant_id }) => n.assistants.get(assistant_id)),
  "assistants.update": call((n, { assistant_id }) => n.assistants.update(assistant_id, { name: "x" })),
  "assistants.delete": call((n, { assistant_id }) => n.assistants.delete(assistant_id, { delete_threads: true })),
  "assistants.search": call((n, { mark }) => n.assistants.search({ metadata: { mark } })),
  "assistants.count": call((n, { mark }) => n.assistants.count({ metadata: { mark } })),
  "assistants.versions": call((n, { assistant_id }) => n.assistants.versions(assistant_id)),
  "assistants.setLatest": call((n, { assistant_id }) => n.assistants.setLatest(assistant_id, 1)),
  "assistants.drawn": call((n, { assistant_id }) => n.assistants.drawn(assistant_id)),
  "assistants.schemas": call((n, { assistant_id }) => n.assistants.schemas(assistant_id)),
  "assistants.subgraphs": call((n, { assistant_id }) => n.assistants.subgraphs(assistant_id)),

  "threads.create": call((n, { thread_id }) => n.threads.create({ thread_id, if_exists: "do_nothing" }), {
    taken: "conflict",
  }),
  "threads.get": call((n, { thread_id }) => n.threads.get(thread_id)),
  "threads.update": call((n, { thread_id }) => n.threads.update(thread_id, { metadata: { x: 1 } })),
  "threads.delete": call((n, { thread_id }) => n.threads.delete(thread_id)),
  "threads.copy": call((n, { thread_id }) => n.threads.copy(thread_id)),
  "threads.prune": call((n, { thread_id }) => n.threads.prune([thread_id])),
  "threads.search": call((n, { mark }) => n.threads.search({ metadata: { mark } })),
  "threads.searchEach": call(async (n, { mark }) => {
    const found: unknown[] = [];
    await n.threads.searchEach(
      { metadata: { mark } },
      (head) => found.push(head),
      async (thread) => void found.push(thread),
    );
    return found;
  }),
  "threads.count": call((n, { mark }) => n.threads.count({ metadata: { mark } })),
  "threads.list": call((n, { mark }) => n.threads.list({ metadata: { mark } })),
  "threads.inbox": alike((n, { assistant_id }) => n.threads.inbox({ assistant_id })),
  "threads.state": call((n, { thread_id }) => n.threads.state(thread_id)),
  "threads.stateAt": call((n, { thread_id, checkpoint_id }) => n.threads.stateAt(thread_id, { checkpoint_id })),
  "threads.updateState": call((n, { thread_id }) => n.threads.updateState(thread_id, { values: { said: 2 } })),
  "threads.patchState": call((n, { thread_id }) => n.threads.patchState(thread_id, { x: 1 })),
  "threads.history": call((n, { thread_id }) => n.threads.history(thread_id)),
  "threads.storage": call((n, { thread_id }) => n.threads.storage(thread_id)),
  "threads.stream": call(async (n, { thread_id }) => (await n.threads.stream(thread_id)).leave()),

  "crons.create": call((n, { thread_id }) => n.crons.create(thread_id, { ...at, assistant_id: "agent" })),
  "crons.get": call((n, { cron_id }) => n.crons.get(cron_id)),
  "crons.update": call((n, { cron_id }) => n.crons.update(cron_id, { enabled: false })),
  "crons.delete": call((n, { cron_id }) => n.crons.delete(cron_id)),
  "crons.search": call((n, { mark }) => n.crons.search({ metadata: { mark } })),
  "crons.count": call((n, { mark }) => n.crons.count({ metadata: { mark } })),
  "crons.inspect": call((n, { cron_id }) => n.crons.inspect(cron_id)),
  "crons.run": call((n, { cron_id }) => n.crons.run(cron_id)),
  "crons.preview": alike((n) => n.crons.preview(at)),

  "store.get": call((n, { mark }) => n.store.get(["walk"], mark)),
  "store.put": call((n, { mark }) => n.store.put(["walk"], mark, { owner: "bob" }), {
    alike: true,
    taken: "forbidden",
  }),
  "store.putMany": call(
    (n, { mark }) => n.store.putMany([{ namespace: ["walk"], key: mark, value: { owner: "bob" } }]),
    {
      ...{ alike: true, taken: "forbidden" },
    },
  ),
  "store.delete": alike((n, { mark }) => n.store.delete(["walk"], mark)),
  "store.search": call((n, { mark }) => n.store.search(["walk"], { filter: { mark } })),
  "store.namespaces": alike((n) => n.store.namespaces({ prefix: ["walk"] })),

  "feedback.mintTokens": call((n, { run_id }, by) => n.feedback.mintTokens(by, [link(run_id)])),
  "feedback.listTokens": call((n, { run_id }, by) => n.feedback.listTokens(by, { run_id, ...page })),
  "feedback.create": call((n, { run_id }, by) => n.feedback.create(by, record(run_id))),
  "feedback.get": call((n, { feedback_id }, by) => n.feedback.get(by, feedback_id)),
  "feedback.update": call((n, { feedback_id }, by) => n.feedback.update(by, feedback_id, { score: 2 })),
  "feedback.delete": call((n, { feedback_id }, by) => n.feedback.delete(by, feedback_id)),
  "feedback.list": call((n, { run_id }, by) => n.feedback.list(by, { run_ids: [run_id], ...page })),
  "feedback.stats": call((n, { run_id }, by) => n.feedback.stats(by, { run_ids: [run_id] })),
  "feedback.scores": alike((n, _its, by) => n.feedback.scores(by, range)),
  "feedback.links": alike((n, _its, by) => n.feedback.links(by)),
  "feedback.revokeLink": call((n, { token_id }, by) => n.feedback.revokeLink(by, token_id)),

  "webhooks.list": call((n, { thread_id }) => n.webhooks.list({ thread_id })),
  "webhooks.get": call((n, { run_id }) => n.webhooks.get(run_id)),
  "webhooks.redeliver": call((n, { run_id }) => n.webhooks.redeliver(run_id)),

  // A stream waits for its thread.
  "threads.events": alike(async (n, { thread_id }) => {
    await n.threads
      .events(thread_id, { channels: ["values"] })
      [Symbol.asyncIterator]()
      .return?.();
  }),
  "threads.command": call((n, { thread_id }) =>
    n.threads.command(thread_id, { id: 1, method: "state.get", params: {} }),
  ),

  "runs.create": call((n, { thread_id }) => n.runs.create(thread_id, { assistant_id: "agent", input })),
  "runs.stream": call(async (n, { thread_id }) => {
    const { frames } = await n.runs.stream(thread_id, { assistant_id: "agent", input });
    frames.leave();
  }),
  "runs.wait": call(async (n, { thread_id }) => {
    return await (await n.runs.wait(thread_id, { assistant_id: "agent", input })).result;
  }),
  "runs.createBatch": call((n, { assistant_id }) => n.runs.createBatch([{ assistant_id, input }])),
  "runs.get": call((n, { thread_id, run_id }) => n.runs.get(thread_id, run_id)),
  "runs.list": call((n, { thread_id }) => n.runs.list(thread_id)),
  "runs.delete": call((n, { thread_id, run_id }) => n.runs.delete(thread_id, run_id)),
  "runs.cancel": call((n, { thread_id, run_id }) => n.runs.cancel(thread_id, run_id)),
  "runs.cancelMany": call((n, { thread_id, run_id }) => n.runs.cancelMany({ thread_id, run_ids: [run_id] })),
  "runs.join": call(async (n, { thread_id, run_id }) => await (await n.runs.join(thread_id, run_id)).result),
  "runs.joinStream": call(async (n, { thread_id, run_id }) => {
    const { frames } = await n.runs.joinStream(thread_id, run_id);
    frames.leave();
  }),
  "runs.search": call((n, { thread_id }) => n.runs.search({ thread_id })),
  "runs.stats": alike(async (n) => Object.keys(await n.runs.stats())),
  "runs.inspect": call((n, { run_id }) => n.runs.inspect(run_id)),
  "runs.rerun": call((n, { run_id }) => n.runs.rerun(run_id)),
};

const PERMISSIONS = ["feedback:create", "feedback:read", "feedback:delete"];
const owner = (context: AuthContext): unknown =>
  context.resource === "store" && context.action === "list_namespaces" ? true : owning(context);

describe("another user's things", () => {
  let world: World;
  let count = 0;

  before(async () => {
    const transport = {
      resolve: async () => ["93.184.215.14"],
      send: async () => ({ status: 204, retry_after: null, address: "93.184.215.14" }),
    };
    world = await customWorld({
      on: { "*": owner },
      claims: () => ({ permissions: PERMISSIONS }),
      public_base_url: "https://walk.example",
      webhooks: { transport },
    });
  });
  after(() => world[Symbol.asyncDispose]());

  const as = (who: string): Nouns => world.it.service.as({ user: userNamed(who) });
  const caller = (who: string): Promise<Caller> =>
    world.it.service.caller(new Request("http://walk", { headers: { authorization: `Bearer ${who}` } }));

  async function thingsOf(who: string): Promise<Things> {
    const [nouns, by, mark] = [as(who), await caller(who), `${who}-${++count}`];
    const metadata = { mark };
    const { assistant_id } = await nouns.assistants.create({ graph_id: "agent", metadata });
    const { thread_id } = await nouns.threads.create({ metadata });
    const request = { assistant_id: "agent", input, webhook: "https://hooks.example/in" };
    const { run, result } = await nouns.runs.wait(thread_id, request);
    await result;
    await until(async () => (await nouns.webhooks.get(run.run_id)).state === "delivered");
    const { checkpoint } = await nouns.threads.state(thread_id);
    const { cron_id } = await nouns.crons.create(thread_id, { ...at, assistant_id: "agent", metadata });
    await nouns.store.put(["walk"], mark, { owner: who, mark });
    const { id: feedback_id } = await nouns.feedback.create(by, record(run.run_id));
    const [token] = await nouns.feedback.mintTokens(by, [link(run.run_id)]);
    return {
      ...{ assistant_id, thread_id, run_id: run.run_id, cron_id, feedback_id, mark },
      checkpoint_id: checkpoint?.checkpoint_id as string,
      token_id: token?.id as string,
    };
  }

  const nobodys = (): Things => {
    const names = [
      "assistant_id",
      "thread_id",
      "run_id",
      "checkpoint_id",
      "cron_id",
      "feedback_id",
      "token_id",
      "mark",
    ];
    return Object.fromEntries(names.map((name) => [name, crypto.randomUUID()])) as unknown as Things;
  };

  /** What Bob's call gives or throws, without what differs from call to call. */
  async function outcome({ call }: Row, its: Things): Promise<string> {
    let shown: string;
    try {
      shown = `${JSON.stringify(await call(as("bob"), its, await caller("bob")))}`;
    } catch (error) {
      const { code, message } = error as Error & { readonly code?: string };
      shown = `${code}: ${message}`;
    }
    for (const [name, value] of Object.entries(its)) shown = shown.replaceAll(value, `:${name}`);
    return shown.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, ":time");
  }

  /** All that Ann sees of hers. */
  async function seenByAnn({ assistant_id, thread_id, run_id, cron_id, feedback_id, mark }: Things): Promise<string> {
    const [nouns, by] = [as("ann"), await caller("ann")];
    const seen = await Promise.all([
      ...[nouns.assistants.versions(assistant_id), nouns.threads.get(thread_id), nouns.threads.history(thread_id)],
      ...[nouns.runs.list(thread_id), nouns.crons.inspect(cron_id), nouns.store.get(["walk"], mark)],
      ...[nouns.feedback.get(by, feedback_id), nouns.feedback.listTokens(by, { run_id, ...page })],
      nouns.webhooks.get(run_id),
    ]);
    return JSON.stringify(seen as unknown as JsonObject[]);
  }

  it("are walked in every call", () => {
    const nouns = as("bob");
    const calls = Object.entries(nouns).flatMap(([noun, calls]) =>
      Object.keys(calls as object).map((name) => `${noun}.${name}`),
    );
    // What the handler of HTTP has beside them. The walk of the routes calls these.
    const internal = /^(?:protocol\.|runs\.permit$)/;
    assert.deepEqual(calls.filter((name) => !internal.test(name)).sort(), Object.keys(ROWS).sort());
  });

  for (const [name, row] of Object.entries(ROWS)) {
    it(`are as nobody's: ${name}`, async () => {
      const [hers, own] = [await thingsOf("ann"), await thingsOf("bob")];
      const before = await seenByAnn(hers);
      const [theirs, none] = [await outcome(row, hers), await outcome(row, nobodys())];
      if (row.taken === undefined) assert.equal(theirs, none);
      else assert.equal(theirs.split(":")[0], row.taken);
      assert.equal(await seenByAnn(hers), before, "nothing of it has changed");
      const mine = await outcome(row, own);
      if (!row.alike) assert.notEqual(mine, none, "one's own is found");
    });
  }
});
