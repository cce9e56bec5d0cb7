/** What a job has put and no save has taken yet. */
import type { NewWrites, Progress, SavedCheckpoint } from "../storage/mod.ts";

interface Put<Item> {
  readonly item: Item;
  readonly size: number;
  /** The number of the hold that it waits for. */
  readonly hold: number;
}

/** A save takes what was put before the oldest hold that is open: that belongs to what the executor has shown. */
export class Unsaved {
  readonly #checkpoints: Put<SavedCheckpoint>[] = [];
  readonly #writes: Put<NewWrites>[] = [];
  #size = 0;
  /** Of holds, which are released in their order. */
  #last = 0;
  #released = 0;
  /** The newest hold when the job was stopped. */
  #stopped: number | null = null;
  #waiting: { readonly hold: number; readonly resolve: () => void }[] = [];

  addCheckpoint(item: SavedCheckpoint): void {
    const size = item.values.reduce((sum, { data }) => sum + data.length, 0);
    this.#size += size;
    this.#checkpoints.push({ item, size, hold: this.#last });
  }

  addWrites(item: NewWrites): void {
    const size = item.writes.reduce((sum, { data }) => sum + data.length, 0);
    this.#size += size;
    this.#writes.push({ item, size, hold: this.#last });
  }

  /** Gives the number of a hold, for `release`. */
  hold(): number {
    return ++this.#last;
  }

  release(hold: number): void {
    this.#released = Math.max(this.#released, hold);
    const waiting = this.#waiting;
    // There is a hold for each token.
    if (waiting.length === 0) return;
    this.#waiting = waiting.filter((one) => !this.#isReady(one));
    for (const one of waiting) if (this.#isReady(one)) one.resolve();
  }

  /** The executor has settled, so nothing more is shown: nothing is held from now on. */
  settle(): void {
    this.release(Number.POSITIVE_INFINITY);
  }

  stop(): void {
    this.#stopped ??= this.#last;
  }

  /** The job was stopped, and what was put before that is not held. */
  isStopped(): boolean {
    return this.#stopped !== null && this.#stopped <= this.#released;
  }

  isHeld(): boolean {
    return this.#last > this.#released;
  }

  /** Resolves when what was put last is not held. */
  async ready(): Promise<void> {
    const hold = this.#last;
    if (this.isHeld()) await new Promise<void>((resolve) => this.#waiting.push({ hold, resolve }));
  }

  take(): Pick<Progress, "checkpoints" | "writes"> {
    return { checkpoints: this.#taken(this.#checkpoints), writes: this.#taken(this.#writes) };
  }

  #taken<Item>(list: Put<Item>[]): Item[] {
    const waiting = list.findIndex((one) => !this.#isReady(one));
    const taken = list.splice(0, waiting < 0 ? list.length : waiting);
    for (const { size } of taken) this.#size -= size;
    return taken.map(({ item }) => item);
  }

  /** Those that no save has taken yet. */
  writes(): NewWrites[] {
    return this.#writes.map(({ item }) => item);
  }

  /** There is something to take. */
  isReady(): boolean {
    const [{ 0: checkpoint }, { 0: write }] = [this.#checkpoints, this.#writes];
    return (checkpoint !== undefined && this.#isReady(checkpoint)) || (write !== undefined && this.#isReady(write));
  }

  isEmpty(): boolean {
    return this.#checkpoints.length + this.#writes.length === 0;
  }

  /** In characters, with what is held. */
  get size(): number {
    return this.#size;
  }

  #isReady({ hold }: { readonly hold: number }): boolean {
    return hold <= this.#released;
  }
}
