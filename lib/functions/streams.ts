/** What functions may return to be streamed. */
import type { Spending } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import type { StreamPart } from "./model-stream.ts";

/** A part of the message that is being written: what its readers see, and members of the whole message. */
export class MessageDelta {
  readonly chunk: JsonObject | null;
  readonly members: JsonObject;
  constructor(chunk: JsonObject | null, members: JsonObject) {
    this.chunk = chunk;
    this.members = members;
  }
}

/** The items of a result that is a stream; null for any other value. */
export function findStream(result: unknown, reportUsage: (usage: Spending) => void): AsyncIterable<unknown> | null {
  if (isAsyncIterable(result)) return result;
  const streams = (result ?? {}) as { readonly fullStream?: unknown; readonly textStream?: unknown };
  // The AI SDK leaves errors of the model out of `textStream`. It makes a stream whenever one is read, so each is read once.
  const parts = streams.fullStream;
  if (isAsyncIterable(parts)) return streamModelMessages(parts as AsyncIterable<StreamPart>, reportUsage);
  const text = streams.textStream;
  return isAsyncIterable(text) ? text : null;
}

/** The texts of a result that is a stream, for a step: calls of tools in it are not kept. */
export function findTextStream(result: unknown, reportUsage: (usage: Spending) => void): AsyncIterable<unknown> | null {
  const stream = findStream(result, reportUsage);
  return stream && !isAsyncIterable(result) ? filterTexts(stream) : stream;
}

async function* filterTexts(items: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  for await (const item of items) if (typeof item === "string") yield item;
}

async function* streamModelMessages(
  parts: AsyncIterable<StreamPart>,
  reportUsage: (usage: Spending) => void,
): AsyncGenerator<unknown> {
  const { readModelStream } = await import("./model-stream.ts");
  yield* readModelStream(parts, reportUsage, (chunk, members) => new MessageDelta(chunk, members));
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] === "function"
  );
}
