/** Repeatable randomness. Every part of a simulation draws from a stream of its own, so that one part's draws never move another's. */

/** A stream of numbers that its seed and its name decide (sfc32). */
export class Dice {
  #a: number;
  #b: number;
  #c: number;
  #count = 1;

  constructor(seed: number, name: string) {
    this.#a = seed | 0;
    this.#b = hashText(name, 0x9e3779b9);
    this.#c = Math.floor(seed / 2 ** 32) | 0;
    for (let i = 0; i < 12; i++) this.bits();
  }

  /** Returns 32 random bits. */
  bits(): number {
    const sum = (((this.#a + this.#b) | 0) + this.#count) | 0;
    this.#count = (this.#count + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** Returns a number in [0, 1). */
  float(): number {
    return this.bits() / 2 ** 32;
  }

  /** An integer in [0, count). */
  below(count: number): number {
    return Math.floor(this.float() * count);
  }

  /** Returns an integer in [low, high]. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  chance(probability: number): boolean {
    return this.float() < probability;
  }

  pick<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item;
  }

  /** Returns a UUID of version 4. */
  uuid(): string {
    const hex = (): string => this.bits().toString(16).padStart(8, "0");
    const [a, b, c, d] = [hex(), hex(), hex(), hex()];
    const variant = "89ab"[Number.parseInt(c[0] as string, 16) & 3];
    return `${a}-${b.slice(0, 4)}-4${b.slice(5)}-${variant}${c.slice(1, 4)}-${c.slice(4)}${d}`;
  }
}

/** Returns a 32-bit hash of a text, continued from `start`. */
export function hashText(text: string, start = 0): number {
  let hash = start ^ text.length;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) | 0;
}

/** A hash over everything it is given, in order. */
export class Digest {
  #low = 0x1234567;
  #high = 0x7654321;

  add(value: string | number): void {
    const hash = typeof value === "string" ? hashText(value, this.#low) : Math.imul(value ^ this.#low, 0x01000193);
    this.#low = Math.imul(hash ^ (hash >>> 16), 0x7feb352d) ^ this.#high;
    this.#high = Math.imul(this.#high ^ (hash >>> 7), 0x846ca68b) + hash;
  }

  get text(): string {
    return [this.#high, this.#low].map((part) => (part >>> 0).toString(16).padStart(8, "0")).join("");
  }
}
