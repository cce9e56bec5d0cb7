/** Reads values at paths into a thread, such as `values.messages[-1].content`. */
import { ServiceError } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";

const ROOTS = ["values", "metadata", "config", "interrupts"] as const;
type Root = (typeof ROOTS)[number];

/** The parts of a thread that a path can start with. */
export type Extractable = Readonly<Record<Root, Json>>;

/** The maximum number of paths in one search. */
export const MOST_PATHS = 10;

interface Path {
  readonly root: Root;
  readonly steps: readonly (string | number)[];
}

/** Parses a path: a root, then `.member` and `[index]`; a negative index counts from the end. Errors: invalid. */
function pathOf(alias: string, text: string): Path {
  const steps: (string | number)[] = [];
  const step = /\.([^.[\]]+)|\[(-?\d{1,9})\]/y;
  const root = ROOTS.find((name) => text === name || text.startsWith(`${name}.`) || text.startsWith(`${name}[`));
  if (!root) throw new ServiceError("invalid", `extract.${alias}: must start with ${ROOTS.join(", ")}`);
  for (step.lastIndex = root.length; step.lastIndex < text.length; ) {
    const match = step.exec(text);
    if (!match) throw new ServiceError("invalid", `extract.${alias}: is no path such as values.messages[-1].content`);
    steps.push(match[1] ?? Number(match[2]));
  }
  return { root, steps };
}

/** Compiles paths by alias. A path to a missing value reads null. Errors: invalid. */
export function extractor(paths: Readonly<Record<string, string>>): {
  /** True when a path reads the state's values. */
  readonly values: boolean;
  from(thread: Extractable): JsonObject;
} {
  const named = Object.entries(paths).map(([alias, text]): [string, Path] => [alias, pathOf(alias, text)]);
  if (named.length > MOST_PATHS) throw new ServiceError("invalid", `extract: must name at most ${MOST_PATHS} paths`);
  return {
    values: named.some(([, { root }]) => root === "values"),
    from: (thread) =>
      Object.fromEntries(named.map(([alias, { root, steps }]) => [alias, steps.reduce(into, thread[root])])),
  };
}

function into(value: Json, step: string | number): Json {
  if (typeof step === "number") return Array.isArray(value) ? (value.at(step) ?? null) : null;
  return isObject(value) && Object.hasOwn(value, step) ? (value[step] ?? null) : null;
}
