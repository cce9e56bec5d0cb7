/** What would make a seed go another way on another engine, or another time, is replaced while it runs. */
import { createHash } from "node:crypto";
import { Dice } from "./random.ts";

type Finally = typeof Promise.prototype.finally;

/** As the language defines it. JavaScriptCore's own takes fewer ticks of the microtask queue than that. */
const definedFinally: Finally = function (this: Promise<unknown>, act) {
  if (typeof act !== "function") return this.then(act, act) as never;
  return this.then(
    (value) => Promise.resolve(act()).then(() => value),
    (error: unknown) =>
      Promise.resolve(act()).then(() => {
        throw error;
      }),
  ) as never;
};

/** The real one answers from a thread of its own, when it likes. */
async function digest(algorithm: string, bytes: Uint8Array): Promise<ArrayBuffer> {
  const hash = createHash(algorithm.replace("-", "").toLowerCase()).update(bytes).digest();
  return new Uint8Array(hash).buffer;
}

/** Replaces them; the result puts the real ones back. */
export function makeSteady(seed: number): () => void {
  const dice = new Dice(seed, "ids");
  const replaced = [
    { of: Promise.prototype, name: "finally", value: definedFinally },
    { of: crypto.subtle, name: "digest", value: digest },
    // The ids of the default workspace and its like.
    { of: crypto, name: "randomUUID", value: () => dice.uuid() },
  ].map(({ of, name, value }) => {
    const before = Object.getOwnPropertyDescriptor(of, name);
    Object.defineProperty(of, name, { value, configurable: true, writable: true });
    return () => {
      if (before) Object.defineProperty(of, name, before);
      else delete (of as unknown as Record<string, unknown>)[name];
    };
  });
  return () => {
    for (const restore of replaced) restore();
  };
}
