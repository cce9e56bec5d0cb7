/** Durable functions: steps, sleeps, asks and waits, and what replays do with them. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AgentFunction } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

keepAlive();

describe("step", () => {
  it("returns its result and stores it once", async () => {
    let calls = 0;
    await using kit = await testService({
      agents: {
        async *agent({ step }) {
          const first = await step("one", () => ++calls);
          const two = await step(["two", 2], async ({ attempt }) => ({ attempt, one: first }));
          yield { messages: [`${first} ${JSON.stringify(two)}`] };
        },
      },
    });
    const thread = await kit.service.threads.create();
    const { result } = await kit.service.runs.wait(thread.thread_id, {
      assistant_id: "agent",
      input: { messages: "Hi" },
    });
    const values = (await result) as { messages: { content: string }[] };
    assert.equal(values.messages.at(-1)?.content, '1 {"attempt":1,"one":1}');
    assert.equal(calls, 1);
  });

  it("continues after an ask in the run that resumes", async () => {
    const calls: string[] = [];
    await using kit = await testService({
      agents: {
        async *agent({ step, ask, messages }) {
          yield "Looking… ";
          const match = await step("find", () => {
            calls.push("find");
            return messages.length;
          });
          const ok = await ask("approve", { question: `Pay ${match}?` }, { schema: { type: "boolean" } });
          if (!ok) return "Not paid.";
          await step("pay", () => void calls.push("pay"));
          yield "Paid.";
        },
      },
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const first = await runs.wait(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
    const interruptedValues = (await first.result) as { __interrupt__: { id: string; value: unknown }[] };
    assert.deepEqual(
      interruptedValues.__interrupt__.map(({ value }) => value),
      [{ question: "Pay 1?" }],
    );
    assert.equal((await threads.get(thread_id)).status, "interrupted");
    const second = await runs.wait(thread_id, { assistant_id: "agent", command: { resume: true } });
    const values = (await second.result) as { messages: { content: string }[] };
    assert.deepEqual(
      values.messages.map(({ content }) => content),
      ["Hi", "Looking… ", "Paid."],
    );
    assert.deepEqual(calls, ["find", "pay"]);
  });
});

/** Runs a function to its end, on a thread of its own. */
async function ran(
  agent: AgentFunction,
  input: object = {},
): Promise<{ readonly values: never; readonly log: string[] }> {
  await using kit = await testService({ agents: { agent } });
  const { thread_id } = await kit.service.threads.create();
  const { result } = await kit.service.runs.wait(thread_id, { assistant_id: "agent", input: input as never });
  return { values: (await result) as never, log: kit.log.map(({ message }) => message) };
}

const readError = async (agent: AgentFunction): Promise<string> =>
  (((await ran(agent)).values as { __error__?: { error: string; message: string } }).__error__ ?? { message: "none" })
    .message;

describe("stream mode `tasks` of a durable function", () => {
  it("emits the start and the result of each step", async () => {
    await using kit = await testService({
      agents: {
        async *agent({ step }) {
          await step("one", () => 1);
          await step("two", () => {
            throw new Error("no two");
          }).catch(() => {});
          yield "done";
        },
      },
    });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const events = threads.events(thread_id, { channels: ["tasks", "lifecycle"] });
    await runs.create(thread_id, { assistant_id: "agent", input: { messages: "Hi" } });
    const observed: unknown[] = [];
    for await (const { method, params } of events) {
      const data = params.data as { name?: string; input?: unknown; result?: unknown; error?: unknown; event?: string };
      if (method === "tasks" && data.name !== "agent")
        observed.push([data.name, "input" in data ? "starts" : (data.error ?? data.result)]);
      if (method === "lifecycle" && params.namespace.length === 0 && data.event === "completed") break;
    }
    assert.deepEqual(observed, [
      ["one", "starts"],
      ["one", 1],
      ["two", "starts"],
      ["two", "no two"],
    ]);
  });
});

