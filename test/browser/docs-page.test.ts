/** The page at `/docs` in Chromium: people find an operation, change its example, send it and see the answer. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import axe from "axe-core";
import type { Locator, Page } from "playwright-core";
import { docsPage } from "../../adapters/docs-page.ts";
import { serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { type TestService, testAccounts, testService } from "../suite/kit.ts";
import { openBrowser } from "./browser.ts";

const { identity, keys } = testAccounts({ keys: { ann: {} } });
const KEY = keys.ann as string;
const agents = {
  async *agent() {
    yield "Hello, ";
    yield "what can I do?";
  },
};

let service: TestService;
/** The statuses with which the server has answered requests for the page. */
const pageStatuses: number[] = [];
let server: Awaited<ReturnType<typeof serve>>;
before(async () => {
  service = await testService({ agents, identity, auth: { mode: "api_key" } });
  const handler = createHandler(service.service, { docs: docsPage });
  const handle = async (...args: Parameters<typeof handler>): Promise<Response> => {
    const response = await handler(...args);
    if (new URL(args[0].url).pathname === "/docs") pageStatuses.push(response.status);
    return response;
  };
  server = await serve(handle, { port: 0 });
});
after(async () => {
  await service?.[Symbol.asyncDispose]();
  await server?.close();
});

interface PageOptions {
  readonly width?: number;
  readonly colorScheme?: "light" | "dark";
}

/** Opens the page for a test, and fails on messages of the console and on requests to other hosts. */
async function visit(
  test: (page: Page) => Promise<void>,
  { width = 1440, colorScheme = "light" }: PageOptions = {},
): Promise<void> {
  await using browser = await openBrowser();
  const page = await browser.context.newPage();
  const problems: string[] = [];
  page.on("pageerror", ({ message }) => problems.push(message));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().includes("status of 401")) problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(server.url)) problems.push(request.url());
  });
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme });
  await page.goto(`${server.url}/docs`);
  await test(page);
  assert.deepEqual(problems, []);
}

const search = (page: Page): Locator => page.getByRole("searchbox", { name: "Search operations" });
const shownOperation = (page: Page): Locator => page.locator("section.operation:visible");

/** Finds an operation by the search field and opens it. */
async function openOperation(page: Page, text: string, title: string): Promise<Locator> {
  await search(page).fill(text);
  await page.locator("#results").getByRole("link", { name: title }).first().click();
  const operation = shownOperation(page);
  await operation.getByRole("heading", { name: title }).waitFor();
  assert.equal(await operation.count(), 1);
  return operation;
}

/** Sends the request of an operation and returns the answer when its status begins so. */
async function send(operation: Locator, button: string, status: string): Promise<string> {
  await operation.getByRole("button", { name: button }).click();
  await operation.locator("[data-role=status]", { hasText: new RegExp(`^${status}`) }).waitFor();
  return (await operation.getByRole("region", { name: "Answer" }).textContent()) ?? "";
}

