/** AG-UI runs survive a restart of the process. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "node:test";
import { nodeSqlite } from "../../../../../adapters/sqlite/node.ts";
import type { FunctionJob } from "../../../../../lib/mod.ts";
import { createClient, KINDS, listTypes } from "../../../../compat/ag-ui/client.ts";
import { testService } from "../../../../suite/mod.ts";
import { createTemporaryFolder, type Program, start, waitForUrl } from "../../../../support/programs.ts";
import { until } from "../../../../support/until.ts";

const serve = (file: string): Program => start("test/compat/ai/serve.ts", [file, "0"], { cwd: "." });

for (const kind of KINDS) {
  it(`a killed server breaks the stream of client ${kind}, which gets the answer with the next run`, async () => {
    using folder = createTemporaryFolder();
    const file = join(folder.path, "agui.db");
    await using first = serve(file);
    const threadId = crypto.randomUUID();
    // The client is not used here: it rejects twice when the connection breaks, once uncatchably.
    const body = JSON.stringify({ threadId, runId: "r1", messages: [{ id: "u1", role: "user", content: "Hi" }] });
    const broken = await fetch(`${await waitForUrl(first)}/ag-ui/slow`, { method: "POST", body });
    const reader = (broken.body as ReadableStream<Uint8Array>).getReader();
    let text = "";
    while (!text.includes("Begun")) text += new TextDecoder().decode((await reader.read()).value);
    await first.kill("SIGKILL");
    await assert.rejects(async () => {
      while (!(await reader.read()).done);
    });

    await using second = serve(file);
    const url = await waitForUrl(second);
    // It waits for the run that the next process has claimed.
    const here = {
      fetch: (requestUrl: string, init?: RequestInit) => fetch(requestUrl.replace("http://localhost", url), init),
    };
    const client = createClient(here, "slow", kind, { threadId });
    await client.say("Again");
    assert.deepEqual(
      client.agent.messages.map(({ content }) => content),
      ["Hi", "Begun. Ended.", "Again", "Begun. Ended."],
    );
  });

  it(`a deploy during a stream is an error for client ${kind}, and the run continues`, async () => {
    using folder = createTemporaryFolder();
    const open = (waits: boolean) => {
      async function* agent({ messages, signal }: FunctionJob) {
        yield `Half of ${messages.length}. `;
        if (waits) await new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
        yield "The rest.";
      }
      return testService({ storage: nodeSqlite(join(folder.path, "agui.db")), agents: { agent } });
    };
    const first = await open(true);
    const client = createClient(first, "agent", kind);
    const sending = client.say("Hi");
    await until(() => listTypes(client).includes("TEXT_MESSAGE_CONTENT"));
    await first.service.stop(0);
    await sending;
    assert.equal(client.events.at(-1)?.code, "stopped");

    await using second = await open(false);
    const next = createClient(second, "agent", kind, { threadId: client.agent.threadId });
    next.agent.setMessages(client.agent.messages);
    await next.say("Again");
    assert.deepEqual(
      next.agent.messages.map(({ content }) => content),
      ["Hi", "Half of 1. The rest.", "Again", "Half of 3. The rest."],
    );
  });
}
