import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Locator } from "playwright-core";
import { openStudio, type StudioHost, type StudioVisit, studioVisits } from "./studio-host.ts";
import { humanInput } from "./studio-seed.ts";

const visitStudio = studioVisits();
let host: StudioHost;
before(async () => {
  host = await openStudio();
});
after(() => host?.[Symbol.asyncDispose]());

const visit = (test: (visit: StudioVisit) => Promise<void>): Promise<void> => visitStudio(host, test);

/** Creates a thread that waits for decisions. */
async function waiting(content: string, assistant_id = "clerk"): Promise<string> {
  const { threads, runs } = host.service;
  const { thread_id } = await threads.create();
  const input = assistant_id === "clerks" ? {} : humanInput(content);
  await (await runs.wait(thread_id, { assistant_id, input })).result;
  return thread_id;
}

/** Reads the resume values of the resumed runs, oldest first. */
async function readResumeValues(thread_id: string): Promise<unknown[]> {
  const { items } = await host.service.runs.search({ thread_id });
  const details = await Promise.all(items.map(({ run_id }) => host.service.runs.inspect(run_id)));
  const commands = details.map(({ kwargs }) => kwargs["command"] as { readonly resume?: object } | null);
  return commands.flatMap((command) => (command?.resume ? Object.values(command.resume) : [])).reverse();
}

/** Returns the last message of the agent. No resume value may make its run fail. */
async function readLastMessage(thread_id: string): Promise<string> {
  const { status, values } = await host.service.threads.get(thread_id);
  assert.equal(status, "idle");
  const { messages } = values as unknown as { readonly messages: readonly { readonly content: string }[] };
  return messages.at(-1)?.content ?? "";
}

const offered = (card: Locator): Promise<string[]> => card.locator(".buttons button").allTextContents();

/** The pages on which an interrupt is answered, and the text that each shows afterwards. */
const PLACES = {
  async chat(visit: StudioVisit, thread_id: string) {
    await visit.open(`threads/${thread_id}`);
    return () => visit.status("idle");
  },
  async inbox(visit: StudioVisit, thread_id: string) {
    await visit.open(`inbox/${thread_id}`);
    return async () => {
      await visit.page.getByText("Answered", { exact: true }).waitFor();
      await visit.open(`threads/${thread_id}`);
      await visit.status("idle");
    };
  },
};

