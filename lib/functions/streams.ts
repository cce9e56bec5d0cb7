/** What functions may return to be streamed. */
import type { Spending } from "../executor/contract.ts";
import type { JsonObject } from "../json.ts";
import type { Part } from "./model-stream.ts";

/** A part of the message that is being written: what its readers see, and members of the whole message. */
export class MessagePiece {
  readonly chunk: JsonObject | null;
  readonly more: JsonObject;
  constructor(chunk: JsonObject | null, more: JsonObject) {
    this.chunk = chunk;
    this.more = more;
  }
}

/** The items of a result that is a stream; null for any other value. */
export function streamOf(result: unknown, spend: (usage: Spending) => void): AsyncIterable<unknown> | null {
  if (isAsyncIterable(result)) return result;
  const streams = (result ?? {}) as { readonly fullStream?: unknown; readonly textStream?: unknown };
  // The AI SDK leaves errors of the model out of `textStream`. It makes a stream whenever one is read, so each is read once.
  const parts = streams.fullStream;
  if (isAsyncIterable(parts)) return modelMessages(parts as AsyncIterable<Part>, spend);
  const text = streams.textStream;
  return isAsyncIterable(text) ? text : null;
}

/** The texts of a result that is a stream, for a step: calls of tools in it are not kept. */
export function textsOf(result: unknown, spend: (usage: Spending) => void): AsyncIterable<unknown> | null {
  const stream = streamOf(result, spend);
  return stream && !isAsyncIterable(result) ? onlyTexts(stream) : stream;
}

async function* onlyTexts(items: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  for await (const item of items) if (typeof item === "string") yield item;
}

async function* modelMessages(parts: AsyncIterable<Part>, spend: (usage: Spending) => void): AsyncGenerator<unknown> {
  const { messagesIn } = await import("./model-stream.ts");
  yield* messagesIn(parts, spend, (chunk, more) => new MessagePiece(chunk, more));
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Partial<AsyncIterable<unknown>>)[Symbol.asyncIterator] === "function"
  );
}
