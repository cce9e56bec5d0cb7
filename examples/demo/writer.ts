// An agent that is a plain function: it yields tokens, and they become one message.
import type { FunctionJob } from "greenroom";

const lines = [
  "A green room is where performers wait until they are called.",
  "Nobody knows for sure why it is green.",
  "This one keeps your agents, and everything they said.",
];

/** Context `{"style": "loud"}` makes it shout: set it on an assistant, and a new version of it starts. */
export async function* writer({ messages, context, signal }: FunctionJob): AsyncGenerator<string> {
  const turn = messages.filter((message) => message.type === "ai").length;
  const line = lines[turn % lines.length] ?? "";
  for (const word of (context.style === "loud" ? line.toUpperCase() : line).split(/(?<= )/)) {
    await new Promise((resolve) => setTimeout(resolve, 30));
    signal.throwIfAborted();
    yield word;
  }
}
