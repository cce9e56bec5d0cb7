/** Agents of the @langchain/react tests, beside those of the client tests. */
import { combine, type Executor, fromFunctions } from "../../lib/mod.ts";
import { type Gates, testExecutor } from "../support/graphs.ts";

export function reactExecutor(gates: Gates): Executor {
  const functions = fromFunctions({
    /** Fails for some texts. */
    async *moody({ messages }) {
      const text = String(messages.at(-1)?.content);
      yield "Well, ";
      if (text === "fail") throw new Error("boom happened");
      yield text;
    },
    /** Has two pending asks and a sleep. */
    async *asks({ ask, sleep }) {
      void sleep("cool off", "30d");
      const [first, second] = await Promise.all([ask("first", "First?"), ask("second", "Second?")]);
      yield `first ${first}, second ${second}`;
    },
    /** Waits after each word, but not in the first turn. */
    async *"gated-words"({ messages, signal }) {
      for (const [at, word] of (`You said: ${messages.at(-1)?.content}`.match(/\S+\s*/g) ?? []).entries()) {
        yield word;
        if (messages.length > 1) await gates.pass(`token ${at + 1}`, signal);
      }
    },
  });
  return combine(testExecutor(gates), functions);
}
