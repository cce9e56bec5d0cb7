import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { bundlePage, findChromium, type Host, openBrowser, openHost, type Principal } from "./browser.ts";
import { Visit } from "./visit.ts";

describe("useStream of SDK 2.0.0 in Chromium", () => {
  let script = "";
  let principal: Principal | undefined;
  before(async () => {
    script = bundlePage();
    principal = await openBrowser();
  });
  after(() => principal?.[Symbol.asyncDispose]());

  /** Opens a new service and a new page. Fails on each error of the page that the test does not expect. */
  async function visit(test: (visit: Visit, host: Host) => Promise<void>): Promise<void> {
    await using host = await openHost(script);
    const page = await (principal as Principal).context.newPage();
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(error.message));
    try {
      await test(new Visit(page), host);
      assert.deepEqual(errors, []);
    } finally {
      await page.close();
    }
  }

  it("streams tokens with each message once, and shows the conversation after a reload", () =>
    visit(async (visit, { origin, gates }) => {
      await visit.open(`${origin}/?assistant=gated-chat`);
      await visit.say("hello there");
      await gates.reached("token 1");
      await visit.shows("hello there", "You ");
      gates.open("token 1");
      await gates.reached("token 2");
      await visit.shows("hello there", "You said: ");
      gates.open("token 2", "token 3", "token 4");
      await visit.idle();
      await visit.shows("hello there", "You said: hello there");
      await visit.say("more");
      await visit.shows("hello there", "You said: hello there", "more", "You said: more");
      await visit.idle();
      await visit.page.reload();
      await visit.idle();
      await visit.shows("hello there", "You said: hello there", "more", "You said: more");
    }));

  for (const assistant of ["agent", "tokens", "chat"]) {
    it(`shows a branch for each version of an edited message (${assistant})`, () =>
      visit(async (visit, { origin }) => {
        const { page } = visit;
        await visit.open(`${origin}/?assistant=${assistant}`);
        await visit.say("one");
        await visit.shows("one", "You said: one");
        await visit.idle();
        await visit.say("two");
        await visit.shows("one", "You said: one", "two", "You said: two");
        await visit.idle();
        await page.fill("#text", "three");
        await page.locator("li.human .edit").nth(1).click();
        await visit.shows("one", "You said: one", "three", "You said: three");
        await visit.idle();
        const branches = page.locator("li.human").nth(1).locator(".branch");
        await branches.nth(1).waitFor();
        assert.equal(await branches.count(), 2);
        assert.equal(await page.locator("li.human").nth(0).locator(".branch").count(), 0);
        await branches.nth(0).click();
        await visit.shows("one", "You said: one", "two", "You said: two");
        await page.locator("li.human").nth(1).locator(".branch").nth(1).click();
        await visit.shows("one", "You said: one", "three", "You said: three");
      }));
  }

  it("shows an interrupt, also after a reload, and continues with the resume value", () =>
    visit(async (visit, { origin }) => {
      await visit.open(`${origin}/?assistant=approval`);
      await visit.say("book a seat");
      const question = visit.page.locator("#interrupt");
      await question.waitFor();
      await visit.idle();
      assert.match((await question.textContent()) ?? "", /Book seat 7A\?/);
      await visit.shows("book a seat", "One moment.");
      await visit.page.reload();
      await question.waitFor();
      assert.match((await question.textContent()) ?? "", /Book seat 7A\?/);
      await visit.page.click("#yes");
      await visit.shows("book a seat", "One moment.", "seat 7A is booked", "Done: seat 7A is booked");
      await visit.idle();
      assert.equal(await question.count(), 0);
    }));

  for (const assistant of ["fail", "failing"]) {
    it(`shows the error of a failed run, also after a reload (${assistant})`, () =>
      visit(async (visit, { origin }) => {
        await visit.open(`${origin}/?assistant=${assistant}`);
        await visit.say("hi");
        const alert = visit.page.getByRole("alert");
        await alert.waitFor();
        assert.equal(await alert.textContent(), "boom happened");
        await visit.page.reload();
        await alert.waitFor();
        assert.equal(await alert.textContent(), "boom happened");
      }));
  }

  it("stops the run on the stop button", () =>
    visit(async (visit, { origin, service, gates }) => {
      await visit.open(`${origin}/?assistant=gated-chat`);
      await visit.say("hello");
      await gates.reached("token 1");
      await visit.page.waitForFunction(() => document.querySelector("#run")?.textContent);
      const run_id = (await visit.page.locator("#run").textContent()) ?? "";
      const thread_id = new URL(visit.page.url()).searchParams.get("thread") ?? "";
      await visit.page.click("#stop");
      await visit.idle();
      await (await service.runs.join(thread_id, run_id)).result;
      assert.equal((await service.runs.get(thread_id, run_id)).status, "interrupted");
      gates.open("token 1", "token 2", "token 3");
    }));

  it("stops a run that it would rejoin", () =>
    visit(async (visit, { origin, service, gates }) => {
      await visit.open(`${origin}/?assistant=gated-chat&reconnect`);
      await visit.say("hello");
      await gates.reached("token 1");
      await visit.shows("hello", "You ");
      const run_id = (await visit.page.locator("#run").textContent()) ?? "";
      await visit.page.click("#stop");
      assert.equal(await gates.stopped("token 1"), "cancelled");
      await visit.idle();
      await (await service.runs.join(visit.thread, run_id)).result;
      assert.equal((await service.runs.get(visit.thread, run_id)).status, "interrupted");
      gates.open("token 1", "token 2", "token 3", "token 4");
      await visit.page.reload();
      await visit.idle();
      await visit.shows("hello");
      await visit.say("again");
      await visit.shows("hello", "again", "You said: again");
    }));

  for (const assistant of ["gated-chat", "half"]) {
    it(`rejoins a run after a reload in the middle, without loss or repetition (${assistant})`, () =>
      visit(async (visit, { origin, gates, service }) => {
        const { page } = visit;
        const chat = assistant === "gated-chat";
        await visit.open(`${origin}/?assistant=${assistant}&reconnect`);
        await visit.say("hello there");
        await gates.reached(chat ? "token 1" : "hello there");
        await visit.shows("hello there", chat ? "You " : "began hello there");
        const joins: string[] = [];
        page.on("request", (request) => {
          const id = request.headers()["last-event-id"];
          if (id !== undefined) joins.push(`${request.method()} ${id}`);
        });
        for (let reload = 1; reload <= 2; reload++) {
          await page.reload();
          await visit.shows("hello there", chat ? "You " : "began hello there");
          assert.deepEqual(joins, Array(reload).fill("GET -1"));
          assert.equal(await page.locator("main.loading").count(), 1);
        }
        gates.open("token 1", "token 2", "token 3", "token 4", "hello there");
        await visit.idle();
        const answer = chat ? ["You said: hello there"] : ["began hello there", "waited for hello there"];
        await visit.shows("hello there", ...answer);
        assert.equal((await service.runs.list(visit.thread)).length, 1);
        await page.reload();
        await visit.idle();
        await visit.shows("hello there", ...answer);
        assert.equal(joins.length, 2);
      }));
  }

  for (const [strategy, keptTexts, alert] of [
    ["rollback", [], /rolled back/],
    ["interrupt", ["first", "began first"], null],
  ] as const) {
    it(`sends a second message from another window (${strategy})`, () =>
      visit(async (visit, { origin, gates, service }) => {
        await visit.open(`${origin}/?assistant=halfway&strategy=${strategy}`);
        await visit.say("first");
        await gates.reached("first");
        await visit.shows("first", "began first");
        const secondVisit = new Visit(await visit.page.context().newPage());
        try {
          await secondVisit.open(visit.page.url());
          await secondVisit.shows("first", "began first");
          await secondVisit.say("second");
          assert.equal(await gates.stopped("first"), alert ? "rolled_back" : "cancelled");
          await gates.reached("second");
          gates.open("first", "second");
          await secondVisit.shows(...keptTexts, "second", "began second", "waited for second");
          await secondVisit.idle();
          // The first window is notified and shows the same after a reload.
          await visit.idle();
          if (alert) assert.match((await visit.page.getByRole("alert").textContent()) ?? "", alert);
          await visit.page.reload();
          await visit.idle();
          await visit.shows(...keptTexts, "second", "began second", "waited for second");
          assert.equal((await service.runs.list(visit.thread)).length, alert ? 1 : 2);
        } finally {
          await secondVisit.page.close();
        }
      }));
  }

  it("works from another origin, with the location of the run", () =>
    visit(async (visit, { origin, elsewhere, service }) => {
      await visit.open(`${elsewhere}/?assistant=chat&api=${encodeURIComponent(`${origin}/agents`)}`);
      await visit.say("hi");
      await visit.shows("hi", "You said: hi");
      await visit.idle();
      const thread_id = new URL(visit.page.url()).searchParams.get("thread") ?? "";
      const [run] = await service.runs.list(thread_id);
      assert.equal(await visit.page.locator("#run").textContent(), run?.run_id);
      const headers = await visit.page.evaluate(async (api) => {
        const response = await fetch(`${api}/threads/search`, { method: "POST", body: "{}" });
        const ran = await fetch(`${api}/runs/stream`, {
          method: "POST",
          body: '{"assistant_id":"agent","input":{"messages":"x"}}',
        });
        await ran.text();
        return [
          response.headers.get("x-pagination-total"),
          ran.headers.get("content-location"),
          ran.headers.get("location"),
        ];
      }, `${origin}/agents`);
      assert.equal(headers[0], "1");
      assert.match(headers[1] ?? "", /^\/runs\/[0-9a-f-]{36}$/);
      assert.equal(headers[2], `${headers[1]}/stream`);
    }));
});

describe("findChromium without an installation", () => {
  it("throws what is missing and how to get it", () => {
    assert.throws(() => findChromium("/nowhere"), /Chromium is missing: no chromium, .* apt-get install chromium/);
  });
});
