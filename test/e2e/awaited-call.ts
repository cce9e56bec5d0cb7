// Awaits a call in process. Only timers of the service are left meanwhile: nothing else keeps the runtime alive.
import process from "node:process";
import { Client } from "@langchain/langgraph-sdk";
import { createApp } from "greenroom/app";

const app = await createApp({
  database: ":memory:",
  agents: {
    asker: async ({ ask }) => ({ said: await ask("question", "Go on?") }),
    sleeper: async ({ sleep }) => {
      await sleep("nap", 200);
      return "Slept.";
    },
    // Its only timer keeps no process alive, as those of some libraries.
    stuck: ({ signal }) =>
      new Promise<string>((resolve) => {
        const timer: unknown = setTimeout(() => resolve("Late."), 400);
        if (typeof timer === "object") (timer as { unref(): void }).unref();
        signal.addEventListener("abort", () => resolve("Stopped."));
      }),
  },
});
const { runs, threads } = app.service;
const { thread_id } = await threads.create();
const delayed = { assistant_id: "sleeper", input: {}, after_seconds: 0.3 };

async function events(frames: AsyncIterable<{ readonly event: string }>): Promise<string> {
  const names: string[] = [];
  for await (const { event } of frames) names.push(event);
  return names.at(-1) ?? "";
}

const ways: Record<string, () => Promise<unknown>> = {
  ask: async () => await (await runs.wait(thread_id, { assistant_id: "asker", input: {} })).result,
  sleep: async () => await (await runs.wait(thread_id, { assistant_id: "sleeper", input: {} })).result,
  delayed: async () => await (await runs.wait(thread_id, delayed)).result,
  join: async () => await (await runs.join(thread_id, (await runs.create(thread_id, delayed)).run_id)).result,
  stream: async () => await events((await runs.stream(thread_id, delayed)).frames),
  joinStream: async () =>
    await events((await runs.joinStream(thread_id, (await runs.create(thread_id, delayed)).run_id)).frames),
  async thread() {
    const frames = await threads.stream(thread_id);
    await runs.create(thread_id, delayed);
    for await (const { event } of frames) if (event === "run_done") return event;
    return undefined;
  },
  async events() {
    const reader = threads.events(thread_id, { channels: ["lifecycle"] });
    await runs.create(thread_id, delayed);
    for await (const { method, params } of reader) {
      if (method === "lifecycle" && (params as { data?: { event?: string } }).data?.event === "completed")
        return "completed";
    }
    return undefined;
  },
  async client() {
    const overFetch = (url: string | URL | Request, init?: RequestInit) => app.fetch(new Request(url, init));
    const client = new Client({ apiUrl: "http://localhost", callerOptions: { fetch: overFetch } });
    return await client.runs.wait(thread_id, "sleeper", { input: {}, afterSeconds: 1 });
  },
  async stop() {
    await runs.create(thread_id, { assistant_id: "stuck", input: {} });
    while ((await runs.list(thread_id))[0]?.status === "pending") await new Promise((go) => setTimeout(go, 5));
    await app.stop(5_000);
    return "stopped";
  },
  // Nothing is awaited: the process ends although the service has open runs.
  async idle() {
    await runs.create(thread_id, { assistant_id: "sleeper", input: {}, after_seconds: 3600 });
    const pendingRun = await runs.wait(thread_id, { assistant_id: "sleeper", input: {}, after_seconds: 3600 });
    pendingRun.leave();
    const { frames } = await runs.stream(null, { assistant_id: "sleeper", input: {}, after_seconds: 3600 });
    return typeof frames.next;
  },
};

const way = process.argv[2] as string;
console.log(JSON.stringify({ [way]: await (ways[way] as () => Promise<unknown>)() }));
