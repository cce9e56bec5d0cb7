/** A page that calls agents with `greenroom/client`. It shows the results as JSON. */

import type { App } from "../../adapters/app.ts";
import { client, RunFailed } from "../../adapters/client.ts";

const greenroom = client<App>({ apiUrl: new URL("/agents", location.href).href });

/** Returns the members of an error that tests compare. */
const describeError = (error: unknown): object =>
  error instanceof RunFailed
    ? { name: error.name, status: error.outcome.status }
    : { status: (error as { status?: number }).status };

async function callAgents(): Promise<object> {
  const { messages } = await greenroom.agent("echo").run({ messages: "Hi" });
  const modes: string[] = [];
  const frames = greenroom.agent("echo").stream({ messages: "Hi" }, { stream_mode: ["messages-tuple", "values"] });
  for await (const { mode } of frames) modes.push(mode);
  const started = await greenroom.agent("review").start({});
  const outcome = await started.outcome();
  const { interrupts } = await greenroom.agent("review").state(started.thread_id);
  const answered = await greenroom.agent("review").resume(started.thread_id, "yes");
  return {
    text: messages?.at(-1)?.content,
    modes,
    streamed: (await frames.outcome).status,
    waits: [outcome.status, interrupts[0]?.value],
    answer: answered.values?.["answer"],
    failure: await greenroom.agent("fails").run({}).catch(describeError),
    refusal: await greenroom.agent("refnd").run({}).catch(describeError),
  };
}

const root = document.getElementById("root");
if (root) root.textContent = JSON.stringify(await callAgents());
