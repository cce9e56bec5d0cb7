/** Nouns for one caller: each call asks the host's authorization once, with the whole value, and acts in the scope that it gives. */
import type { Scope } from "../storage/mod.ts";
import { withVisibility } from "../storage/visibility.ts";
import type { AuthEvent } from "./custom.ts";
import type { Access, Principal } from "./principal.ts";

/** A noun for any scope, without authorization: for workers, crons and other nouns. Each method takes the scope first. */
export type Directory<Noun> = {
  readonly [Name in keyof Noun]: Noun[Name] extends (...args: infer Args) => infer Result
    ? (scope: Scope, ...args: Args) => Result
    : never;
};

/** The noun in one scope. */
export const inScope = <Noun extends object>(directory: Directory<Noun>, scope: Scope): Noun =>
  Object.fromEntries(
    Object.entries(directory).map(([name, call]) => [
      name,
      (...args: unknown[]) => (call as (scope: Scope, ...args: unknown[]) => unknown)(scope, ...args),
    ]),
  ) as Noun;

/** One permitted call. */
export interface Permit<Value> {
  /** As the host's handler leaves it. */
  readonly value: Value;
  /** What the caller can see. */
  readonly scope: Scope;
}

/** The caller of bound nouns. */
export interface Binding {
  /** Asks whether the caller may do this. Errors: forbidden, unavailable, internal. */
  authorize<Value extends object>(event: AuthEvent, value: Value): Promise<Permit<Value>>;
}

export const createBinding = (
  access: Pick<Access, "authorize">,
  scope: Scope,
  caller: () => Principal | Promise<Principal>,
): Binding => ({
  async authorize(event, value) {
    const { value: left, visibility } = await access.authorize(await caller(), event, value);
    return { value: left, scope: withVisibility(scope, visibility) };
  },
});
