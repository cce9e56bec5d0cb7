import type { FunctionJob } from "greenroom";

/** Yields the tokens of one reply. `messages` has the whole thread. A message with "refund" starts a durable call. */
export async function* agent({ messages, signal, step, ask }: FunctionJob): AsyncGenerator<string> {
  const last = String(messages.at(-1)?.content ?? "nothing");
  if (/refund/i.test(last)) {
    // Stored once, however often the function is called again.
    const order = await step("find order", () => ({ id: "A-1", total: 40 }));
    const ok = await ask("approve", `Refund ${order.total} for ${order.id}?`, { schema: { type: "boolean" } });
    yield ok ? "It is refunded." : "Not refunded.";
    return;
  }
  for (const word of `Message ${messages.length}: you said "${last}".`.split(/(?<= )/)) {
    signal.throwIfAborted();
    yield word;
  }
}
