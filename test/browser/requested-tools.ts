/** A fake chat model of the browser tests calls the tools that the person names. */
import type { BaseMessage } from "@langchain/core/messages";
import type { ToolCall } from "@langchain/core/messages/tool";

interface RequestedTools {
  /** The results of tools since the last message of the person. */
  readonly results: readonly BaseMessage[];
  /** A call for each word of that message that names a tool. */
  readonly tool_calls: ToolCall[];
}

/** Reads the tools that the last message of the person names. `calls`: the arguments of each tool. */
export function readRequestedTools(
  messages: readonly BaseMessage[],
  calls: Readonly<Record<string, object>>,
): RequestedTools {
  const last = messages.findLastIndex((message) => message.getType() === "human");
  const results = messages.slice(last).filter((message) => message.getType() === "tool");
  const names = String(messages[last]?.content).split(" ");
  const tool_calls = names.flatMap((name, index): ToolCall[] =>
    calls[name] ? [{ name, args: { ...calls[name] }, id: `call-${messages.length}-${index}`, type: "tool_call" }] : [],
  );
  return { results, tool_calls };
}
