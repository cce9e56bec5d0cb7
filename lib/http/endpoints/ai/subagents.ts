/** What agents say that are tools of another one, as outputs of their calls so far. */
import { isObject, type Json } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";

/** An output that later ones replace. */
export interface PreliminaryOutput {
  readonly toolCallId: string;
  readonly output: string;
}

/** The part of a namespace that is the task of a tool. */
const TASK_PATTERN = /^(?:tools|task):(.+)$/;

/** Each output has the whole text, so it must have grown by this part of what was shown. */
const MIN_GROWTH_RATIO = 1 / 16;

/** Only runs that stream `tasks` say which call a task executes. */
export class SubagentOutputs {
  /** Call ids by task id. */
  readonly #calls = new Map<string, string>();
  /** By call id: the text of its newest message, and how much of it is shown. */
  readonly #texts = new Map<string, { text: string; emittedChars: number }>();

  registerTask(data: Json): void {
    const { id = null, input = null } = isObject(data) ? data : {};
    const call = isObject(input) ? (input.lg_tool_call ?? input) : null;
    if (typeof id === "string" && isObject(call) && typeof call.id === "string") this.#calls.set(id, call.id);
  }

  findOutput(event: Extract<RunEvent, { message_id: string }>): PreliminaryOutput | null {
    const [registerTask = ""] = event.namespace.flatMap((part) => TASK_PATTERN.exec(part)?.[1] ?? []);
    const toolCallId = this.#calls.get(registerTask);
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
