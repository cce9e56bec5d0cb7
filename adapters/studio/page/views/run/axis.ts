/** The axis of a time line: to scale where something worked, with waits cut short. */

export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** Longer waits are cut short, to this part of the time in which something worked. */
const MAX_WAIT_MS = 2000;
const WAIT_SHARE = 0.08;

export interface Axis {
  /** The place of a time, from 0 to 1. */
  position(time: number): number;
  readonly hasShortWaits: boolean;
}

/** The parts of `span` in which nothing of `active` worked, and the others, in their order. */
function segmentsOf(active: readonly Interval[], span: Interval): (Interval & { readonly waits: boolean })[] {
  const segments: (Interval & { readonly waits: boolean })[] = [];
  let at = span.from;
  for (const { from, to } of [...active].sort((a, b) => a.from - b.from)) {
    if (from > at) segments.push({ from: at, to: from, waits: true });
    if (to > at) segments.push({ from: Math.max(at, from), to, waits: false });
    at = Math.max(at, to);
  }
  if (span.to > at) segments.push({ from: at, to: span.to, waits: true });
  return segments;
}

export function axisOf(active: readonly Interval[], span: Interval): Axis {
  const segments = segmentsOf(active, span);
  const isShort = ({ from, to, waits }: (typeof segments)[number]): boolean => waits && to - from > MAX_WAIT_MS;
  const worked = segments.filter((one) => !isShort(one)).reduce((sum, { from, to }) => sum + to - from, 0);
  const widths = segments.map((one) => (isShort(one) ? Math.max(1, worked * WAIT_SHARE) : one.to - one.from));
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
