/** Reads right after a frame: what was told must be there. One run is read after one of its frames, and goes on meanwhile. */
import { Annotation, interrupt, START, StateGraph } from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { combine, type Executor, fromFunctions, type JsonObject } from "../../lib/mod.ts";

const Log = Annotation.Root({ log: Annotation<string[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });
type State = typeof Log.State;

const readWord = ({ log }: { readonly log: readonly string[] }): string => String(log[0]);
/** One after the other: `WORD` is in the input, each step adds `WORD-step`, and the last one asks `WORD-question`. */
const writes = (step: string) => (state: State) => ({ log: [`${readWord(state)}-${step}`] });
const asks = (state: State) => ({ log: [String(interrupt(`${readWord(state)}-question`))] });
const graph = (): StateGraph<typeof Log.spec, State, Partial<State>, string> => new StateGraph(Log) as never;

/** Graphs and functions that write, show and ask; `slow` is at work on a second node until its run is stopped. */
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
          // Now and then it goes on in the same tick of the event loop, and now and then it does not.
          if (word.length % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
          yield "a token";
        }
        yield job.interrupt(`${word}-question`);
      },
    }),
  );

/** What a frame tells of the thread, as texts that its state holds. */
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

/** Which of the texts are not in what was read. */
export const findMissingTexts = (expectedTexts: readonly string[], read: unknown): string[] => {
  const text = JSON.stringify(read);
  return expectedTexts.filter((expectedText) => !text.includes(JSON.stringify(expectedText)));
};
