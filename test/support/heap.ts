/** Measures memory after a full collection, on Node. */
import { setImmediate as tick } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose_gc");
/** Frees what nothing refers to. */
export const collect = runInNewContext("gc") as () => void;

/** Returns the bytes of the heap and of the buffers beside it that are in use. */
export async function measureHeap(): Promise<number> {
  for (let tries = 0; tries < 5; tries++) {
    await tick();
    collect();
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}
