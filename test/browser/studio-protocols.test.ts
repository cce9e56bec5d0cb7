import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { openStudio, type StudioHost, studioVisits } from "./studio-host.ts";

const visitStudio = studioVisits();
let host: StudioHost;
before(async () => {
  host = await openStudio();
});
after(() => host?.[Symbol.asyncDispose]());

const A_CHAT = {
  id: "protocols",
  trigger: "submit-message",
  messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "hello" }] }],
};
const A_RUN = {
  ...{ threadId: crypto.randomUUID(), runId: "r1", state: {}, tools: [], context: [], forwardedProps: {} },
  messages: [{ id: "u1", role: "user", content: "hello" }],
};
const rpc = (method: string, params: object): object => ({ jsonrpc: "2.0", id: 1, method, params });
const A_TOOL = rpc("tools/call", { name: "chat", arguments: { message: "hello" } });
const A_MESSAGE = rpc("SendMessage", {
  message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text: "hello" }] },
});

/** A request by each protocol, with the name that the studio has for it. */
const CALLS: readonly (readonly [string, string, object])[] = [
  ["MCP", "mcp", A_TOOL],
  ["AI SDK", "ai/chat/chat", A_CHAT],
  ["AG-UI", "ag-ui/chat", A_RUN],
  ["A2A", "a2a/chat", A_MESSAGE],
];

describe("the studio's runs", () => {
  it("show the protocol of their request", () =>
    visitStudio(host, async (visit) => {
      for (const [name, path, body] of CALLS) {
        const accept = "application/json, text/event-stream";
        const headers = { "content-type": "application/json", accept, "a2a-version": "1.0" };
        const response = await fetch(`${host.origin}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
        const text = await response.text();
        assert.equal(response.status, 200, text);
        await visit.open("runs");
        const row = visit.page.getByRole("link").filter({ has: visit.page.getByTitle(name, { exact: false }) });
        await row.first().click();
        await visit.page.waitForURL(/runs\/[0-9a-f-]{36}/);
        await visit.page.locator("dt:text-is('protocol') + dd", { hasText: name }).waitFor();
      }
    }));
});
