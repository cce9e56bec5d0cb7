/** An app whose declaration a browser project can import: it names no package but Greenroom. */
import { createApp } from "greenroom/app";
import { counter, graph, refund, refunds, review, shipping, topics } from "./agents.right.ts";

export const app = await createApp({
  database: ":memory:",
  agents: {
    counter,
    graph,
    refund,
    refunds,
    review,
    shipping,
    topics,
    made: { graph: () => shipping },
    hello: () => "Hello",
  },
});
