/**
 * Counts the cost of a run and of a token: calls of the store, timers, ids and bytes. No figure depends on the machine. Promises and JSON
 * passes are counted and printed where they changed, but do not fail: a library may take some. costs.json has the figures;
 * `GREENROOM_RECORD=1 node --test test/repo/costs.node.test.ts` stores new ones.
 */
import assert from "node:assert/strict";
import { createHook } from "node:async_hooks";
import { readFile, writeFile } from "node:fs/promises";
import { describe, it } from "node:test";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../adapters/sqlite/node.ts";
import type { Executor } from "../../lib/executor/contract.ts";
import { fromFunctions } from "../../lib/mod.ts";
import { type TestService, testClock, testService } from "../suite/kit.ts";

const TABLE = new URL("costs.json", import.meta.url);
const TOKENS = 100;
const TOKEN_MS = 5;

type Figure =
  | "batches"
  | "statements"
  | "reads"
  | "timers"
  | "ticks"
  | "ids"
  | "json_written"
  | "json_read"
  | "promises"
  | "chunks"
  | "bytes"
  | "stored";
type Costs = Record<Figure, number>;

/** Figures that are printed and not asserted. */
const PRINTED: ReadonlySet<string> = new Set<Figure>(["promises", "json_written", "json_read"]);

const zero = (): Costs => ({
  batches: 0,
  statements: 0,
  reads: 0,
  timers: 0,
  ticks: 0,
  ids: 0,
  json_written: 0,
  json_read: 0,
  promises: 0,
  chunks: 0,
  bytes: 0,
  stored: 0,
});

type Pause = () => Promise<void>;

const functions = (pause: Pause): Executor =>
  fromFunctions({
    echo: ({ messages }) => `You said ${messages.at(-1)?.["content"]}`,
    async *tokens() {
      for (let i = 0; i < TOKENS; i++) {
        await pause();
        yield "word ";
      }
    },
  });

class Words extends BaseChatModel {
  readonly #pause: Pause;

  constructor(pause: Pause) {
    super({});
    this.#pause = pause;
  }

  override _llmType(): string {
    return "words";
  }

  override async _generate(): Promise<never> {
    throw new Error("It only streams");
  }

  override async *_streamResponseChunks(
    ...[, , manager]: Parameters<BaseChatModel["_streamResponseChunks"]>
  ): AsyncGenerator<ChatGenerationChunk> {
    for (let i = 0; i < TOKENS; i++) {
      await this.#pause();
      const chunk = new ChatGenerationChunk({ text: "word ", message: new AIMessageChunk("word ") });
      yield chunk;
      await manager?.handleLLMNewToken(chunk.text, undefined, undefined, undefined, undefined, { chunk });
    }
  }
}

type Messages = typeof MessagesAnnotation;

function graphs(pause: Pause): Executor {
  const model = new Words(pause);
  const oneNode = (node: (state: Messages["State"]) => Promise<Messages["Update"]>) =>
    new StateGraph(MessagesAnnotation).addNode("node", node).addEdge("__start__", "node").compile();
  return langgraph({
    echo: oneNode(async ({ messages }) => ({ messages: [new AIMessage(`You said ${messages.at(-1)?.content}`)] })),
    tokens: oneNode(async ({ messages }) => ({ messages: [await model.invoke(messages)] })),
  });
}

/** Creates a service that counts what it uses. Only the agents advance the time, so that nothing happens by itself. */
async function createCountingService(
  agents: (pause: Pause) => Executor,
): Promise<{ readonly kit: TestService; readonly costs: Costs }> {
  const costs = zero();
  const driver = nodeSqliteDriver(":memory:");
  const clock = testClock();
  const kit = await testService({
    storage: sqlStorage({
      ...driver,
      async batch(statements, lock_keys) {
        costs.batches++;
        costs.statements += statements.length;
        for (const { args } of statements) {
          for (const value of args) if (typeof value === "string") costs.stored += value.length;
        }
        return await driver.batch(statements, lock_keys);
      },
      async read(statement) {
        costs.reads++;
        return await driver.read(statement);
      },
    }),
    executor: agents(() => clock.advance(TOKEN_MS)),
    environment: {
      ...clock,
      timer(ms, fn) {
        costs.timers++;
        return clock.timer(ms, fn);
      },
      defer(fn) {
        costs.ticks++;
        setImmediate(fn);
      },
      uuid() {
        costs.ids++;
        return crypto.randomUUID();
      },
    },
  });
  return { kit, costs };
}

