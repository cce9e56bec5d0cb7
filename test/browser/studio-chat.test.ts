import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Request } from "playwright-core";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { until } from "../support/until.ts";
import { readSpanRows, spanRow } from "./span-rows.ts";
import { openStudio, type StudioHost, type StudioVisit, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visitStudio = studioVisits();
let host: StudioHost;
before(async () => {
  host = await openStudio();
});
after(() => host?.[Symbol.asyncDispose]());

/** Runs a test on the shared server. Each test creates its own threads. */
const visit = (test: (visit: StudioVisit) => Promise<void>, at = host): Promise<void> => visitStudio(at, test);

/** Creates a thread whose run has ended or waits. */
async function createThreadWithRun(assistant_id: string, content = "hello"): Promise<string> {
  const { threads, runs } = host.service;
  const { thread_id } = await threads.create();
  await (await runs.wait(thread_id, { assistant_id, input: humanInput(content) })).result;
  return thread_id;
}

describe("the studio's chat as a client of the event protocol", () => {
  it("streams a run that another client started, and opens no stream for an idle thread", () =>
    visit(async (visit) => {
      const { page } = visit;
      const { gates, service } = host;
      const streams: string[] = [];
      page.on("request", (request) => {
        if (request.url().endsWith("/stream/events")) streams.push(request.url());
      });
      await visit.newThread("chat");
      await visit.say("one");
      await visit.status("idle");
      const { thread_id } = visit;
      streams.length = 0;
      await page.reload();
      await visit.shows("one", "You said: one");
      await visit.status("idle");
      assert.deepEqual(streams, []);
      await service.runs.create(thread_id, { assistant_id: "gated-chat", input: humanInput("two") });
      await gates.reached("token 1");
      await visit.shows("one", "You said: one", "two", "You ");
      await visit.status("running");
      gates.open("token 1", "token 2", "token 3", "token 4");
      await visit.status("idle");
      await visit.shows("one", "You said: one", "two", "You said: two");
      assert.equal(streams.length, 1);
    }));

  it("continues after a restart of the server with the missed events and the typed text", async () => {
    const folder = mkdtempSync(join(tmpdir(), "greenroom-studio-"));
    const open = (options = {}) => openStudio({ storage: nodeSqlite(join(folder, "agents.db")), ...options });
    try {
      const before = await open();
      const port = Number(new URL(before.origin).port);
      await visit(async (visit) => {
        const { page } = visit;
        await visit.newThread("gated-chat");
        await visit.say("hello there");
        await before.gates.reached("token 1");
        await visit.shows("hello there", "You ");
        await page.getByLabel("Message", { exact: true }).fill("and then");
        await before[Symbol.asyncDispose]();
        await page.getByText("does not answer").first().waitFor();
        await using _after = await open({ port, gates: before.gates });
        before.gates.open("token 1", "token 2", "token 3", "token 4");
        await visit.status("idle");
        await visit.shows("hello there", "You said: hello there");
        assert.equal(await page.getByLabel("Message", { exact: true }).inputValue(), "and then");
        await page.close();
      }, before);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("shows the time of a tool from the events, and the run of the turn", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("caller");
      await visit.say("weather?");
      await host.gates.reached("weather");
      await page.locator(".tool.running", { hasText: "weather" }).waitFor();
      host.gates.open("weather");
      await visit.status("idle");
      await visit.shows("weather?", "Let me look.", "It is so: Sunny in Rome");
      await page.locator(".tool.success summary", { hasText: /\d ms|\d s/ }).waitFor();
      const { thread_id } = visit;
      await visit.link("Run", page.locator(".message.ai").last()).click();
      await page.waitForURL(/\/runs\/[0-9a-f-]{36}/);
      const [run] = await host.service.runs.list(thread_id);
      assert.ok(page.url().includes(run?.run_id ?? "none"));
      await spanRow(page, "tool weather").waitFor();
      assert.deepEqual(
        (await readSpanRows(page)).map(({ label }) => label).filter((label) => /^(?:model|tool) /.test(label)),
        ["model FakeChatModel", "tool weather", "model FakeChatModel"],
      );
    }));

  it("folds messages of subagents", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("experts");
      await visit.say("Where is it warm?");
      await host.gates.reached("expert 1");
      await page.locator(".subagent", { hasText: "research" }).locator("summary").click();
      await page.locator(".subagent .markdown", { hasText: "Rome" }).waitFor();
      host.gates.open(...[1, 2, 3, 4, 5].map((token) => `expert ${token}`));
      await visit.status("idle");
      await visit.shows("Where is it warm?", "Rome is warm in May.");
      assert.equal(await page.locator(".subagent").count(), 0);

      await visit.newThread("manager");
      await visit.say("Ask somebody");
      await visit.status("idle");
      const card = page.locator(".tool", { hasText: "task" });
      await card.locator("summary").first().click();
      await card.locator(".subagent summary", { hasText: "researcher" }).click();
      await card.locator(".subagent .markdown", { hasText: "Rome is warm in May." }).waitFor();
      await page.getByText("So it is.").waitFor();
    }));

  it("shows the subagents of an idle thread, also of a run that nobody streamed and after a reload", () =>
    visit(async (visit) => {
      const { page } = visit;
      const streams = new Set<Request>();
      page.on("request", (request) => {
        if (request.url().endsWith("/stream/events")) streams.add(request);
      });
      for (const end of ["requestfinished", "requestfailed"] as const)
        page.on(end as "requestfinished", (request) => streams.delete(request));
      // Browsers do not always report the end of requests of a page that was left.
      page.on("framenavigated", () => streams.clear());
      host.gates.open(...[1, 2, 3, 4, 5].map((token) => `expert ${token}`));
      const card = page.locator(".tool", { hasText: "task" });
      const opened = async (): Promise<void> => {
        await card.locator("summary").first().click();
        await card.locator(".subagent summary", { hasText: "1 message" }).click();
        await card.locator(".subagent .markdown", { hasText: "Rome is warm in May." }).waitFor();
      };
      await visit.open(`threads/${await createThreadWithRun("manager", "Ask somebody")}`);
      await opened();
      await page.reload();
      await opened();
      // The page requested the times of the tool, which were not recorded.
      await until(() => streams.size === 0);
      // The buttons of its message do not overlap the card.
      const message = page.locator(".message.ai").first();
      await message.hover();
      const [buttons, box] = [await message.locator(".message-actions").boundingBox(), await card.boundingBox()];
      assert.ok(buttons && box && buttons.y >= box.y + box.height, JSON.stringify([buttons, box]));
    }));

  it("removes a card that was answered elsewhere, and answers two interrupts in one run", () =>
    visit(async (visit) => {
      const { page } = visit;
      const waiting = await createThreadWithRun("ask");
      await visit.open(`threads/${waiting}`);
      await page.locator(".interrupt", { hasText: "ok?" }).waitFor();
      await (await host.service.runs.wait(waiting, { assistant_id: "ask", command: { resume: "yes" } })).result;
      await visit.status("idle");
      assert.equal(await page.locator(".interrupt").count(), 0);

      const two = await createThreadWithRun("questions");
      await visit.open(`threads/${two}`);
      const first = page.locator(".interrupt", { hasText: "first?" });
      await first.getByLabel("Answer", { exact: true }).fill("one");
      await visit.button("Answer", first).click();
      await page.getByText("1 more of this thread").waitFor();
      await visit.button("Answer again").click();
      await first.getByLabel("Answer", { exact: true }).fill("uno");
      await visit.button("Answer", first).click();
      await visit.button("JSON", page.locator(".interrupt")).click();
      await page.getByLabel("Answer as JSON").fill('{"two": 2}');
      await visit.button("Answer", page.locator(".interrupt")).click();
      await visit.status("idle");
      const { values } = await host.service.threads.state(two);
      assert.deepEqual(values, { first: "uno", second: { two: 2 } });
      assert.equal((await host.service.runs.list(two)).length, 2);
    }));

  it("shows why a run failed, and retries it", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("fail");
      await visit.say("hi");
      await page.getByRole("alert").filter({ hasText: "boom happened" }).waitFor();
      await visit.button("Retry").click();
      await page.waitForFunction(() => document.querySelector(".status.error"));
      await page.getByRole("alert").filter({ hasText: "boom happened" }).waitFor();
      const { thread_id } = visit;
      await visit.link("Run", page.locator(".problem")).click();
      await page.locator(".error-text", { hasText: "boom happened" }).locator("summary").click();
      await page.locator(".error-text pre", { hasText: "graphs.ts" }).waitFor();
      await page.goBack();
      await page.getByRole("alert").waitFor();
      await host.service.threads.delete(thread_id);
      await page.getByText("This thread does not exist").waitFor();
      await visit.link("All threads").click();
      await page.waitForURL(/threads$/);
    }));

  it("streams a thread that is opened again just before its stream closes", () =>
    visit(async (visit) => {
      const { page } = visit;
      await page.clock.install();
      await visit.newThread("fail");
      await visit.say("hi");
      await page.getByRole("alert").filter({ hasText: "boom happened" }).waitFor();
      const { thread_id } = visit;
      await page.clock.pauseAt(await page.evaluate(() => Date.now() + 5000));
      await visit.link("Run", page.locator(".problem")).click();
      await page.waitForURL(/runs/);
      // The view is left: 1,000 ms later its source closes. The next view comes 5 ms before, its effects 16 ms after it came.
      await page.clock.runFor(995);
      await page.goBack();
      await page.getByLabel("Message", { exact: true }).waitFor();
      await page.clock.runFor(50);
      await page.clock.resume();
      await host.service.threads.delete(thread_id);
      await page.getByText("This thread does not exist").waitFor();
    }));
});

