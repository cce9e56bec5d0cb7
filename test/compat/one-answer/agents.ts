/** Agents that interrupt twice: once for 10 euros, and then, as soon as the test lets them, for 9,999 euros. */
import { Annotation, END, interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../../adapters/langgraph/mod.ts";
import {
  type AgentDefinition,
  type AgentFunction,
  combine,
  type Executor,
  fromFunctions,
  type Json,
} from "../../../lib/mod.ts";

export const FIRST = "Pay 10 euros?";
export const SECOND = "Pay 9999 euros?";
export const AGENTS = ["graph", "plain", "durable"] as const;

/** The answers that the agents have consumed, by thread, and the gates at which they wait. */
export class Payments {
  readonly #consumed = new Map<string, Set<string>>();
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();

  /** Notes that an agent got an answer. Agents start again from their beginning: the same answer counts once. */
  consume(thread_id: string, question: string, answer: Json): void {
    this.consumed(thread_id, question).add(JSON.stringify(answer));
  }

  consumed(thread_id: string, question: string): Set<string> {
    const key = `${thread_id} ${question}`;
    const answers = this.#consumed.get(key) ?? new Set();
    this.#consumed.set(key, answers);
    return answers;
  }

  /** Agents pass once they have the first answer. */
  gate(thread_id: string): PromiseWithResolvers<void> {
    const gate = this.#gates.get(thread_id) ?? Promise.withResolvers<void>();
    this.#gates.set(thread_id, gate);
    return gate;
  }
}

const State = Annotation.Root({ ...MessagesAnnotation.spec, paid: Annotation<string> });

export function createPayingAgents(payments: Payments): Executor {
  // Both interrupts in one node: before LangGraph 1.5 they have one id.
  const pay = async (_state: unknown, config: { readonly configurable?: Record<string, unknown> }) => {
    const thread_id = String(config.configurable?.thread_id);
    const first = interrupt(FIRST) as Json;
    payments.consume(thread_id, FIRST, first);
    await payments.gate(thread_id).promise;
    const second = interrupt(SECOND) as Json;
    payments.consume(thread_id, SECOND, second);
    return { paid: `${JSON.stringify(first)} ${JSON.stringify(second)}` };
  };
  const graph = new StateGraph(State).addNode("pay", pay).addEdge(START, "pay").addEdge("pay", END).compile();

  // Two nodes at once, of which the first interrupts twice.
  const twice = () => ({ paid: `${interrupt("a 1")} ${interrupt("a 2")}` });
  const beside = new StateGraph(Annotation.Root({ paid: Annotation<string>, other: Annotation<string> }))
    .addNode("a", twice)
    .addNode("b", () => ({ other: String(interrupt("b")) }))
    .addEdge(START, "a")
    .addEdge(START, "b")
    .compile();

  const plain: AgentFunction = async function* ({ command, interrupt, state, thread_id }) {
    const answer = command?.resume;
    if (answer === undefined) yield interrupt(FIRST);
    else if (state.first === undefined) {
      payments.consume(thread_id, FIRST, answer);
      await payments.gate(thread_id).promise;
      yield { first: answer };
      yield interrupt(SECOND);
    } else {
      payments.consume(thread_id, SECOND, answer);
      yield "Paid";
    }
  };

  const durable: AgentFunction = async function* ({ ask, thread_id }) {
    payments.consume(thread_id, FIRST, await ask("small", FIRST));
    await payments.gate(thread_id).promise;
    payments.consume(thread_id, SECOND, await ask("large", SECOND));
    yield "Paid";
  };
  const functions: Record<string, AgentDefinition> = { plain: { agent: plain }, durable: { agent: durable } };
  return combine(langgraph({ graph, beside }), fromFunctions(functions));
}
