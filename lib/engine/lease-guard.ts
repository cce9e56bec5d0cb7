/**
 * Keeps this process from claiming its own runs a second time: after it stood still, its leases have expired while their
 * executors are still at work.
 */
import type { Environment } from "../environment.ts";
import type { ClaimTerms } from "../storage/mod.ts";
import type { Attempt } from "./attempt.ts";

/** A claim sent with the creation or the end of a run. */
interface SentClaim {
  readonly token: string;
  readonly until: number;
  readonly answered: PromiseWithResolvers<void>;
}

export interface LeaseGuard {
  sent(terms: ClaimTerms): void;
  answered(token: string): void;
  /** Some lease of this process has expired. */
  isBehind(now: number): boolean;
  /**
   * Settles expired leases: waits for late answers, renews leases, waits for executors. Resolves with a time at which none of
   * them has expired. Rejects if a renewal fails.
   */
  catchUp(): Promise<number>;
}

/** How long to wait for a late answer, and how often again if the process stands still meanwhile. */
const LATE_MS = 100;
const LATE_TIMES = 8;

/** `single_process`: no other process could retry a run whose claim is not answered. */
export function createLeaseGuard(
  environment: Environment,
  attempts: ReadonlySet<Attempt>,
  single_process: boolean,
): LeaseGuard {
  const claims = new Map<string, SentClaim>();

  /** Leases of this process that have expired. Claiming now could start such a run a second time. */
  function expiredLeases(now: number): {
    readonly claims: readonly SentClaim[];
    readonly attempts: readonly Attempt[];
  } {
    return {
      claims: [...claims.values()].filter(({ until }) => until <= now),
      attempts: [...attempts].filter((attempt) => attempt.isExpired(now)),
    };
  }

  /** Waits for the answer of a late claim. A slow store must not delay the rest, unless no other process could retry the run. */
  async function awaitAnswer({ token, answered }: SentClaim): Promise<void> {
    let cancel = (): void => {};
    const wait = (times: number): void => {
      const until = environment.now() + LATE_MS;
      cancel = environment.timer(LATE_MS, () => {
        // A late timer means that the process stood still: the store had no chance to answer.
        if (times > 1 && environment.now() - until > LATE_MS / 10) return wait(times - 1);
        claims.delete(token);
        answered.resolve();
      });
    };
    if (!single_process) wait(LATE_TIMES);
    await answered.promise;
    cancel();
  }

  function isBehind(now: number): boolean {
    const expired = expiredLeases(now);
    return expired.claims.length + expired.attempts.length > 0;
  }

  return {
    isBehind,
    sent({ token, lease_until }) {
      claims.set(token, { token, until: lease_until, answered: Promise.withResolvers<void>() });
    },
    answered(token) {
      claims.get(token)?.answered.resolve();
      claims.delete(token);
    },
    async catchUp() {
      let now = environment.now();
      // More leases may expire while the store answers.
      while (isBehind(now)) {
        const expired = expiredLeases(now);
        await Promise.all([
          ...expired.claims.map(awaitAnswer),
          ...expired.attempts.map((attempt) => attempt.beforeClaim()),
        ]);
        now = environment.now();
      }
      return now;
    },
  };
}
