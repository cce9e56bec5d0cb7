/** Reads messages and errors of results. */
import { ContentBlocks } from "../../executor/content-blocks.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";

/** Returns the content blocks of a message of any provider: text, reasoning, tool calls, files. */
export function toContentBlocks(message: JsonObject): JsonObject[] {
  return new ContentBlocks()
    .addMessage({ id: "message", ...message }, {})
    .flatMap(({ data: { event, content = null } }) =>
      event === "content-block-finish" && isObject(content) ? [content] : [],
    );
}

export const isNonEmptyString = (value: Json | undefined): value is string => typeof value === "string" && value !== "";

/** Returns the error in a result of `wait` or `join`, with defaults for its members. Returns null for other results. */
export function findError(result: Json): { readonly error: string; readonly message: string } | null {
  const failure = isObject(result) ? (result.__error__ ?? null) : null;
  if (!isObject(failure)) return null;
  return { error: String(failure.error ?? "Error"), message: String(failure.message ?? "The agent failed") };
}
