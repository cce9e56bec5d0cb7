import assert from "node:assert/strict";
import process from "node:process";
import { describe, it } from "node:test";
import { openAlbum, takePictures } from "./pictures.ts";
import { openStudio, type StudioVisit, studioVisits } from "./studio-host.ts";
import { listSeededPages, openSeededStudio } from "./studio-seed.ts";

const visitStudio = studioVisits();

async function visit(test: (visit: StudioVisit) => Promise<void>): Promise<void> {
  await using host = await openStudio();
  await visitStudio(host, test);
}

/** The views that are parts of others. The navigation has the rest. */
const PARTS = ["chat", "run", "state"];
/** `npm run test:all` takes the pictures and checks each page in both widths with axe. A commit checks one width. */
const PICTURES = process.env.GREENROOM_TEST_ALL === "1";

describe("all views of the studio", () => {
  for (const [width, dark] of [
    [1280, false],
    [390, true],
  ] as const) {
    it(`are accessible and need no sideways scrolling${PICTURES ? ", and have pictures," : ""} at ${width} px`, async () => {
      await using seeded = await openSeededStudio();
      const album = PICTURES ? openAlbum(width) : null;
      const places = listSeededPages(seeded);
      await visitStudio(
        seeded.host,
        async (visit) => {
          const { page } = visit;
          const problems: string[] = [];
          let count = 0;
          for (const [name, pages] of Object.entries(places)) {
            for (const [index, { path, open = [] }] of pages.entries()) {
              await visit.open(path);
              await visit.atRest();
              for (const part of open)
                await page
                  .locator(part)
                  .first()
                  .evaluate((element) => element.setAttribute("open", ""));
              if (PICTURES || count++ % 2 === Number(dark))
                for (const problem of await visit.accessibility()) problems.push(`${path} ${problem}`);
              // A box that can be scrolled counts too: a reader does not see the cut text.
              const wide = await page.evaluate(() =>
                [document.documentElement, ...document.querySelectorAll("body *")]
                  .filter(
                    (element) =>
                      element.scrollWidth > element.clientWidth &&
                      /auto|scroll/.test(getComputedStyle(element).overflowX),
                  )
                  .map(({ tagName, className }) => `${tagName}.${className}`),
              );
              for (const box of wide) problems.push(`${path} ${box} scrolls sideways`);
              if (!album) continue;
              await visit.atRest();
              for (const problem of await album.take(page, `${name}-${index + 1}`)) problems.push(`${path} ${problem}`);
            }
          }
          assert.deepEqual(problems, []);
          const names = album ? new Set(album.names().map((name) => name.replace(/-\d+$/, ""))) : Object.keys(places);
          const views = await page
            .locator(".navigation a[title]")
            .evaluateAll((links) => links.map((link) => (link as HTMLAnchorElement).pathname.split("/").at(-1) ?? ""));
          assert.deepEqual([...names].sort(), [...views, ...PARTS].sort());
        },
        { width, dark },
      );
    });
  }

  it("are reported if they are blank", () =>
    visit(async (visit) => {
      await visit.open("server");
      await visit.atRest();
      assert.deepEqual(await takePictures(visit.page), []);
      await visit.page.locator(".page .scroll").evaluate((part) => part.remove());
      const problems = await takePictures(visit.page);
      assert.deepEqual(
        problems.map((problem) => problem.slice(0, 8)),
        ["is blank", "is blank"],
      );
    }));

  it("keep the filters of a list on every way back", async () => {
    await using seeded = await openSeededStudio();
    const { assistant_id } = await seeded.host.service.threads.get(seeded.waiting).then(({ metadata }) => metadata);
    const lists: readonly (readonly [view: string, filters: Record<string, string>])[] = [
      ["threads", { text: "one", status: "idle" }],
      ["inbox", { assistant: String(assistant_id) }],
      ["runs", { status: "success" }],
      ["assistants", { text: "support" }],
      ["store", { namespace: '["users"]', filter: "color = green" }],
      ["webhooks", { state: "delivered" }],
    ];
    await visitStudio(
      seeded.host,
      async (visit) => {
        const { page } = visit;
        for (const [view, filters] of lists) {
          const list = `${view}?${new URLSearchParams(filters)}`;
          await visit.open(list);
          for (const goBack of [
            () => visit.link("Back to the list").click(),
            () => page.keyboard.press("Escape"),
            () => page.goBack(),
          ]) {
            await page.locator(".rows li a").first().click();
            await page.locator(".detail-pane h2").waitFor();
            await goBack();
            await page.locator(".list-pane").waitFor();
            assert.equal(page.url(), seeded.host.studio + list);
          }
        }
      },
      { width: 390 },
    );
  });

  it("return to the list when a deletion is undone in another view", async () => {
    await using seeded = await openSeededStudio();
    await visitStudio(seeded.host, async (visit) => {
      const { page } = visit;
      await visit.open("store?namespace=%5B%22users%22%5D");
      await page.locator(".rows a", { hasText: "likes" }).click();
      await visit.button("Delete").click();
      await page.locator("h2", { hasText: "likes" }).waitFor({ state: "detached" });
      await page.keyboard.press("g");
      await page.keyboard.press("r");
      await page.waitForURL((url) => url.pathname.endsWith("/runs"));
      await visit.button("Undo").click();
      await page.locator(".detail-pane h2", { hasText: "likes" }).waitFor();
      assert.equal(new URL(page.url()).pathname, new URL(`${seeded.host.studio}store/likes`).pathname);
    });
  });

  it("edit, send, stop and close by keyboard", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      await visit.newThread("waiting");
      await page.getByLabel("Message", { exact: true }).fill("first");
      await page.keyboard.press("Control+Enter");
      await host.gates.reached("first");
      await visit.status("running");
      await page.keyboard.press("Escape");
      assert.equal(await host.gates.stopped("first"), "cancelled");
      await visit.status("idle");
      await page.locator(".role").first().click();
      await page.keyboard.press("e");
      await page.getByLabel("Edit message").fill("second");
      await page.keyboard.press("Control+Enter");
      await host.gates.reached("second");
      host.gates.open("second");
      await visit.shows("second", "waited for second");
      await page.locator(".role").first().click();
      await page.keyboard.press("Escape");
      await page.waitForURL(/threads$/);
    }));

  it("use the clock of the server", () =>
    visit(async (visit) => {
      const { page, host } = visit;
      await host.service.threads.create({ metadata: { title: "An old one" } });
      let ahead = 3_600_000;
      const isApi = ({ pathname }: URL): boolean => !pathname.startsWith("/studio");
      await page.route(isApi, async (route) => {
        const response = await route.fetch();
        const headers = { ...response.headers(), date: new Date(Date.now() + ahead).toUTCString() };
        await route.fulfill({ response, headers });
      });
      await visit.open("threads");
      await page
        .locator(".rows a", { hasText: "An old one" })
        .getByText(/^(?:59m|1h)$/)
        .waitFor();
      await visit.open("server");
      await page.getByText(/^the server is .* ahead$/).waitFor();
      ahead = -ahead;
      await page.reload();
      await page.getByText(/^the server is .* behind$/).waitFor();
    }));

  it("list their shortcuts, which work", () =>
    visit(async (visit) => {
      const { page } = visit;
      await visit.open("threads");
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
      await page.keyboard.press("Escape");
      await page.keyboard.press("g");
      await page.keyboard.press("s");
      await page.waitForURL(/studio\/store$/);
      await page.getByPlaceholder("Search items").waitFor();
      await page.keyboard.press("/");
      assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("type")), "search");
    }));
});
