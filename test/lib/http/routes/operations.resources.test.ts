import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serviceInternals } from "../../../../lib/service.ts";
import { until } from "../../../support/until.ts";
import { type Answer, finding, kit, ran, readRunIds } from "./operations.harness.ts";

describe("GET /greenroom/threads", () => {
  it("returns titles, and finds text in threads", async () => {
    await using it = await kit();
    const say = (content: unknown) => ({ messages: [{ role: "user", content }] });
    const [t1] = await ran(it, say("Refund for order 1182"));
    const [t2] = await ran(it, say([{ type: "text", text: "Weather\n in  Rome" }, { type: "image" }]));
    const [t3] = await ran(it, say("something"), {}, { title: "My REFUND", team: "a" });
    const { thread_id: t4 } = await it.ask("POST", "/threads", {});
    const list = async (query = ""): Promise<[string, string | null][]> =>
      (await it.ask("GET", `/greenroom/threads?${query}`)).items.map((row: Answer) => [row.thread_id, row.title]);
    const titles = Object.fromEntries(await list());
    const expected = { [t1]: "Refund for order 1182", [t2]: "Weather in Rome", [t3]: "My REFUND", [t4]: null };
    assert.deepEqual(titles, expected);
    assert.deepEqual((await list("text=refund")).map(([id]) => id).sort(), [t1, t3].sort());
    assert.deepEqual(await list("text=nothing"), []);
    assert.deepEqual(
      (await list('metadata={"team":"a"}')).map(([id]) => id),
      [t3],
    );
    assert.equal((await list("assistant_id=agent&status=idle")).length, 3);
    assert.deepEqual(await list("assistant_id=nobody"), []);
    const first = await it.ask("GET", "/greenroom/threads?limit=3");
    const secondPage = await it.ask("GET", `/greenroom/threads?limit=3&cursor=${first.next}`);
    assert.deepEqual([first.items.length, secondPage.items.length, secondPage.next], [3, 1, null]);
    await it.ask("PATCH", `/threads/${t1}`, { metadata: { title: "Renamed" } });
    assert.deepEqual((await list())[0], [t1, "Renamed"]);
    assert.deepEqual(await it.service.threads.list({ limit: 3, cursor: first.next }), {
      ...(await it.ask("GET", `/greenroom/threads?limit=3&cursor=${first.next}`)),
    });
    const cursorFinding = {
      loc: ["query", "cursor"],
      msg: "must be the `next` of the page before",
      type: "value_error",
    };
    assert.deepEqual(await finding(it, "/greenroom/threads?cursor=1_2"), cursorFinding);
  });
});

describe("GET /greenroom/inbox", () => {
  it("lists pending interrupts with their nodes, oldest first", async () => {
    await using it = await kit();
    const [t1] = await ran(it, { ask: true, messages: ["one"] });
    const [t2] = await ran(it, { ask: true }, {}, { title: "Two" });
    await ran(it, {});
    const [t4] = await ran(it, {}, { interrupt_before: ["agent"] });
    const inbox = await it.ask("GET", "/greenroom/inbox");
    assert.deepEqual(
      inbox.items.map(({ thread_id }: Answer) => thread_id),
      [t1, t2],
    );
    assert.deepEqual([inbox.total, inbox.next, inbox.items[1].title], [2, null, "Two"]);
    const { items } = await it.ask("GET", "/greenroom/threads?status=interrupted");
    assert.deepEqual(Object.fromEntries(items.map(({ thread_id, waiting }: Answer) => [thread_id, waiting])), {
      [t1]: true,
      [t2]: true,
      [t4]: false,
    });
    const [{ interrupt_id, node, value }] = inbox.items[0].interrupts;
    assert.deepEqual([node, value], ["agent", { action: "refund", amount: 30 }]);
    assert.ok(inbox.items[0].age_ms >= 0);
    assert.equal((await it.ask("GET", "/greenroom/inbox?limit=1")).next, "o1");
    assert.deepEqual((await it.ask("GET", "/greenroom/inbox?assistant_id=nobody")).items, []);
    const answer = { assistant_id: "agent", command: { resume: { [interrupt_id]: "yes" } } };
    await it.ask("POST", `/threads/${t1}/runs/wait`, answer);
    const after = await it.service.threads.inbox();
    assert.deepEqual([after.total, after.items.map(({ thread_id }) => thread_id)], [1, [t2]]);
  });
});

