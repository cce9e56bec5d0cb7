/** Times in which a soak itself kept its servers from what it measures. */

/** A time in which the servers could not do their work, or none was there. */
export interface Disturbance {
  readonly from: number;
  to: number;
}

/** Returns how much of a time was disturbed, once or more than once at the same time. */
export function measureDisturbance(from: number, to: number, disturbances: readonly Disturbance[]): number {
  let sum = 0;
  let counted = from;
  for (const disturbance of disturbances.toSorted((a, b) => a.from - b.from)) {
    const end = Math.min(to, disturbance.to);
    sum += Math.max(0, end - Math.max(counted, disturbance.from));
    counted = Math.max(counted, end);
  }
  return sum;
}
