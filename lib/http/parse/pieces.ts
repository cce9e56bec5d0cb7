/** Schemas that several routes share. */
import * as v from "valibot";
import type { StreamMode } from "../../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { UUID } from "../../storage/identity.ts";
import type { CheckpointSelector } from "../../threads/mod.ts";
import { flag, isPlain, oneOf, PLAIN } from "../../validation.ts";

/** A schema of named fields. Null counts as absent. */
export type Fields<Output> = v.GenericSchema<unknown, Output> & {
  readonly entries: Readonly<Record<string, v.GenericSchema>>;
};

export { flag, oneOf, UUID };

/** The longest name of a node, graph, checkpoint or the like. */
const MOST_CHARACTERS = 1_024;
export const text: v.GenericSchema<string> = v.pipe(v.string("must be a string"), v.check(isPlain, PLAIN));
export const name: v.GenericSchema<string> = v.pipe(
  v.string("must be a string"),
  v.nonEmpty("must not be empty"),
  v.maxLength(MOST_CHARACTERS, `must have at most ${MOST_CHARACTERS} characters`),
  v.check(isPlain, PLAIN),
);
export const uuid: v.GenericSchema<string> = v.pipe(
  v.string("must be a UUID"),
  v.regex(UUID, "must be a UUID"),
  v.toLowerCase(),
);
/** A UUID, or the id of a graph for its default assistant. */
export const assistantId: v.GenericSchema<string> = v.pipe(
  name,
  v.transform((id) => (UUID.test(id) ? id.toLowerCase() : id)),
);
export const integer = (min: number, max: number): v.GenericSchema<number> => {
  const range = max === Number.MAX_SAFE_INTEGER ? `must be at least ${min}` : `must be between ${min} and ${max}`;
  return v.pipe(
    v.number("must be an integer"),
    v.integer("must be an integer"),
    v.minValue(min, range),
    v.maxValue(max, range),
  );
};
export const listOf = <Item>(item: v.GenericSchema<Item>): v.GenericSchema<Item[]> => v.array(item, "must be a list");
export const page: {
  readonly limit: v.OptionalSchema<v.GenericSchema<number>, 10>;
  readonly offset: v.OptionalSchema<v.GenericSchema<number>, 0>;
} = {
  limit: v.optional(integer(1, 1000), 10),
  offset: v.optional(integer(0, Number.MAX_SAFE_INTEGER), 0),
};
export const order: v.OptionalSchema<v.GenericSchema<"asc" | "desc">, undefined> = v.optional(oneOf(["asc", "desc"]));

/**
 * An object of the user: checked against `entries` but passed on unchanged, so that keys such as `__proto__` survive. An entry that
 * is null counts as absent.
 */
export function owned<Output extends object = JsonObject>(
  entries: Readonly<Record<string, v.GenericSchema>> = {},
): v.GenericSchema<Output> {
  const shape = v.object(entries, "must be an object");
  const kept: v.GenericSchema<JsonObject> = {
    ...(shape as unknown as v.GenericSchema<JsonObject>),
    "~run"(dataset, config) {
      const sent = isObject(dataset.value) ? withoutNulls(dataset.value, entries) : undefined;
      const checked = shape["~run"]({ value: sent }, config);
      return (checked.issues ? checked : { typed: true, value: sent }) as ReturnType<(typeof kept)["~run"]>;
    },
  };
  return kept as unknown as v.GenericSchema<Output>;
}

function withoutNulls(sent: JsonObject, entries: Readonly<Record<string, unknown>>): JsonObject {
  if (!Object.keys(entries).some((key) => sent[key] === null)) return sent;
  return Object.fromEntries(
    Object.entries(sent).filter(([key, value]) => value !== null || !Object.hasOwn(entries, key)),
  );
}

export const json = v.unknown() as v.GenericSchema<Json>;
export const anyObject: v.GenericSchema<JsonObject> = owned();

/** The operators of authorization filters. */
const OPERATORS: ReadonlySet<string> = new Set(["$eq", "$contains"]);

/** The first operator in a filter, where operators are not allowed. Other keys are the user's, even with a dollar sign. */
function operatorIn(value: Json): string | undefined {
  if (Array.isArray(value)) return firstOperator(value);
  if (!isObject(value)) return undefined;
  return Object.keys(value).find((key) => OPERATORS.has(key)) ?? firstOperator(Object.values(value));
}

function firstOperator(values: readonly Json[]): string | undefined {
  for (const value of values) {
    const found = operatorIn(value);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The most values of a filter, because each row is compared with all of them. */
const MOST_ASKED = 100;

/** The number of values; counting stops a little beyond `most`. */
function valuesIn(value: Json, most: number): number {
  if (typeof value !== "object" || value === null) return 1;
  let count = 0;
  for (const inner of Object.values(value)) {
    count += valuesIn(inner as Json, most);
    if (count > most) break;
  }
  return count;
}

/** A filter on metadata or values: what a row must contain. */
export const containment: v.GenericSchema<JsonObject> = v.pipe(
  anyObject,
  v.check(
    (filter) => operatorIn(filter) === undefined,
    ({ input }) => `must hold values, not operators such as ${operatorIn(input)}`,
  ),
  v.check((filter) => valuesIn(filter, MOST_ASKED) <= MOST_ASKED, `must hold at most ${MOST_ASKED} values`),
);
export const config: v.GenericSchema<JsonObject> = owned({
  tags: v.optional(listOf(v.string("must be a string"))),
  recursion_limit: v.optional(integer(1, Number.MAX_SAFE_INTEGER)),
  configurable: v.optional(anyObject),
});
export const checkpoint: v.GenericSchema<CheckpointSelector> = owned({
  checkpoint_id: v.optional(name),
  checkpoint_ns: v.optional(text),
  checkpoint_map: v.optional(anyObject),
});
export const ifExists: v.OptionalSchema<v.GenericSchema<"raise" | "do_nothing">, undefined> = v.optional(
  oneOf(["raise", "do_nothing"]),
);

export const MODES: readonly StreamMode[] = [
  "values",
  "messages",
  "messages-tuple",
  "updates",
  "events",
  "tasks",
  "checkpoints",
  "debug",
  "custom",
  "tools",
  "lifecycle",
];
export const mode: v.GenericSchema<StreamMode> = oneOf(MODES);
