/** Finds unknown keys of an object, for error texts. */

const plain = (key: string): string => key.toLowerCase().replace(/[^a-z0-9]/g, "");

/**
 * The first key of `given` that is not in `known`, as the end of an error text; undefined if all are known.
 * `assistantId` becomes `unknown key "assistantId"; did you mean "assistant_id"?`.
 */
export function unknownKey(given: object, known: readonly string[]): string | undefined {
  const key = Object.keys(given).find((name) => !known.includes(name));
  if (key === undefined) return undefined;
  const meant = known.find((name) => plain(name) === plain(key));
  const hint = meant === undefined ? `; known keys: ${known.join(", ")}` : `; did you mean "${meant}"?`;
  return `unknown key ${JSON.stringify(key)}${hint}`;
}
