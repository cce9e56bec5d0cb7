import type { FunctionJob } from "greenroom";

/** Yields the tokens of one reply. `messages` has the whole thread. */
export async function* agent({ messages, signal }: FunctionJob): AsyncGenerator<string> {
  const last = messages.at(-1)?.content ?? "nothing";
  for (const word of `Message ${messages.length}: you said "${last}".`.split(/(?<= )/)) {
    signal.throwIfAborted();
    yield word;
  }
}