/** Counts during one call. The runtime's own modules call JSON by other references. */
async function counted(costs: Costs, call: () => Promise<void>): Promise<Costs> {
  const { parse, stringify } = JSON;
  const hook = createHook({
    init(_id, type) {
      if (type === "PROMISE") costs.promises++;
    },
  });
  Object.assign(costs, zero());
  JSON.parse = (...args: Parameters<typeof parse>) => {
    costs.json_read++;
    return parse(...args);
  };
  JSON.stringify = ((...args: Parameters<typeof stringify>) => {
    costs.json_written++;
    return stringify(...args);
  }) as typeof stringify;
  hook.enable();
  try {
    await call();
    // What follows the answer belongs to the run.
    for (let tick = 0; tick < 4; tick++) await new Promise((resolve) => setImmediate(resolve));
  } finally {
    hook.disable();
    Object.assign(JSON, { parse, stringify });
  }
  return { ...costs };
}

/** One request, and its answer in chunks. The third call counts: it finds everything prepared. */
async function measureCosts(
  path: string,
  graph_id: string,
  modes: readonly string[] = [],
  agents: (pause: Pause) => Executor = functions,
  members: { readonly stream_resumable?: true } = {},
): Promise<Costs> {
  const { kit, costs } = await createCountingService(agents);
  await using _ = kit;
  const message = { type: "human", content: "Hello", id: "b0a3c5a0-0000-4000-8000-000000000001" };
  const body = JSON.stringify({
    assistant_id: graph_id,
    input: { messages: [message] },
    stream_mode: modes,
    ...members,
  });
  const headers = { "content-type": "application/json", "content-length": String(body.length) };
  let last = zero();
  for (let call = 0; call < 3; call++) {
    const { thread_id } = await kit.service.threads.create();
    const url = `http://localhost${path.replace(":thread_id", thread_id)}`;
    last = await counted(costs, async () => {
      const response = await kit.fetch(url, { method: "POST", headers, body });
      assert.equal(response.status, 200);
      for await (const chunk of response.body as ReadableStream<Uint8Array>) {
        costs.chunks++;
        costs.bytes += chunk.length;
      }
    });
  }
  return last;
}

const recorded: Record<string, Costs> = JSON.parse(await readFile(TABLE, "utf8").catch(() => "{}"));
const measuredCosts: Record<string, Partial<Costs>> = {};

async function check(name: string, measured: Promise<Partial<Costs>>): Promise<void> {
  const costs = await measured;
  measuredCosts[name] = costs;
  if (process.env.GREENROOM_RECORD === "1") {
    await writeFile(TABLE, `${JSON.stringify({ ...recorded, ...measuredCosts }, null, 2)}\n`);
    return;
  }
  for (const [figure, cost] of Object.entries(costs)) {
    const recordedFigure = recorded[name]?.[figure as Figure];
    if (!PRINTED.has(figure))
      assert.equal(cost, recordedFigure, `${figure} of ${name}: ${cost}, expected ${recordedFigure}`);
    else if (cost !== recordedFigure) console.log(`${figure} of ${name}: ${cost}, recorded ${recordedFigure}`);
  }
}

describe("costs", () => {
  it("a stateless run", () => check("stateless run", measureCosts("/runs/wait", "echo")));
  it("a run on a thread", () => check("run on a thread", measureCosts("/threads/:thread_id/runs/wait", "echo")));
  it("a stream of 100 tokens", () =>
    check("stream of 100 tokens", measureCosts("/runs/stream", "tokens", ["messages-tuple"])));
  it("a stream of 100 tokens on a thread", () =>
    check(
      "stream of 100 tokens on a thread",
      measureCosts("/threads/:thread_id/runs/stream", "tokens", ["messages-tuple"]),
    ));
  it("a stored stream of 100 tokens on a thread", () =>
    check(
      "stored stream of 100 tokens on a thread",
      measureCosts("/threads/:thread_id/runs/stream", "tokens", ["messages-tuple"], functions, {
        stream_resumable: true,
      }),
    ));
  it("a stateless run of a graph", () => check("graph, stateless run", measureCosts("/runs/wait", "echo", [], graphs)));
  it("a stream of 100 tokens of a graph", () =>
    check("graph, stream of 100 tokens", measureCosts("/runs/stream", "tokens", ["messages-tuple"], graphs)));
});
