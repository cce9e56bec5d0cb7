/** Parses the filter of a store search into conditions. */
import { isObject, type Json } from "../json.ts";
import type { ItemCondition } from "../storage/items.ts";
import { deeperThan } from "../validation.ts";
import { invalid, MAX_FIELDS, MAX_LEVELS } from "./bounds.ts";

const OPERATORS: ReadonlyMap<string, ItemCondition[1]> = new Map([
  ["$eq", "eq"],
  ["$ne", "ne"],
  ["$gt", "gt"],
  ["$gte", "gte"],
  ["$lt", "lt"],
  ["$lte", "lte"],
]);

/**
 * Parses `{member: value}` and `{member: {$gt: 1, ...}}`. Operators are allowed only at that place; an object with one operator may
 * not have other keys. Errors: invalid.
 */
export function conditionsOf(filter: unknown): readonly ItemCondition[] {
  if (filter === undefined || filter === null) return [];
  if (!isObject(filter)) throw invalid("filter", "must be an object");
  if (deeperThan(filter, MAX_LEVELS)) throw invalid("filter", `must not nest deeper than ${MAX_LEVELS} levels`);
  const members = Object.entries(filter);
  if (members.length > MAX_FIELDS) throw invalid("filter", `must have at most ${MAX_FIELDS} members`);
  return members.flatMap(([member, condition]) => {
    const at = `filter.${member}`;
    if (member.startsWith("$")) throw invalid(at, "operators belong in a condition of a member");
    const isOperators = isObject(condition) && Object.keys(condition).some((key) => key.startsWith("$"));
    const operators = isOperators ? condition : { $eq: condition };
    return Object.entries(operators).map(([name, operand]): ItemCondition => {
      const operator = OPERATORS.get(name);
      if (!operator) throw invalid(`${at}.${name}`, `must be one of ${[...OPERATORS.keys()].join(", ")}`);
      checkOperand(at, operand);
      const ordered = operator !== "eq" && operator !== "ne";
      if (ordered && typeof operand === "object" && operand !== null) {
        throw invalid(`${at}.${name}`, "must be a number");
      }
      return [member, operator, operand];
    });
  });
}

function checkOperand(at: string, operand: Json | undefined): void {
  if (operand === undefined || typeof operand === "function" || typeof operand === "bigint") {
    throw invalid(at, "is not JSON");
  }
  if (typeof operand === "number" && !Number.isFinite(operand)) throw invalid(at, "must be a finite number");
  if (typeof operand !== "object" || operand === null) return;
  for (const [key, inner] of Object.entries(operand)) {
    if (!Array.isArray(operand) && key.startsWith("$")) throw invalid(`${at}.${key}`, "no operator is allowed here");
    checkOperand(`${at}.${key}`, inner);
  }
}