describe("the page at /docs", () => {
  for (const width of [1440, 390]) {
    for (const colorScheme of ["light", "dark"] as const) {
      it(`finds "create a run", sends it and shows the answer, at ${width} px, ${colorScheme}`, () =>
        visit(
          async (page) => {
            await page.getByLabel("API key", { exact: true }).fill(KEY);
            const thread = await openOperation(page, "create a thread", "Create a thread");
            assert.match(await send(thread, "Send POST", "200"), /"topic": "weather"/);
            const operation = await openOperation(page, "create a run", "Create a run on a thread");
            const answer = JSON.parse(await send(operation, "Send POST", "200")) as Record<string, unknown>;
            assert.match(String(answer.status), /pending|running/);
            const stream = await openOperation(
              page,
              "stateless stream",
              "Create a stateless run and stream its events",
            );
            await stream.getByRole("button", { name: "Send POST" }).click();
            await stream.getByRole("region", { name: "Answer" }).filter({ hasText: "event: end" }).waitFor();
            await page.goto(`${server.url}/docs#delete-threads-thread-id`);
            await page.getByLabel("API key", { exact: true }).fill(KEY);
            await shownOperation(page).getByRole("button", { name: "Send DELETE" }).click();
            await page.getByRole("button", { name: "Delete", exact: true }).click();
            await shownOperation(page).locator("[data-role=status]", { hasText: /^204/ }).waitFor();
            assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
          },
          { width, colorScheme },
        ));

      it(`has no serious finding of axe, at ${width} px, ${colorScheme}`, () =>
        visit(
          async (page) => {
            for (const hash of ["", "#post-threads-thread-id-runs"]) {
              await page.goto(`${server.url}/docs${hash}`);
              await page.evaluate(axe.source);
              const { violations } = await page.evaluate(() => axe.run());
              const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
              assert.deepEqual(
                serious.map(({ id, nodes }) => `${hash} ${id}: ${nodes[0]?.html}`),
                [],
              );
            }
          },
          { width, colorScheme },
        ));
    }
  }

  it("keeps the key in memory: in no address, storage, command or form, and not after a reload", () =>
    visit(async (page) => {
      const urls: string[] = [];
      page.on("request", (request) => urls.push(request.url()));
      const operation = await openOperation(page, "count threads", "Count threads");
      assert.match(await send(operation, "Send POST", "401"), /api_key_missing/);
      await page.getByLabel("API key", { exact: true }).fill(KEY);
      assert.match(await send(operation, "Send POST", "200"), /^\d+$/);
      await operation.getByRole("button", { name: "Copy" }).first().click();
      const command = await page.evaluate(() => navigator.clipboard.readText());
      assert.match(command, /-H "X-API-Key: \$GREENROOM_API_KEY"/);
      const storedTexts = await page.evaluate(() =>
        JSON.stringify([
          { ...localStorage },
          { ...sessionStorage },
          document.cookie,
          location.href,
          document.body.outerHTML,
        ]),
      );
      for (const text of [command, storedTexts, page.url(), ...urls]) assert.ok(!text.includes(KEY));
      await page.reload();
      assert.equal(await page.getByLabel("API key", { exact: true }).inputValue(), "");
    }));

  it("asks before it sends a deletion, and sends nothing when that is cancelled", () =>
    visit(async (page) => {
      const { thread_id } = await service.service.threads.create();
      await page.getByLabel("API key", { exact: true }).fill(KEY);
      const operation = await openOperation(page, "delete a thread", "Delete a thread with its runs and checkpoints");
      await operation.locator("[data-name=thread_id]").fill(thread_id);
      const requestMethods: string[] = [];
      page.on("request", (request) => requestMethods.push(request.method()));
      await operation.getByRole("button", { name: "Send DELETE" }).click();
      await page.getByRole("dialog").getByText(`DELETE /threads/${thread_id}`).waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.getByRole("dialog").waitFor({ state: "hidden" });
      assert.deepEqual(requestMethods, []);
      assert.equal((await service.service.threads.get(thread_id)).thread_id, thread_id);
    }));

  it("shows members and failures beside their operation, also in a page that the browser had stored", () =>
    visit(async (page) => {
      pageStatuses.length = 0;
      await page.goto(`${server.url}/docs#post-threads-thread-id-runs`);
      for (let opened = 1; opened <= 2; opened += 1) {
        const operation = shownOperation(page);
        await operation.locator(".text").getByText("multitask_strategy", { exact: true }).first().waitFor();
        await operation.getByRole("link", { name: "thread_not_found" }).first().waitFor();
        assert.equal(await operation.getByRole("region", { name: "Answer", includeHidden: true }).count(), 1);
        if (opened === 1) await page.reload();
      }
      assert.deepEqual(pageStatuses.slice(-1), [304]);
    }));

  it("writes fields into the command, and sends what it shows", () =>
    visit(async (page) => {
      await page.getByLabel("API key", { exact: true }).fill(KEY);
      const operation = await openOperation(page, "search runs", "Search runs of all threads");
      await operation.locator("[data-name=limit]").fill("3");
      await operation.locator("[data-name=status]").fill("success,error");
      const command = await operation.getByRole("region", { name: "curl" }).textContent();
      assert.match(command ?? "", /\/greenroom\/runs\?status=success&status=error&waiting=false&limit=3'/);
      const answered = page.waitForResponse(/\/greenroom\/runs\?/);
      await send(operation, "Send GET", "200");
      assert.match((await answered).url(), /\?status=success&status=error&waiting=false&limit=3$/);
    }));

  it("is used by the keyboard: / searches, Enter opens the first result", () =>
    visit(async (page) => {
      await page.keyboard.press("/");
      await page.keyboard.type("put item");
      await page.keyboard.press("Enter");
      await shownOperation(page).getByRole("heading", { name: "Write an item" }).waitFor();
      assert.match(page.url(), /#put-store-items$/);
    }));
});
