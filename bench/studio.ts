/**
 * Measures how fast the studio opens and streams, in headless Chromium: `node bench/studio.ts`. Prints milliseconds and counts of long tasks.
 * With `--pictures DIR` it takes the pictures of the documentation instead.
 */
import { mkdirSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { openBrowser } from "../test/browser/browser.ts";
import { openStudio, type StudioHost, StudioVisit } from "../test/browser/studio-host.ts";
import { humanInput } from "../test/browser/studio-seed.ts";

const print = (name: string, value: string): void => console.log(`${name.padEnd(44)} ${value}`);

/** Returns the milliseconds from the request for the page to the frame that shows `selector`. */
async function opened(page: Page, address: string, selector: string): Promise<number> {
  await page.goto(address, { waitUntil: "commit" });
  await page.locator(selector).first().waitFor();
  return await page.evaluate(() => new Promise<number>((done) => requestAnimationFrame(() => done(performance.now()))));
}

async function manyThreads({ service }: StudioHost): Promise<void> {
  for (let at = 0; at < 10_000; at += 100) {
    const names = Array.from({ length: 100 }, (_, index) => `Thread ${at + index}`);
    await Promise.all(names.map((title) => service.threads.create({ metadata: { title, graph_id: "chat" } })));
  }
}

async function longThread({ service }: StudioHost): Promise<string> {
  const { thread_id } = await service.threads.create({ metadata: { title: "Long", graph_id: "chat" } });
  const messages = Array.from({ length: 2000 }, (_, at) => ({
    role: at % 2 ? "assistant" : "user",
    content: `**Message ${at}** with some words of text, as people and models write them.`,
    id: `m${at}`,
  }));
  await service.threads.updateState(thread_id, { values: { messages }, as_node: "model" });
  return thread_id;
}

/** Measures the long tasks while an agent streams 60 words per second for ten seconds. */
async function streamed(visit: StudioVisit): Promise<string> {
  const { page } = visit;
  await visit.newThread("steady");
  await page.evaluate(() => {
    const longTaskDurations: number[] = [];
    Object.assign(globalThis, { longTasks: longTaskDurations });
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) longTaskDurations.push(duration);
    }).observe({ type: "longtask" });
  });
  await visit.say("600");
  await page.getByText("word 590").first().waitFor();
  const tasks = await page.evaluate(() => (globalThis as unknown as { longTasks: number[] }).longTasks);
  return `${tasks.length}${tasks.length > 0 ? `, the longest ${Math.round(Math.max(...tasks))} ms` : ""}`;
}

async function measure(visit: StudioVisit): Promise<void> {
  const { page, host } = visit;
  print("load of the machine at the start", loadavg()[0]?.toFixed(1) ?? "");
  await manyThreads(host);
  const long = await longThread(host);
  const best = async (address: string, selector: string): Promise<string> => {
    const times: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) times.push(await opened(page, address, selector));
    return `${Math.round(Math.min(...times))} to ${Math.round(Math.max(...times))} ms`;
  };
  print("10,000 threads, page to first rows", await best(`${host.studio}threads`, ".list-pane .rows li"));
  print("rows in the page", String(await page.locator(".list-pane .rows li").count()));
  print("2,000 messages, page to messages", await best(`${host.studio}threads/${long}`, ".message"));
  print("messages in the page", String(await page.locator(".message").count()));
  print("60 words per s for 10 s, tasks over 50 ms", await streamed(visit));
  print("load of the machine at the end", loadavg()[0]?.toFixed(1) ?? "");
}

/** Threads as a team would have them. */
async function everyday({ service }: StudioHost): Promise<string> {
  for (const [title, assistant] of [
    ["Weather in Rome", "chat"],
    ["Summary of the week", "chat"],
    ["Invoice 88 is wrong", "failing"],
  ] as const) {
    const { thread_id } = await service.threads.create({ metadata: { title } });
    await (await service.runs.wait(thread_id, { assistant_id: assistant, input: humanInput(title) })).result;
  }
  const { thread_id } = await service.threads.create({ metadata: { title: "Book a seat on the night train" } });
  const input = humanInput("Please book a window seat on the night train to Rome.");
  await (await service.runs.wait(thread_id, { assistant_id: "approval", input })).result;
  return thread_id;
}

async function pictures(visit: StudioVisit, folder: string): Promise<void> {
  const { page, host } = visit;
  mkdirSync(folder, { recursive: true });
  const thread_id = await everyday(host);
  const [run] = await host.service.runs.list(thread_id);
  await page.setViewportSize({ width: 1400, height: 800 });
  const take = async (name: string, path: string, selector: string): Promise<void> => {
    await visit.open(path);
    await page.locator(selector).first().waitFor();
    await visit.atRest();
    await page.screenshot({ path: join(folder, `${name}.png`), animations: "disabled" });
  };
  await take("studio-chat", `threads/${thread_id}`, ".interrupt");
  await take("studio-state", `threads/${thread_id}?tab=state&show=changes`, ".diff");
  await take("studio-run", `runs/${run?.run_id}`, ".span-row");
}

await using browser = await openBrowser();
await using host = await openStudio();
const page = await browser.context.newPage();
await page.emulateMedia({ colorScheme: "light", reducedMotion: "reduce" });
const visit = new StudioVisit(page, host);
const at = process.argv.indexOf("--pictures");
if (at > 0) await pictures(visit, process.argv[at + 1] ?? "docs/images");
else await measure(visit);
await page.close();