describe("the cron routes below /greenroom", () => {
  it("return next fire times and firings, and run a cron now without a change of its schedule", async () => {
    await using it = await kit();
    const cron = { assistant_id: "agent", schedule: "0 9 * * *", timezone: "Europe/Rome", enabled: false, input: {} };
    const { cron_id } = await it.ask("POST", "/runs/crons", cron);
    const before = await it.ask("GET", `/runs/crons/${cron_id}`);
    const run = await it.ask("POST", `/greenroom/crons/${cron_id}/run`);
    assert.equal(run.metadata.cron_id, cron_id);
    await until(async () => (await it.ask("GET", `/greenroom/runs/${run.run_id}`)).status === "success");
    const detail = await it.ask("GET", `/greenroom/crons/${cron_id}`);
    const { next, firings, ...cronFields } = detail;
    const paused = { cron_id, enabled: false, failures: 0, max_failures: null, disabled_reason: null };
    assert.deepEqual(cronFields, paused);
    assert.equal(next.length, 5);
    assert.equal(firings.length, 1);
    const { scheduled_at, fired_at, ...firing } = firings[0];
    assert.equal(scheduled_at, fired_at);
    const { run_id, thread_id } = run;
    assert.deepEqual(firing, { manual: true, run_id, run_status: "success", thread_id, skipped: null });
    assert.deepEqual(await it.ask("GET", `/runs/crons/${cron_id}`), before);
    assert.deepEqual(readRunIds(await it.ask("GET", `/greenroom/runs?cron_id=${cron_id}`)), [run_id]);
    assert.deepEqual(await it.service.crons.inspect(cron_id), detail);
    const unknown = "11111111-1111-4111-8111-111111111111";
    await it.ask("GET", `/greenroom/crons/${unknown}`, undefined, 404);
    await it.ask("POST", `/greenroom/crons/${unknown}/run`, undefined, 404);
  });

  it("return fired and skipped fire times", async () => {
    await using it = await kit();
    const { thread_id } = await it.ask("POST", "/threads", {});
    const cron = { assistant_id: "agent", schedule: "0 0 1 1 *", input: {} };
    const { cron_id } = await it.ask("POST", `/threads/${thread_id}/runs/crons`, cron);
    const { storage } = serviceInternals(it.service).options;
    const scope = { deployment: "default" };
    const row = await storage.getCron(scope, cron_id);
    assert.ok(row?.next_run_date);
    const { next_run_date, revision } = row;
    const skipped = [{ scheduled_at: 1000, reason: "missed" as const }];
    const expected = { next_run_date, revision };
    await storage.fireCron(scope, { cron_id, expected, next_run_date, skipped, firing: null, now: 2000 });
    const { firings } = await it.ask("GET", `/greenroom/crons/${cron_id}`);
    const times = { scheduled_at: "1970-01-01T00:00:01.000Z", fired_at: "1970-01-01T00:00:02.000Z" };
    assert.deepEqual(firings, [
      { ...times, manual: false, run_id: null, run_status: null, thread_id: null, skipped: "missed" },
    ]);
  });

  it("preview fire times before a cron is created", async () => {
    await using it = await kit();
    const { next } = await it.ask("GET", "/greenroom/crons/preview?schedule=0 9 * * *&timezone=Europe/Rome&limit=2");
    assert.equal(next.length, 2);
    assert.match(next[0], /T0[78]:00:00\.000Z$/);
    const end = new Date(Date.parse(next[0]) + 1).toISOString();
    const preview = await it.ask(
      "GET",
      `/greenroom/crons/preview?schedule=0 9 * * *&timezone=Europe/Rome&end_time=${end}`,
    );
    assert.deepEqual(preview.next, [next[0]]);
    const missing = { loc: ["query", "schedule"], msg: "is required", type: "missing" };
    assert.deepEqual(await finding(it, "/greenroom/crons/preview"), missing);
    const { loc, type } = (await finding(it, "/greenroom/crons/preview?schedule=often")) as Answer;
    assert.deepEqual([loc, type], [["query", "schedule"], "value_error"]);
    const zone = (await finding(it, "/greenroom/crons/preview?schedule=@daily&timezone=Mars")) as Answer;
    assert.deepEqual(zone.loc, ["query", "timezone"]);
  });
});

