/** Filters of searches, read into conditions. */
import { isObject, type Json } from "../json.ts";
import type { ItemCondition } from "../storage/items.ts";
import { deeperThan, invalid, MAX_FIELDS, MAX_LEVELS } from "./bounds.ts";

const OPERATORS: ReadonlyMap<string, ItemCondition[1]> = new Map([
  ["$eq", "eq"],
  ["$ne", "ne"],
  ["$gt", "gt"],
  ["$gte", "gte"],
  ["$lt", "lt"],
  ["$lte", "lte"],
]);

/**
 * Conditions of a filter: of each member a value that it equals, or an object of operators only. Operators stand nowhere
 * else. Errors: invalid.
 */
export function conditionsOf(filter: unknown): readonly ItemCondition[] {
  if (filter === undefined || filter === null) return [];
  if (!isObject(filter)) throw invalid("filter", "must be an object");
  if (deeperThan(filter, MAX_LEVELS)) throw invalid("filter", `must not nest deeper than ${MAX_LEVELS} levels`);
  const members = Object.entries(filter);
  if (members.length > MAX_FIELDS) throw invalid("filter", `must have at most ${MAX_FIELDS} members`);
  return members.flatMap(([member, asked]) => {
    const place = `filter.${member}`;
    if (member.startsWith("$")) throw invalid(place, "operators stand in the condition of a member");
    const operators = isObject(asked) && Object.keys(asked).some((key) => key.startsWith("$")) ? asked : { $eq: asked };
    return Object.entries(operators).map(([name, operand]): ItemCondition => {
      const operator = OPERATORS.get(name);
      if (!operator) throw invalid(`${place}.${name}`, `must be one of ${[...OPERATORS.keys()].join(", ")}`);
      proveOperand(place, operand);
      const ordered = operator !== "eq" && operator !== "ne";
      if (ordered && typeof operand === "object" && operand !== null) {
        throw invalid(`${place}.${name}`, "must be a number");
      }
      return [member, operator, operand];
    });
  });
}

function proveOperand(place: string, operand: Json | undefined): void {
  if (operand === undefined || typeof operand === "function" || typeof operand === "bigint") {
    throw invalid(place, "is not JSON");
  }
  if (typeof operand === "number" && !Number.isFinite(operand)) throw invalid(place, "must be a finite number");
  if (typeof operand !== "object" || operand === null) return;
  for (const [key, inner] of Object.entries(operand)) {
    if (!Array.isArray(operand) && key.startsWith("$")) throw invalid(`${place}.${key}`, "no operator may stand here");
    proveOperand(`${place}.${key}`, inner);
  }
}
