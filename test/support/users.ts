/** Users of custom authentication. */
import type { AuthUser } from "../../lib/mod.ts";

export const createUser = (identity: string): AuthUser => ({
  identity,
  display_name: identity,
  is_authenticated: true,
  permissions: [],
});
