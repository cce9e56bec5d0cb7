/** The open calls of a service, for which its `stop` waits. */
import type { KeepAlive } from "../environment.ts";
import { ServiceError } from "../errors.ts";

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
