/** Checks whether the authorization of a response that stays open still holds. */
import { ServiceError } from "../errors.ts";
import type { Visibility } from "../storage/visibility.ts";
import type { AccessGrant } from "../streams/stream-guard.ts";
import { HandlerRefusal } from "./custom.ts";

const REFUSAL_CODES: ReadonlySet<string> = new Set(["unauthenticated", "forbidden", "not_found"]);

/**
 * Returns true if an error denies access. A storage failure, or a handler of the host that fails, says nothing about the access.
 */
function isRefusal(error: unknown): error is ServiceError {
  if (error instanceof HandlerRefusal) return error.status < 500 && error.status !== 408 && error.status !== 429;
  return error instanceof ServiceError && REFUSAL_CODES.has(error.code);
}

const stringifyFilter = ({ filter = [] }: Visibility): string => JSON.stringify(filter);

/**
 * Returns the check of a grant: null if `authorizeAgain` permits what the caller saw when the response opened (`scope`), else the
 * reason of the revocation. Errors that are no refusals, such as an outage, do not revoke.
 */
export function createRevocationCheck(
  scope: Visibility,
  authorizeAgain: () => Promise<Visibility>,
): NonNullable<AccessGrant["findRevocation"]> {
  return async () => {
    try {
      if (stringifyFilter(await authorizeAgain()) === stringifyFilter(scope)) return null;
      return new ServiceError("forbidden", "The caller's permission has changed. Open the stream again");
    } catch (error) {
      return isRefusal(error) ? error : null;
    }
  };
}
