/** Makes the nouns of a service, and those of its callers, from the table of operations, and counts their open calls. */
import { type Binding, inScope } from "../auth/binding.ts";
import type { KeepAlive } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { Feedback, FeedbackTokens } from "../feedback/mod.ts";
import type { DurableCalls, DurableCallTokens } from "../steps/calls.ts";
import type { Scope } from "../storage/mod.ts";
import type { Usage } from "../usage/mod.ts";
import type { CallerNouns, Directories, Nouns, RequestNouns } from "./nouns.ts";
import type { Operation } from "./operation.ts";
import { OPERATIONS, ROUTE_OPERATIONS } from "./operations.ts";

export interface OpenCalls {
  readonly open: Set<Promise<unknown>>;
  /** From now on calls that create runs are refused. */
  stopping: boolean;
  /** From now on all calls are refused. */
  closed: boolean;
  /** A noun whose calls are tracked. `operations`: its rows in the table. */
  track<Noun extends object>(noun: Noun, operations?: Readonly<Record<string, { readonly kind: string }>>): Noun;
}

export const STOPPING = "The server is stopping";

export function createOpenCalls({ keepAlive }: { readonly keepAlive?: KeepAlive }): OpenCalls {
  const open = new Set<Promise<unknown>>();
  const stopping = (): ServiceError => new ServiceError("server_stopping", STOPPING);

  const calls: OpenCalls = {
    open,
    stopping: false,
    closed: false,
    track(noun, operations = {}) {
      const tracked =
        (call: (...args: unknown[]) => Promise<unknown>, creates_runs = false) =>
        // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: what a stopping service answers depends on the moment and on the kind of the call
        async (...args: unknown[]): Promise<unknown> => {
          if (calls.closed || (calls.stopping && creates_runs)) throw stopping();
          const answer = call(...args);
          open.add(answer);
          keepAlive?.acquire();
          try {
            return await answer;
          } catch (error) {
            // A run may have been created: clients must not be told to try again.
            const untold = creates_runs || error instanceof ServiceError;
            throw calls.closed && !untold ? stopping() : error;
          } finally {
            open.delete(answer);
            keepAlive?.release();
          }
        };
      return Object.fromEntries(
        Object.entries(noun).map(([name, call]) => [name, tracked(call, operations[name]?.kind === "create")]),
      ) as typeof noun;
    },
  };
  return calls;
}

type Call = (...args: readonly unknown[]) => unknown;
type ScopedCall = (scope: Scope, ...args: readonly unknown[]) => unknown;
type Rows = readonly (readonly [name: string, row: Operation<readonly unknown[], unknown>])[];

const rowsOf = (operations: object): Rows => Object.entries(operations);

const CALLER_ROWS: readonly (readonly [noun: keyof CallerNouns, rows: Rows])[] = (
  Object.keys(OPERATIONS) as (keyof CallerNouns)[]
).map((noun) => [noun, rowsOf(OPERATIONS[noun])]);

const ROUTE_ROWS = new Map<string, Rows>(CALLER_ROWS);
for (const [noun, operations] of Object.entries(ROUTE_OPERATIONS)) {
  ROUTE_ROWS.set(noun, [...(ROUTE_ROWS.get(noun) ?? []), ...rowsOf(operations)]);
}

/** Returns the nouns for any scope. `stop` waits for their calls. */
export function trackDirectories(nouns: Nouns, { track }: OpenCalls): Directories {
  const { protocol } = nouns;
  const tracked = CALLER_ROWS.map(([noun]) => [noun, track<object>(nouns[noun], OPERATIONS[noun])]);
  const { command } = track({ command: protocol.command }, ROUTE_OPERATIONS.protocol);
  // Readers of events end by themselves.
  return { ...Object.fromEntries(tracked), protocol: { ...protocol, command } };
}

const scopedCall = (directories: Directories, noun: string, name: string, { of }: Rows[number][1]): ScopedCall =>
  of
    ? of(directories)
    : ((directories as unknown as Record<string, Record<string, ScopedCall>>)[noun]?.[name] as ScopedCall);

/** The nouns of the service itself, with the calls that no handler is asked about. */
export interface OwnNouns extends CallerNouns {
  readonly feedback: Feedback & FeedbackTokens;
  readonly calls: DurableCalls & DurableCallTokens;
  readonly usage: Usage;
}

/** Makes the nouns of the service: their calls have the fixed scope, and nothing is authorized. */
export function ownNouns(directories: Directories, usage: Usage, scope: Scope, { track }: OpenCalls): OwnNouns {
  const own = CALLER_ROWS.map(([noun, rows]) => [
    noun,
    inScope<object>(
      Object.fromEntries(rows.map(([name, row]) => [name, scopedCall(directories, noun, name, row)])),
      scope,
    ),
  ]);
  const nouns: CallerNouns = Object.fromEntries(own);
  const { token, submit } = directories.feedback;
  const { deliver } = directories.calls;
  return {
    ...nouns,
    feedback: { ...nouns.feedback, token, submit },
    calls: { ...nouns.calls, deliver },
    // It uses no storage.
    usage: { ...track<Usage>(usage), admit: usage.admit },
  };
}

function authorizedNoun(noun: string, rows: Rows, directories: Directories, binding: Binding): object {
  const calls: Record<string, Call> = {};
  for (const [name, row] of rows) {
    calls[name] = (...args) => row.bind(binding, directories, scopedCall(directories, noun, name, row))(...args);
  }
  return calls;
}

/** Makes the nouns for a caller of `service.as`. */
export const callerNouns = (directories: Directories, binding: Binding): CallerNouns =>
  Object.fromEntries(
    CALLER_ROWS.map(([noun, rows]) => [noun, authorizedNoun(noun, rows, directories, binding)]),
  ) as never;

/** The nouns for the caller of a request. Each is made when it is first used: a request needs few. */
class LazyNouns {
  readonly directories: Directories;
  readonly binding: Binding;
  readonly made: Record<string, object> = {};

  constructor(directories: Directories, binding: Binding) {
    this.directories = directories;
    this.binding = binding;
  }

  static {
    for (const [noun, rows] of ROUTE_ROWS) {
      Object.defineProperty(LazyNouns.prototype, noun, {
        get(this: LazyNouns): object {
          this.made[noun] ??= authorizedNoun(noun, rows, this.directories, this.binding);
          return this.made[noun];
        },
      });
    }
  }
}

/** Makes the nouns for the caller of a request. */
export const requestNouns = (directories: Directories, binding: Binding): RequestNouns =>
  new LazyNouns(directories, binding) as unknown as RequestNouns;
