/** The text of agents that run as tools, as preliminary output of their tool calls. */
import { isObject, type Json } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";

/** An output that later ones replace. */
export interface PreliminaryOutput {
  readonly toolCallId: string;
  readonly output: string;
}

/** The part of a namespace that is the task of a tool. */
const TASK_PATTERN = /^(?:tools|task):(.+)$/;

/** The ratio by which a text must grow before it is emitted again, because each output repeats the whole text. */
const MIN_GROWTH_RATIO = 1 / 16;

/** Maps the text of subagents to outputs. Needs a run that streams `tasks`: only those events connect a task with its tool call. */
export class SubagentOutputs {
  /** Tool call ids by task id. */
  readonly #calls = new Map<string, string>();
  /** The text of the newest message and its emitted length, by tool call id. */
  readonly #texts = new Map<string, { text: string; emittedChars: number }>();

  /** Records which tool call a task runs, by the `tasks` frame of its start. Ignores a task that runs none. */
  registerTask(data: Json): void {
    const { id = null, input = null } = isObject(data) ? data : {};
    const call = isObject(input) ? (input.lg_tool_call ?? input) : null;
    if (typeof id === "string" && isObject(call) && typeof call.id === "string") this.#calls.set(id, call.id);
  }

  /**
   * Adds an event of a subagent to the text of its tool call, which starts over with each message. Returns the whole
   * text if enough was added or the message has ended. Returns null otherwise and for events of other calls.
   */
  collectOutput(event: Extract<RunEvent, { message_id: string }>): PreliminaryOutput | null {
    const [taskId = ""] = event.namespace.flatMap((part) => TASK_PATTERN.exec(part)?.[1] ?? []);
    const toolCallId = this.#calls.get(taskId);
    if (toolCallId === undefined) return null;
    if (event.type === "message-open") this.#texts.set(toolCallId, { text: "", emittedChars: 0 });
    const streamedText = this.#texts.get(toolCallId);
    if (!streamedText) return null;
    if (event.type === "text-delta") streamedText.text += event.delta;
    const newChars = streamedText.text.length - streamedText.emittedChars;
    const isDue =
      event.type === "text-delta"
        ? newChars >= streamedText.emittedChars * MIN_GROWTH_RATIO
        : event.type === "message-close";
    if (!isDue || newChars === 0) return null;
    streamedText.emittedChars = streamedText.text.length;
    return { toolCallId, output: streamedText.text };
  }
}
