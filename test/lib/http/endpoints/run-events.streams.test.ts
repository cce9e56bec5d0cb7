/** Streams of the agent protocols whose reader stalls or is slow, and streams that are open while the service stops. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";
import { type TestClock, type TestService, testClock, testService } from "../../../suite/mod.ts";

const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};
const rpc = (method: string, params: object): object => ({ jsonrpc: "2.0", id: 1, method, params });

type Sent = readonly [path: string, body: object, headers?: Readonly<Record<string, string>>];

/** A request of each protocol that streams a run of the agent `talks`. */
const PROTOCOLS: Readonly<Record<string, () => Sent>> = {
  "AI SDK": () => [
    "/ai/talks/chat",
    {
      ...{ id: randomUUID(), trigger: "submit-message" },
      messages: [{ id: randomUUID(), role: "user", parts: [{ type: "text", text: "Hi" }] }],
    },
  ],
  "AG-UI": () => [
    "/ag-ui/talks",
    {
      ...{ threadId: randomUUID(), runId: randomUUID(), tools: [], context: [], state: {}, forwardedProps: {} },
      messages: [{ id: randomUUID(), role: "user", content: "Hi" }],
    },
  ],
  A2A: () => [
    "/a2a/talks",
    rpc("SendStreamingMessage", { message: { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text: "Hi" }] } }),
    { "a2a-version": "1.0" },
  ],
  MCP: () => [
    "/mcp",
    rpc("tools/call", { name: "talks", arguments: { message: "Hi" }, _meta: { ...META, progressToken: "p" } }),
    {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "tools/call",
      "mcp-name": "talks",
    },
  ],
};

/** The status of a run after its client disconnects. Clients of the other protocols reconnect. */
const LEFT: Readonly<Record<string, string>> = { "AG-UI": "interrupted", MCP: "interrupted" };
/** The last event when the service stops. The other protocols abort the stream, because their clients take an early end for the answer. */
const STOPPED: Readonly<Record<string, RegExp>> = { "AG-UI": /"code":"stopped"/, MCP: /The server is stopping/ };

const PIECES = 300;
const PIECE = "x".repeat(16 * 1024);

interface World {
  readonly kit: TestService;
  readonly clock: TestClock;
  /** Lets one run stream all of its text. */
  speak(): void;
  /** The number of runs that have started to stream, and of those that have streamed everything. */
  readonly counts: { started: number; ended: number };
  advanceUntil(condition: () => boolean | Promise<boolean>): Promise<void>;
}

async function world(): Promise<World> {
  const clock = testClock();
  const counts = { started: 0, ended: 0 };
  const waiting: (() => void)[] = [];
  const kit = await testService({
    agents: {
      async *talks({ signal }) {
        yield "begin ";
        counts.started++;
        await new Promise<void>((resolve, reject) => {
          waiting.push(resolve);
          signal.addEventListener("abort", () => reject(signal.reason));
        });
        for (let i = 0; i < PIECES; i++) yield PIECE;
        yield " end";
        counts.ended++;
      },
    },
    environment: clock,
  });
  return {
    ...{ kit, clock, counts },
    speak: () => waiting.shift()?.(),
    async advanceUntil(condition) {
      for (let i = 0; !(await condition()); i++) {
        assert.ok(i < 2_000, "it does not happen");
        await clock.advance(10);
      }
    },
  };
}

interface Client {
  /** Reads the next chunk as text. Undefined at the end. */
  next(): Promise<string | undefined>;
  readRemaining(): Promise<string>;
}

async function open({ kit }: World, [path, body, headers = {}]: Sent): Promise<Client> {
  const response = await kit.fetch(`http://localhost${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  const next = async (): Promise<string | undefined> => {
    const { value } = await reader.read();
    return value && decoder.decode(value, { stream: true });
  };
  return {
    next,
    async readRemaining() {
      let text = "";
      for (let chunk = await next(); chunk !== undefined; chunk = await next()) text += chunk;
      return text;
    },
  };
}

async function metric({ kit }: World, name: string): Promise<number> {
  const text = await (await kit.fetch("http://localhost/metrics")).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

/** Checks the text without printing it on failure, because it is large. */
function assertWhole(text: string): void {
  assert.ok(text.includes(" end"), "it has the end");
  assert.ok(text.split(PIECE).length > PIECES, "nothing is left out");
}

const statuses = async ({ kit: { service } }: World): Promise<string[]> =>
  (await service.runs.search({})).items.map(({ status }) => status);

for (const [name, make] of Object.entries(PROTOCOLS)) {
  describe(`a stream of ${name}`, () => {
    it("does not stop its run if the reader stalls, and is complete for a reader that continues", async () => {
      const here = await world();
      await using _ = here.kit;
      const slow = await open(here, make());
      if (name !== "MCP") assert.ok(await slow.next());
      await here.advanceUntil(() => here.counts.started === 1);
      here.speak();
      await here.advanceUntil(() => here.counts.ended === 1);
      // Another client gets its own answer meanwhile.
      const otherClient = await open(here, make());
      const text = otherClient.readRemaining();
      await here.advanceUntil(() => here.counts.started === 2);
      here.speak();
      let isRead = false;
      void text.finally(() => {
        isRead = true;
      });
      await here.advanceUntil(() => isRead);
      assertWhole(await text);
      await here.advanceUntil(async () => (await statuses(here)).every((status) => status === "success"));
      assertWhole(await slow.readRemaining());
    });

    it("is aborted after its reader has stalled for 30 s", async () => {
      const here = await world();
      await using _ = here.kit;
      const client = await open(here, make());
      const first = client.next();
      await here.advanceUntil(() => here.counts.started === 1);
      await here.clock.advance(1_000);
      await first;
      await here.clock.advance(31_000);
      assert.equal(await metric(here, "greenroom_open_streams"), 0);
      await assert.rejects(client.readRemaining());
      here.speak();
      await here.advanceUntil(async () => (await statuses(here))[0] === (LEFT[name] ?? "success"));
    });

    it("has no end of its run when the service stops, and starts no other run", async () => {
      const here = await world();
      await using _ = here.kit;
      const client = await open(here, make());
      const remaining = client.readRemaining();
      await here.advanceUntil(() => here.counts.started === 1);
      let isOver = false;
      const stopped = here.kit.service.stop(2_000).finally(() => {
        isOver = true;
      });
      const [path, body, headers = {}] = make();
      const refused = await here.kit.fetch(`http://localhost${path}`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      });
      const answer = await refused.text();
      assert.equal(refused.status, 503, answer);
      const expectedText = STOPPED[name];
      const ending = expectedText
        ? remaining.then((text) => assert.match(text, expectedText))
        : assert.rejects(remaining);
      await Promise.all([here.advanceUntil(() => isOver), ending]);
      await stopped;
      assert.deepEqual(here.counts, { started: 1, ended: 0 });
    });
  });
}
