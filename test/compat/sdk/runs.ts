/** Runs of both families of agents: their results and what they leave. */
import assert from "node:assert/strict";
import type { Client } from "langgraph-sdk-2";
import type { JsonObject } from "../../../lib/json.ts";
import {
  ABSENT,
  assertRefused,
  collect,
  createHumanInput,
  createThread,
  FAMILIES,
  filterData,
  getInterrupts,
  getMessages,
  listEventNames,
  type Message,
  readContents,
  readContentsOrNone,
  readMessagesOrNone,
  type Suite,
  UUID,
} from "./bench.ts";

/** Both SDKs call `onRunCreated` here too; their types do not say so. */
type RunsWaitPayload = Parameters<Client["runs"]["wait"]>[2];

export function runs({ describe, it, name, bench }: Suite): void {
  for (const { kind, graph, node, wait, fail, tell } of FAMILIES) {
    describe(`${name}: ${kind} runs`, () => {
      it("returns the result, which the thread keeps", async () => {
        await using at = await bench();
        const { client } = at;
        const { assistant_id } = await client.assistants.get(graph);
        const id = await createThread(client);
        const values = await client.runs.wait(id, graph, { input: createHumanInput("hi") });
        assert.deepEqual(readContents(values), ["hi", "You said: hi"]);
        assert.deepEqual(
          getMessages(values).map((message) => message.type),
          ["human", "ai"],
        );
        assert.ok(getMessages(values).every((message) => typeof message.id === "string" && message.id !== ""));
        const thread = await client.threads.get(id);
        assert.equal(thread.status, "idle");
        assert.deepEqual(thread.values, values);
        assert.deepEqual(thread.metadata, { graph_id: graph, assistant_id });
        assert.deepEqual((await client.threads.getState(id)).values, values);
        const nextValues = await client.runs.wait(id, assistant_id, { input: createHumanInput("again") });
        assert.deepEqual(getMessages(nextValues).slice(0, 2), getMessages(values));
        assert.deepEqual(readContents(nextValues).slice(2), ["again", "You said: again"]);
      });

      it("stores three checkpoints a run, each of them readable", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        await client.runs.wait(id, graph, { input: createHumanInput("one") });
        await client.runs.wait(id, graph, { input: createHumanInput("two") });
        const history = await client.threads.getHistory(id);
        assert.deepEqual(
          history.map((state) => [
            state.metadata?.source,
            state.metadata?.step,
            state.next,
            readContentsOrNone(state.values),
          ]),
          [
            ["loop", 4, [], ["one", "You said: one", "two", "You said: two"]],
            ["loop", 3, [node], ["one", "You said: one", "two"]],
            ["input", 2, ["__start__"], ["one", "You said: one"]],
            ["loop", 1, [], ["one", "You said: one"]],
            ["loop", 0, [node], ["one"]],
            ["input", -1, ["__start__"], []],
          ],
        );
        const ids = history.map((state) => state.checkpoint.checkpoint_id as string);
        assert.deepEqual(ids, [...ids].sort().reverse(), "checkpoint ids sort by age");
        assert.deepEqual(
          history.map((state) => state.parent_checkpoint?.checkpoint_id ?? null),
          [...ids.slice(1), null],
        );
        assert.ok(history.every((state) => !Number.isNaN(Date.parse(state.created_at ?? ""))));
        const third = history[3];
        assert.ok(third);
        assert.deepEqual(await client.threads.getState(id, ids[3]), third);
        assert.deepEqual(await client.threads.getState(id, third.checkpoint), third);
        const page = await client.threads.getHistory(id, {
          limit: 2,
          before: { configurable: { checkpoint_id: ids[1] } },
        });
        assert.deepEqual(page, history.slice(2, 4));
        assert.equal((await client.threads.getHistory(id, { metadata: { source: "input" } })).length, 2);
      });

      it("creates, joins, lists, reads and deletes a run", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const run = await client.runs.create(id, graph, {
          input: createHumanInput("hi"),
          metadata: { mark: 1 },
          streamMode: ["values", "updates"],
        });
        assert.match(run.run_id, UUID);
        const { assistant_id } = await client.assistants.get(graph);
        assert.deepEqual([run.thread_id, run.assistant_id, run.multitask_strategy], [id, assistant_id, "enqueue"]);
        const { kwargs } = run as unknown as { kwargs: JsonObject };
        assert.deepEqual([kwargs.input, kwargs.stream_mode], [createHumanInput("hi"), ["values", "updates"]]);
        const values = await client.runs.join(id, run.run_id);
        assert.deepEqual(readContents(values), ["hi", "You said: hi"]);
        const read = await client.runs.get(id, run.run_id);
        assert.equal(read.status, "success");
        assert.equal((read.metadata as JsonObject).mark, 1);
        const later = await client.runs.create(id, graph, { input: createHumanInput("more") });
        await client.runs.join(id, later.run_id);
        const listed = await client.runs.list(id);
        assert.deepEqual(
          listed.map((run) => run.run_id),
          [later.run_id, run.run_id],
        );
        assert.deepEqual(await client.runs.list(id, { limit: 1, offset: 1, select: ["run_id", "status"] }), [
          { run_id: run.run_id, status: "success" },
        ]);
        assert.deepEqual(await client.runs.list(id, { status: "pending" }), []);
        await client.runs.delete(id, run.run_id);
        await assertRefused(client.runs.get(id, run.run_id), 404, /not found/);
        await assertRefused(client.runs.join(id, run.run_id), 404, /not found/);
        assert.deepEqual(
          (await client.runs.list(id)).map((run) => run.run_id),
          [later.run_id],
        );
      });

      it("runs without a thread: only the run's own result stays", async () => {
        await using at = await bench();
        const { client, gates } = at;
        assert.deepEqual(readContents(await client.runs.wait(null, graph, { input: createHumanInput("hi") })), [
          "hi",
          "You said: hi",
        ]);
        let created: { run_id: string; thread_id?: string } | undefined;
        const stream = client.runs.stream(null, graph, {
          input: createHumanInput("hi"),
          onRunCreated: (run) => {
            created = run;
          },
        });
        const frames = await collect(stream);
        assert.deepEqual(listEventNames(frames), ["metadata", "values", "values", "end"]);
        const [metadata] = filterData(frames, "metadata");
        assert.equal(created?.run_id, metadata?.run_id);
        await assertRefused(client.threads.get(String(metadata?.thread_id)), 404, /not found/);

        const run = await client.runs.create(null, wait, { input: createHumanInput("later") });
        assert.match(run.thread_id, UUID);
        await gates.reached("later");
        const reader = client.runs.joinStream(null, run.run_id, { lastEventId: "-1" });
        assert.equal((await reader.next()).value?.event, "metadata");
        const joining = collect(reader);
        gates.open("later");
        assert.equal(listEventNames(await joining).at(-1), "end");
        await assertRefused(client.threads.get(run.thread_id), 404, /not found/);
        assert.equal(await client.threads.count(), 0);

        const thread = await collect(
          client.runs.stream(null, graph, { input: createHumanInput("hi"), onCompletion: "keep" } as object),
        );
        const { thread_id } = filterData(thread, "metadata")[0] as { thread_id: string };
        assert.equal((await client.threads.get(thread_id)).status, "idle");
        assert.deepEqual(readContents((await client.threads.getState(thread_id)).values), ["hi", "You said: hi"]);
        await assertRefused(client.runs.wait(null, graph, { command: { resume: 1 } }), 400, /stateless/);
      });

      it("returns the location of the run, for each call that creates one", async () => {
        await using at = await bench();
        const { client, send } = at;
        const id = await createThread(client);
        const createdRuns: { run_id: string; thread_id?: string }[] = [];
        const onRunCreated = (run: { run_id: string; thread_id?: string }): void => void createdRuns.push(run);
        const run = await client.runs.create(id, graph, { input: createHumanInput("a"), onRunCreated });
        await client.runs.wait(id, graph, { input: createHumanInput("b"), onRunCreated } as RunsWaitPayload);
        assert.deepEqual(createdRuns[0], { run_id: run.run_id, thread_id: id });
        const [second] = await client.runs.list(id, { limit: 1 });
        assert.deepEqual(createdRuns[1], { run_id: second?.run_id, thread_id: id });
        const body = JSON.stringify({ assistant_id: graph, input: createHumanInput("c") });
        const response = await send(`/threads/${id}/runs/stream`, { method: "POST", body });
        const location = response.headers.get("content-location");
        await response.text();
        const [third] = await client.runs.list(id, { limit: 1 });
        assert.equal(location, `/threads/${id}/runs/${third?.run_id}`);
        assert.equal(response.headers.get("location"), `${location}/stream`);
      });

      it("merges configuration, context and metadata of assistant, thread and request", async () => {
        await using at = await bench();
        const { client } = at;
        const { assistant_id } = await client.assistants.create({
          graphId: tell,
          config: { configurable: { color: "red", size: 1 } },
          metadata: { from: "assistant", a: 1 },
        });
        const { thread_id: id } = await client.threads.create({ metadata: { from: "thread", t: 1 } });
        let run_id = "";
        const values = (await client.runs.wait(id, assistant_id, {
          input: { x: 1 },
          config: { configurable: { size: 2 } },
          metadata: { from: "request", r: 1 },
          onRunCreated: (run: { run_id: string }) => {
            run_id = run.run_id;
          },
        } as RunsWaitPayload)) as unknown as { told: JsonObject };
        assert.deepEqual([values.told.color, values.told.size], ["red", 2]);
        const run = await client.runs.get(id, run_id);
        const { from, a, t, r } = run.metadata as JsonObject;
        assert.deepEqual([from, a, t, r], ["request", 1, 1, 1]);
        const { metadata } = await client.threads.get(id);
        assert.deepEqual(metadata, { from: "thread", t: 1, graph_id: tell, assistant_id });

        const contextual = await client.assistants.create({ graphId: tell, context: { tone: "plain", lang: "en" } });
        const heard = (await client.runs.wait(null, contextual.assistant_id, {
          input: { x: 1 },
          context: { tone: "formal" },
        })) as unknown as { told: JsonObject };
        assert.deepEqual(heard.told.context, { tone: "formal", lang: "en" });
        await assertRefused(
          client.runs.create(id, tell, { context: { k: 1 }, config: { configurable: { k: 2 } } }),
          400,
          /k has two values/,
        );
      });

      it("runs the active version of the assistant", async () => {
        await using at = await bench();
        const { client } = at;
        const { assistant_id } = await client.assistants.create({ graphId: tell, context: { greeting: "hi" } });
        const greeting = async (): Promise<unknown> => {
          const values = await client.runs.wait(null, assistant_id, { input: { x: 1 } });
          return ((values as unknown as { told: { context: JsonObject } }).told.context as JsonObject).greeting;
        };
        assert.equal(await greeting(), "hi");
        await client.assistants.update(assistant_id, { context: { greeting: "yo" } });
        assert.equal(await greeting(), "yo");
        await client.assistants.setLatest(assistant_id, 1);
        assert.equal(await greeting(), "hi");
      });

      it("stops at breakpoints and continues without input", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const stopped = (await client.runs.wait(id, graph, {
          input: createHumanInput("hi"),
          interruptBefore: [node],
        })) as unknown as JsonObject;
        assert.deepEqual(getInterrupts(stopped), []);
        assert.equal((await client.threads.get(id)).status, "interrupted");
        assert.deepEqual((await client.threads.getState(id)).next, [node]);
        const [run] = await client.runs.list(id);
        assert.equal(run?.status, "success");
        const values = await client.runs.wait(id, graph, { input: null });
        assert.deepEqual(readContents(values), ["hi", "You said: hi"]);
        assert.equal((await client.threads.get(id)).status, "idle");
        const anywhere = await client.runs.wait(id, graph, { input: createHumanInput("more"), interruptBefore: "*" });
        assert.deepEqual(getInterrupts(anywhere), []);
      });

      it("ends a failed run as error, in every way to follow it", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const frames = await collect(client.runs.stream(id, fail, { input: createHumanInput("hi") }));
        assert.deepEqual(listEventNames(frames).slice(-2), ["error", "end"]);
        const [metadata] = filterData(frames, "metadata");
        assert.deepEqual(filterData(frames, "error"), [{ error: "Error", message: "boom happened" }]);
        assert.deepEqual(filterData(frames, "end"), [{ run_id: metadata?.run_id, status: "error" }]);
        assert.equal((await client.runs.get(id, String(metadata?.run_id))).status, "error");
        const failed = (await client.threads.get(id)) as unknown as JsonObject;
        assert.deepEqual([failed.status, failed.error], ["error", { error: "Error", message: "boom happened" }]);
        const error = (await client.threads.getState(id)).tasks.at(-1)?.error;
        assert.match(String(error), /boom happened/);

        await assert.rejects(client.runs.wait(id, fail, { input: createHumanInput("hi") }), {
          message: "Error: boom happened",
        });
        const values = await client.runs.wait(id, fail, { input: createHumanInput("hi"), raiseError: false });
        assert.deepEqual(values, { __error__: { error: "Error", message: "boom happened" } });
        await assert.rejects(client.runs.wait(null, fail, { input: createHumanInput("hi") }), {
          message: "Error: boom happened",
        });
        const run = await client.runs.create(id, fail, { input: createHumanInput("hi") });
        const joined = (await client.runs.join(id, run.run_id)) as unknown as JsonObject;
        assert.deepEqual(joined.__error__, { error: "Error", message: "boom happened" });
        assert.deepEqual(
          readContents(await client.runs.wait(null, graph, { input: createHumanInput("still here") })).length,
          2,
        );
      });

      it("enqueues runs on a busy thread in order, or rejects them", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const make = async (text: string): Promise<string> =>
          (await client.runs.create(id, wait, { input: createHumanInput(text), multitaskStrategy: "enqueue" })).run_id;
        const runs = [await make("a"), await make("b"), await make("c")];
        await gates.reached("a");
        await assertRefused(
          client.runs.create(id, wait, { input: createHumanInput("no"), multitaskStrategy: "reject" }),
          409,
          /already running a task/,
        );
        const statuses = await Promise.all(runs.map(async (run_id) => (await client.runs.get(id, run_id)).status));
        assert.deepEqual(statuses, ["running", "pending", "pending"]);
        assert.deepEqual(
          (await client.runs.list(id, { status: "pending" })).map((run) => run.run_id),
          [runs[2], runs[1]],
        );
        await assertRefused(client.runs.delete(id, runs[0] as string), 409, /running/);
        assert.equal((await client.threads.get(id)).status, "busy");
        gates.open("c", "b", "a");
        const values = await Promise.all(runs.map((run_id) => client.runs.join(id, run_id)));
        // Who joins a run that has ended is given what runs after it have left by then.
        for (const [i, result] of values.entries()) {
          assert.ok([2, 4, 6].slice(i).includes(getMessages(result).length));
        }
        assert.deepEqual(readContents(values[2]), ["a", "waited for a", "b", "waited for b", "c", "waited for c"]);
        assert.equal((await client.threads.get(id)).status, "idle");
        const free = await client.runs.wait(id, graph, { input: createHumanInput("now"), multitaskStrategy: "reject" });
        assert.equal(getMessages(free).length, 8);
      });

      it("forks from a checkpoint: the history shows two branches", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        await client.runs.wait(id, graph, { input: createHumanInput("one") });
        const before = await client.runs.wait(id, graph, { input: createHumanInput("two") });
        const edited = getMessages(before)[2] as Message;
        const history = await client.threads.getHistory(id);
        const editedState = history.findLast((state) =>
          readMessagesOrNone(state.values).some((message) => message.id === edited.id),
        );
        const from = editedState?.parent_checkpoint;
        assert.ok(from?.checkpoint_id);
        const { thread_id: _, ...checkpoint } = from;
        const values = await client.runs.wait(id, graph, { input: createHumanInput("three"), checkpoint });
        assert.deepEqual(readContents(values), ["one", "You said: one", "three", "You said: three"]);
        assert.deepEqual((await client.threads.getState(id)).values, values);
        const all = await client.threads.getHistory(id, { limit: 100 });
        assert.equal(all.length, 9);
        const children = all.filter((state) => state.parent_checkpoint?.checkpoint_id === from.checkpoint_id);
        assert.equal(children.length, 2);
        const newestState = history[0] as (typeof history)[number];
        assert.deepEqual((await client.threads.getState(id, newestState.checkpoint)).values, before);
        const short = await client.runs.wait(id, graph, {
          input: createHumanInput("four"),
          checkpointId: from.checkpoint_id as string,
        });
        assert.deepEqual(readContents(short), ["one", "You said: one", "four", "You said: four"]);
        await assertRefused(
          client.runs.wait(id, graph, { input: createHumanInput("x"), checkpointId: "nothing" }),
          404,
          /checkpoint/,
        );
      });

      it("keeps every state of a long conversation, and of its branches", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const createLongText = (turn: string): string => `${turn} ${"and so on ".repeat(30)}`;
        for (let turn = 1; turn <= 8; turn++)
          await client.runs.wait(id, graph, { input: createHumanInput(createLongText(`turn ${turn}`)) });
        const history = await client.threads.getHistory(id, { limit: 100 });
        assert.equal(history.length, 24);
        const final = getMessages(history[0]?.values);
        assert.equal(final.length, 16);
        history.forEach((state) => {
          const messages = readMessagesOrNone(state.values);
          assert.deepEqual(messages, final.slice(0, messages.length));
        });
        const middle = history.find(
          (state) => readMessagesOrNone(state.values).length === 8 && state.next.length === 0,
        );
        const checkpointId = middle?.checkpoint.checkpoint_id as string;
        await client.runs.wait(id, graph, { input: createHumanInput(createLongText("branch 1")), checkpointId });
        const values = await client.runs.wait(id, graph, { input: createHumanInput(createLongText("branch 2")) });
        assert.equal(getMessages(values).length, 12);
        assert.deepEqual(getMessages(values).slice(0, 8), final.slice(0, 8));
        assert.deepEqual(
          readContents(values).slice(8),
          ["branch 1", "branch 2"].flatMap((turn) => [createLongText(turn), `You said: ${createLongText(turn)}`]),
        );
        assert.deepEqual(getMessages((await client.threads.getState(id, history[0]?.checkpoint)).values), final);
      });

      it("accepts messages in every format", async () => {
        await using at = await bench();
        const { client } = at;
        const written = [
          { role: "system", content: "be kind" },
          { type: "human", content: "a", id: "mine" },
          { role: "assistant", content: "b" },
          { role: "user", content: [{ type: "text", text: "c" }] },
          { type: "human", content: "d" },
        ];
        const values = await client.runs.wait(null, graph, { input: { messages: written } });
        assert.deepEqual(
          getMessages(values).map((message) => message.type),
          ["system", "human", "ai", "human", "human", "ai"],
        );
        assert.equal(getMessages(values)[1]?.id, "mine");
        assert.deepEqual(getMessages(values)[3]?.content as unknown, [{ type: "text", text: "c" }]);
        assert.equal(readContents(values).at(-1), "You said: d");
        assert.equal(new Set(getMessages(values).map((message) => message.id)).size, 6);
      });

      it("runs many runs at once, each with its own answer", async () => {
        await using at = await bench();
        const { client } = at;
        const texts = Array.from({ length: 25 }, (_, n) => `number ${n}`);
        const values = await Promise.all(
          texts.map((text) => client.runs.wait(null, graph, { input: createHumanInput(text) })),
        );
        assert.deepEqual(
          values.map((result) => readContents(result)),
          texts.map((text) => [text, `You said: ${text}`]),
        );
        assert.equal(await client.threads.count(), 0);
      });

      it("stores checkpoints by the durability", async () => {
        await using at = await bench();
        const { client } = at;
        for (const durability of ["sync", "async", "exit"] as const) {
          const id = await createThread(client);
          const values = await client.runs.wait(id, graph, { input: createHumanInput(durability), durability });
          assert.deepEqual(readContents(values), [durability, `You said: ${durability}`]);
          assert.deepEqual((await client.threads.getState(id)).values, values);
          const { length } = await client.threads.getHistory(id);
          if (durability === "exit") assert.equal(length, 1);
          else assert.ok(length > 1);
          const nextValues = await client.runs.wait(id, graph, { input: createHumanInput("more"), durability });
          assert.equal(getMessages(nextValues).length, 4);
          const states = await client.threads.getHistory(id);
          assert.deepEqual(states.at(-length)?.values, values);
          assert.equal(states.length, 2 * length);
        }
      });

      it("creates the thread if requested, and rejects unknown ids", async () => {
        await using at = await bench();
        const { client } = at;
        const id = "7f1c9c6e-3f5b-4f0a-9d59-3a2f5f0c0a02";
        await assertRefused(client.runs.wait(id, graph, { input: createHumanInput("hi") }), 404, /not found/);
        const values = await client.runs.wait(id, graph, {
          input: createHumanInput("hi"),
          ifNotExists: "create",
          metadata: { m: 1 },
        });
        assert.deepEqual(readContents(values), ["hi", "You said: hi"]);
        const { assistant_id } = await client.assistants.get(graph);
        assert.deepEqual((await client.threads.get(id)).metadata, { graph_id: graph, assistant_id, m: 1 });
        await assertRefused(client.runs.create(id, "nobody", { input: {} }), 404, /not found/);
        await assertRefused(client.runs.create(id, ABSENT, { input: {} }), 404, /not found/);
        await assertRefused(client.runs.get(id, ABSENT), 404, /not found/);
        await assertRefused(client.runs.join(id, ABSENT), 404, /not found/);
        await assertRefused(client.runs.list(ABSENT), 404, /not found/);
        await assertRefused(client.runs.get(id, "no-uuid"), 422, /run_id/);
        await assertRefused(
          collect(client.runs.stream(id, graph, { streamMode: "loud" as "values" })),
          422,
          /stream_mode/,
        );
        await assertRefused(client.runs.list(id, { limit: 0 }), 422, /limit/);
        assert.equal((await client.runs.list(id)).length, 1);
      });
    });
  }
}
