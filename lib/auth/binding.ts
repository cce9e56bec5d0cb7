/** Nouns for one caller: each call runs the host's authorization with the whole value, and uses the scope that results. */
import type { Environment } from "../environment.ts";
import type { ServiceError } from "../errors.ts";
import type { Scope } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import type { AccessGrant, StreamGuard, StreamGuards } from "../streams/stream-guard.ts";
import type { AuthEvent } from "./custom.ts";
import type { Access, Principal } from "./principal.ts";
import { createRevocationCheck } from "./revocation.ts";

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
export interface Permit<Value> extends AccessGrant {
  /** As the host's handler leaves it. */
  readonly value: Value;
}

/** The caller of bound nouns. `Event`: the events that may be asked about. */
export interface Binding<Event extends AuthEvent = AuthEvent> {
  readonly caller: () => Principal | Promise<Principal>;
  /** The deployment. */
  readonly scope: Scope;
  readonly environment: BindingEnvironment;
  /** False: every caller may do everything, so `authorize` changes nothing. */
  readonly guarded: boolean;
  /** Runs the authorization of a call. Errors: forbidden, unavailable, internal. */
  readonly authorize: <Value extends object>(event: Event, value: Value) => Promise<Permit<Value>>;
  /** Guards everything that stays open for the caller. */
  readonly guards: StreamGuards;
}

type BindingEnvironment = Pick<Environment, "now" | "uuid">;

/** A binding for the calls of one request. */
export interface RequestBinding extends Binding {
  /** Calls `onLost` once when the caller loses the access to what the response sends. Undefined if that cannot happen. */
  guard(onLost: (revocation: ServiceError | null) => void): StreamGuard | undefined;
}

interface BindingOptions {
  /** Null: every caller may do everything. */
  readonly access: Pick<Access, "authorize"> | null;
  readonly scope: Scope;
  readonly environment: BindingEnvironment;
  readonly guards: StreamGuards;
}

/** Asks once more what the caller can see. A function of its own: where it waits, nothing else refers to the value. */
const authorizeAgain =
  (access: Pick<Access, "authorize">, principal: Principal, event: AuthEvent, value: object) =>
  async (): Promise<Visibility> => {
    const now = (await principal.again?.()) ?? principal;
    return (await access.authorize(now, event, value)).visibility;
  };

export function createBinding(
  { access, scope: deploymentScope, environment, guards }: BindingOptions,
  caller: Binding["caller"],
  onAuthorized: (grant: AccessGrant) => void = () => {},
): Binding {
  return {
    ...{ caller, scope: deploymentScope, environment, guards, guarded: access !== null },
    async authorize(event, value) {
      if (!access) return { value, scope: deploymentScope };
      const principal = await caller();
      const { value: left, visibility } = await access.authorize(principal, event, value);
      const scope = withVisibility(deploymentScope, visibility);
      // The handler of a new run is called once: its caller can see the run.
      const isFixed = !principal.again && (!principal.user || event === "threads:create_run");
      // Without a user no handler reads the value, which may be large.
      const findVisibility = authorizeAgain(access, principal, event, principal.user ? value : {});
      const grant = isFixed ? { scope } : { scope, findRevocation: createRevocationCheck(scope, findVisibility) };
      onAuthorized(grant);
      return { ...grant, value: left };
    },
  };
}

/** The response itself checks the grant, not the readers of the request: it also drops what it has taken and not sent. */
export function createRequestBinding(options: BindingOptions, caller: Binding["caller"]): RequestBinding {
  const { guards } = options;
  let sent: AccessGrant | undefined;
  let newest: AccessGrant | undefined;
  const binding = createBinding(options, caller, (grant) => {
    newest = grant;
  });
  const ofThread = ({ scope, findRevocation }: AccessGrant): AccessGrant => {
    sent = { scope, ...(findRevocation ? { findRevocation } : {}) };
    return { scope };
  };
  return {
    ...binding,
    guards: {
      open: guards.open,
      reader: (grant, reader, thread) => guards.reader(ofThread(grant), reader, thread),
      result: (grant, pending, thread) => guards.result(ofThread(grant), pending, thread),
    },
    guard(onLost) {
      const grant = sent ?? newest;
      return grant && guards.open(grant, undefined, onLost);
    },
  };
}
