/** Recognizes results of functions that are streams. */
import type { ModelUsage } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import type { PartRecorder, StreamPart } from "./open-streams.ts";

/** Creates a recorder of the parts of a model stream; undefined if no trace is recorded. */
export type CreatePartRecorder = () => PartRecorder | undefined;

/** An addition to the open message: the chunk that subscribers get, and members of the whole message. */
export class MessageDelta {
  readonly chunk: JsonObject | null;
  readonly members: JsonObject;
  constructor(chunk: JsonObject | null, members: JsonObject) {
    this.chunk = chunk;
    this.members = members;
  }
}

/**
 * Returns the items of a result that is a stream; null for any other value. An async iterable is returned as it is, a
 * `fullStream` of the AI SDK as tokens and messages, else its `textStream`. `reportUsage` gets the tokens of a `fullStream`,
 * and the recorder its parts.
 */
export function findStream(
  result: unknown,
  reportUsage: (usage: ModelUsage) => void,
  createRecorder?: CreatePartRecorder,
): AsyncIterable<unknown> | null {
  if (isAsyncIterable(result)) return result;
  const streams = (result ?? {}) as { readonly fullStream?: unknown; readonly textStream?: unknown };
  // The AI SDK omits model errors from `textStream`, and creates a stream at each access, so each member is read once.
  const parts = streams.fullStream;
  if (isAsyncIterable(parts))
    return streamModelMessages(parts as AsyncIterable<StreamPart>, reportUsage, createRecorder?.());
  const text = streams.textStream;
  return isAsyncIterable(text) ? text : null;
}

/**
 * Returns the text stream of a step result; null for a result that is no stream. An async iterable is returned as it is; of a
 * model stream only the texts remain. `reportUsage` gets the tokens of model streams.
 */
export function findTextStream(
  result: unknown,
  reportUsage: (usage: ModelUsage) => void,
  createRecorder?: CreatePartRecorder,
): AsyncIterable<unknown> | null {
  const stream = findStream(result, reportUsage, createRecorder);
  return stream && !isAsyncIterable(result) ? filterTexts(stream) : stream;
}

async function* filterTexts(items: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  for await (const item of items) if (typeof item === "string") yield item;
}

/** Yields a model stream as tokens, deltas and updates, as `readModelStream` converts it. Loads that module at the first item. */
async function* streamModelMessages(
  parts: AsyncIterable<StreamPart>,
  reportUsage: (usage: ModelUsage) => void,
  recorder: PartRecorder | undefined,
): AsyncGenerator<unknown> {
  const { readModelStream } = await import("./model-stream.ts");
  yield* readModelStream(parts, reportUsage, (chunk, members) => new MessageDelta(chunk, members), recorder);
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] === "function"
  );
}
