/** Streams of both families of agents. */
import assert from "node:assert/strict";
import { isObject, type JsonObject } from "../../../lib/json.ts";
import {
  ABSENT,
  ALL_MODES,
  assertRefused,
  collect,
  createHumanInput,
  createThread,
  FAMILIES,
  type Frame,
  filterData,
  filterTuples,
  getMessages,
  listEventNames,
  type Message,
  readContents,
  readContentsOrNone,
  type Suite,
} from "./bench.ts";

export function streams({ describe, it, name, bench }: Suite): void {
  for (const { kind, graph, node, wait } of FAMILIES) {
    describe(`${name}: ${kind} streams`, () => {
      it("streams values by default: metadata first, end last, after which the run has ended", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        let created: { run_id: string; thread_id?: string } | undefined;
        const ends: string[] = [];
        const stream = client.runs.stream(id, graph, {
          input: createHumanInput("hi"),
          onRunCreated: (run) => {
            created = run;
          },
        });
        const frames = await collect(stream, async ({ event, data }) => {
          if (event !== "end") return;
          ends.push((await client.runs.get(id, String((data as JsonObject).run_id))).status);
          ends.push((await client.threads.get(id)).status);
        });
        assert.deepEqual(listEventNames(frames), ["metadata", "values", "values", "end"]);
        const [metadata] = filterData(frames, "metadata");
        assert.equal(metadata?.attempt, 1);
        assert.deepEqual(created, { run_id: metadata?.run_id, thread_id: id });
        assert.deepEqual(filterData(frames, "end"), [{ run_id: metadata?.run_id, status: "success" }]);
        assert.deepEqual(ends, ["success", "idle"]);
        const [early, final] = filterData(frames, "values");
        assert.deepEqual(readContents(early), ["hi"]);
        assert.deepEqual(final, (await client.threads.getState(id)).values);
        const ids = frames.map((frame) => Number(frame.id));
        assert.deepEqual(
          ids,
          [...ids].sort((a, b) => a - b),
        );
        assert.equal(new Set(ids).size, ids.length);
      });

      it("streams the tokens of the message that is in the state afterwards", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const frames = await collect(
          client.runs.stream(id, graph, { input: createHumanInput("one two three"), streamMode: "messages-tuple" }),
        );
        assert.deepEqual([...new Set(listEventNames(frames))], ["metadata", "messages", "end"]);
        const chunks = filterTuples(frames);
        const words = chunks.map(([chunk]) => chunk.content).filter((content) => content !== "");
        assert.deepEqual(words, ["You ", "said: ", "one ", "two ", "three"]);
        assert.ok(chunks.every(([chunk]) => chunk.type === "AIMessageChunk"));
        const final = getMessages((await client.threads.getState(id)).values).at(-1);
        assert.equal(final?.content, "You said: one two three");
        assert.deepEqual([...new Set(chunks.map(([chunk]) => chunk.id))], [final?.id]);
        assert.ok(chunks.every(([, about]) => about.langgraph_node === node && about.thread_id === id));
      });

      it("streams mode messages: metadata, the growing message, the complete one", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const frames = await collect(
          client.runs.stream(id, graph, { input: createHumanInput("one"), streamMode: "messages" }),
        );
        assert.deepEqual(
          [...new Set(listEventNames(frames))],
          ["metadata", "messages/metadata", "messages/partial", "messages/complete", "end"],
        );
        const final = getMessages((await client.threads.getState(id)).values).at(-1) as Message;
        assert.deepEqual(Object.keys(filterData(frames, "messages/metadata")[0] ?? {}), [final.id]);
        const partial = frames
          .filter((frame) => frame.event === "messages/partial")
          .map((frame) => frame.data as [Message]);
        assert.deepEqual(
          [...new Set(partial.map(([message]) => message.content))],
          ["You ", "You said: ", "You said: one"],
        );
        assert.ok(partial.every(([message]) => message.id === final.id && message.type === "ai"));
        const complete = frames
          .filter((frame) => frame.event === "messages/complete")
          .map((frame) => frame.data as [Message]);
        assert.deepEqual(
          complete.map(([message]) => [message.id, message.content]),
          [[final.id, final.content]],
        );
      });

      it("streams mode updates: the writes of the node", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const frames = await collect(
          client.runs.stream(id, graph, { input: createHumanInput("one"), streamMode: "updates" }),
        );
        assert.deepEqual(listEventNames(frames), ["metadata", "updates", "end"]);
        const [update] = filterData(frames, "updates");
        assert.deepEqual(Object.keys(update ?? {}), [node]);
        const final = getMessages((await client.threads.getState(id)).values).at(-1);
        assert.deepEqual(getMessages(update?.[node]), [final]);
      });

      it("streams modes tasks, checkpoints and debug in step with the history", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const streamMode = ["tasks", "checkpoints", "debug"] as ["tasks", "checkpoints", "debug"];
        const frames = await collect(client.runs.stream(id, graph, { input: createHumanInput("one"), streamMode }));
        const [start, result, ...otherTasks] = filterData(frames, "tasks");
        assert.equal(otherTasks.length, 0);
        assert.deepEqual([start?.name, result?.name], [node, node]);
        assert.equal(start?.id, result?.id);
        assert.ok(start && "input" in start && "triggers" in start);
        assert.ok(result && "result" in result && !("input" in result));
        const history = (await client.threads.getHistory(id)).reverse();
        const checkpoints = filterData(frames, "checkpoints");
        assert.deepEqual(
          checkpoints.map(({ values, next, metadata }) => [
            readContentsOrNone(values),
            next,
            (metadata as JsonObject).step,
          ]),
          history.map(({ values, next, metadata }) => [readContentsOrNone(values), next, metadata?.step]),
        );
        const debug = filterData(frames, "debug");
        assert.deepEqual(
          debug.map(({ type }) => type),
          ["checkpoint", "checkpoint", "task", "task_result", "checkpoint"],
        );
        assert.ok(
          debug.every(({ step, timestamp, payload }) => typeof step === "number" && !!timestamp && isObject(payload)),
        );
      });

      it("streams mode events: start, tokens and end", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const frames = await collect(
          client.runs.stream(id, graph, { input: createHumanInput("one"), streamMode: "events" }),
        );
        assert.deepEqual([...new Set(listEventNames(frames))], ["metadata", "events", "end"]);
        const events = filterData(frames, "events");
        assert.equal(events[0]?.event, "on_chain_start");
        assert.equal(events.at(-1)?.event, "on_chain_end");
        assert.equal(events[0]?.run_id, events.at(-1)?.run_id);
        const tokens = events.filter(({ event }) => event === "on_chat_model_stream");
        const text = tokens.map(({ data }) => ((data as JsonObject).chunk as Message).content).join("");
        assert.equal(text, "You said: one");
        assert.ok(events.every((event) => isObject(event.metadata) && Array.isArray(event.tags)));
        const root = events[0]?.run_id;
        for (const { run_id, parent_ids } of events) {
          assert.deepEqual((parent_ids as JsonObject[]).slice(0, 1), run_id === root ? [] : [root]);
        }
      });

      it("streams several modes at once, and custom data in order", async () => {
        await using at = await bench();
        const { client, gates } = at;
        gates.open("x");
        const id = await createThread(client);
        const custom = await collect(
          client.runs.stream(id, wait, {
            input: createHumanInput("x"),
            streamMode: ["custom", "updates"] as ["custom", "updates"],
          }),
        );
        assert.deepEqual(listEventNames(custom), ["metadata", "custom", "updates", "end"]);
        assert.deepEqual(filterData(custom, "custom"), [{ at: "x" }]);
        const all = await collect(
          client.runs.stream(id, graph, { input: createHumanInput("y"), streamMode: [...ALL_MODES] }),
        );
        const eventNames = new Set(listEventNames(all));
        for (const mode of [
          "values",
          "updates",
          "messages",
          "messages/partial",
          "events",
          "tasks",
          "checkpoints",
          "debug",
        ]) {
          assert.ok(eventNames.has(mode), mode);
        }
        assert.equal(listEventNames(all)[0], "metadata");
        assert.equal(listEventNames(all).at(-1), "end");
        const [first] = filterTuples(all);
        assert.equal(first?.[0].id, getMessages(filterData(all, "values").at(-1)).at(-1)?.id);
      });

      it("joins a stream while the run executes and after its end", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const run = await client.runs.create(id, wait, {
          input: createHumanInput("gate"),
          streamMode: ["values", "updates", "custom"],
          streamResumable: true,
        });
        await gates.reached("gate");
        assert.equal((await client.threads.get(id)).status, "busy");
        const all = client.runs.joinStream(id, run.run_id, { lastEventId: "-1" });
        const some = client.runs.joinStream(id, run.run_id, { lastEventId: "-1", streamMode: ["values", "updates"] });
        const first = [await all.next(), await some.next()].map(({ value }) => value as Frame);
        assert.deepEqual(listEventNames(first), ["metadata", "metadata"]);
        const remaining = [collect(all), collect(some)] as const;
        gates.open("gate");
        assert.deepEqual(listEventNames(await remaining[0]), ["values", "custom", "updates", "values", "end"]);
        assert.deepEqual(listEventNames(await remaining[1]), ["values", "updates", "values", "end"]);
        const after = await collect(client.runs.joinStream(id, run.run_id));
        assert.equal(after.at(-1)?.event, "end");
        assert.deepEqual(
          filterData(after, "end").map(({ status }) => status),
          ["success"],
        );
        await assertRefused(collect(client.runs.joinStream(id, ABSENT)), 404, /not found/);
      });

      it("resumes a resumable stream after the last frame of a reader", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const run = await client.runs.create(id, wait, {
          input: createHumanInput("gate"),
          streamMode: ["values", "custom"],
          streamResumable: true,
        });
        const eventNames: Frame[] = [];
        for await (const frame of client.runs.joinStream(id, run.run_id, { lastEventId: "-1" })) {
          eventNames.push(frame as Frame);
          if (frame.event === "custom") break;
        }
        assert.deepEqual(listEventNames(eventNames), ["metadata", "values", "custom"]);
        const lastEventId = eventNames[1]?.id as string;
        gates.open("gate");
        const remainingFrames = await collect(client.runs.joinStream(id, run.run_id, { lastEventId }));
        assert.deepEqual(listEventNames(remainingFrames), ["custom", "values", "end"]);
        assert.equal(remainingFrames[0]?.id, eventNames[2]?.id);
      });

      it("continues when its reader disconnects, or stops if requested", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const leave = async (text: string, onDisconnect: "continue" | "cancel"): Promise<string> => {
          const disconnect = new AbortController();
          let run_id = "";
          const input = { input: createHumanInput(text), onDisconnect, signal: disconnect.signal };
          try {
            for await (const { event, data } of client.runs.stream(id, wait, input)) {
              if (event !== "metadata") continue;
              run_id = data.run_id;
              await gates.reached(text);
              disconnect.abort();
            }
          } catch (error) {
            assert.ok(disconnect.signal.aborted, String(error));
          }
          return run_id;
        };
        const cancelled = await leave("stop me", "cancel");
        await client.runs.join(id, cancelled);
        assert.equal((await client.runs.get(id, cancelled)).status, "interrupted");
        const going = await leave("let me", "continue");
        assert.equal((await client.runs.get(id, going)).status, "running");
        gates.open("let me");
        assert.equal(readContents(await client.runs.join(id, going)).at(-1), "waited for let me");
        assert.equal((await client.runs.get(id, going)).status, "success");
      });

      it("ends the streams of a thread that is deleted", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const run = await client.runs.create(id, wait, { input: createHumanInput("never") });
        await gates.reached("never");
        const reader = client.runs.joinStream(id, run.run_id, { lastEventId: "-1" });
        assert.equal((await reader.next()).value?.event, "metadata");
        const remainingFrames = collect(reader);
        await client.threads.delete(id);
        const frames = await remainingFrames;
        assert.deepEqual(listEventNames(frames).slice(-2), ["error", "end"]);
        await assertRefused(client.runs.get(id, run.run_id), 404, /not found/);
        await assertRefused(client.threads.get(id), 404, /not found/);
      });
    });
  }
}
