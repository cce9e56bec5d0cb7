/** Validates feedback keys, and builds token URLs and record ids. */
import { ServiceError } from "../errors.ts";
import { isPlain, longerThan, PLAIN } from "../validation.ts";

/** The maximum number of feedback keys of one run, and the maximum code points of one key. */
const KEYS = 50;
const KEY_LENGTH = 255;

/** The URL of a token on the server at `base`. */
export const tokenUrlAt = (base: string, token_id: string): string => `${base}/api/v1/feedback/tokens/${token_id}`;

/**
 * The feedback keys of a run, without duplicates. A string is a list of one key. Errors: invalid (more than 50 keys, an empty
 * key, a key of more than 255 code points).
 */
export function readFeedbackKeys(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const list: unknown = typeof value === "string" ? [value] : value;
  if (!Array.isArray(list)) throw new ServiceError("invalid", "feedback_keys: must be a list of strings");
  const keys = [...new Set<unknown>(list)];
  if (keys.length > KEYS) throw new ServiceError("invalid", `feedback_keys: must have at most ${KEYS} keys`);
  return keys.map((key) => {
    const problem = keyProblem(key);
    if (problem !== null) throw new ServiceError("invalid", `feedback_keys.${list.indexOf(key)}: ${problem}`);
    return key as string;
  });
}

/** The problem of a feedback key, as the end of an error text; null for a valid key. */
export function keyProblem(key: unknown): string | null {
  if (typeof key !== "string") return "must be a string";
  if (key === "" || longerThan(key, KEY_LENGTH)) return `must have 1 to ${KEY_LENGTH} characters`;
  return isPlain(key) ? null : PLAIN;
}

/** Makes a UUID of version 7: `now` in milliseconds since 1970, then the random bits of a UUID of version 4. */
export function uuidV7(now: number, random: string): string {
  const time = now.toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(15)}`;
}
