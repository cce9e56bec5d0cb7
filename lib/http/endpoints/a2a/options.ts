/** What clients choose about the history of a task. */
import { RpcError } from "./protocol.ts";
import { type HistoryOptions, MOST_MESSAGES, SCOPES, WRONG_SCOPE } from "./requests.ts";
import type { HistoryChoice } from "./task.ts";

/** The extension by which clients choose the scope of the history. */
export const HISTORY_SCOPE = "https://langchain.com/a2a/extensions/history-scope/v1";
export const SCOPE_HEADER = "LangGraph-A2A-History-Scope";

/** The choice of a request; its header counts where its parameters say nothing. `length`: the default. Errors: an unknown scope. */
export function historyOf(
  { historyLength, historyScope }: HistoryOptions,
  headers: Headers,
  length: number = MOST_MESSAGES,
): HistoryChoice {
  const name = historyScope ?? headers.get(SCOPE_HEADER) ?? "context";
  const scope = SCOPES.find((known) => known === name);
  if (!scope) throw new RpcError("params", WRONG_SCOPE);
  return { scope, length: historyLength ?? length };
}

/** The answer's header: the extensions that the client has activated. */
export function extensionHeaders(headers: Headers): Record<string, string> {
  const asked = [headers.get("a2a-extensions"), headers.get("x-a2a-extensions")].join(",").split(",");
  return asked.some((one) => one.trim() === HISTORY_SCOPE) ? { "a2a-extensions": HISTORY_SCOPE } : {};
}
