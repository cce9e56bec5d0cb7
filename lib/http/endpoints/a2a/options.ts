/** What clients choose about the history of a task. */
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import { RpcError } from "./protocol.ts";
import type { HistoryChoice } from "./task.ts";

/** The extension by which clients choose the scope of the history. */
export const HISTORY_SCOPE = "https://langchain.com/a2a/extensions/history-scope/v1";
export const SCOPE_HEADER = "LangGraph-A2A-History-Scope";

/** The most messages of a history, and as many as are shown by default. */
const MOST = 10;

function scopeOf(value: Json): HistoryChoice["scope"] {
  if (value === "context" || value === "task") return value;
  throw new RpcError("params", "historyScope must be context or task");
}

/** Reads the choice from the members of a request, or its header. `length`: the default. */
export function readHistory(given: Json, headers: Headers, length: number = MOST): HistoryChoice {
  const members: JsonObject = isObject(given) ? given : {};
  if ("historyscope" in members) {
    throw new RpcError("params", "Unknown history option 'historyscope'; use 'historyScope'");
  }
  const { historyLength, historyScope } = members;
  const chosen = historyLength ?? length;
  if (typeof chosen !== "number" || !Number.isInteger(chosen) || chosen < 0) {
    throw new RpcError("params", "historyLength must be a whole number from 0");
  }
  if (chosen > MOST) throw new RpcError("params", `historyLength cannot exceed ${MOST}`);
  return { scope: scopeOf(historyScope ?? headers.get(SCOPE_HEADER) ?? "context"), length: chosen };
}

/** The answer's header: the extensions that the client has activated. */
export function extensionHeaders(headers: Headers): Record<string, string> {
  const asked = [headers.get("a2a-extensions"), headers.get("x-a2a-extensions")].join(",").split(",");
  return asked.some((one) => one.trim() === HISTORY_SCOPE) ? { "a2a-extensions": HISTORY_SCOPE } : {};
}
