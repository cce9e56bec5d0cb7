/** Threads that are hidden from a reader: nothing of them arrives, and whether they exist cannot be learnt. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AuthContext } from "../../lib/auth/custom.ts";
import { owning } from "../lib/auth/custom-auth.harness.ts";
import { type TestService, type TestServiceOptions, testClock } from "../suite/kit.ts";
import { advanceUntil, createClockedService } from "../support/faulty.ts";
import { CALLS, KINDS, type OpenStream, openCall, Rooms, runOn, startRun } from "./open-streams.ts";

const STEP_MS = 50;
const ABSENT = "99999999-9999-4999-8999-999999999999";

const user = (name: string) => ({ authorization: `Bearer ${name}` });

/** Users whose threads say in their metadata whose they are, and root, who sees all. */
const auth = (on: (context: AuthContext) => boolean | object): TestServiceOptions["auth"] => ({
  custom: {
    authenticate: ({ headers }) => (headers.get("authorization") ?? "").slice(7),
    on: { "*": (context) => (context.user.identity === "root" ? true : on(context)) as never },
  },
});

async function world(on: (context: AuthContext) => boolean | object = owning) {
  const clock = testClock();
  const rooms = new Rooms();
  const at = await createClockedService(clock, { agents: { agent: rooms.agent }, environment: clock, auth: auth(on) });
  return { at, clock, rooms, [Symbol.asyncDispose]: () => at[Symbol.asyncDispose]() };
}

const open = (kind: string, at: TestService, name: string, run: { thread_id: string; run_id: string }) =>
  (KINDS[kind] as (typeof KINDS)[string])(at, user(name), run);

async function change({ fetch }: TestService, method: string, thread_id: string, body?: object): Promise<void> {
  const response = await fetch(`http://greenroom/threads/${thread_id}`, {
    method,
    headers: { ...user("root"), "content-type": "application/json" },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  assert.ok(response.ok, `${method} ${response.status}`);
}

const V2 = ["v2 server-sent events", "a WebSocket"];

describe("a thread with a new owner", () => {
  for (const kind of Object.keys(KINDS)) {
    it(`sends ${kind} of the old owner nothing after the change`, async () => {
      await using all = await world();
      const { at, clock, rooms } = all;
      const run = await startRun(at, user("ann"));
      const [mine, root] = [await open(kind, at, "ann", run), await open(kind, at, "root", run)];
      rooms.say(run.thread_id, "before");
      await advanceUntil(clock, () => [mine, root].every((stream) => stream.text().includes("before")), 10);
      await change(at, "PATCH", run.thread_id, { metadata: { owner: "bob" } });
      rooms.say(run.thread_id, "after");
      await advanceUntil(clock, () => root.text().includes("after"), 10);
      await advanceUntil(clock, mine.ended, 10);
      assert.doesNotMatch(mine.text(), /after/);
      await Promise.all([mine.close(), root.close()]);
    });
  }

  for (const kind of ["a v1 thread stream", ...V2]) {
    it(`sends ${kind} of the old owner no later run`, async () => {
      await using all = await world();
      const { at, clock, rooms } = all;
      const run = await startRun(at, user("ann"));
      const { thread_id } = run;
      const mine = await open(kind, at, "ann", run);
      rooms.say(thread_id, "before");
      rooms.say(thread_id, "bye");
      await advanceUntil(clock, () => mine.text().includes("before"), 10);
      await advanceUntil(clock, async () => (await at.service.threads.get(thread_id)).status === "idle", 10);
      await change(at, "PATCH", thread_id, { metadata: { owner: "bob" } });
      const bobs = await open(kind, at, "bob", run);
      await runOn(at, user("bob"), thread_id);
      rooms.say(thread_id, "bob's");
      await advanceUntil(clock, () => bobs.text().includes("bob's"), 10);
      await advanceUntil(clock, mine.ended, STEP_MS);
      assert.doesNotMatch(mine.text(), /bob's/);
      await Promise.all([mine.close(), bobs.close()]);
    });
  }

  for (const kind of Object.keys(CALLS)) {
    it(`sends the old owner no end: ${kind}`, async () => {
      await using all = await world();
      const { at, clock, rooms } = all;
      const { thread_id, run_id } = await startRun(at, user("ann"));
      const mine = await openCall(at, user("ann"), (CALLS[kind] as (typeof CALLS)[string])(thread_id, run_id));
      await change(at, "PATCH", thread_id, { metadata: { owner: "bob" } });
      for (const text of ["after", "bye", "after", "bye"]) rooms.say(thread_id, text);
      await advanceUntil(clock, mine.ended, STEP_MS);
      assert.doesNotMatch(mine.text(), /after|__error__/);
    });
  }
});

describe("a thread that the caller could never see", () => {
  it("is streamed to its creator", async () => {
    // A handler that gives a filter, and no metadata to what is made.
    await using all = await world(({ event, user: { identity } }) =>
      event === "threads:create_run" ? { owner: identity } : {},
    );
    const { at, clock, rooms } = all;
    const body = { assistant_id: "agent", input: { room: "one" }, stream_mode: ["values"] };
    for (const path of ["/runs/stream", "/runs/wait"]) {
      const mine = await openCall(at, user("ann"), [path, body]);
      for (let passed = 0; passed < 5_000; passed += STEP_MS) await clock.advance(STEP_MS);
      rooms.say("one", "after all");
      rooms.say("one", "bye");
      await advanceUntil(clock, mine.ended, STEP_MS);
      assert.match(mine.text(), /after all/, path);
    }
  });

  for (const kind of V2) {
    it(`looks like an absent one to ${kind}, also when it is deleted or recreated`, async () => {
      await using all = await world();
      const { at, clock, rooms } = all;
      const run = await startRun(at, user("bob"));
      const { thread_id } = run;
      const theirs = await open(kind, at, "ann", run);
      const none = await open(kind, at, "ann", { ...run, thread_id: ABSENT });
      const bobs = await open(kind, at, "bob", run);
      /** Removes the ids that differ between subscriptions. */
      const normalize = (stream: OpenStream): string =>
        stream
          .text()
          .replaceAll(thread_id, ABSENT)
          .replace(/"subscription_id":"[^"]*"/g, "");
      const same = (when: string): void => {
        assert.equal(normalize(theirs), normalize(none), when);
        assert.deepEqual([theirs.ended(), none.ended()], [false, false], when);
      };
      rooms.say(thread_id, "bob's");
      await advanceUntil(clock, () => bobs.text().includes("bob's"), STEP_MS);
      same("while it has events");
      await change(at, "DELETE", thread_id);
      await advanceUntil(clock, bobs.ended, STEP_MS);
      for (let passed = 0; passed < 6_000; passed += STEP_MS) await clock.advance(STEP_MS);
      same("after its deletion");
      // An id that was another's may become one's own, and then has events.
      for (const id of [thread_id, ABSENT]) {
        const response = await at.fetch(`http://greenroom/threads`, {
          method: "POST",
          headers: { ...user("ann"), "content-type": "application/json" },
          body: JSON.stringify({ thread_id: id }),
        });
        assert.equal(response.status, 200);
        await runOn(at, user("ann"), id);
        rooms.say(id, "ann's");
      }
      await advanceUntil(clock, () => [theirs, none].every((stream) => stream.text().includes("ann's")), STEP_MS);
      assert.doesNotMatch(theirs.text(), /bob's/);
      await Promise.all([theirs, none, bobs].map((stream) => stream.close()));
    });
  }
});