describe("the studio's approvals of LangChain.js agents", () => {
  for (const [name, open] of Object.entries(PLACES)) {
    it(`approves, edits and rejects in the ${name}`, () =>
      visit(async (visit) => {
        const card = visit.page.locator(".interrupt");
        const approved = await waiting("refund");
        let answered = await open(visit, approved);
        await card.locator("strong", { hasText: "refund" }).waitFor();
        assert.equal(await card.getByLabel("Answer").count(), 0);
        await visit.button("Approve", card).click();
        await answered();
        assert.equal(await readLastMessage(approved), "Done: refunded 30 euros");

        const edited = await waiting("refund");
        answered = await open(visit, edited);
        await visit.button("Edit", card).click();
        await card.getByLabel("Arguments of refund").fill('{"euros": 20}');
        await visit.button("Run with these arguments", card).click();
        await answered();
        assert.equal(await readLastMessage(edited), "Done: refunded 20 euros");
        const editedAction = { name: "refund", args: { euros: 20 } };
        assert.deepEqual(await readResumeValues(edited), [{ decisions: [{ type: "edit", editedAction }] }]);

        const rejected = await waiting("refund");
        answered = await open(visit, rejected);
        await visit.button("Reject", card).click();
        await card.getByLabel("Reason").fill("Too much");
        await visit.button("Reject", card).click();
        await answered();
        assert.equal(await readLastMessage(rejected), "Done: Too much");
      }));

    it(`decides several requests of one interrupt in the ${name}, each with its allowed decisions`, () =>
      visit(async (visit) => {
        const thread_id = await waiting("refund mail lookup close");
        const answered = await open(visit, thread_id);
        const card = visit.page.locator(".interrupt");
        await card.getByText("Action 1 of 3").waitFor();
        assert.deepEqual(await offered(card), ["Approve", "Edit", "Reject"]);
        await visit.button("Approve", card).click();
        await card.getByText("Action 2 of 3").waitFor();
        assert.deepEqual(await offered(card), ["Approve", "Reject"]);
        await card
          .locator("b, strong", { hasText: /^mail$/ })
          .last()
          .waitFor();
        await visit.button("Approve", card).click();
        await card.getByText("Action 3 of 3").waitFor();
        assert.deepEqual(await offered(card), ["Edit"]);
        await visit.button("Edit", card).click();
        await card.getByLabel("order").fill("1183");
        await visit.button("Run with these arguments", card).click();
        await answered();
        assert.equal(
          await readLastMessage(thread_id),
          "Done: found 1182; refunded 30 euros; wrote to ann; closed 1183",
        );
      }));

    it(`answers two interrupts at once in the ${name}, in one run`, () =>
      visit(async (visit) => {
        const thread_id = await waiting("", "clerks");
        const answered = await open(visit, thread_id);
        const card = visit.page.locator(".interrupt");
        await visit.button("Approve", card.filter({ hasText: "refund" })).click();
        await visit.page.getByText("1 more of this thread").waitFor();
        await visit.button("Reject", card).click();
        await visit.button("Reject", card).click();
        await answered();
        const { values } = await host.service.threads.state(thread_id);
        const { first, second } = values as Record<string, string>;
        assert.equal(first, "Done: refunded 30 euros");
        assert.match(second ?? "", /^Done: User rejected the tool call for `mail`/);
        assert.equal((await host.service.runs.list(thread_id)).length, 2);
      }));

    it(`sends no invalid resume value from the ${name}`, () =>
      visit(async (visit) => {
        const { page } = visit;
        const thread_id = await waiting("refund");
        const requests: string[] = [];
        page.on("request", (request) => {
          if (request.url().endsWith("/commands")) requests.push(request.url());
        });
        const answered = await open(visit, thread_id);
        const card = page.locator(".interrupt");
        await visit.button("Edit", card).click();
        const field = card.getByLabel("Arguments of refund");
        for (const [text, problem] of [
          ["[30]", "must be a JSON object"],
          ["", "must be a JSON object"],
          ["30 euros", "Not JSON"],
          ["null", "must be a JSON object"],
        ] as const) {
          await field.fill(text);
          await visit.button("Run with these arguments", card).click();
          await card.getByRole("alert").filter({ hasText: problem }).waitFor();
        }
        assert.deepEqual(requests, []);
        await field.fill('{"euros": 1}');
        await visit.button("Run with these arguments", card).click();
        await answered();
        assert.equal(requests.length, 1);
        assert.equal(await readLastMessage(thread_id), "Done: refunded 1 euros");
      }));

    it(`decides by keyboard in the ${name}`, () =>
      visit(async (visit) => {
        const { page } = visit;
        const thread_id = await waiting("mail refund refund");
        const answered = await open(visit, thread_id);
        const card = page.locator(".interrupt");
        await card.getByText("Action 1 of 3").waitFor();
        // Not allowed here; nor does the chat take the key.
        await page.keyboard.press("e");
        await page.keyboard.down("a");
        await card.getByText("Action 2 of 3").waitFor();
        // The key is held.
        await page.keyboard.down("a");
        await page.keyboard.up("a");
        assert.equal(await page.locator(".edit-box").count(), 0);
        await page.keyboard.press("r");
        await page.keyboard.press("Escape");
        await page.keyboard.press("e");
        await page.keyboard.press("ControlOrMeta+A");
        await page.keyboard.type('{"euros": 5}');
        await page.keyboard.press("Control+Enter");
        await card.getByText("Action 3 of 3").waitFor();
        await page.keyboard.press("r");
        await page.keyboard.type("are you sure");
        await page.keyboard.press("Control+Enter");
        await answered();
        assert.deepEqual(await readResumeValues(thread_id), [
          {
            decisions: [
              { type: "approve" },
              { type: "edit", editedAction: { name: "refund", args: { euros: 5 } } },
              { type: "reject", message: "are you sure" },
            ],
          },
        ]);
      }));
  }

  it("shows a free text field if it does not know the decisions", () =>
    visit(async (visit) => {
      const { page } = visit;
      for (const value of [
        { actionRequests: [] },
        { actionRequests: [null] },
        { actionRequests: [{ name: "a", args: {} }], reviewConfigs: [{ actionName: "a", allowedDecisions: ["wait"] }] },
      ]) {
        await visit.open(`threads/${await waiting(JSON.stringify(value), "asks")}`);
        await page.locator(".interrupt").getByLabel("Answer", { exact: true }).waitFor();
      }
    }));
});
