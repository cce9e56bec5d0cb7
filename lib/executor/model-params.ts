/** The parameters of model calls that spans keep. All others may have secrets or prompts. */
import { isObject, type Json } from "../json.ts";

/** The names of the parameters that a span keeps, each with those that libraries of models give it. */
const PARAMETER_NAMES: Readonly<Record<string, readonly string[]>> = {
  temperature: ["temperature"],
  top_p: ["top_p", "topP"],
  top_k: ["top_k", "topK"],
  max_tokens: ["max_tokens", "maxTokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens"],
  stop: ["stop", "stop_sequences", "stopSequences"],
  seed: ["seed"],
  frequency_penalty: ["frequency_penalty", "frequencyPenalty"],
  presence_penalty: ["presence_penalty", "presencePenalty"],
  reasoning_effort: ["reasoning_effort", "reasoningEffort", "reasoning"],
  tool_choice: ["tool_choice", "toolChoice"],
  response_format: ["response_format", "responseFormat"],
  stream: ["stream"],
  tools: ["tools"],
};

const MAX_PARAMS_BYTES = 1024;
const MAX_TEXT_CHARACTERS = 100;

const encoder = new TextEncoder();
const countBytes = (value: Json): number => encoder.encode(JSON.stringify(value)).length;

/** Returns the text, number or boolean; undefined for other values and long texts. */
function toScalar(value: unknown): Json | undefined {
  if (typeof value === "string") return value.length <= MAX_TEXT_CHARACTERS ? value : undefined;
  return typeof value === "boolean" || (typeof value === "number" && Number.isFinite(value)) ? value : undefined;
}

/** Returns the name of what a tool, a choice or a format declares, and not its description or schema. */
function readName(value: unknown): Json | undefined {
  const { name, toolName, type, ...declaration } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const inner = [declaration.function, declaration.json_schema].find((member) => isObject(member as Json));
  return (
    toScalar(name) ?? toScalar(toolName) ?? toScalar((inner as { readonly name?: unknown })?.name) ?? toScalar(type)
  );
}

/** Returns the names of declared tools, which are a list, or an object by name. */
function readToolNames(tools: unknown): Json[] {
  if (!Array.isArray(tools)) return isObject(tools as Json) ? Object.keys(tools as object) : [];
  return tools.flatMap((tool: unknown) => {
    const { functionDeclarations } = (tool ?? {}) as { readonly functionDeclarations?: unknown };
    return Array.isArray(functionDeclarations) ? readToolNames(functionDeclarations) : (readName(tool) ?? []);
  });
}

/** Returns the value that a span keeps of a parameter; undefined for none. */
function toKeptValue(name: string, value: unknown): Json | undefined {
  if (name === "tools") {
    const names = readToolNames(value);
    return names.length > 0 ? names : undefined;
  }
  if (name === "stop" && Array.isArray(value)) return value.flatMap((text: unknown) => toScalar(text) ?? []);
  if (name === "reasoning_effort" && typeof value === "object")
    return toScalar((value as { readonly effort?: unknown } | null)?.effort);
  if (name === "tool_choice" || name === "response_format") return toScalar(value) ?? readName(value);
  return toScalar(value);
}

/** Returns as many items as fit, from the first. */
function limitList(items: readonly Json[], bytes: number): Json[] {
  let freeBytes = bytes - 2;
  return items.filter((item) => {
    freeBytes -= countBytes(item) + 1;
    return freeBytes >= 0;
  });
}

/**
 * Returns the parameters of a model call that a span keeps, under one name each and in at most 1 KiB of JSON; undefined for none. Of
 * tools, choices and formats only names are kept. An earlier set of parameters wins over a later one.
 */
export function selectModelParams(...sources: readonly unknown[]): { readonly [name: string]: Json } | undefined {
  const params: Record<string, Json> = {};
  let freeBytes = MAX_PARAMS_BYTES - 2;
  for (const [name, aliases] of Object.entries(PARAMETER_NAMES)) {
    const parameter = findValue(sources, aliases);
    const kept = parameter === undefined ? undefined : toKeptValue(name, parameter);
    if (kept === undefined) continue;
    const overhead = name.length + 4;
    const value = Array.isArray(kept) ? limitList(kept, freeBytes - overhead) : kept;
    const bytes = overhead + countBytes(value);
    if (bytes > freeBytes) continue;
    freeBytes -= bytes;
    params[name] = value;
  }
  return Object.keys(params).length > 0 ? params : undefined;
}

/** Returns the first value that a source has under one of the names. */
function findValue(sources: readonly unknown[], aliases: readonly string[]): unknown {
  for (const source of sources) {
    if (typeof source !== "object" || source === null) continue;
    for (const alias of aliases) {
      const value = (source as Readonly<Record<string, unknown>>)[alias];
      if (value !== undefined && value !== null) return value;
    }
  }
  return undefined;
}
