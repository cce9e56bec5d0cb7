/** What keeps a stream open: the permission of its caller, asked again while the stream is open. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { Visibility } from "../storage/visibility.ts";
import { AuthRefusal } from "./custom.ts";

/** The permission of a call whose answer stays open. */
export interface Permission {
  /** What the caller could see when the stream opened. */
  readonly scope: Visibility;
  /** What the caller can see now. Errors: those of a new request. Absent: it cannot change. */
  again?(): Promise<Visibility>;
}

/** The time between two checks of a stream. A stream ends within 3 s: lookups of one key are shared for half a second. */
const RECHECK_MS = 2_000;

const REFUSALS: ReadonlySet<string> = new Set(["unauthenticated", "forbidden", "not_found"]);

/** A storage failure, or a handler of the host that fails, says nothing about the permission. */
function isRefusal(error: unknown): error is ServiceError {
  if (error instanceof AuthRefusal) return error.status < 500 && error.status !== 408 && error.status !== 429;
  return error instanceof ServiceError && REFUSALS.has(error.code);
}

const filterOf = ({ filter = [] }: Visibility): string => JSON.stringify(filter);

/** Null while the caller can see what it saw when the stream opened. */
export async function refusalOf({ scope, again }: Permission): Promise<ServiceError | null> {
  try {
    if (!again || filterOf(await again()) === filterOf(scope)) return null;
    return new ServiceError("forbidden", "The caller's permission has changed. Open the stream again");
  } catch (error) {
    return isRefusal(error) ? error : null;
  }
}

/** Calls `lost` once when the permission is refused or has changed. The result stops the checks. */
export function watchPermission(
  environment: Pick<Environment, "timer">,
  permission: Permission,
  lost: (refusal: ServiceError) => void,
): () => void {
  let stopped = false;
  let cancel = (): void => {};

  function wait(): void {
    cancel = environment.timer(RECHECK_MS, () => {
      void refusalOf(permission).then((refusal) => {
        if (stopped) return;
        if (refusal) lost(refusal);
        else wait();
      });
    });
  }

  if (permission.again) wait();
  return () => {
    stopped = true;
    cancel();
  };
}
