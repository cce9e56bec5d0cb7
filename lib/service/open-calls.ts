/** The calls of a service that are open: `stop` waits for them, and refuses later ones. */
import { ServiceError } from "../errors.ts";

export interface OpenCalls {
  readonly open: Set<Promise<unknown>>;
  /** From now on calls that create runs are refused. */
  stopping: boolean;
  /** From now on all calls are refused. */
  closed: boolean;
  /** A noun whose calls are tracked. `creating`: calls that create runs. `untracked`: a call that uses no storage. */
  track<Noun extends object>(
    noun: Noun,
    options?: { readonly creating?: ReadonlySet<string>; readonly untracked?: keyof Noun },
  ): Noun;
}

export const STOPPING = "The server is stopping";

export function createOpenCalls(): OpenCalls {
  const open = new Set<Promise<unknown>>();
  const stopping = (): ServiceError => new ServiceError("unavailable", STOPPING);

  const calls: OpenCalls = {
    open,
    stopping: false,
    closed: false,
    track(noun, { creating, untracked } = {}) {
      const tracked =
        (name: string, call: (...args: unknown[]) => Promise<unknown>) =>
        async (...args: unknown[]): Promise<unknown> => {
          if (calls.closed || (calls.stopping && creating?.has(name))) throw stopping();
          const answer = call(...args);
          open.add(answer);
          try {
            return await answer;
          } catch (error) {
            throw calls.closed && !(error instanceof ServiceError) ? stopping() : error;
          } finally {
            open.delete(answer);
          }
        };
      return Object.fromEntries(
        Object.entries(noun).map(([name, call]) => [name, name === untracked ? call : tracked(name, call)]),
      ) as typeof noun;
    },
  };
  return calls;
}
