/** Validates feedback keys and builds the URLs of feedback links. Runs need nothing else of feedback. */
import { ServiceError } from "../errors.ts";
import { isLongerThan, isStorable, NOT_STORABLE } from "../validation.ts";

/** The maximum code points of a feedback key. */
const MAX_KEY_LENGTH = 255;

/** Returns the URL of a token on the server at `base`. */
export const buildTokenUrl = (base: string, token_id: string): string => `${base}/api/v1/feedback/tokens/${token_id}`;

/** Returns the problem of a feedback key as the end of an error text; null for a valid key. */
export function findKeyProblem(key: unknown): string | null {
  if (typeof key !== "string") return "must be a string";
  if (key === "" || isLongerThan(key, MAX_KEY_LENGTH)) return `must have 1 to ${MAX_KEY_LENGTH} characters`;
  return isStorable(key) ? null : NOT_STORABLE;
}

/** Returns a function that builds the URL of a token. That function throws `public_base_url_missing` if the option is not set. */
export function createTokenUrlBuilder(base_url: () => string | undefined): (token_id: string) => string {
  return (token_id) => {
    const base = base_url();
    if (base === undefined) throw new ServiceError("public_base_url_missing", "public_base_url is not set");
    return buildTokenUrl(base, token_id);
  };
}