describe("the studio's answers to interrupts", () => {
  it("approves, edits, rejects and responds to the actions of one request", () =>
    visit(async (visit) => {
      const { page } = visit;
      const thread_id = await createThreadWithRun("review");
      await visit.open(`inbox/${thread_id}`);
      const card = page.locator(".interrupt");
      await card.getByText("Action 1 of 3").waitFor();
      await visit.button("Edit", card).click();
      await visit.button("Back", card).click();
      await visit.button("Edit", card).click();
      await card.getByLabel("Arguments of refund").fill('{"euros": 20}');
      await visit.button("Run with these arguments", card).click();
      await card.getByText("Action 2 of 3").waitFor();
      await visit.button("Reject", card).click();
      await card.getByLabel("Reason").fill("Ann has left");
      await visit.button("Reject", card).click();
      await card.getByText("Action 3 of 3").waitFor();
      await visit.button("Respond", card).click();
      await card.getByLabel("Response").fill("It is closed");
      await visit.button("Respond", card).click();
      await page.getByText("Answered", { exact: true }).waitFor();
      await visit.open(`threads/${thread_id}`);
      await visit.status("idle");
      const decisions = [
        { type: "edit", edited_action: { name: "refund", args: { euros: 20 } } },
        { type: "reject", message: "Ann has left" },
        { type: "respond", message: "It is closed" },
      ];
      await visit.shows("hello", `Decided: ${JSON.stringify({ decisions })}`);
    }));

  it("approves in the chat, and shows a form for the schema of the response", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("review");
      await visit.say("go");
      for (const at of [1, 2, 3]) {
        await page.getByText(`Action ${at} of 3`).waitFor();
        await visit.button("Approve").click();
      }
      await visit.status("idle");
      const decisions = [1, 2, 3].map(() => ({ type: "approve" }));
      await visit.shows("go", `Decided: ${JSON.stringify({ decisions })}`);

      await visit.open(`threads/${await createThreadWithRun("survey")}`);
      await page.getByLabel("seat *").selectOption({ label: "8B" });
      await page.getByLabel("bags").fill("2");
      await page.getByLabel("Passenger").fill("Ann");
      await page.getByLabel("window").check();
      await visit.button("Answer").click();
      await visit.shows("hello", 'Booked: {"seat":"8B","bags":2,"name":"Ann","window":true}');

      await visit.open(`threads/${await createThreadWithRun("drinks")}`);
      await visit.button("coffee").click();
      await visit.shows("hello", "Brewed: coffee");
    }));
});

