import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { studioVisits } from "./studio-host.ts";
import { listSeededPages, openSeededStudio } from "./studio-seed.ts";

const visitStudio = studioVisits();

/** Returns the distances between pages that are tested: all with `--all`, otherwise only that of neighbours. */
const createSteps = (count: number): readonly number[] =>
  process.env.GREENROOM_TEST_ALL === "1" || count < 6 ? Array.from({ length: count - 1 }, (_, at) => at + 1) : [1];

/** Returns a path through pages 0 to `count - 1` that takes each step from each page once and ends at its start. */
function wayThrough(count: number): readonly number[] {
  const unusedSteps = Array.from({ length: count }, (_, from) =>
    createSteps(count).map((step) => (from + step) % count),
  );
  const [way, open]: [number[], number[]] = [[], [0]];
  while (open.length > 0) {
    const next = unusedSteps[open.at(-1) as number]?.pop();
    if (next === undefined) way.push(open.pop() as number);
    else open.push(next);
  }
  return way.reverse();
}

/** Lists the kinds of elements on the page, without the rows of lists, whose marks depend on the page before. */
function kinds(): string {
  const kindNames = new Set<string>();
  for (const element of document.querySelectorAll("main, main *"))
    if (!element.closest(".rows, svg, .uplot"))
      kindNames.add(`${element.tagName} ${element.getAttribute("class") ?? ""}`.trim());
  return [...kindNames].sort().join("\n");
}

describe("the studio's views and tabs", () => {
  it("show the same from every previous page", async () => {
    await using seeded = await openSeededStudio();
    await visitStudio(seeded.host, async (visit) => {
      const { page, refused } = visit;
      const paths = Object.values(listSeededPages(seeded)).flatMap((places) => places.map(({ path }) => path));
      const expected: string[] = [];
      for (const path of paths) {
        await visit.open(path);
        await visit.atRest();
        expected.push(await page.evaluate(kinds));
      }
      assert.equal(new Set(expected).size > paths.length / 2, true);
      const [first = 0, ...way] = wayThrough(paths.length);
      assert.equal(way.length, paths.length * createSteps(paths.length).length);
      await visit.open(paths[first] as string);
      let from = first;
      await page.evaluate(`globalThis.kinds = ${kinds}`);
      for (const to of way) {
        const step = `${paths[from]} → ${paths[to]}`;
        await page.evaluate((href) => {
          history.pushState(null, "", href);
          dispatchEvent(new PopStateEvent("popstate"));
        }, seeded.host.studio + paths[to]);
        await page
          .waitForFunction(
            (expectedKinds) => (globalThis as unknown as { kinds(): string }).kinds() === expectedKinds,
            expected[to] as string,
          )
          .catch(async () => assert.equal(await page.evaluate(kinds), expected[to], step));
        assert.deepEqual([...visit.problems, ...refused], [], step);
        from = to;
      }
    });
  });

  it("of a thread can be reached from each other by clicks", async () => {
    await using seeded = await openSeededStudio();
    await visitStudio(seeded.host, async (visit) => {
      const { page } = visit;
      const tabs = { Chat: ".conversation", State: ".checkpoints", Runs: ".detail-pane .run-table" };
      const names = Object.keys(tabs) as (keyof typeof tabs)[];
      await visit.open(`threads/${seeded.done}`);
      for (const at of wayThrough(names.length)) {
        const name = names[at] as keyof typeof tabs;
        await visit.link(name, page.locator(".tabs")).click();
        await page.locator(tabs[name]).waitFor();
      }
    });
  });
});
