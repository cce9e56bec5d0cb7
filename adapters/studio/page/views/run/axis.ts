/** The axis of a time line: to scale where something worked; long gaps have a fixed width. */

export interface Interval {
  readonly from: number;
  readonly to: number;
}

/** A part of an axis. Segments are in order and adjoin. */
export interface Segment extends Interval {
  /** `waiting`: nothing worked, for a reason that is unknown. */
  readonly kind: "active" | "queued" | "suspended" | "waiting";
}

/** A gap that is longer than it is drawn. */
export interface Gap extends Segment {
  /** Its left edge and its width as CSS lengths. */
  readonly left: string;
  readonly width: string;
  /** False for the shortest of many gaps: there is no room for their lengths. */
  readonly isLabelled: boolean;
}

export interface Axis {
  readonly gaps: readonly Gap[];
  /** Returns the distance of a time from the left edge as a CSS length. Times outside are at an edge. */
  toLeft(time: number): string;
  /** Returns the length of an interval as a CSS length. */
  toWidth(interval: Interval): string;
}

/** Gaps above this duration have a fixed width. */
const MAX_SCALED_GAP_MS = 2000;
const GAP_PX = 56;
/** Only so many gaps are wide enough for a label: the longest. The others share `NARROW_GAPS_PX`. */
const MAX_LABELLED_GAPS = 3;
const NARROW_GAP_PX = 12;
const NARROW_GAPS_PX = 72;

/** Splits `span` into segments with and without an active interval. `findKind` returns the kind of the gap that starts at a time. */
export function splitIntoSegments(
  active: readonly Interval[],
  span: Interval,
  findKind: (from: number) => Segment["kind"] = () => "waiting",
): readonly Segment[] {
  const segments: Segment[] = [];
  let position = span.from;
  const addUntil = (to: number, kind: (from: number) => Segment["kind"]): void => {
    if (to > position) segments.push({ from: position, to, kind: kind(position) });
    position = Math.max(position, to);
  };
  for (const { from, to } of [...active].sort((a, b) => a.from - b.from)) {
    addUntil(Math.min(from, span.to), findKind);
    addUntil(Math.min(to, span.to), () => "active");
  }
  addUntil(span.to, findKind);
  return segments;
}

/** A segment with its width: a part of what the gaps leave of the track, or pixels. */
interface SizedSegment extends Segment {
  readonly share: number;
  readonly px: number;
}

/** Returns the segments with their widths. The shares of all are 1 together, unless there are only gaps. */
function sizeSegments(segments: readonly Segment[]): readonly SizedSegment[] {
  const isGap = ({ kind, from, to }: Segment): boolean => kind !== "active" && to - from > MAX_SCALED_GAP_MS;
  const gaps = segments.filter(isGap).sort((a, b) => b.to - b.from - (a.to - a.from));
  const labelled = new Set(gaps.slice(0, MAX_LABELLED_GAPS));
  const narrowPx = Math.min(NARROW_GAP_PX, NARROW_GAPS_PX / Math.max(1, gaps.length - labelled.size));
  const scaledMs = segments.reduce((sum, segment) => sum + (isGap(segment) ? 0 : segment.to - segment.from), 0);
  return segments.map((segment) =>
    isGap(segment)
      ? { ...segment, share: 0, px: labelled.has(segment) ? GAP_PX : narrowPx }
      : { ...segment, share: (segment.to - segment.from) / Math.max(scaledMs, Number.MIN_VALUE), px: 0 },
  );
}

/** Returns the axis of segments, on which gaps above a limit have a fixed width. */
export function createAxis(segments: readonly Segment[]): Axis {
  const sized = sizeSegments(segments);
  const gapPx = sized.reduce((sum, { px }) => sum + px, 0);
  const toLength = (share: number, px: number): string => `calc((100% - ${gapPx}px) * ${share} + ${px}px)`;
  /** Returns the part of the scaled width, and the pixels, that lie before a time. */
  const locate = (time: number): readonly [share: number, px: number] => {
    let [share, px] = [0, 0];
    for (const segment of sized) {
      const { from, to } = segment;
      const part = Math.min(1, Math.max(0, (time - from) / (to - from)));
      share += segment.share * part;
      px += segment.px * part;
    }
    return [share, px];
  };
  const toWidth = ({ from, to }: Interval): string => {
    const [[startShare, startPx], [endShare, endPx]] = [locate(from), locate(to)];
    return toLength(endShare - startShare, endPx - startPx);
  };
  const toLeft = (time: number): string => toLength(...locate(time));
  const gaps = sized
    .filter(({ px }) => px > 0)
    .map((gap) => ({ ...gap, left: toLeft(gap.from), width: toWidth(gap), isLabelled: gap.px === GAP_PX }));
  return { gaps, toLeft, toWidth };
}
