/** The axis of a time line: to scale where something worked, with waits cut short. */

export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** The duration above which a wait is shortened, to `WAIT_SHARE` of the active time. */
const MAX_WAIT_MS = 2000;
const WAIT_SHARE = 0.08;

export interface Axis {
  /** Returns the position of a time on the axis, from 0 to 1. */
  position(time: number): number;
  readonly hasShortWaits: boolean;
}

/** Splits `span` into the parts with and without an active interval, in order. An interval that ends after `span` is not cut. */
function splitIntoSegments(active: readonly Interval[], span: Interval): (Interval & { readonly isWait: boolean })[] {
  const segments: (Interval & { readonly isWait: boolean })[] = [];
  let position = span.from;
  for (const { from, to } of [...active].sort((a, b) => a.from - b.from)) {
    if (from > position) segments.push({ from: position, to: from, isWait: true });
    if (to > position) segments.push({ from: Math.max(position, from), to, isWait: false });
    position = Math.max(position, to);
  }
  if (span.to > position) segments.push({ from: position, to: span.to, isWait: true });
  return segments;
}

/**
 * Returns an axis over `span` on which waits longer than a limit, times outside of `active`, are short; `hasShortWaits`
 * is true if there are any. `position` is between 0 and 1, also for times outside.
 */
export function createAxis(active: readonly Interval[], span: Interval): Axis {
  const segments = splitIntoSegments(active, span);
  const isShort = ({ from, to, isWait }: (typeof segments)[number]): boolean => isWait && to - from > MAX_WAIT_MS;
  const activeMs = segments.filter((segment) => !isShort(segment)).reduce((sum, { from, to }) => sum + to - from, 0);
  const widths = segments.map((segment) =>
    isShort(segment) ? Math.max(1, activeMs * WAIT_SHARE) : segment.to - segment.from,
  );
  const total = Math.max(
    1,
    widths.reduce((sum, width) => sum + width, 0),
  );
  return {
    position(time) {
      let before = 0;
      for (const [index, { from, to }] of segments.entries()) {
        const width = widths[index] as number;
        if (time < to) return (before + (Math.max(0, time - from) / (to - from)) * width) / total;
        before += width;
      }
      return before / total;
    },
    hasShortWaits: segments.some(isShort),
  };
}