describe("the studio's chat input and values", () => {
  it("show a form for an agent without messages, raw JSON, and the whole value", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("report");
      await page.getByLabel("city").fill("Oslo");
      await visit.button("JSON").click();
      await visit.button("Form").click();
      await page.getByLabel("days").fill("3");
      await visit.button("Run").click();
      await page.locator(".json", { hasText: "3 days in Oslo" }).waitFor();
      const downloading = page.waitForEvent("download");
      await visit.button("Download").click();
      const file = await (await downloading).path();
      assert.equal(JSON.parse(readFileSync(file, "utf8")).done, "3 days in Oslo");
      await page.getByLabel("city").fill("Bergen");
      await visit.button("Run").click();
      await host.gates.reached("Bergen");
      await visit.button("Stop").click();
      assert.equal(await host.gates.stopped("Bergen"), "cancelled");
      await visit.status("idle");

      await visit.newThread("caller");
      await visit.button("Use an example").click();
      assert.match((await page.getByLabel("messages").inputValue()) ?? "", /"Hello"/);
      host.gates.open("weather");
      await visit.button("Run").click();
      await visit.shows("Hello", "Let me look.", "It is so: Sunny in Rome");

      await visit.newThread("chat");
      await visit.button("Whole input").click();
      await visit.button("JSON").click();
      await page.getByRole("textbox", { name: "Input" }).fill(JSON.stringify(humanInput("as JSON")));
      await visit.button("Run").click();
      await visit.shows("as JSON", "You said: as JSON");
    }));

  it("show a value of 5 MB in part, and its reasoning folded", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open(`threads/${await createThreadWithRun("large")}?raw=1`);
      await page.locator(".leaf", { hasText: "more characters" }).waitFor();
      const textLength = await page.evaluate(() => document.querySelector("main")?.textContent?.length ?? 0);
      assert.ok(textLength < 20_000, `${textLength} characters`);
      await visit.button(/more characters/).click();
      await page.waitForFunction(() => (document.querySelector("main")?.textContent?.length ?? 0) > 20_000);
      await visit.button("Raw JSON").click();
      await visit.shows("hello", "Kept 1");

      await visit.newThread("thinker");
      await visit.say("rain?");
      await visit.status("idle");
      const reasoning = page.locator("details.reasoning");
      assert.equal(await reasoning.getByText("Rain is likely").isVisible(), false);
      await reasoning.locator("summary").click();
      await reasoning.getByText("Rain is likely").waitFor();
    }));

  it("send files with a message: an image, a text and another", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.newThread("looker");
      const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
      const choosing = page.waitForEvent("filechooser");
      await visit.button("Attach files").click();
      await (await choosing).setFiles([
        { name: "pixel.png", mimeType: "image/png", buffer: Buffer.from(pixel, "base64") },
        { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("a note") },
        { name: "book.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF") },
        { name: "other.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF") },
      ]);
      await visit.button("Remove other.pdf").click();
      await visit.say("look");
      await page.getByText("Saw: text, image_url, text, file").waitFor();
      await page.locator(".attachments img").waitFor();
      await page.locator(".attachments", { hasText: "book.pdf" }).waitFor();
    }));

  it("show 2,000 messages in a window, and more of them on demand", () =>
    visit(async (visit) => {
      const { page } = visit;
      const { thread_id } = await host.service.threads.create({ metadata: { graph_id: "chat" } });
      const messages = Array.from({ length: 2000 }, (_, at) => ({
        role: at % 2 ? "assistant" : "user",
        content: `m${at}`,
        id: `m${at}`,
      }));
      await host.service.threads.updateState(thread_id, { values: { messages }, as_node: "model" });
      await visit.open(`threads/${thread_id}?raw=1`);
      await visit.button("1900 more").click();
      await visit.button("900 more").click();
      await page.waitForFunction(() => document.querySelectorAll(".json .branch").length === 2002);
      await visit.open(`threads/${thread_id}`);
      await page.getByText("m1999", { exact: true }).waitFor();
      assert.equal(await page.locator(".message").count(), 60);
      await visit.button("1,940 earlier messages").click();
      await page.waitForFunction(() => document.querySelectorAll(".message").length === 180);
    }));
});
