/** Messages and answers that clients send to a waiting thread at the same time: none may be lost. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import { type AgentFunction, combine, fromFunctions, type JsonObject, type Service } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { until } from "../../support/until.ts";

/** The number of concurrent repetitions for each agent. */
const RACES = Number(process.env["GREENROOM_RACES"] ?? 30);

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

/** Both interrupt on request, and keep all other messages. */
const graph = new StateGraph(Log)
  .addNode("ask", ({ log }) => ({ log: log.at(-1) === "ask" ? [JSON.stringify(interrupt("ok?"))] : [] }))
  .addEdge(START, "ask")
  .compile();

const plain: AgentFunction = ({ state, input, command, interrupt: pause }) => {
  const log = (state["log"] ?? []) as readonly string[];
  if (command?.resume !== undefined) return { log: [...log, JSON.stringify(command.resume)] };
  return JSON.stringify(input).includes("ask") ? pause("ok?") : { all: [state["all"] ?? [], log] };
};

/** Sends messages and an answer to a thread that waits. The result names those that are lost, or kept twice. */
async function race(service: Service, assistant_id: string, messages: number, turn: number): Promise<string[]> {
  const thread_id = crypto.randomUUID();
  const send = (id: number, method: string, params: JsonObject) =>
    service.threads.command(thread_id, { id, method, params });
  const waitUntilSettled = (): Promise<void> =>
    until(async () => (await service.threads.get(thread_id)).status !== "busy", "the thread is at rest");
  await send(0, "run.start", { assistant_id, input: { log: ["ask"] } });
  await waitUntilSettled();
  const interrupt_id = String((await service.threads.state(thread_id)).interrupts[0]?.id);
  const texts = [...Array.from({ length: messages }, (_, n) => `message ${n}`), "answer"];
  const sends = texts.map((text) => async () => {
    const { type } =
      text === "answer"
        ? await send(1, "input.respond", { interrupt_id, response: text })
        : await send(1, "run.start", { assistant_id, input: { log: [text] } });
    return type === "error";
  });
  const order = sends.map((_, n) => (n + turn) % sends.length);
  const refused = new Set<string>();
  await Promise.all(
    order.map(async (n) => {
      if (await sends[n]?.()) refused.add(texts[n] as string);
    }),
  );
  await waitUntilSettled();
  const runs = await service.runs.list(thread_id, { limit: 100 });
  const failed = runs.filter(({ status }) => status === "error").map(({ kwargs }) => JSON.stringify(kwargs));
  const history = await service.threads.history(thread_id, { limit: 100 });
  const all = JSON.stringify(history.map(({ values }) => values));
  return texts.flatMap((text) => {
    const isRefused = refused.has(text) || failed.some((request) => request.includes(text));
    const isKept = all.includes(text);
    return isKept === isRefused ? [`${text}: ${isKept ? "refused and kept" : "lost"} ${all}`] : [];
  });
}

describe("run.start and input.respond at once", () => {
  for (const assistant_id of ["graph", "plain"]) {
    it(`keep every message, or reject it: ${assistant_id}, ${RACES} times`, async () => {
      const executor = combine(langgraph({ graph }), fromFunctions({ plain }));
      await using kit = await testService({ executor });
      const lost: string[] = [];
      for (let n = 0; n < RACES; n++) lost.push(...(await race(kit.service, assistant_id, 1 + (n % 3), n)));
      assert.deepEqual(lost, []);
    });
  }
});
