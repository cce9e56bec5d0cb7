/** Agents that ask, and clients that answer. */
import assert from "node:assert/strict";
import type { JsonObject } from "../../../lib/json.ts";
import { createHumanInput, filterData, filterRootEvents, follow, readContents, type Suite, until } from "./bench.ts";

const ASKING = [
  { kind: "function", graph: "ask", input: { topic: "x" }, question: { question: "ok?" } },
  {
    kind: "LangGraph",
    graph: "approval",
    input: createHumanInput("book"),
    question: { question: "Book seat 7A?", tool: "book" },
  },
  { kind: "nested", graph: "outer", input: {}, question: "inner?" },
] as const;

export function interrupts({ describe, it, subject, bench }: Suite): void {
  describe("interrupts", () => {
    for (const { kind, graph, input, question } of ASKING) {
      it(`a ${kind} agent interrupts, and continues with the resume value`, async () => {
        await using at = await bench();
        const thread = at.stream(graph);
        await thread.run.start({ input });
        await thread.output;
        await until(() => thread.interrupted && thread.interrupts.length > 0);
        const [interrupt, ...otherInterrupts] = thread.interrupts;
        assert.deepEqual([interrupt?.payload, otherInterrupts], [question, []]);
        const { tasks } = await at.client.threads.getState(thread.threadId);
        const stateInterrupts = tasks.flatMap((task) => task.interrupts as { id?: string }[]);
        assert.deepEqual(
          stateInterrupts.map(({ id }) => id),
          [interrupt?.interruptId],
        );
        const again = at.stream(graph, thread.threadId);
        const events = follow(again, ["input", "values"], 2);
        await thread.input.respond({
          namespace: interrupt?.namespace ?? [],
          interrupt_id: interrupt?.interruptId ?? "",
          response: "yes",
        });
        const receivedEvents = await events;
        assert.deepEqual(filterRootEvents(receivedEvents), ["running", "interrupted", "running", "completed"]);
        // Older releases do not know the event.
        const answered = subject.sdk === "1.15.0" ? [{ interrupt_ids: [interrupt?.interruptId] }] : [];
        assert.deepEqual(filterData(receivedEvents, "input.answered"), answered);
        const values = filterData(receivedEvents, "values").at(-1) as JsonObject;
        const state = await at.client.threads.getState(thread.threadId);
        assert.deepEqual(values, state.values);
        if (kind === "function") assert.deepEqual(values, { topic: "x", answer: "yes" });
        if (kind === "nested") assert.deepEqual(values, { second: "yes" });
        if (kind === "LangGraph") assert.equal(readContents(values).at(-1), "Done: seat 7A is booked");
        assert.equal(thread.interrupted, false);
      });
    }

    it("several interrupts are answered in one run", async () => {
      await using at = await bench();
      const thread = at.stream("questions");
      await thread.run.start({ input: {} });
      await thread.output;
      await until(() => thread.interrupts.length === 2);
      const responses = thread.interrupts.map(({ interruptId, namespace, payload }) => ({
        interrupt_id: interruptId,
        namespace,
        response: `${payload} yes`,
      }));
      const events = follow(at.stream("questions", thread.threadId), ["values"], 2);
      await thread.input.respond({ responses } as never);
      const values = filterData(await events, "values").at(-1);
      assert.deepEqual(values, { first: "first? yes", second: "second? yes" });
      assert.equal((await at.client.runs.list(thread.threadId)).length, 2);
    });

    it("a waiting thread takes the input of a run as the resume value", async () => {
      await using at = await bench();
      const thread = at.stream("ask");
      await thread.run.start({ input: { topic: "x" } });
      await thread.output;
      const events = follow(at.stream("ask", thread.threadId), ["values"], 2);
      await thread.run.start({ input: "sure" });
      assert.deepEqual(filterData(await events, "values").at(-1), { topic: "x", answer: "sure" });
    });

    it("of two clients that answer, one is rejected and both receive the end", async () => {
      await using at = await bench();
      const firstThread = at.stream("ask");
      await firstThread.run.start({ input: {} });
      await firstThread.output;
      await until(() => firstThread.interrupts.length === 1);
      const secondThread = at.stream("ask", firstThread.threadId);
      const events = follow(secondThread, ["input"], 2);
      const answer = { namespace: [], interrupt_id: firstThread.interrupts[0]?.interruptId ?? "", response: "yes" };
      const answers = await Promise.allSettled([firstThread.input.respond(answer), secondThread.input.respond(answer)]);
      const refused = answers.filter((each) => each.status === "rejected");
      assert.deepEqual(
        refused.map(({ reason }) => reason.code),
        ["no_such_interrupt"],
      );
      assert.deepEqual(filterRootEvents(await events), ["running", "interrupted", "running", "completed"]);
    });

    it("resume values without a pending interrupt are rejected", async () => {
      await using at = await bench();
      const thread = at.stream("ask");
      const answer = { namespace: [], interrupt_id: "nothing", response: 1 };
      await assert.rejects(thread.input.respond(answer), { code: "no_such_run" });
      await thread.run.start({ input: {} });
      await thread.output;
      await assert.rejects(thread.input.respond(answer), { code: "no_such_interrupt" });
      await assert.rejects(thread.input.respond({ responses: [] } as never), { code: "invalid_argument" });
      if (subject.sdk === "1.15.0") {
        await assert.rejects(thread.respondInput(answer, { strictResume: true }), { code: "no_such_interrupt" });
      }
      assert.equal((await at.client.runs.list(thread.threadId)).length, 1, "nothing was started");
      assert.equal((await at.client.threads.get(thread.threadId)).status, "interrupted");
    });
  });
}
