/** Checks the arguments of a tool call against the schema of its tool and the headers of its request. */
import { findSchemaMismatches } from "../../../executor/schema-check.ts";
import { isObject, type JsonObject } from "../../../json.ts";
import { checkHeader } from "./protocol.ts";
import { toToolError } from "./results.ts";
import type { Tool, ToolSignature } from "./tools.ts";

/**
 * Checks the headers that mirror arguments, because proxies route by them. Throws an McpError if a header is missing or
 * has another value. Ignores arguments that are absent or no primitives.
 */
export function checkParamHeaders(headers: Headers, { inputSchema }: ToolSignature, args: JsonObject): void {
  const properties = isObject(inputSchema.properties) ? inputSchema.properties : {};
  for (const [name, member] of Object.entries(properties)) {
    const suffix = isObject(member) ? member["x-mcp-header"] : undefined;
    const value = Object.hasOwn(args, name) ? args[name] : null;
    if (typeof suffix === "string" && /^[\w-]+$/.test(suffix) && value !== null && typeof value !== "object") {
      checkHeader(headers, `Mcp-Param-${suffix}`, String(value));
    }
  }
}

/** The maximum number of findings in a result. */
const MAX_FINDINGS = 20;

/**
 * Returns a tool error with at most `MAX_FINDINGS` findings for arguments that do not match the tool's schema. Returns
 * null if they match. Does not check the conversation and the resume value.
 */
export function findArgumentErrors(tool: Tool, signature: ToolSignature, args: JsonObject): JsonObject | null {
  const { [signature.thread_id]: _thread, [signature.resume]: _resume, ...agentArguments } = args;
  const findings = findSchemaMismatches(signature.inputSchema, agentArguments, "arguments", MAX_FINDINGS + 1);
  if (findings.length === 0) return null;
  const listedFindings = findings.length > MAX_FINDINGS ? [...findings.slice(0, MAX_FINDINGS), "and more"] : findings;
  const text = `The arguments do not fit the schema of ${tool.name}, so nothing was started.`;
  return toToolError(
    `${text} Correct them and call ${tool.name} again:\n${listedFindings.map((finding) => `- ${finding}`).join("\n")}`,
  );
}
