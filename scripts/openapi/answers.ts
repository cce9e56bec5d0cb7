/**
 * The examples of responses, as a server answered the examples of requests. test/lib/http/examples.node.test.ts writes them
 * with GREENROOM_RECORD=1, and otherwise compares them with what the server answers.
 */
import { readdirSync, readFileSync } from "node:fs";
import type { Json } from "../../lib/json.ts";

/** The response to the example of an operation. `body` is null where the response has none. */
export interface Answer {
  readonly status: number;
  readonly type: string | null;
  readonly body: Json;
}

/** The folder with a file of answers for each section of the document. */
export const ANSWERS_FOLDER: URL = new URL("answers/", import.meta.url);

const answers = new Map<string, Answer>();
for (const file of readdirSync(ANSWERS_FOLDER).filter((name) => name.endsWith(".json"))) {
  const section = JSON.parse(readFileSync(new URL(file, ANSWERS_FOLDER), "utf8")) as Readonly<Record<string, Answer>>;
  for (const [operationId, answer] of Object.entries(section)) answers.set(operationId, answer);
}

/** Returns the recorded answer of an operation. Undefined if none was recorded. */
export const findAnswer = (operationId: string): Answer | undefined => answers.get(operationId);
