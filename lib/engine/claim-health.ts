/** The health of claiming: whether calls of the store fail or hang, and whether the timers of the worker still run. */
import type { Environment } from "../environment.ts";
import { isOutage } from "../errors.ts";

export interface ClaimHealth {
  /** Calls the store; undefined if that failed, which is logged. */
  call<Answer>(request: () => Promise<Answer>): Promise<Answer | undefined>;
  isFailing(): boolean;
  /** The poll timer has fired. */
  polled(): void;
  /** False if claiming has failed, or has not been answered, for some time. An outage of the store does not count. */
  isHealthy(longest_poll_ms: number): boolean;
}

const UNHEALTHY_MS = 10_000;

export function createClaimHealth(environment: Environment): ClaimHealth {
  let failingSince: number | null = null;
  // A restart of this process would not help.
  let storageDown = false;
  let calledAt: number | null = null;
  let polledAt = environment.now();
  return {
    async call(request) {
      calledAt = environment.now();
      try {
        const answer = await request();
        failingSince = null;
        storageDown = false;
        return answer;
      } catch (error) {
        failingSince ??= environment.now();
        storageDown ||= isOutage(error);
        environment.log({ level: "error", message: "claiming a run failed", error });
        return undefined;
      } finally {
        calledAt = null;
      }
    },
    isFailing: () => failingSince !== null,
    polled() {
      polledAt = environment.now();
    },
    isHealthy(longest_poll_ms) {
      const now = environment.now();
      const isOld = (since: number | null): boolean => since !== null && now - since >= UNHEALTHY_MS;
      return !((isOld(failingSince) && !storageDown) || isOld(calledAt) || now - polledAt > longest_poll_ms);
    },
  };
}
