/** The commands of the thread event protocol, on a real service; its events are in memory. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { FunctionJob, JsonObject, Service } from "../../../lib/mod.ts";
import {
  type CommandCaller,
  type CommandResponse,
  createProtocol,
  type InternalProtocol,
} from "../../../lib/protocol/mod.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { testService } from "../../suite/kit.ts";
import { until } from "../../support/until.ts";
import { event, MemoryEvents } from "./protocol.harness.ts";

let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

interface World {
  readonly service: Service;
  readonly protocol: InternalProtocol;
  readonly events: MemoryEvents;
  readonly jobs: FunctionJob[];
  /** Gates that runs wait for after a resume value. */
  readonly hold: { until: Promise<void> };
  send(thread_id: string, method: string, params?: JsonObject, caller?: CommandCaller): Promise<CommandResponse>;
  /** Sends `run.start` and waits for the end of the run. */
  run(thread_id: string, params?: JsonObject): Promise<CommandResponse>;
  settled(thread_id: string): Promise<void>;
}

const scope = { deployment: "default" };

async function world(test: (world: World) => Promise<void>): Promise<void> {
  const jobs: FunctionJob[] = [];
  const hold: World["hold"] = { until: Promise.resolve() };
  await using testKit = await testService({
    agents: {
      async ask(job: FunctionJob) {
        jobs.push(job);
        const { resume } = (job.command ?? {}) as { readonly resume?: unknown };
        if (resume !== undefined) await hold.until;
        return resume === undefined ? job.interrupt({ question: "ok?" }) : { answer: resume as string };
      },
      async echo(job: FunctionJob) {
        jobs.push(job);
        await hold.until;
        return { seen: job.state.text ?? null };
      },
    },
  });
  const { service } = testKit;
  const events = new MemoryEvents();
  const protocol = createProtocol({
    ...serviceInternals(service).internalResources,
    events,
    scope,
    environment: { log: () => {} },
  });
  const send: World["send"] = (thread_id, method, params, caller) =>
    protocol.command(scope, thread_id, { id: 7, method, ...(params ? { params } : {}) }, caller);
  const settled = (thread_id: string): Promise<void> =>
    until(async () => (await service.threads.get(thread_id)).status !== "busy", "the thread is at rest");
  await test({
    ...{ service, protocol, events, jobs, hold, send, settled },
    async run(thread_id, params = {}) {
      const answer = await send(thread_id, "run.start", { assistant_id: "ask", input: { text: "hi" }, ...params });
      assert.equal(answer.type, "success", JSON.stringify(answer));
      await settled(thread_id);
      return answer;
    },
  });
}

const newThread = (): string => crypto.randomUUID();
const readError = (answer: CommandResponse): readonly [string, string] => {
  assert.equal(answer.type, "error", JSON.stringify(answer));
  return answer.type === "error" ? [answer.error, answer.message] : ["", ""];
};
const readResult = (answer: CommandResponse): JsonObject => {
  assert.equal(answer.type, "success", JSON.stringify(answer));
  return answer.type === "success" ? answer.result : {};
};

async function interruptId(service: Service, thread_id: string): Promise<string> {
  return (await service.threads.state(thread_id)).interrupts[0]?.id as string;
}

