/** The history options of a request. */
import { A2aError } from "./protocol.ts";
import { type HistoryOptions, MAX_HISTORY_MESSAGES, SCOPE_TEXT, SCOPES } from "./requests.ts";
import type { HistoryChoice } from "./task.ts";

/** The extension with which clients choose the scope of the history. */
export const HISTORY_SCOPE = "https://langchain.com/a2a/extensions/history-scope/v1";
export const SCOPE_HEADER = "LangGraph-A2A-History-Scope";

/**
 * Reads the history options of a request. The scope defaults to the header's, the number of messages to `length`. Throws an A2aError for
 * an unknown scope.
 */
export function readHistoryChoice(
  { historyLength, historyScope }: HistoryOptions,
  headers: Headers,
  length: number = MAX_HISTORY_MESSAGES,
): HistoryChoice {
  const name = historyScope ?? headers.get(SCOPE_HEADER) ?? "context";
  const scope = SCOPES.find((supportedScope) => supportedScope === name);
  if (!scope) throw new A2aError("params", SCOPE_TEXT);
  return { scope, length: historyLength ?? length };
}

/**
 * Creates the response header that confirms the history extension if the client has activated it. Returns an empty
 * object otherwise.
 */
export function createExtensionHeaders(headers: Headers): Record<string, string> {
  const requestedExtensions = [headers.get("a2a-extensions"), headers.get("x-a2a-extensions")].join(",").split(",");
  return requestedExtensions.some((extension) => extension.trim() === HISTORY_SCOPE)
    ? { "a2a-extensions": HISTORY_SCOPE }
    : {};
}
