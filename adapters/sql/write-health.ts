/** Remembers that writes fail for a reason that lies in the database's files or its disk. */
import { isBroken, isFull } from "./dialect.ts";
import type { SqlStatement } from "./driver.ts";

const SMALLEST = 64 * 1024;
const LARGEST = 16 * 1024 * 1024;

export class WriteHealth {
  #failure: string | null = null;
  #bytes = 0;

  /** Why writes fail; null while they work. */
  get failure(): string | null {
    return this.#failure;
  }

  /** How much a write has to bring to prove that what failed would succeed now; 0 while writes work. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A batch has failed. Errors that say nothing of the database's files are passed over. */
  note(error: unknown, statements: readonly SqlStatement[]): void {
    if (!isFull(error) && !isBroken(error)) return;
    this.#failure = isFull(error) ? "The disk of the database is full" : "The database cannot be written";
    this.#bytes = Math.max(this.#bytes, Math.min(LARGEST, Math.max(SMALLEST, sizeOf(statements))));
  }

  recovered(): void {
    this.#failure = null;
    this.#bytes = 0;
  }
}

function sizeOf(statements: readonly SqlStatement[]): number {
  const values = statements.flatMap(({ args }) => args);
  return values.reduce<number>((sum, value) => {
    if (typeof value === "string") return sum + value.length;
    return sum + (value instanceof Uint8Array ? value.byteLength : 8);
  }, 0);
}
