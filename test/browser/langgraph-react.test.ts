import assert from "node:assert/strict";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { bundleWithSdk, type Host, openBrowser, openHost, type Principal } from "./browser.ts";
import { reactExecutor } from "./react-agents.ts";
import { Visit } from "./visit.ts";

/**
 * The newest SDK that @langchain/react 1.1.0 can use, and in `npm run test:all` the one that it pins. With 1.11.0, unfinished and
 * forked messages stay on the page until it is loaded again, and `parentCheckpointId` is the parent of the newest checkpoint.
 */
const VERSIONS: Readonly<Record<string, string | undefined>> = {
  "SDK 1.15.0": "langgraph-sdk-1-15",
  ...(process.env.GREENROOM_TEST_ALL === "1" ? { "SDK 1.11.0": undefined } : {}),
};

for (const [version, sdk] of Object.entries(VERSIONS)) {
  describe(`@langchain/react 1.1.0 with ${version} in Chromium`, () => {
    const newest = sdk !== undefined;
    let script = "";
    let principal: Principal | undefined;
    before(async () => {
      script = await bundleWithSdk("react-page.ts", sdk);
      principal = await openBrowser();
    });
    after(() => principal?.[Symbol.asyncDispose]());

    /** Opens a new service and a new page. Fails on each error of the page that the test does not expect. */
    async function visit(test: (visit: Visit, host: Host) => Promise<void>): Promise<void> {
      await using host = await openHost(script, reactExecutor);
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

    async function inOtherTab(visit: Visit, test: (otherVisit: Visit) => Promise<void>): Promise<void> {
      const otherVisit = new Visit(await visit.page.context().newPage());
      try {
        await otherVisit.page.goto(visit.page.url());
        await test(otherVisit);
      } finally {
        await otherVisit.page.close();
      }
    }

    /** Collects method and path of the requests that the page sends from now on. */
    function requests({ page }: Visit): string[] {
      const paths: string[] = [];
      page.on("request", (request) => {
        const { pathname } = new URL(request.url());
        if (pathname.startsWith("/agents/")) {
          paths.push(`${request.method()} ${pathname.replace(/^\/agents\/threads\/[^/]+/, "")}`);
        }
      });
      return paths;
    }

    for (const transport of newest ? ["", "&socket"] : [""]) {
      it(`streams tokens, and opens no stream after a reload${transport && ", over a WebSocket"}`, () =>
        visit(async (visit, { origin, gates }) => {
          await visit.open(`${origin}/?assistant=gated-chat${transport}`);
          await visit.say("hello there");
          await gates.reached("token 1");
          await visit.shows("hello there", "You ");
          gates.open("token 1");
          await gates.reached("token 2");
          await visit.shows("hello there", "You said: ");
          gates.open("token 2", "token 3", "token 4");
          await visit.idle();
          const all = ["hello there", "You said: hello there", "more", "You said: more"];
          await visit.shows(...all.slice(0, 2));
          await visit.say("more");
          await visit.shows(...all);
          await visit.idle();
          const requestPaths = requests(visit);
          await visit.page.reload();
          await visit.shows(...all);
          await visit.idle();
          assert.deepEqual(requestPaths.sort(), ["GET /state", "POST /history"]);
        }));
    }

    it("stops the run", () =>
      visit(async (visit, { origin, gates, service }) => {
        await visit.open(`${origin}/?assistant=gated-chat`);
        await visit.say("hello");
        await visit.shows("hello", "You ");
        const run_id = (await visit.page.locator("#run").textContent()) ?? "";
        await visit.page.click("#stop");
        assert.equal(await gates.stopped("token 1"), "cancelled");
        await visit.idle();
        await (await service.runs.join(visit.thread, run_id)).result;
        assert.equal((await service.runs.get(visit.thread, run_id)).status, "interrupted");
        gates.open("token 1", "token 2", "token 3", "token 4");
        await visit.say("again");
        await visit.idle();
        if (!newest) await visit.page.reload();
        await visit.shows("hello", "again", "You said: again");
      }));

    it("shows the error of a run, and continues", () =>
      visit(async (visit, { origin }) => {
        await visit.open(`${origin}/?assistant=moody`);
        await visit.say("fail");
        const alert = visit.page.getByRole("alert");
        await alert.waitFor();
        assert.match((await alert.textContent()) ?? "", /boom happened/);
        await visit.idle();
        await visit.say("fine");
        await visit.page.getByText("Well, fine").waitFor();
        await visit.idle();
        assert.equal(await alert.count(), 0);
        if (!newest) await visit.page.reload();
        await visit.shows("fail", "fine", "Well, fine");
      }));

    it("answers two pending asks one by one, the second first", () =>
      visit(async (visit, { origin }) => {
        await visit.open(`${origin}/?assistant=asks`);
        await visit.say("refund");
        const question = (text: string) => visit.page.locator(".interrupt", { hasText: text });
        await question("First?").waitFor();
        await question("Second?").locator("button").click();
        await question("Second?").waitFor({ state: "detached" });
        await visit.idle();
        await question("First?").locator("button").click();
        await visit.shows("refund", "first yes, second yes");
        await visit.idle();
      }));

    for (const reload of newest ? [false, true] : [true]) {
      it(`answers an interrupt${reload ? " after a reload" : ""}`, () =>
        visit(async (visit, { origin }) => {
          await visit.open(`${origin}/?assistant=approval`);
          await visit.say("book a seat");
          const question = visit.page.locator(".interrupt");
          await question.waitFor();
          await visit.idle();
          await visit.shows("book a seat", "One moment.");
          if (reload) await visit.page.reload();
          await question.waitFor();
          assert.match((await question.textContent()) ?? "", /Book seat 7A\?/);
          await visit.idle();
          await inOtherTab(visit, async (otherVisit) => {
            await otherVisit.page.locator(".interrupt").waitFor();
            await visit.page.click("#yes");
            const all = ["book a seat", "One moment.", "seat 7A is booked", "Done: seat 7A is booked"];
            await visit.shows(...all);
            await visit.idle();
            assert.equal(await question.count(), 0);
            await otherVisit.shows(...all);
            await otherVisit.idle();
            if (newest) await otherVisit.page.locator(".interrupt").waitFor({ state: "detached" });
            await visit.page.reload();
            await visit.shows(...all);
            await visit.idle();
            assert.equal(await question.count(), 0);
          });
        }));
    }

    for (const transport of newest ? ["", "&socket"] : [""]) {
      it(`continues a run after a reload, in two tabs${transport && ", over a WebSocket"}`, () =>
        visit(async (visit, { origin, gates, service }) => {
          const all = ["one", "You said: one", "hello there", "You said: hello there", "more", "You said: more"];
          await visit.open(`${origin}/?assistant=gated-words${transport}`);
          await visit.say("one");
          await visit.shows(...all.slice(0, 2));
          await visit.idle();
          await visit.say("hello there");
          await visit.shows(...all.slice(0, 3), "You ");
          await visit.page.reload();
          await visit.shows(...all.slice(0, 3), "You ");
          await visit.page.locator("main.loading").waitFor();
          await inOtherTab(visit, async (otherVisit) => {
            const tabs = [visit, otherVisit];
            await otherVisit.shows(...all.slice(0, 3), "You ");
            gates.open("token 1");
            for (const tab of tabs) await tab.shows(...all.slice(0, 3), "You said: ");
            gates.open("token 2", "token 3", "token 4");
            for (const tab of tabs) {
              await tab.idle();
              await tab.shows(...all.slice(0, 4));
            }
            await otherVisit.say("more");
            for (const tab of tabs) {
              await tab.shows(...all);
              await tab.idle();
            }
            assert.equal((await service.runs.list(visit.thread)).length, 3);
          });
        }));
    }

    for (const assistant of newest ? ["agent", "tokens", "chat"] : ["chat"]) {
      it(`forks for an edited message and for a regenerated answer (${assistant})`, () =>
        visit(async (visit, { origin, service }) => {
          const { page } = visit;
          const run = page.locator("#run");
          /** Clicks, waits for the end of the run, and returns the messages of the thread. */
          const forked = async (button: string): Promise<{ id: string; content: string }[]> => {
            const before = await run.textContent();
            await page.locator(button).nth(1).click();
            await run.filter({ hasNotText: before ?? "" }).waitFor();
            await visit.idle();
            if (!newest) await page.reload();
            return ((await service.threads.state(visit.thread)).values as { messages: never[] }).messages;
          };
          await visit.open(`${origin}/?assistant=${assistant}${newest ? "" : "&history"}`);
          for (const text of ["one", "two", "more"]) {
            await visit.say(text);
            await visit.idle();
          }
          await visit.shows("one", "You said: one", "two", "You said: two", "more", "You said: more");
          await page.fill("#text", "three");
          const edited = await forked("li.human .edit");
          await visit.shows("one", "You said: one", "three", "You said: three");
          const again = await forked("li.ai .again");
          await visit.shows("one", "You said: one", "three", "You said: three");
          assert.deepEqual(
            again.map(({ content }) => content),
            edited.map(({ content }) => content),
          );
          assert.equal(again[2]?.id, edited[2]?.id);
          assert.notEqual(again[3]?.id, edited[3]?.id);
          assert.equal((await service.runs.list(visit.thread)).length, 5);
          await page.reload();
          await visit.shows("one", "You said: one", "three", "You said: three");
        }));
    }

    it(`queues a submit behind a run (${newest ? "on the server" : "in the page"})`, () =>
      visit(async (visit, { origin, gates, service }) => {
        const { page } = visit;
        await visit.open(`${origin}/?assistant=gated-chat&queue=server`);
        await visit.say("first");
        await visit.shows("first", "You ");
        for (const [at, text] of ["second", "third"].entries()) {
          await page.fill("#text", text);
          await page.click("#queue");
          await page.locator(".queued").nth(at).waitFor();
        }
        if (newest) {
          const waiting = await service.runs.list(visit.thread, { status: "pending" });
          assert.equal(waiting.length, 2);
          await page.reload();
          await page.locator(".queued").nth(1).waitFor();
        }
        gates.open("token 1", "token 2", "token 3");
        await visit.shows("first", "You said: first", "second", "You said: second", "third", "You said: third");
        await visit.idle();
        assert.equal(await page.locator(".queued").count(), 0);
      }));

    it("interrupts a run that another tab started", () =>
      visit(async (visit, { origin, gates, service }) => {
        await visit.open(`${origin}/?assistant=halfway&strategy=interrupt`);
        await visit.say("first");
        await visit.shows("first", "began first");
        await inOtherTab(visit, async (otherVisit) => {
          await otherVisit.shows("first", "began first");
          await otherVisit.say("second");
          assert.equal(await gates.stopped("first"), "cancelled");
          gates.open("second");
          for (const tab of [visit, otherVisit]) {
            await tab.shows("first", "began first", "second", "began second", "waited for second");
            await tab.idle();
          }
          assert.equal((await service.runs.list(visit.thread)).length, 2);
        });
      }));

    it("shows cards of nested graphs, live and after reloads", () =>
      visit(async (visit, { origin, gates }) => {
        const { page } = visit;
        const cards = page.locator(".card");
        const card = (label: string) => cards.filter({ has: page.locator("h2", { hasText: label }) });
        await visit.open(`${origin}/?assistant=team`);
        await visit.say("go");
        await card("research > writer running").getByText("ai: Deep", { exact: true }).waitFor();
        await page.reload();
        await card("research > writer running").getByText("ai: Deep", { exact: true }).waitFor();
        gates.open("deep 1", "deep 2", "deep 3");
        await card("research complete").getByText("ai: Checked").waitFor();
        await card("research > writer complete").getByText("ai: Deep thought here").waitFor();
        gates.open("report");
        await visit.shows("go", "Deep thought here", "Checked", "Reported");
        await visit.idle();
        assert.equal(await cards.count(), 2);
        const requestPaths = requests(visit);
        await page.reload();
        await card("research complete").getByText("ai: Deep thought here").waitFor();
        await card("research complete").getByText("ai: Checked").waitFor();
        await visit.shows("go", "Deep thought here", "Checked", "Reported");
        assert.equal(requestPaths.filter((request) => request === "GET /state").length, 1);
      }));
  });
}
