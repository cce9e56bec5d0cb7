/** Fills a server with data for each view of the studio. */
import type { Service } from "../../lib/mod.ts";
import { catchWebhooks } from "../suite/webhook-catcher.ts";
import { openStudio, type StudioHost } from "./studio-host.ts";

export interface Seeded {
  readonly waiting: string;
  readonly done: string;
  readonly run: string;
  readonly cron: string;
}

export const humanInput = (content: string): { messages: { role: string; content: string }[] } => ({
  messages: [{ role: "user", content }],
});

/** Creates a waiting thread, a finished thread with a run, a cron and a store item. */
export async function seed({ service }: { readonly service: Service }, options = {}): Promise<Seeded> {
  const { threads, runs, crons, store } = service;
  const { thread_id: waiting } = await threads.create();
  await (await runs.wait(waiting, { assistant_id: "approval", input: humanInput("book a seat") })).result;
  const { thread_id: done } = await threads.create({ metadata: { title: "The done one" } });
  const started = await runs.wait(done, {
    ...{ assistant_id: "chat", input: humanInput("hello"), feedback_keys: ["helpful"] },
    ...options,
  });
  await started.result;
  const { cron_id } = await crons.create(null, {
    assistant_id: "chat",
    schedule: "0 8 * * 1-5",
    input: humanInput("good morning"),
  });
  await store.put(["users", "ada"], "likes", { color: "green" });
  const [run] = await runs.list(done);
  return { waiting, done, run: run?.run_id ?? "", cron: cron_id };
}

export interface SeededStudio extends Seeded, AsyncDisposable {
  readonly host: StudioHost;
  /** A thread that used a subagent. */
  readonly helped: string;
  /** An assistant with two versions. */
  readonly assistant: string;
}

/** Opens a studio with data in each view. */
export async function openSeededStudio(): Promise<SeededStudio> {
  await using opened = new AsyncDisposableStack();
  const catcher = opened.use(await catchWebhooks());
  const host = opened.use(await openStudio({ prefix: "/agents", webhooks: catcher.webhooks }));
  const { threads, runs, assistants } = host.service;
  host.gates.open("weather", ...[1, 2, 3, 4, 5].map((token) => `expert ${token}`));
  const post = async (path: string, body: unknown = {}): Promise<void> => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${host.origin}/agents${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  };
  const createThreadWithRun = async (assistant_id: string, content: string): Promise<string> => {
    const { thread_id } = await threads.create();
    await (await runs.wait(thread_id, { assistant_id, input: humanInput(content), webhook: catcher.url })).result;
    return thread_id;
  };
  await createThreadWithRun("failing", "Invoice 88 is wrong");
  await createThreadWithRun("caller", "What is the weather in Rome?");
  const helped = await createThreadWithRun(
    "manager",
    "Ask somebody who knows Rome: when is it warm, and what is there to see in a day?",
  );
  const seeded = await seed(host, { webhook: catcher.url });
  const { assistant_id } = await assistants.create({
    graph_id: "chat",
    name: "Support",
    metadata: { created_by: "ann" },
  });
  await assistants.update(assistant_id, {
    name: "Support, second line",
    description: "Answers what the first could not",
  });
  for (const [score, comment] of [
    [1, "good"],
    [0, "It did not answer the question"],
  ] as const) {
    await post("/api/v1/feedback", { run_id: seeded.run, key: "helpful", score, comment });
  }
  await post(`/greenroom/crons/${seeded.cron}/run`);
  await catcher.next();
  const all = opened.move();
  return { ...seeded, host, helped, assistant: assistant_id, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

interface SeededPage {
  readonly path: string;
  /** Folded parts that are opened. */
  readonly open?: readonly string[];
}

/** Lists the pages of each view with all its tabs. */
export function listSeededPages(seeded: SeededStudio): Readonly<Record<string, readonly SeededPage[]>> {
  const { waiting, done, helped, run, cron, assistant } = seeded;
  const at = (...paths: readonly string[]): SeededPage[] => paths.map((path) => ({ path }));
  const createPages = (path: string, ...parts: readonly string[]): SeededPage[] =>
    at(...parts.map((part) => path + part));
  return {
    threads: at("threads", "threads/new"),
    chat: [...at(`threads/${done}`, `threads/${waiting}`), { path: `threads/${helped}`, open: [".tool", ".subagent"] }],
    state: createPages(`threads/${done}?tab=state`, "", "&show=changes", "&show=tasks", "&show=metadata"),
    inbox: at("inbox", `inbox/${waiting}`),
    runs: at("runs", `threads/${done}?tab=runs`),
    run: createPages(`runs/${run}`, "", "?show=output", "?show=request", "?show=frames"),
    assistants: [
      ...at("assistants"),
      ...createPages(`assistants/${assistant}`, "", "?tab=versions", "?tab=graph", "?tab=schemas"),
    ],
    crons: at("crons", "crons/new", `crons/${cron}`),
    store: at("store", 'store/likes?of=["users","ada"]'),
    webhooks: at("webhooks", `webhooks/${run}`),
    usage: at("usage"),
    feedback: createPages("feedback", "", "?tab=records", "?tab=links"),
    server: at("server"),
  };
}
