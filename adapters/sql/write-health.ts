/** Remembers that calls fail because of the database's files or its disk. */

import { type SqlStatement, sizeOf } from "./driver.ts";
import { isBroken, isDamage, isFull } from "./errors.ts";

const SMALLEST = 64 * 1024;
const LARGEST = 16 * 1024 * 1024;

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

  /** How many bytes a probe must write to prove that the failed batch would succeed now; 0 while writes work. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Records a failed call. Ignores errors that do not concern the database's files. */
  note(error: unknown, statements: readonly SqlStatement[]): void {
    if (!isFull(error) && !isBroken(error)) return;
    this.#damaged ||= isDamage(error);
    if (this.#damaged) this.#failure = "The database file is damaged: stop the server and restore a backup";
    else this.#failure = isFull(error) ? "The disk of the database is full" : "The database cannot be written";
    const bytes = statements.reduce((sum, statement) => sum + sizeOf(statement), 0);
    this.#bytes = Math.max(this.#bytes, Math.min(LARGEST, Math.max(SMALLEST, bytes)));
  }

  recovered(): void {
    this.#failure = null;
    this.#bytes = 0;
  }
}
