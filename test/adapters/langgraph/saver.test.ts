/** LangGraph's own conformance suite for savers, over a real storage. It needs vitest's `expect`, which Node alone can load. */
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, describe, it } from "node:test";
import { Saver } from "../../../adapters/langgraph/saver.ts";
import { Serde } from "../../../adapters/langgraph/serde.ts";
import { createStoredThreads, type StoredThreads } from "./saver-threads.ts";

const { Bun, Deno } = globalThis as { Bun?: unknown; Deno?: unknown };

if (Bun || Deno) {
  it("passes on Node", () => {
    assert.notEqual(typeof Bun, typeof Deno);
  });
} else {
  await conformance();
}

async function conformance(): Promise<void> {
  const chai = await import("chai");
  const { JestAsymmetricMatchers, JestChaiExpect, JestExtend } = await import("@vitest/expect");
  for (const plugin of [JestExtend, JestChaiExpect, JestAsymmetricMatchers]) chai.use(plugin);
  const expect = Object.assign((value: unknown, message?: string) => chai.expect(value, message), chai.expect);
  Object.assign(globalThis, {
    describe: Object.assign((name: string, body: () => void) => void describe(name, body), { each: each(describe) }),
    it: Object.assign((name: string, body: () => unknown) => void it(name, async () => void (await body())), {
      each: each(it),
    }),
    beforeAll: (body: () => Promise<void>) => before(body),
    afterAll: (body: () => Promise<void>) => after(body),
    beforeEach,
    afterEach,
    expect: Object.assign(expect, { soft: expect }),
  });
  const messages = await import("@langchain/core/messages");
  const suite = await import("@langchain/langgraph-checkpoint-validation");
  const opened = new Map<unknown, StoredThreads>();
  const initializer = {
    checkpointerName: "greenroom",
    async createCheckpointer() {
      const threads = await createStoredThreads();
      const saver = new Saver({ threads, serde: new Serde({ ...messages }) });
      opened.set(saver, threads);
      return saver as never;
    },
    async destroyCheckpointer(saver: unknown) {
      await opened.get(saver)?.close();
      opened.delete(saver);
    },
  };
  suite.specTest(initializer);
  suite.deltaChannelHistoryTests(initializer);
}

/** `each` as vitest has it: `%s` stands for the value, `$description` for its field. */
function each(declare: (name: string, body: () => void | Promise<void>) => unknown) {
  return (cases: readonly unknown[]) =>
    (name: string, body: (parameter: unknown) => void | Promise<void>): void => {
      for (const testCase of cases) {
        const { description = "" } = Object(testCase) as { description?: string };
        declare(name.replace("%s", String(testCase)).replace("$description", description), () => body(testCase));
      }
    };
}
