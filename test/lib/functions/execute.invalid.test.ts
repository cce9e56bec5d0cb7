/** Functions without types whose programs do not compile with types: what each gets at run time, and what is kept. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as v from "valibot";
import { z } from "zod";
import { type Agent, type AgentDefinition, type AgentFunction, agent, type JsonObject } from "../../../lib/mod.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";

/** A function that may do what its types forbid. */
type UntypedFunction = (job: Readonly<Record<string, unknown>>) => unknown;

const untyped = (run: UntypedFunction): AgentFunction => run as unknown as AgentFunction;

/** Runs an agent on a thread, and returns the result and the stored values. */
async function run(
  { service }: TestService,
  request: object = {},
): Promise<{ readonly result: JsonObject; readonly values: unknown }> {
  const { thread_id } = await service.threads.create();
  const input = { messages: "Hi" };
  const { result } = await service.runs.wait(thread_id, { assistant_id: "agent", input, ...request });
  const ended = (await result) as JsonObject;
  const { values } = await service.threads.state(thread_id);
  return { result: ended, values };
}

const openAgent = (definition: AgentDefinition | AgentFunction | Agent): Promise<TestService> =>
  testService({ agents: { agent: definition } });

describe("a function without types", () => {
  keepAlive();

  it("reads undefined for a misspelt member of the context, with and without a schema (W6)", async () => {
    const readTeir = ({ context }: { readonly context: object }): JsonObject => ({
      type: typeof (context as Record<string, unknown>).teir,
    });
    for (const definition of [agent({ context: z.object({ tier: z.string() }) }, readTeir), agent(readTeir)]) {
      await using kit = await openAgent(definition);
      assert.equal((await run(kit, { context: { tier: "pro" } })).result.type, "undefined");
    }
  });

  it("has no internals of the engine in its job, also after a durable operation (W24)", async () => {
    const internals = ["checkpoints", "modes", "events", "from", "durability", "strict_resume", "subgraphs"];
    internals.push("resumed", "interrupt_before", "interrupt_after", "journal", "resume_targets");
    const definition = untyped(async (job) => {
      await (job.step as (name: string, work: () => unknown) => Promise<unknown>)("s", () => 1);
      return { found: internals.filter((name) => name in job), keys: Object.keys(job).sort() };
    });
    await using kit = await openAgent(definition);
    const { found, keys } = (await run(kit)).result;
    assert.deepEqual(found, []);
    assert.deepEqual(
      keys,
      [
        ...["ask", "assistant_id", "attempt", "command", "config", "context", "emit", "graph_id", "input", "interrupt"],
        ...[
          "messages",
          "metadata",
          "run_id",
          "signal",
          "sleep",
          "span",
          "spend",
          "state",
          "stateless",
          "step",
          "store",
        ],
        ...["thread_id", "traceparent", "user", "wait"],
      ].sort(),
    );
  });

  it("reads undefined for the tool calls of a message that has none (W29)", async () => {
    await using kit = await openAgent(
      untyped(({ messages }) => {
        const [message] = messages as { tool_calls?: unknown }[];
        return { type: typeof message?.tool_calls };
      }),
    );
    assert.equal((await run(kit)).result.type, "undefined");
  });

  it("fails its run with a yielded message of an unknown type, and keeps what it yielded before (W28)", async () => {
    const definition: AgentDefinition = {
      agent: untyped(async function* () {
        yield { n: 1 };
        yield { messages: [{ type: "bot", content: "x" }] };
      }),
      max_attempts: 1,
    };
    await using kit = await openAgent(definition);
    const { result, values } = await run(kit);
    assert.deepEqual(result.__error__, { error: "Error", message: 'Unknown message role or type "bot"' });
    const { n, messages } = values as { n: number; messages: { content: string }[] };
    assert.deepEqual([n, messages.map(({ content }) => content)], [1, ["Hi"]]);
  });

  it("gets no message of an unknown type from a client: 422 with a schema, else the run fails (W28)", async () => {
    const input = { messages: [{ type: "bot", content: "x" }] };
    const Message = v.object({ type: v.picklist(["human", "ai"]), content: v.string() });
    const strict = agent({ input: v.object({ messages: v.array(Message) }) }, () =>
      assert.fail("the agent was called"),
    );
    await using kit = await openAgent(strict);
    await assert.rejects(run(kit, { input }), { code: "invalid", message: /body\.input\.messages\.0\.type/ });
    assert.equal((await kit.service.runs.search()).items.length, 0);
    await using open = await openAgent(untyped(() => assert.fail("the agent was called")));
    const { result } = await run(open, { input });
    assert.deepEqual(result.__error__, { error: "Error", message: 'Unknown message role or type "bot"' });
  });

  const RESULTS: readonly (readonly [title: string, result: unknown, text: string])[] = [
    ["W1 a number", 42, "42"],
    ["W2 a list", ["x"], "a list"],
    ["W36 true", true, "true"],
    ["a function", () => "x", "a function"],
    ["a Map", new Map(), "an instance of Map"],
  ];
  for (const [title, value, text] of RESULTS) {
    it(`fails its run with a TypeError if it returns or yields ${title}, and keeps its update`, async () => {
      const message = `The function agent yielded or returned ${text}; use a string (a token), a plain object (a state update) or job.interrupt(value)`;
      const forms: readonly UntypedFunction[] = [
        async function* () {
          yield { n: 1 };
          yield value;
        },
        async function* () {
          yield { n: 1 };
          return value;
        },
      ];
      for (const form of forms) {
        await using kit = await openAgent({ agent: untyped(form), max_attempts: 1 });
        const { result, values } = await run(kit);
        assert.deepEqual(result.__error__, { error: "TypeError", message });
        assert.equal((values as JsonObject).n, 1);
      }
      for (const form of [() => value, async () => value]) {
        await using kit = await openAgent({ agent: untyped(form), max_attempts: 1 });
        assert.deepEqual((await run(kit)).result.__error__, { error: "TypeError", message });
      }
    });
  }
});

describe("agent()", () => {
  it("refuses a misspelt setting with the known one (W33), and what is no schema or function", () => {
    const call = agent as unknown as (...args: unknown[]) => unknown;
    const cases: readonly (readonly [args: unknown[], message: string])[] = [
      [[{ max_atempts: 1 }, () => "x"], 'agent: unknown option "max_atempts"; did you mean max_attempts?'],
      [[{ contxt: z.object({}) }, () => "x"], 'agent: unknown option "contxt"; did you mean context?'],
      [
        [{ state: { n: "number" } }, () => "x"],
        "agent: state must be a Standard Schema, for example of valibot, zod or arktype",
      ],
      [
        [{ resume: "by_ids" }, () => "x"],
        'agent: resume must be a Standard Schema, for example of valibot, zod or arktype, or "by_id"',
      ],
      [[{ max_attempts: 1 }], "agent: the function is missing. Write agent(options, function)"],
      [["agent.ts"], "agent: the function is missing. Write agent(options, function)"],
    ];
    for (const [args, message] of cases) assert.throws(() => call(...args), { name: "TypeError", message });
  });
});
