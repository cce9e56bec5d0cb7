// A durable function with a receiver: npm run build && npx bun examples/refund.ts; on Deno npx deno run -A, on Node npx node.
// Kill it and start it again: the refund continues. Only a step that was not stored yet runs again, with the same key.
import type { AgentFunction } from "greenroom";
import { createApp } from "greenroom/app";
import { serve } from "greenroom/node";

/** The carrier calls the address when the parcel is on its way. A real one takes days, and remembers it when this program is killed. */
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
const thread_id = "6e0f4a52-5c1d-4f0e-9d59-3f9f7f3f8a01"; // Of order A-1: after a restart the program finds its run again.
await threads.create({ thread_id, if_exists: "do_nothing" });
const [earlier] = await runs.list(thread_id, { limit: 1 });
const input = { messages: "A-1" };
const begun = earlier ? runs.join(thread_id, earlier.run_id) : runs.wait(thread_id, { assistant_id: "refund", input });
await (await begun).result;
const { status, values } = await threads.get(thread_id);
const answer = { assistant_id: "refund", command: { resume: true } };
const result = status === "interrupted" ? await (await runs.wait(thread_id, answer)).result : values;
console.log("Result:", JSON.stringify(result));
