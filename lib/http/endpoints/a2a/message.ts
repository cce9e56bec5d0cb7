/** Converts the message of a client to the input of a run, or to resume values. */

import type { Interrupt } from "../../../executor/contract.ts";
import type { JsonObject } from "../../../json.ts";
import { tryParseInput } from "../fields.ts";
import { A2aError } from "./protocol.ts";
import { type A2aUserMessage, resumeEntries } from "./requests.ts";

/**
 * Creates the input of a run: the data parts as members, and one human message in `messages`, which data cannot
 * replace. Its content is a text if the message has only one text part, the JSON of the data if it has only data, else
 * the list of blocks.
 */
export function toRunInput({ messageId: id, blocks, data }: A2aUserMessage): JsonObject {
  const [only] = blocks;
  const isLoneText = blocks.length === 1 && only?.type === "text";
  // An agent that reads only messages must get the data too.
  const content = blocks.length === 0 ? JSON.stringify(data) : [...blocks];
  return { ...data, messages: [{ type: "human", content: isLoneText ? (only.text as string) : content, id }] };
}

/**
 * Returns the resume values by interrupt id: the entries of `data.resume`. For a single interrupt they may be
 * `data.resume` of another form, all data, or the text. Throws an A2aError unless each interrupt has exactly one.
 */
export function toResumeValues(interrupts: readonly Interrupt[], { text, data }: A2aUserMessage): JsonObject {
  const { resume } = data;
  const ids = interrupts.map(({ id }) => id);
  const entries = tryParseInput(resumeEntries, resume);
  if (entries) {
    const valuesById = Object.fromEntries(entries.map(({ id, value }) => [id, value]));
    if (entries.length === ids.length && ids.every((id) => Object.hasOwn(valuesById, id))) return valuesById;
  } else if (ids.length === 1 && (text !== "" || Object.keys(data).length > 0)) {
    return { [ids[0] as string]: resume ?? (Object.keys(data).length > 0 ? data : text) };
  }
  const each = ids.map((id) => `{"id": "${id}", "value": …}`).join(", ");
  const finding = `the task waits for ${ids.length} answers: send a data part {"resume": [${each}]}`;
  throw new A2aError("params", `message.parts: ${finding}`);
}
