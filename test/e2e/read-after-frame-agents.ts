/** Agents whose threads are read right after a frame, while one of their runs continues. */
import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { combine, type Executor, fromFunctions, type JsonObject } from "../../lib/mod.ts";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
type State = typeof Log.State;

const readWord = ({ log }: { readonly log: readonly string[] }): string => String(log[0]);
/** Adds `WORD-step` for each step, where `WORD` is the input. The last node interrupts with `WORD-question`. */
const writes = (step: string) => (state: State) => ({ log: [`${readWord(state)}-${step}`] });
const asks = (state: State) => ({ log: [String(interrupt(`${readWord(state)}-question`))] });
const graph = (): StateGraph<typeof Log.spec, State, Partial<State>, string> => new StateGraph(Log) as never;

/** Creates graphs and functions that write, stream and interrupt. A second node of `slow` works until its run stops. */
export const readBackAgents = (): Executor =>
  combine(
    langgraph({
      graph: graph()
        .addNode("one", writes("one"))
        .addNode("two", writes("two"))
        .addNode("ask", asks)
        .addEdge(START, "one")
        .addEdge("one", "two")
        .addEdge("two", "ask")
        .compile(),
      nested: graph()
        .addNode("one", writes("one"))
        .addNode("inner", graph().addNode("ask", asks).addEdge(START, "ask").compile({ checkpointer: true }))
        .addEdge(START, "one")
        .addEdge("one", "inner")
        .compile(),
      slow: graph()
        .addNode("ask", asks)
        .addNode("other", async (_state: State, { signal }: { signal?: AbortSignal }) => {
          await new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
          return {};
        })
        .addEdge(START, "ask")
        .addEdge(START, "other")
        .compile(),
    }),
    fromFunctions({
      async *steps(job) {
        const [word] = job.state.log as [string];
        const log = [word];
        for (const step of ["one", "two"]) {
          log.push(`${word}-${step}`);
          yield { log: [...log] };
          // Some steps continue in the same tick of the event loop, and some do not.
          if (word.length % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
          yield "a token";
        }
        yield job.interrupt(`${word}-question`);
      },
    }),
  );

/** Reads from a frame the texts that the state of the thread must have. */
export function readExpectedTexts({ event, data }: { readonly event: string; readonly data: unknown }): string[] {
  const [name] = event.split("|");
  if (name !== "values" && name !== "updates") return [];
  const texts: string[] = [];
  const collect = (value: unknown): void => {
    if (typeof value === "string") texts.push(value);
    else if (typeof value === "object" && value !== null) for (const inner of Object.values(value)) collect(inner);
  };
  const { __interrupt__: interrupts, ...members } = data as JsonObject;
  collect((interrupts as { value: unknown }[] | undefined)?.map(({ value }) => value));
  collect(name === "values" ? members.log : Object.values(members));
  return texts;
}

/** Returns the texts that the state lacks. */
export const findMissingTexts = (expectedTexts: readonly string[], read: unknown): string[] => {
  const text = JSON.stringify(read);
  return expectedTexts.filter((expectedText) => !text.includes(JSON.stringify(expectedText)));
};
