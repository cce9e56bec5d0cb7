/** Remembers that calls fail because of the database's files or its disk. */

import { measureStatement, type SqlStatement } from "./driver.ts";
import { isDamageError, isDiskFullError, isUnwritableError } from "./errors.ts";

const MIN_PROBE_BYTES = 64 * 1024;
const MAX_PROBE_BYTES = 16 * 1024 * 1024;

export class WriteHealth {
  #failure: string | null = null;
  #bytes = 0;
  #damaged = false;

  /** A damaged file stays damaged, although other pages of it can be written. */
  get isDamaged(): boolean {
    return this.#damaged;
  }

  /** Why writes fail; null while they work. */
  get failure(): string | null {
    return this.#failure;
  }

  /** The number of bytes that a probe must write to prove that the failed batch would succeed now; 0 while writes work. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Records a failed call: `failure` becomes a sentence, and `bytes` grows to the size of the statements, within limits, so
   * that a probe writes as much. Ignores errors that do not concern the database's files. Damage stays recorded when later
   * calls succeed.
   */
  recordFailure(error: unknown, statements: readonly SqlStatement[]): void {
    if (!isDiskFullError(error) && !isUnwritableError(error)) return;
    this.#damaged ||= isDamageError(error);
    if (this.#damaged) this.#failure = "The database file is damaged: stop the server and restore a backup";
    else this.#failure = isDiskFullError(error) ? "The disk of the database is full" : "The database cannot be written";
    const bytes = statements.reduce((sum, statement) => sum + measureStatement(statement), 0);
    this.#bytes = Math.max(this.#bytes, Math.min(MAX_PROBE_BYTES, Math.max(MIN_PROBE_BYTES, bytes)));
  }

  /** Clears the failure, so that `probe` writes a small row again. `isDamaged` stays. */
  clearFailure(): void {
    this.#failure = null;
    this.#bytes = 0;
  }
}
