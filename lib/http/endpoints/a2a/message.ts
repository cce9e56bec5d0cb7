/** The message of a client: what of it is the run's input, and what answers a question. */

import type { Interrupt } from "../../../executor/contract.ts";
import type { JsonObject } from "../../../json.ts";
import { tryRead } from "../fields.ts";
import { RpcError } from "./protocol.ts";
import { type SentMessage, sentAnswers } from "./requests.ts";

/** The input of a run. The message is that of the client; data parts cannot replace it. */
export function inputOf({ messageId: id, blocks, data }: SentMessage): JsonObject {
  const [only] = blocks;
  const isLoneText = blocks.length === 1 && only?.type === "text";
  // An agent that reads no members must see the data too.
  const whole = blocks.length === 0 ? JSON.stringify(data) : [...blocks];
  return { ...data, messages: [{ type: "human", content: isLoneText ? (only.text as string) : whole, id }] };
}

/** The answers by id of their question. Errors: some question has none. */
export function answersTo(open: readonly Interrupt[], { text: said, data }: SentMessage): JsonObject {
  const { resume } = data;
  const ids = open.map(({ id }) => id);
  const given = tryRead(sentAnswers, resume);
  if (given) {
    const answers = Object.fromEntries(given.map(({ id, value }) => [id, value]));
    if (given.length === ids.length && ids.every((id) => Object.hasOwn(answers, id))) return answers;
  } else if (ids.length === 1 && (said !== "" || Object.keys(data).length > 0)) {
    return { [ids[0] as string]: resume ?? (Object.keys(data).length > 0 ? data : said) };
  }
  const each = ids.map((id) => `{"id": "${id}", "value": …}`).join(", ");
  const text = `the task waits for ${ids.length} answers: send a data part {"resume": [${each}]}`;
  throw new RpcError("params", `message.parts: ${text}`);
}
