/** Chooses the authentication of the stand-alone server. */
import { type AuthMode, ConfigError, type ServiceOptions, staticIdentity } from "../../lib/mod.ts";
import type { IdentityStore } from "../../lib/storage/types.ts";
import type { CommandOptions } from "./command-options.ts";

/**
 * Returns the mode of `auth`, else `custom` with an authentication of the host, else `api_key` if there is any key,
 * else `none`. Throws a ConfigError for mode `none` on an address that other machines reach, or beside listed keys.
 */
export async function requireSafeAccess(
  auth: ServiceOptions["auth"],
  { identity, hasListedKeys, options }: AccessInput,
): Promise<AuthMode> {
  const mode =
    auth?.mode ??
    (auth?.custom && "custom") ??
    (hasListedKeys || (await identity.listKeys({ limit: 1 })).length > 0 ? "api_key" : "none");
  if (mode === "none" && hasListedKeys) {
    throw new ConfigError(['GREENROOM_API_KEYS: has no effect while auth.mode is "none"; remove one of the two']);
  }
  if (mode === "none" && !options.loopback) {
    throw new ConfigError([
      `${options.host.setting}: the server has no authentication, so it listens only on loopback addresses. ` +
        "Create a key with greenroom keys create, or set GREENROOM_API_KEYS",
    ]);
  }
  return mode;
}

export interface AccessInput {
  readonly identity: IdentityStore;
  /** True if GREENROOM_API_KEYS names keys; `identity` then has only these. */
  readonly hasListedKeys: boolean;
  readonly options: CommandOptions;
}

/**
 * Creates an identity store in memory from a comma-separated list of keys. Returns null for a list without keys. Throws
 * a ConfigError that names `GREENROOM_API_KEYS` for an invalid key.
 */
export function createListedKeyStore(list = ""): IdentityStore | null {
  const keys = list.split(",").map((key) => key.trim());
  try {
    return keys.some((key) => key !== "") ? staticIdentity({ keys: keys.filter((key) => key !== "") }) : null;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(error.problems.map((problem) => `GREENROOM_API_KEYS: ${problem}`));
  }
}