describe("protocol commands", () => {
  it("run.start creates the thread, and returns the last event before the run", async () => {
    await world(async ({ service, events, run, send }) => {
      const thread_id = newThread();
      const first = await run(thread_id.toUpperCase(), { assistant_id: "echo", metadata: { a: 1 } });
      assert.deepEqual(first, {
        type: "success",
        id: 7,
        result: { run_id: (await service.runs.list(thread_id))[0]?.run_id },
        meta: { thread_id, applied_through_seq: 0 },
      });
      const { values } = await service.threads.state(thread_id);
      assert.deepEqual(values, { text: "hi", seen: "hi" });
      events.add(event(41, "values"));
      const second = await send(thread_id, "run.start", { assistant_id: "echo", input: null });
      assert.equal(second.meta?.applied_through_seq, 41);
    });
  });

  it("run.start passes config, context, strategy and breakpoints", async () => {
    await world(async ({ service, jobs, run }) => {
      const thread_id = newThread();
      await run(thread_id, {
        assistant_id: "echo",
        config: { tags: ["t"], recursion_limit: 7, configurable: { thread_id: "ignored", color: "red" } },
        metadata: { who: "ann" },
        interrupt_before: ["x"],
        multitaskStrategy: "interrupt",
        langsmith_tracer: { project_name: "p" },
      });
      const [stored] = await service.runs.list(thread_id);
      assert.equal(stored?.multitask_strategy, "interrupt");
      assert.equal(stored?.metadata.who, "ann");
      assert.equal(jobs[0]?.config.configurable.thread_id, thread_id);
      assert.equal(jobs[0]?.config.configurable.color, "red");
      assert.equal(jobs[0]?.config.recursion_limit, 7);
      assert.deepEqual(stored?.kwargs.interrupt_before, ["x"]);
      await run(thread_id, { assistant_id: "echo", multitaskStrategy: "rollback", multitask_strategy: "enqueue" });
      await run(thread_id, { assistant_id: "echo" });
      const strategies = (await service.runs.list(thread_id)).map((run) => run.multitask_strategy);
      assert.deepEqual(strategies, ["enqueue", "enqueue", "interrupt"]);
    });
  });

  it("run.start names invalid members, and starts nothing", async () => {
    await world(async ({ service, send, run }) => {
      const thread_id = newThread();
      const missing = ["invalid_argument", "run.start requires an assistant_id."];
      assert.deepEqual(readError(await send(thread_id, "run.start")), missing);
      assert.deepEqual(readError(await send(thread_id, "run.start", { assistant_id: 7 })), missing);
      const [unknown] = readError(await send(thread_id, "run.start", { assistant_id: "nobody" }));
      assert.equal(unknown, "invalid_argument");
      await assert.rejects(service.threads.get(thread_id), { code: "not_found" });
      await run(thread_id);
      const config = { configurable: { checkpoint_id: "1f000000-0000-6000-8000-000000000000" } };
      const forked = readError(await send(thread_id, "run.start", { assistant_id: "ask", input: {}, config }));
      assert.equal(forked[0], "no_such_checkpoint");
      assert.equal((await service.runs.list(thread_id)).length, 1);
    });
  });

  it("run.start with input resumes a pending interrupt, unless it forks or has no input", async () => {
    await world(async ({ service, jobs, run }) => {
      const thread_id = newThread();
      await run(thread_id);
      const state = await service.threads.state(thread_id);
      const checkpoint_id = state.checkpoint?.checkpoint_id as string;
      await run(thread_id, { input: { text: "edited" }, config: { configurable: { checkpoint_id } } });
      assert.equal(jobs.at(-1)?.command, null);
      await run(thread_id, { input: null });
      assert.equal(jobs.at(-1)?.command, null);
      await run(thread_id, { input: "yes" });
      assert.equal((jobs.at(-1)?.command as JsonObject | undefined)?.resume, "yes");
      assert.deepEqual(((await service.threads.state(thread_id)).values as JsonObject).answer, "yes");
      await run(thread_id, { input: { text: "new turn" } });
      assert.equal(jobs.at(-1)?.command, null);
    });
  });

  it("run.start gets the refusal of a resume value if another client resumes first", async () => {
    await world(async ({ service, events, jobs, run, send, settled }) => {
      const thread_id = newThread();
      await run(thread_id);
      const interrupt_id = await interruptId(service, thread_id);
      const { lastEventSeq } = events;
      events.lastEventSeq = async () => {
        events.lastEventSeq = lastEventSeq;
        readResult(await send(thread_id, "input.respond", { interrupt_id, response: "first" }));
        await settled(thread_id);
        return 0;
      };
      const late = { assistant_id: "ask", input: { text: "late" } };
      const expectedJobs = jobs.length + 1;
      assert.equal(readError(await send(thread_id, "run.start", late))[0], "no_such_interrupt");
      assert.equal(jobs.length, expectedJobs);
      const { text, answer } = (await service.threads.state(thread_id)).values as JsonObject;
      assert.deepEqual([text, answer], ["hi", "first"]);
    });
  });

  it("run.start gets the refusal of a resume value while the run of another one is active", async () => {
    await world(async ({ service, jobs, hold, run, send, settled }) => {
      const thread_id = newThread();
      await run(thread_id);
      const gate = Promise.withResolvers<void>();
      hold.until = gate.promise;
      const before = (await service.runs.list(thread_id)).length;
      const input = (text: string) => send(thread_id, "run.start", { assistant_id: "ask", input: text });
      const responses = await Promise.all([input("one"), input("two")]);
      gate.resolve();
      await settled(thread_id);
      assert.deepEqual(responses.map(({ type }) => type).sort(), ["error", "success"]);
      const refused = responses.find(({ type }) => type === "error");
      assert.equal(refused && readError(refused)[0], "no_such_interrupt");
      assert.equal((await service.runs.list(thread_id)).length, before + 1);
      assert.equal(jobs.filter(({ command }) => command !== null).length, 1);
    });
  });

  it("run.start accepts a serialized Command", async () => {
    await world(async ({ service, jobs, run }) => {
      const thread_id = newThread();
      await run(thread_id);
      await run(thread_id, { input: { lg_name: "Command", resume: "yes", goto: [] } });
      assert.equal((jobs.at(-1)?.command as JsonObject | undefined)?.resume, "yes");
      assert.deepEqual(((await service.threads.state(thread_id)).values as JsonObject).answer, "yes");
    });
  });

  it("run.start with reject returns the reason while a run is active", async () => {
    await world(async ({ service, send }) => {
      const thread_id = newThread();
      await service.threads.create({ thread_id });
      const [first, second] = await Promise.all(
        [1, 2].map(() =>
          send(thread_id, "run.start", { assistant_id: "echo", input: {}, multitask_strategy: "reject" }),
        ),
      );
      const refused = [first, second].find((answer) => answer?.type === "error");
      if (refused) assert.match(readError(refused)[1], /already running/);
      assert.ok([first, second].some((answer) => answer?.type === "success"));
    });
  });

  it("input.respond resumes with the resume value by id", async () => {
    await world(async ({ service, run, send, settled }) => {
      const thread_id = newThread();
      await run(thread_id);
      const interrupt_id = await interruptId(service, thread_id);
      const answer = await send(thread_id, "input.respond", { namespace: [], interrupt_id, response: "yes" });
      await settled(thread_id);
      const [last] = await service.runs.list(thread_id);
      assert.deepEqual(readResult(answer), { run_id: last?.run_id });
      assert.deepEqual((last?.kwargs.command as JsonObject | undefined)?.resume, { [interrupt_id]: "yes" });
      assert.equal(last?.kwargs.strict_resume, true);
      assert.deepEqual(((await service.threads.state(thread_id)).values as JsonObject).answer, "yes");
    });
  });

  it("input.respond accepts a list with update, goto, config and metadata", async () => {
    await world(async ({ service, run, send, settled }) => {
      const thread_id = newThread();
      await run(thread_id);
      const interrupt_id = await interruptId(service, thread_id);
      const answer = await send(thread_id, "input.respond", {
        responses: [{ namespace: [], interrupt_id, response: { ok: true } }],
        update: { note: "x" },
        config: { tags: ["t"] },
        metadata: { who: "ann" },
        strict_resume: true,
      });
      readResult(answer);
      await settled(thread_id);
      const [last] = await service.runs.list(thread_id);
      assert.deepEqual(last?.kwargs.command, { resume: { [interrupt_id]: { ok: true } }, update: { note: "x" } });
      assert.equal(last?.metadata.who, "ann");
      assert.equal(((await service.threads.state(thread_id)).values as JsonObject).note, "x");
    });
  });

  it("input.respond names invalid members, and starts nothing", async () => {
    await world(async ({ service, run, send }) => {
      const thread_id = newThread();
      const respond = async (params: JsonObject): Promise<readonly [string, string]> =>
        readError(await send(thread_id, "input.respond", params));
      const noId = ["invalid_argument", "input.respond requires an interrupt_id."];
      assert.deepEqual(await respond({}), noId);
      assert.deepEqual(await respond({ responses: [{ response: 1 }] }), noId);
      assert.deepEqual(await respond({ responses: [7] }), noId);
      const none = ["invalid_argument", "input.respond requires at least one response."];
      assert.deepEqual(await respond({ responses: [] }), none);
      assert.equal((await respond({ responses: "x" }))[0], "invalid_argument");
      const twice = { interrupt_id: "i", response: 1 };
      assert.match((await respond({ responses: [twice, twice] }))[1], /more than once/);
      assert.equal((await respond({ interrupt_id: "i", response: 1 }))[0], "no_such_run");
      await service.threads.create({ thread_id });
      assert.equal((await respond({ interrupt_id: "i", response: 1 }))[0], "no_such_run");
      await run(thread_id, { assistant_id: "echo" });
      const idle = ["invalid_argument", "input.respond can only be used while the run is interrupted."];
      assert.deepEqual(await respond({ interrupt_id: "i", response: 1 }), idle);
      await run(thread_id);
      const pending = await interruptId(service, thread_id);
      const unknown = await respond({ interrupt_id: "i9", response: 1 });
      assert.deepEqual(unknown, ["no_such_interrupt", `No pending interrupt i9; pending: ${pending}.`]);
      assert.equal((await service.runs.list(thread_id)).length, 2);
    });
  });

  it("input.respond after a plain resume value gets no_such_interrupt", async () => {
    await world(async ({ service, run, send, settled }) => {
      const thread_id = newThread();
      await run(thread_id);
      const interrupt_id = await interruptId(service, thread_id);
      await service.runs.create(thread_id, { assistant_id: "ask", command: { resume: "first" } });
      await settled(thread_id);
      const answer = await send(thread_id, "input.respond", { interrupt_id, response: "second" });
      assert.equal(readError(answer)[0], "no_such_interrupt");
      assert.equal((await service.runs.list(thread_id)).length, 2);
    });
  });

  it("the second of two responses to one interrupt gets no_such_interrupt and starts nothing", async () => {
    await world(async ({ service, run, send, settled }) => {
      for (const racing of [true, false]) {
        const thread_id = newThread();
        await run(thread_id);
        const interrupt_id = await interruptId(service, thread_id);
        const respond = (response: string): Promise<CommandResponse> =>
          send(thread_id, "input.respond", { interrupt_id, response });
        const answers = racing
          ? await Promise.all([respond("a"), respond("b"), respond("c")])
          : [await respond("a"), await settled(thread_id).then(() => respond("b"))];
        assert.equal(answers.filter(({ type }) => type === "success").length, 1, JSON.stringify(answers));
        for (const answer of answers) {
          if (answer.type === "error") assert.equal(answer.error, "no_such_interrupt", answer.message);
        }
        await settled(thread_id);
        assert.equal((await service.runs.list(thread_id)).length, 2);
      }
    });
  });

  it("input.respond uses the assistant of a copied thread", async () => {
    await world(async ({ service, run, send }) => {
      const thread_id = newThread();
      await run(thread_id);
      const copy = (await service.threads.copy(thread_id)).thread_id;
      const interrupt_id = await interruptId(service, copy);
      readResult(await send(copy, "input.respond", { interrupt_id, response: "yes" }));
    });
  });

  it("agent.getTree returns the tree of the last run or of a given run", async () => {
    await world(async ({ events, send }) => {
      const thread_id = newThread();
      const tree = async (params?: JsonObject): Promise<unknown> =>
        readResult(await send(thread_id, "agent.getTree", params)).tree;
      assert.equal(readError(await send(thread_id, "agent.getTree"))[0], "no_such_run");
      const lifecycle = (seq: number, namespace: string[], name: string, run?: string) =>
        event(
          // The store has no event with the seq 1.
          1 + seq,
          "lifecycle",
          { namespace, data: { event: name, graph_name: namespace.at(-1)?.split(":")[0] ?? "agent" } },
          run && `synth:${run}:${seq}`,
        );
      events.add(
        lifecycle(1, [], "running", "r1"),
        lifecycle(2, ["a:1"], "started"),
        lifecycle(3, ["a:1"], "failed"),
        lifecycle(4, [], "failed", "r1"),
        lifecycle(5, [], "running", "r2"),
        lifecycle(6, ["z:1"], "started"),
        lifecycle(7, ["b:1", "inner:2", "deep:3"], "started"),
        lifecycle(8, ["b:1"], "started"),
        lifecycle(9, ["b:1"], "completed"),
      );
      assert.deepEqual(await tree(), {
        namespace: [],
        status: "running",
        graph_name: "agent",
        children: [
          {
            namespace: ["b:1"],
            status: "completed",
            graph_name: "b",
            children: [{ namespace: ["b:1", "inner:2", "deep:3"], status: "started", graph_name: "deep" }],
          },
          { namespace: ["z:1"], status: "started", graph_name: "z" },
        ],
      });
      assert.deepEqual(await tree({ run_id: "r1" }), {
        namespace: [],
        status: "failed",
        graph_name: "agent",
        children: [{ namespace: ["a:1"], status: "failed", graph_name: "a" }],
      });
      assert.equal(readError(await send(thread_id, "agent.getTree", { run_id: "r3" }))[0], "no_such_run");
      assert.equal(readError(await send(thread_id, "agent.getTree", { run_id: 3 }))[0], "invalid_argument");
    });
  });

  it("state.get returns values and checkpoint", async () => {
    await world(async ({ service, events, run, send }) => {
      const thread_id = newThread();
      assert.equal(readError(await send(thread_id, "state.get", { namespace: [] }))[0], "no_such_run");
      await run(thread_id, { assistant_id: "echo" });
      const { checkpoint } = await service.threads.state(thread_id);
      const expected = { id: checkpoint?.checkpoint_id, ns: "" };
      events.add(event(77, "values"));
      const answer = await send(thread_id, "state.get", { namespace: [] });
      assert.deepEqual(answer.meta, { thread_id, applied_through_seq: 77 });
      const all = readResult(answer);
      assert.deepEqual(all, { values: { text: "hi", seen: "hi" }, checkpoint: expected });
      const some = readResult(await send(thread_id, "state.get", { namespace: [], keys: ["seen", "toString"] }));
      assert.deepEqual(some, { values: { seen: "hi" }, checkpoint: expected });
      const otherError = readError(await send(thread_id, "state.get", { namespace: ["a:1"] }));
      assert.equal(otherError[0], "no_such_namespace");
      assert.equal(readError(await send(thread_id, "state.get", { namespace: "a" }))[0], "invalid_argument");
      assert.equal(readError(await send(thread_id, "state.get", { keys: [1] }))[0], "invalid_argument");
    });
  });

  it("unknown commands, and subscriptions without a socket, are refused", async () => {
    await world(async ({ send }) => {
      const thread_id = newThread();
      assert.deepEqual(await send(thread_id, "state.fork"), {
        type: "error",
        id: 7,
        error: "unknown_command",
        message: "Unknown protocol command: state.fork",
        meta: { thread_id },
      });
      assert.equal(readError(await send(thread_id, "toString"))[0], "unknown_command");
      for (const name of ["subscribe", "unsubscribe", "reconnect"]) {
        assert.equal(readError(await send(thread_id, `subscription.${name}`, {}))[0], "not_supported");
      }
    });
  });

  it("a command on a thread of another user gets not found, and starts nothing", async () => {
    await world(async ({ service, run, send }) => {
      const thread_id = newThread();
      await run(thread_id, { metadata: { owner: "ann" } });
      const scope = { deployment: "default", filter: [{ key: "owner", equals: "bob" }] };
      const bob: CommandCaller = {
        read: async () => scope,
        run: async (_thread_id, request) => ({ scope, request, origin: {} }),
      };
      const started = send(thread_id, "run.start", { assistant_id: "ask", input: {} }, bob);
      await assert.rejects(started, { code: "not_found" });
      const interrupt_id = await interruptId(service, thread_id);
      const answered = await send(thread_id, "input.respond", { interrupt_id, response: 1 }, bob);
      const absent = await send(newThread(), "input.respond", { interrupt_id, response: 1 }, bob);
      assert.deepEqual([readError(answered)[0], readError(absent)[0]], ["no_such_run", "no_such_run"]);
      assert.equal(readError(await send(thread_id, "state.get", {}, bob))[0], "no_such_run");
      assert.equal((await service.runs.list(thread_id)).length, 1);
    });
  });

  it("errors that the command did not cause are thrown", async () => {
    await world(async ({ send }) => {
      const refused: CommandCaller = {
        read: async () => ({ deployment: "default" }),
        run: async () => {
          throw Object.assign(new Error("no"), { code: "forbidden" });
        },
      };
      await assert.rejects(send(newThread(), "run.start", { assistant_id: "ask" }, refused), { code: "forbidden" });
    });
  });
});

describe("events in process", () => {
  it("are objects, until the loop ends", async () => {
    await world(async ({ protocol, events }) => {
      const thread_id = newThread();
      events.add(event(1, "values"), event(2, "lifecycle", { data: { event: "running" } }));
      const log: string[] = [];
      for await (const { method, params, seq } of protocol.events(scope, thread_id, {
        channels: ["lifecycle"],
        since: 1,
      })) {
        log.push(`${seq} ${method} ${JSON.stringify(params.data)}`);
        break;
      }
      assert.deepEqual(log, ['2 lifecycle {"event":"running"}']);
      assert.equal(events.open, 0);
      assert.throws(() => protocol.events(scope, thread_id, { channels: [] }), { code: "invalid" });
      assert.throws(() => protocol.events(scope, thread_id, { channels: ["nonsense"] }), { code: "invalid" });
    });
  });
});
