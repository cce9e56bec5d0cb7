/** What agents say that are tools of another one, as outputs of their calls so far. */
import { isObject, type Json } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";

/** An output that later ones replace. */
export interface PreliminaryOutput {
  readonly toolCallId: string;
  readonly output: string;
}

/** The part of a namespace that is the task of a tool. */
const TASK = /^(?:tools|task):(.+)$/;

/** Each output has the whole text, so it must have grown by this part of what was shown. */
const GROWTH = 1 / 16;

/** Only runs that stream `tasks` say which call a task executes. */
export class SubagentOutputs {
  /** Call ids by task id. */
  readonly #calls = new Map<string, string>();
  /** By call id: the text of its newest message, and how much of it is shown. */
  readonly #texts = new Map<string, { text: string; shown: number }>();

  task(data: Json): void {
    const { id = null, input = null } = isObject(data) ? data : {};
    const call = isObject(input) ? (input.lg_tool_call ?? input) : null;
    if (typeof id === "string" && isObject(call) && typeof call.id === "string") this.#calls.set(id, call.id);
  }

  take(event: Extract<RunEvent, { message_id: string }>): PreliminaryOutput | null {
    const [task = ""] = event.namespace.flatMap((part) => TASK.exec(part)?.[1] ?? []);
    const toolCallId = this.#calls.get(task);
    if (toolCallId === undefined) return null;
    if (event.type === "message-open") this.#texts.set(toolCallId, { text: "", shown: 0 });
    const said = this.#texts.get(toolCallId);
    if (!said) return null;
    if (event.type === "text-delta") said.text += event.delta;
    const grown = said.text.length - said.shown;
    const isDue = event.type === "text-delta" ? grown >= said.shown * GROWTH : event.type === "message-close";
    if (!isDue || grown === 0) return null;
    said.shown = said.text.length;
    return { toolCallId, output: said.text };
  }
}