describe("the feedback routes below /greenroom", () => {
  it("return scores over time", async () => {
    await using it = await kit();
    const [, run_id] = await ran(it, {});
    for (const score of [0, 1]) await it.ask("POST", "/api/v1/feedback", { run_id, key: "user", score });
    const [record] = await it.ask("GET", `/api/v1/feedback?run=${run_id}`);
    const start = record.created_at.slice(0, 10);
    const end = new Date(Date.parse(start) + 2 * 86_400_000).toISOString();
    const series = await it.ask("GET", `/greenroom/feedback/scores?start=${start}&end=${end}`);
    const n = series.keys[0].buckets.reduce((sum: number, bucket: Answer) => sum + bucket.n, 0);
    assert.deepEqual([series.stride, series.keys[0].key, n], ["day", "user", 2]);
    assert.equal(series.keys[0].buckets[0].start, `${start}T00:00:00.000Z`);
    assert.deepEqual((await it.ask("GET", `/greenroom/feedback/scores?start=${start}&end=${end}&key=other`)).keys, []);
    const long = (await finding(it, "/greenroom/feedback/scores?start=1970-01-01&end=2026-01-01")) as Answer;
    assert.deepEqual(long.loc, ["query", "end"]);
    const missing = (await finding(it, "/greenroom/feedback/scores?end=2026-01-01")) as Answer;
    assert.deepEqual([missing.loc, missing.type], [["query", "start"], "missing"]);
    const stride = (await finding(
      it,
      "/greenroom/feedback/scores?start=2026-01-01&end=2026-01-02&stride=year",
    )) as Answer;
    assert.deepEqual(stride.loc, ["query", "stride"]);
  });

  it("list links and revoke them at once", async () => {
    await using it = await kit();
    const [, run_id] = await ran(it, {});
    const make = (feedback_key: string) => it.ask("POST", "/api/v1/feedback/tokens", { run_id, feedback_key });
    const { id, url } = await make("user");
    await it.ask("GET", `/api/v1/feedback/tokens/${id}?score=1`);
    const { items, next } = await it.ask("GET", "/greenroom/feedback/links");
    assert.equal(next, null);
    const { created_at, expires_at, ...link } = items[0];
    assert.ok(created_at < expires_at);
    assert.deepEqual(link, { id, url, run_id, feedback_key: "user", submissions: 1 });
    await it.ask("DELETE", `/greenroom/feedback/links/${id}`, undefined, 204);
    await it.ask("GET", `/api/v1/feedback/tokens/${id}?score=1`, undefined, 404);
    await it.ask("DELETE", `/greenroom/feedback/links/${id}`, undefined, 404);
    assert.equal((await it.ask("GET", `/api/v1/feedback?run=${run_id}`)).length, 1);
    await make("a");
    await make("b");
    const first = await it.ask("GET", "/greenroom/feedback/links?limit=1");
    const second = await it.ask("GET", `/greenroom/feedback/links?limit=1&cursor=${first.next}`);
    assert.deepEqual([first, second].map(({ items }) => items[0].feedback_key).sort(), ["a", "b"]);
  });
});
