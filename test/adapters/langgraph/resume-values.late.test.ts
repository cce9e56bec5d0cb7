import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { testService } from "../../suite/kit.ts";
import { createGates } from "../../support/graphs.ts";

const State = Annotation.Root({ paid: Annotation<string> });

describe("a resume value for a checkpoint whose interrupt was answered", () => {
  for (const isOver of [false, true]) {
    it(`is rejected ${isOver ? "after the run has ended" : "while a later node of the run works"}`, async () => {
      const gates = createGates();
      const payments: string[] = [];
      const graph = new StateGraph(State)
        .addNode("pay", () => {
          payments.push(String(interrupt("Pay?")));
          return { paid: "yes" };
        })
        .addNode("work", () => gates.pass("work").then(() => ({})))
        .addEdge(START, "pay")
        .addEdge("pay", "work")
        .addEdge("work", END)
        .compile();
      await using kit = await testService({ executor: langgraph({ payer: graph }) });
      const { threads, runs } = kit.service;
      const { thread_id } = await threads.create();
      await (await runs.wait(thread_id, { assistant_id: "payer", input: { paid: "no" } })).result;
      const { checkpoint } = await threads.state(thread_id);
      const answer = (resume: string): Promise<Response> =>
        kit.fetch(`http://greenroom/threads/${thread_id}/runs`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ assistant_id: "payer", command: { resume }, checkpoint }),
        });
      const { run_id } = (await (await answer("first")).json()) as { readonly run_id: string };
      await gates.reached("work");
      if (isOver) {
        gates.open("work");
        await (await runs.join(thread_id, run_id)).result;
      }
      const late = await answer("second");
      assert.equal(late.status, 409);
      const { code } = (await late.json()) as { readonly code: string };
      assert.equal(code, isOver ? "no_open_interrupt" : "interrupt_already_answered");
      gates.open("work");
      await (await runs.join(thread_id, run_id)).result;
      assert.deepEqual(payments, ["first"]);
      assert.equal((await threads.get(thread_id)).status, "idle");
    });
  }
});
