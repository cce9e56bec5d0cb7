/** A function that calls `interrupt()` and drops its value would continue without the answer. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentFunction, FunctionJob, Json } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

const MESSAGE = "interrupt() was called, but its value was not yielded or returned: write yield job.interrupt(value)";

async function run(
  agent: AgentFunction,
): Promise<{ readonly result: Json; readonly attempts: number; readonly status: string }> {
  let attempts = 0;
  const counted: AgentFunction = (job) => {
    attempts++;
    return agent(job);
  };
  await using kit = await testService({ agents: { agent: counted } });
  const { thread_id } = await kit.service.threads.create();
  const { run, result } = await kit.service.runs.wait(thread_id, { assistant_id: "agent", input: {} });
  const ended = await result;
  return { result: ended, attempts, status: (await kit.service.runs.get(thread_id, run.run_id)).status };
}

const CALLS: Readonly<Record<string, (job: FunctionJob) => unknown>> = {
  step: ({ step }) => step("refund", () => 1),
  sleep: ({ sleep }) => sleep("pause", "1s"),
  wait: ({ wait }) => wait("parcel"),
  ask: ({ ask }) => ask("sure", "?"),
  emit: ({ emit }) => emit({ done: true }),
  spend: ({ spend }) => spend({ tokens_in: 1 }),
  "store.get": ({ store }) => store.get(["a"], "b"),
  "store.put": ({ store }) => store.put(["a"], "b", {}),
  "store.putMany": ({ store }) => store.putMany([]),
  "store.delete": ({ store }) => store.delete(["a"], "b"),
  "store.search": ({ store }) => store.search(["a"]),
  "store.namespaces": ({ store }) => store.namespaces(),
  interrupt: ({ interrupt }) => interrupt("again"),
};

describe("a dropped interrupt", () => {
  keepAlive();

  for (const [name, call] of Object.entries(CALLS)) {
    it(`stops the function at ${name}, and the run is not retried`, async () => {
      let isPast = false;
      const { result, attempts, status } = await run(async (job) => {
        job.interrupt({ q: 1 });
        await call(job);
        isPast = true;
      });
      assert.deepEqual(result, { __error__: { error: "UnusedInterrupt", message: MESSAGE } });
      assert.deepEqual({ isPast, attempts, status }, { isPast: false, attempts: 1, status: "error" });
    });
  }

  it("executes no step after it, even if the function catches the error or does not await the step", async () => {
    let executed = 0;
    const refund = (): number => ++executed;
    const caught = await run(async ({ interrupt, step }) => {
      interrupt({ q: 1 });
      await (async () => await step("refund", refund))().catch(() => {});
      return "Refunded.";
    });
    const unawaited = await run(async function* ({ interrupt, step }) {
      interrupt({ q: 1 });
      void step("refund", refund);
      yield "Refunded.";
    });
    for (const { result } of [caught, unawaited])
      assert.deepEqual(result, { __error__: { error: "UnusedInterrupt", message: MESSAGE } });
    assert.equal(executed, 0);
  });

  const LATER: Readonly<Record<string, AgentFunction>> = {
    "yields a text": async function* ({ interrupt }) {
      interrupt(1);
      yield "text";
      throw new Error("continued");
    },
    "yields an update": async function* ({ interrupt }) {
      interrupt(1);
      yield { n: 1 };
      throw new Error("continued");
    },
    "returns an update": ({ interrupt }) => {
      interrupt(1);
      return { n: 1 };
    },
    "returns nothing": ({ interrupt }) => void interrupt(1),
    "returns a stream": ({ interrupt }) => {
      interrupt(1);
      return (async function* () {
        yield "text";
      })();
    },
    "ends a generator": async function* ({ interrupt }) {
      yield "before";
      interrupt(1);
    },
  };
  for (const [name, agent] of Object.entries(LATER)) {
    it(`fails a function that then ${name}`, async () => {
      assert.deepEqual((await run(agent)).result, { __error__: { error: "UnusedInterrupt", message: MESSAGE } });
    });
  }

  it("is none if the value is yielded or returned, later too", async () => {
    const forms: readonly AgentFunction[] = [
      ({ interrupt }) => interrupt(1),
      async ({ interrupt }) => await Promise.resolve(interrupt(1)),
      async function* ({ interrupt, emit }) {
        emit("before");
        const question = interrupt(1);
        yield question;
      },
      async function* ({ interrupt }) {
        yield "text";
        return interrupt(1);
      },
    ];
    for (const form of forms) {
      const { result, status } = await run(form);
      assert.equal((result as { __interrupt__: { value: Json }[] }).__interrupt__[0]?.value, 1);
      assert.equal(status, "success");
    }
  });

  it("is none once the function that caught the error yields the value", async () => {
    const { result } = await run(async function* ({ interrupt, emit }) {
      const question = interrupt(1);
      try {
        emit("too early");
      } catch {
        yield question;
      }
    });
    assert.ok("__interrupt__" in (result as object));
  });
});
