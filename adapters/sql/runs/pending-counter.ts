/** Counts pending runs of deployments without a query for each new run: with thousands of them, counting costs more than a run. */
export class PendingCounter {
  readonly #count: (deployment: string) => Promise<number>;
  readonly #estimates: Map<string, Estimate> = new Map();

  constructor(count: (deployment: string) => Promise<number>) {
    this.#count = count;
  }

  /**
   * Calls `create` with null if `runs` more are certain to fit, else with the limit, which `create` must then check. Counts the
   * pending runs again, before the call, after each tenth of the limit. Returns the result of `create`; rejects if it or the
   * count fails.
   */
  create<Created>(
    deployment: string,
    limit: number,
    create: (limit: number | null) => Promise<Created>,
    runs = 1,
  ): Promise<Created> {
    const step = Math.floor(limit / 10);
    if (step === 0) return create(limit);
    const estimate = this.#estimates.get(deployment) ?? { counted: 0, created: step, creating: 0, counting: null };
    this.#estimates.set(deployment, estimate);
    estimate.created += runs;
    estimate.creating += runs;
    if (!estimate.counting && estimate.created > step) estimate.counting = this.#countAgain(deployment, estimate);
    // Two more steps for runs of other processes, which this one sees only when it counts.
    const startCreation = (): Promise<Created> =>
      create(estimate.counted + estimate.created + 2 * step < limit ? null : limit);
    const creating = estimate.counting ? estimate.counting.then(startCreation) : startCreation();
    const finishCreation = (): void => {
      estimate.creating -= runs;
    };
    creating.then(finishCreation, finishCreation);
    return creating;
  }

  /**
   * Replaces the estimate by a count. Runs that are being created now count on top, so it may be too high. Rejects if the count
   * fails; another one may start then.
   */
  async #countAgain(deployment: string, estimate: Estimate): Promise<void> {
    // The query may or may not see the runs that are being created now.
    estimate.created = estimate.creating;
    try {
      estimate.counted = await this.#count(deployment);
    } finally {
      estimate.counting = null;
    }
  }
}

/** An upper bound for this process: `counted` by the last query, `created` since. */
interface Estimate {
  counted: number;
  created: number;
  creating: number;
  counting: Promise<void> | null;
}
