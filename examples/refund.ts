// A durable function with a receiver: npm run build && npx bun examples/refund.ts; on Deno npx deno run -A, on Node npx node.
// Kill it at any time and start it again: it goes on. See docs/guides/durable-functions.md.
import type { AgentFunction } from "greenroom";
import { createApp } from "greenroom/app";
import { serve } from "greenroom/node";

/** The carrier tells the address when the parcel is on its way. A real one takes days. */
const carrier = {
  async notify(order: string, url: string) {
    setTimeout(() => void fetch(url, { method: "POST", body: JSON.stringify({ order, code: "RX-7" }) }), 500);
  },
};
const refund: AgentFunction = async function* ({ messages, step, sleep, wait, ask }) {
  const order = await step("find order", () => ({ id: String(messages.at(-1)?.content), total: 40 }));
  const ok = await ask("approve", { question: `Refund ${order.total}?` }, { schema: { type: "boolean" } });
  if (!ok) return "Not refunded.";
  await step("pay", ({ key }) => console.log(`Paid ${order.total} with the key ${key}`), {
    retries: 3,
    timeout: "30s",
  });
  await sleep("cool off", "3s");
  const parcel = await wait("parcel", { timeout: "30d", begin: ({ url }) => carrier.notify(order.id, url) });
  yield parcel ? `Shipped as ${parcel.code}.` : "No parcel within 30 days.";
};
let url = "";
const app = await createApp({ database: "agents.db", agents: { refund }, public_base_url: () => url });
({ url } = await serve(app.fetch, { port: Number(process.env.PORT ?? 2024) }));
console.log(`Listening on ${url}`);
const { threads, runs } = app.service;
const { thread_id } = await threads.create();
const input = { messages: "A-1" };
await (await runs.wait(thread_id, { assistant_id: "refund", input })).result;
const { result } = await runs.wait(thread_id, { assistant_id: "refund", command: { resume: true } });
console.log("Result:", JSON.stringify(await result));