describe("invalid steps", () => {
  it("are refused with their name and the problem", async () => {
    const cases: readonly [RegExp, AgentFunction][] = [
      [/name of a step must be a text of 1 to 200/, ({ step }) => step("", () => 1)],
      [/name of a step/, ({ step }) => step("a".repeat(201), () => 1)],
      [/name of a step/, ({ step }) => step("a\u0000", () => 1)],
      [/name of a step/, ({ step }) => step(["ok", Number.NaN], () => 1)],
      [/Not JSON: result of one\.big is the bigint 1/, ({ step }) => step("one", () => ({ big: 1n }))],
      [/inner: a step inside the step outer/, ({ step }) => step("outer", async () => step("inner", () => 1))],
      [
        /inner: a sleep inside the step outer/,
        ({ step, sleep }) =>
          step("outer", async () => {
            await new Promise((resolve) => setTimeout(resolve, 1));
            await sleep("inner", 1);
          }),
      ],
      [/soon: the time must be milliseconds or a duration/, ({ sleep }) => sleep("soon", String("2 fortnights"))],
      [/late: the date is invalid/, ({ sleep }) => sleep("late", new Date("never"))],
      [/slow: took longer than 5 ms/, ({ step }) => step("slow", () => new Promise(() => {}), { timeout: 5 })],
      [/fails: no/, ({ step }) => step("fails", () => Promise.reject(new Error("no")))],
    ];
    for (const [expected, agent] of cases) assert.match(await readError(agent), expected);
  });

  it("throw a StepError with their name, which the function can catch", async () => {
    const { values } = await ran(async function* ({ step }) {
      try {
        await step("fails", () => {
          throw new TypeError("no");
        });
      } catch (error) {
        const { name, step: failed, cause } = error as { name: string; step: string; cause: Error };
        yield { seen: [name, failed, cause.name] };
      }
    });
    assert.deepEqual(values, { seen: ["StepError", "fails", "TypeError"] });
  });

  it("are refused after the call has ended, and interrupts in stateless runs", async () => {
    let again: (() => Promise<unknown>) | undefined;
    await ran(async ({ step }) => {
      again = () => step("late", () => 1);
      await step("first", () => 1);
      return {};
    });
    await assert.rejects(async () => await again?.(), /late: the (?:call has ended|run was stopped)/);
    await using kit = await testService({ agents: { agent: ({ ask }) => ask("ok", "?") } });
    const { result } = await kit.service.runs.wait(null, { assistant_id: "agent", input: {} });
    assert.match(JSON.stringify(await result), /ok: a stateless run cannot ask/);
  });

  it("fail at the limits of the journal with an error that names the limit", async () => {
    const limited = async (steps: object, agent: AgentFunction): Promise<string> => {
      await using kit = await testService({ agents: { agent }, steps: steps as never });
      const { thread_id } = await kit.service.threads.create();
      const { result } = await kit.service.runs.wait(thread_id, { assistant_id: "agent", input: {} });
      return JSON.stringify(await result);
    };
    const many: AgentFunction = async ({ step }) => {
      for (let i = 0; i < 5; i++) await step("many", () => i);
    };
    assert.match(await limited({ entries: 3 }, many), /many: .* at most 3; see steps\.entries/);
    const large: AgentFunction = ({ step }) => step("large", () => "x".repeat(2_000));
    assert.match(await limited({ result_bytes: 1_000 }, large), /large: .*see steps\.result_bytes/);
    assert.match(await limited({ journal_bytes: 1_000 }, large), /large: .*see steps\.journal_bytes/);
  });
});

describe("a step", () => {
  it("is retried with the same idempotency key and the next attempt number", async () => {
    const tries: unknown[] = [];
    const { values } = await ran(async function* ({ step }) {
      const value = await step(
        "flaky",
        ({ key, attempt }) => {
          tries.push([key, attempt]);
          if (attempt < 3) throw new Error("not yet");
          return attempt;
        },
        { retries: 3, backoff: 1 },
      );
      yield { value };
    });
    assert.deepEqual(values, { value: 3 });
    const [[key] = []] = tries as [string, number][];
    assert.match(String(key), /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.deepEqual(
      tries,
      [1, 2, 3].map((attempt) => [key, attempt]),
    );
  });

  it("streams tokens, and its message enters the state with its result", async () => {
    await using kit = await testService({
      agents: {
        async *agent({ step }) {
          yield "Before. ";
          const text = await step("say", () => ({
            textStream: (async function* () {
              yield "Hello ";
              yield "you";
            })(),
          }));
          yield { text };
        },
      },
    });
    const { thread_id } = await kit.service.threads.create();
    const { frames } = await kit.service.runs.stream(thread_id, {
      assistant_id: "agent",
      input: {},
      stream_mode: ["messages-tuple", "values", "tasks"],
    });
    const frameValues: unknown[] = [];
    for (let list = await frames.next(); list.length > 0; list = await frames.next()) {
      for (const { event, data } of list) {
        const parsed = JSON.parse(data) as never;
        if (event === "messages") frameValues.push((parsed as [{ content: string }])[0].content);
        if (event === "tasks") {
          const { name, result } = parsed as { name: string; result?: unknown };
          if (name === "say") frameValues.push(result === undefined ? "starts" : ["ends", result]);
        }
      }
    }
    assert.deepEqual(frameValues, ["Before. ", "starts", "Hello ", "you", ["ends", "Hello you"]]);
    const { values } = await kit.service.threads.state(thread_id);
    const { messages, text } = values as { messages: { content: string }[]; text: string };
    assert.deepEqual([messages.map(({ content }) => content), text], [["Before. ", "Hello you"], "Hello you"]);
  });

  it("is awaited at the end of the function if the function does not await it", async () => {
    let done = false;
    const { values } = await ran(({ step }) => {
      void step("late", async () => {
        await new Promise((resolve) => setTimeout(resolve, 30));
        done = true;
      });
      return { returned: true };
    });
    assert.deepEqual([values, done], [{ returned: true }, true]);
  });
});
