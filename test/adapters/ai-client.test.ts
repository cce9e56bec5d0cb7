/** Chats that outlive the process: `kill -9`, and a restart after SIGTERM as in a deploy. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { resumingFetch } from "../../adapters/ai-client.ts";
import { type AnyChat, openChat, plain } from "../compat/ai/chat.ts";
import { createTemporaryFolder, type Program, start, waitForUrl } from "../support/programs.ts";
import { until } from "../support/until.ts";

const serve = (file: string, port = "0"): Program => start("test/compat/ai/serve.ts", [file, port], { cwd: "." });
const toText = (chat: AnyChat): string => JSON.stringify(chat.messages);

/** Requests to `http://localhost` go to the server. */
const fetchAt = (url: () => string) => (input: string | URL | Request, init?: RequestInit) =>
  fetch(String(input).replace("http://localhost", url()), init);

describe("a chat of the AI SDK after kill -9", () => {
  it("breaks on the page, and the page follows the run to its end in the next process", async () => {
    using folder = createTemporaryFolder();
    const file = join(folder.path, "chat.db");
    await using first = serve(file);
    let url = await waitForUrl(first);
    const options = { id: "c", agent: "slow", fetch: fetchAt(() => url) };
    const chat = openChat(options);
    const pendingSend = chat.sendMessage({ text: "Hi" });
    await until(() => toText(chat).includes("Begun"));
    await first.kill("SIGKILL");
    await pendingSend;
    assert.equal(chat.status, "error");

    await using second = serve(file);
    url = await waitForUrl(second);
    await chat.resumeStream();
    assert.equal(chat.error, undefined);
    assert.match(toText(chat), /"text":"Begun. Ended."/);
    const stored = (await (await fetch(`${url}/ai/slow/chat/c`)).json()) as Pick<AnyChat, "messages">;
    assert.deepEqual(stored.messages, plain(chat.messages));
    const again = openChat({ ...options, messages: plain(chat.messages.slice(0, 1)) });
    await again.resumeStream();
    assert.deepEqual(plain(again.messages), plain(chat.messages));
  });

  it("keeps the steps of a graph that the killed process stored", async () => {
    using folder = createTemporaryFolder();
    const file = join(folder.path, "chat.db");
    await using first = serve(file);
    let url = await waitForUrl(first);
    const chat = openChat({ id: "c", agent: "steps", fetch: fetchAt(() => url) });
    const pendingSend = chat.sendMessage({ text: "Hi" });
    await until(() => toText(chat).includes("You said two"));
    await first.kill("SIGKILL");
    await pendingSend;

    await using second = serve(file);
    url = await waitForUrl(second);
    await chat.resumeStream();
    const texts = (chat.messages.at(-1)?.parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : []));
    assert.deepEqual(texts, ["One.", "You said two"]);
    const stored = (await (await fetch(`${url}/ai/steps/chat/c`)).json()) as Pick<AnyChat, "messages">;
    assert.deepEqual(stored.messages, plain(chat.messages));
  });

  it("accepts the approval that the killed process requested", async () => {
    using folder = createTemporaryFolder();
    const file = join(folder.path, "chat.db");
    await using first = serve(file);
    let url = await waitForUrl(first);
    const chat = openChat({ id: "c", agent: "clerk", fetch: fetchAt(() => url) });
    await chat.sendMessage({ text: "refund" });
    const [, id = ""] = /"approval":\{"id":"([^"]+)"/.exec(toText(chat)) ?? [];
    await first.kill("SIGKILL");

    await using second = serve(file);
    url = await waitForUrl(second);
    const storedChat = (await (await fetch(`${url}/ai/clerk/chat/c`)).json()) as Pick<AnyChat, "messages">;
    assert.deepEqual(storedChat.messages, plain(chat.messages));
    await chat.addToolApprovalResponse({ id, approved: true });
    await chat.sendMessage();
    assert.equal(chat.error, undefined);
    assert.match(toText(chat), /refunded 30/);
    const stored = (await (await fetch(`${url}/ai/clerk/chat/c`)).json()) as Pick<AnyChat, "messages">;
    assert.deepEqual(stored.messages, plain(chat.messages));
  });
});

describe("a chat of the AI SDK whose server restarts after SIGTERM", () => {
  for (const version of [7, 6, 5] as const) {
    it(`continues its stream by itself with resumingFetch (${version})`, async () => {
      using folder = createTemporaryFolder();
      const file = join(folder.path, "chat.db");
      await using first = serve(file);
      const url = await waitForUrl(first);
      const options = { id: "c", agent: "slow", fetch: resumingFetch(fetchAt(() => url)) };
      const chat = openChat(options, version);
      const pendingSend = chat.sendMessage({ text: "Hi" });
      await until(() => toText(chat).includes("Begun"));
      await first.kill("SIGTERM");
      await using second = serve(file, new URL(url).port);
      await waitForUrl(second);
      await pendingSend;
      assert.deepEqual([chat.status, chat.error], ["ready", undefined]);
      const texts = (chat.messages.at(-1)?.parts ?? []).flatMap((part) => (part.type === "text" ? [part.text] : []));
      // Only version 7 can remove the text of a lost attempt.
      assert.deepEqual(texts, version === 7 ? ["Begun. Ended."] : ["Begun. ", "Begun. Ended."]);
    });
  }
});
