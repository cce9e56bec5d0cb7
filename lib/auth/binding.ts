/** Nouns for one caller: each call runs the host's authorization with the whole value, and uses the scope that results. */
import type { Environment } from "../environment.ts";
import type { ServiceError } from "../errors.ts";
import type { Scope } from "../storage/mod.ts";
import { type Visibility, withVisibility } from "../storage/visibility.ts";
import { createReader, type Reader } from "../streams/log.ts";
import type { AuthEvent } from "./custom.ts";
import { type Permission, watchPermission } from "./permission.ts";
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
export interface Permit<Value> extends Permission {
  /** As the host's handler leaves it. */
  readonly value: Value;
  /** What the caller can see. */
  readonly scope: Scope;
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
  /** The same items. When the caller loses the permit, the reader throws the refusal. */
  reader<Item>(permit: Permission, reader: Reader<Item>): Reader<Item>;
  /** The same result, which rejects with the refusal when the caller loses the permit. */
  value<Value extends Waiting>(permit: Permission, waiting: Value): Value;
}

type BindingEnvironment = Pick<Environment, "now" | "timer" | "uuid">;

/** A result that a caller waits for. */
interface Waiting {
  readonly result: Promise<unknown>;
  leave(): void;
}

/** A binding for the calls of one request. The response watches the permit, so that it can drop unsent parts. */
export interface RequestBinding extends Binding {
  /** Calls `lost` once when the caller loses the permit of what is shown. The result stops the checks. */
  watch(lost: (refusal: ServiceError) => void): () => void;
}

interface BindingOptions {
  /** Null: every caller may do everything. */
  readonly access: Pick<Access, "authorize"> | null;
  readonly scope: Scope;
  readonly environment: BindingEnvironment;
}

export function createBinding(
  { access, scope, environment }: BindingOptions,
  caller: Binding["caller"],
  granted: (permit: Permission) => void = () => {},
): Binding {
  return {
    ...{ caller, scope, environment, guarded: access !== null },
    async authorize(event, value) {
      if (!access) return { value, scope };
      const principal = await caller();
      const ask = (now: Principal) => access.authorize(now, event, value);
      const { value: left, visibility } = await ask(principal);
      const permit = { value: left, scope: withVisibility(scope, visibility) };
      // The handler of a new run is called once: its caller can see the run.
      const isFixed = !principal.again && (!principal.user || event === "threads:create_run");
      const again = async (): Promise<Visibility> => (await ask((await principal.again?.()) ?? principal)).visibility;
      const open = isFixed ? permit : { ...permit, again };
      granted(open);
      return open;
    },
    reader(permit, reader) {
      if (!permit.again) return reader;
      let refusal: ServiceError | undefined;
      const stop = watchPermission(environment, permit, (lost) => {
        refusal = lost;
        reader.leave();
      });
      const leave = (): void => {
        stop();
        reader.leave();
      };
      return createReader(async () => {
        const items = await reader.next();
        if (items.length === 0) stop();
        if (refusal) throw refusal;
        return items;
      }, leave);
    },
    value(permit, waiting) {
      if (!permit.again) return waiting;
      const refused = Promise.withResolvers<never>();
      const stop = watchPermission(environment, permit, refused.reject);
      const leave = (): void => {
        stop();
        waiting.leave();
      };
      const result = Promise.race([waiting.result, refused.promise]).finally(stop);
      // After the caller has left, nothing else handles its rejection.
      result.catch(() => {});
      return { ...waiting, result, leave };
    },
  };
}

export function createRequestBinding(options: BindingOptions, caller: Binding["caller"]): RequestBinding {
  let shown: Permission | undefined;
  let last: Permission | undefined;
  // Without the value that was permitted, which may be large.
  const kept = ({ scope, again }: Permission): Permission => ({ scope, ...(again ? { again } : {}) });
  const granted = (permit: Permission): void => {
    last = kept(permit);
  };
  return {
    ...createBinding(options, caller, granted),
    reader(permit, reader) {
      shown = kept(permit);
      return reader;
    },
    value(permit, waiting) {
      shown = kept(permit);
      return waiting;
    },
    watch(lost) {
      const permit = shown ?? last;
      return permit ? watchPermission(options.environment, permit, lost) : () => {};
    },
  };
}
