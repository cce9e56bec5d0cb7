/** How many runs a deployment may have waiting, without counting them each time: with thousands, that costs more than a run. */
export class Tally {
  readonly #count: (deployment: string) => Promise<number>;
  readonly #known: Map<string, Known> = new Map();

  constructor(count: (deployment: string) => Promise<number>) {
    this.#count = count;
  }

  /** Calls `make` with the limit it must hold itself to, or with null where so many more `runs` are certain to fit. */
  make<Made>(
    deployment: string,
    limit: number,
    make: (limit: number | null) => Promise<Made>,
    runs = 1,
  ): Promise<Made> {
    const step = Math.floor(limit / 10);
    if (step === 0) return make(limit);
    const known = this.#known.get(deployment) ?? { waiting: 0, made: step, making: 0, counting: null };
    this.#known.set(deployment, known);
    known.made += runs;
    known.making += runs;
    if (!known.counting && known.made > step) known.counting = this.#countAgain(deployment, known);
    // Other processes make runs too, of which this one knows only when it counts.
    const go = (): Promise<Made> => make(known.waiting + known.made + 2 * step < limit ? null : limit);
    const made = known.counting ? known.counting.then(go) : go();
    const done = (): void => {
      known.making -= runs;
    };
    made.then(done, done);
    return made;
  }

  async #countAgain(deployment: string, known: Known): Promise<void> {
    // The count may see those that are being made now, or not.
    known.made = known.making;
    try {
      known.waiting = await this.#count(deployment);
    } finally {
      known.counting = null;
    }
  }
}

/** Never fewer than there are, as far as this process goes: `waiting` were counted, `made` have come since. */
interface Known {
  waiting: number;
  made: number;
  making: number;
  counting: Promise<void> | null;
}
