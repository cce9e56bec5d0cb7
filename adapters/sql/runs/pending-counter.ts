/** Counts pending runs of deployments without a query for each new run: with thousands of them, counting costs more than a run. */
export class PendingCounter {
  readonly #count: (deployment: string) => Promise<number>;
  readonly #estimates: Map<string, Estimate> = new Map();

  constructor(count: (deployment: string) => Promise<number>) {
    this.#count = count;
  }

  /** Calls `create` with the limit that it must check, or with null when `runs` more are certain to fit. */
  create<Created>(
    deployment: string,
    limit: number,
    create: (limit: number | null) => Promise<Created>,
    runs = 1,
  ): Promise<Created> {
    const step = Math.floor(limit / 10);
    if (step === 0) return create(limit);
    const known = this.#estimates.get(deployment) ?? { counted: 0, created: step, creating: 0, counting: null };
    this.#estimates.set(deployment, known);
    known.created += runs;
    known.creating += runs;
    if (!known.counting && known.created > step) known.counting = this.#countAgain(deployment, known);
    // Two more steps for runs of other processes, which this one sees only when it counts.
    const go = (): Promise<Created> => create(known.counted + known.created + 2 * step < limit ? null : limit);
    const creating = known.counting ? known.counting.then(go) : go();
    const done = (): void => {
      known.creating -= runs;
    };
    creating.then(done, done);
    return creating;
  }

  async #countAgain(deployment: string, known: Estimate): Promise<void> {
    // The query may or may not see the runs that are being created now.
    known.created = known.creating;
    try {
      known.counted = await this.#count(deployment);
    } finally {
      known.counting = null;
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
