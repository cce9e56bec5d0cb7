/** Whether the arguments of a call are what the schema of its tool and the headers of its request say. */
import { findMisfits } from "../../../executor/schema-check.ts";
import { isObject, type JsonObject } from "../../../json.ts";
import { checkHeader } from "./protocol.ts";
import { failure } from "./results.ts";
import type { Tool, ToolArguments } from "./tools.ts";

/** Arguments that the schema mirrors in headers, for proxies that route by them. Errors: a header that says something else. */
export function checkParamHeaders(headers: Headers, { inputSchema }: ToolArguments, given: JsonObject): void {
  const properties = isObject(inputSchema.properties) ? inputSchema.properties : {};
  for (const [name, member] of Object.entries(properties)) {
    const suffix = isObject(member) ? member["x-mcp-header"] : undefined;
    const value = Object.hasOwn(given, name) ? given[name] : null;
    if (typeof suffix === "string" && /^[\w-]+$/.test(suffix) && value !== null && typeof value !== "object") {
      checkHeader(headers, `Mcp-Param-${suffix}`, String(value));
    }
  }
}

/** The most findings that a model gets about its arguments. */
const MAX_FINDINGS = 20;

/** The result for arguments that do not fit the tool's schema; null if they fit. */
export function checkArguments(tool: Tool, args: ToolArguments, given: JsonObject): JsonObject | null {
  const { [args.thread_id]: _thread, [args.resume]: _resume, ...own } = given;
  const findings = findMisfits(args.inputSchema, own, "arguments", MAX_FINDINGS + 1);
  if (findings.length === 0) return null;
  const listed = findings.length > MAX_FINDINGS ? [...findings.slice(0, MAX_FINDINGS), "and more"] : findings;
  const text = `The arguments do not fit the schema of ${tool.name}, so nothing was started.`;
  return failure(
    `${text} Correct them and call ${tool.name} again:\n${listed.map((finding) => `- ${finding}`).join("\n")}`,
  );
}
