/** Custom authentication and authorization: the host's own handlers, and what their answers mean. */
import type { AuthUser } from "./executor.ts";
import type { Json, JsonObject } from "./json.ts";

export type { AuthUser } from "./executor.ts";

/** What a handler is asked about. */
export type AuthEvent =
  | `threads:${"create" | "read" | "update" | "delete" | "search" | "create_run"}`
  | `assistants:${"create" | "read" | "update" | "delete" | "search"}`
  | `crons:${"create" | "read" | "update" | "delete" | "search"}`
  | `store:${"put" | "get" | "search" | "list_namespaces" | "delete"}`;

/** What a handler is called with. Changes that it makes to `value` take effect. */
export interface AuthContext {
  readonly event: AuthEvent;
  readonly resource: string;
  readonly action: string;
  readonly value: JsonObject;
  readonly permissions: readonly string[];
  readonly user: AuthUser;
}

/** Nothing or true: allowed. False: forbidden. An object: only what its metadata says so, as `{owner: "ann"}` or `{team: {$contains: "a"}}`. */
export type AuthAnswer = undefined | null | boolean | JsonObject;

export type AuthHandler = (context: AuthContext) => AuthAnswer | Promise<AuthAnswer>;

/** A host's authentication. An `Auth` object of `@langchain/langgraph-sdk/auth` serves as well. */
export interface Auth {
  /**
   * Who sends this request: an identity, or an object with one and whatever else the graph is to know. To refuse it, throws an
   * object with `status` (and `headers`); its message is the answer's.
   */
  authenticate(request: Request): Promise<string | AuthClaims> | string | AuthClaims;
  /** By event, as `threads:create`; `threads`, `*:create` and `*` for those without a handler of their own. */
  readonly on?: Readonly<Record<string, AuthHandler>>;
}

export interface AuthClaims {
  readonly identity: string;
  readonly permissions?: readonly string[];
  readonly display_name?: string;
  readonly is_authenticated?: boolean;
  readonly [extra: string]: Json | readonly string[] | undefined;
}
