/** Graphs with a pause. Each node notes in a file that it ran, as something outside would. */
import { appendFileSync } from "node:fs";
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import type { Json } from "greenroom";
import { sleep, wait } from "greenroom/steps";

const Log = Annotation.Root({ log: Annotation<Json[]>({ reducer: (a, b) => [...a, ...b], default: () => [] }) });

const note = (what: string): void => appendFileSync("notes", `${what}\n`);

const graph = (name: string, pause: () => Promise<Json>) =>
  new StateGraph(Log)
    .addNode("before", () => {
      note(`${name} before`);
      return { log: ["before"] };
    })
    .addNode("pause", async () => {
      const log = [await pause()];
      note(`${name} paused`);
      return { log };
    })
    .addNode("after", () => {
      note(`${name} after`);
      return { log: ["after"] };
    })
    .addEdge(START, "before")
    .addEdge("before", "pause")
    .addEdge("pause", "after")
    .compile();

export const sleeps: unknown = graph("sleeps", async () => {
  await sleep("nap", "4s");
  return "slept";
});

export const waits: unknown = graph("waits", () => wait("parcel"));
