/** The axis of a run's time line: what is to scale, and how much room its gaps take. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createAxis, type Segment, splitIntoSegments } from "../../../../../../adapters/studio/page/views/run/axis.ts";

/** Reads a length that the axis returns: the part of the scaled width, and the pixels beside it, with six decimals. */
function readLength(length: string): { readonly gapPx: number; readonly share: number; readonly px: number } {
  const [gapPx = 0, share = 0, px = 0] = (
    /^calc\(\(100% - ([\d.]+)px\) \* ([\d.e-]+) \+ ([\d.e-]+)px\)$/.exec(length) ?? assert.fail(length)
  )
    .slice(1)
    .map((text) => Number(Number(text).toFixed(6)));
  return { gapPx, share, px };
}

describe("the axis of a time line", () => {
  it("is to scale where something works, and beside gaps of up to two seconds", () => {
    const axis = createAxis([
      { kind: "active", from: 0, to: 3000 },
      { kind: "queued", from: 3000, to: 5000 },
      { kind: "active", from: 5000, to: 10_000 },
    ]);
    assert.deepEqual(axis.gaps, []);
    assert.deepEqual(readLength(axis.toLeft(5000)), { gapPx: 0, share: 0.5, px: 0 });
    assert.deepEqual(readLength(axis.toWidth({ from: 5000, to: 6000 })), { gapPx: 0, share: 0.1, px: 0 });
  });

  it("has edges for times outside of it", () => {
    const axis = createAxis([{ kind: "active", from: 0, to: 1000 }]);
    assert.equal(readLength(axis.toLeft(-5000)).share, 0);
    assert.equal(readLength(axis.toLeft(9000)).share, 1);
    assert.equal(readLength(axis.toWidth({ from: -5000, to: 500 })).share, 0.5);
  });

  it("gives a longer gap a fixed width, through which bars go", () => {
    const axis = createAxis([
      { kind: "active", from: 0, to: 1000 },
      { kind: "suspended", from: 1000, to: 3_601_000 },
      { kind: "active", from: 3_601_000, to: 3_604_000 },
    ]);
    const [gap] = axis.gaps;
    assert.deepEqual([axis.gaps.length, gap?.kind, gap?.isLabelled], [1, "suspended", true]);
    assert.deepEqual(readLength(gap?.width ?? ""), { gapPx: 56, share: 0, px: 56 });
    assert.deepEqual(readLength(axis.toWidth({ from: 500, to: 3_602_500 })), { gapPx: 56, share: 0.5, px: 56 });
  });

  it("leaves room for bars however many gaps there are, and labels the longest", () => {
    const segments = Array.from({ length: 1000 }, (_, index): Segment => {
      const from = index * 10_000;
      return { kind: index % 2 === 0 ? "active" : "queued", from, to: from + 10_000 };
    });
    const axis = createAxis([...segments, { kind: "suspended", from: 10_000_000, to: 20_000_000 }]);
    assert.equal(axis.gaps.length, 501);
    assert.ok(readLength(axis.toLeft(0)).gapPx <= 240);
    assert.equal(axis.gaps.filter(({ isLabelled }) => isLabelled).length, 3);
    assert.equal(axis.gaps.at(-1)?.isLabelled, true);
  });

  it("has nothing to scale for a run that has only waited", () => {
    const axis = createAxis([{ kind: "queued", from: 0, to: 60_000 }]);
    assert.deepEqual(readLength(axis.toWidth({ from: 0, to: 60_000 })), { gapPx: 56, share: 0, px: 56 });
  });
});

describe("the segments of a time line", () => {
  it("are those in which intervals lie, joined where they overlap, and gaps of a kind", () => {
    const segments = splitIntoSegments(
      [
        { from: 5, to: 7 },
        { from: 1, to: 3 },
        { from: 2, to: 4 },
      ],
      { from: 0, to: 9 },
      (from) => (from === 4 ? "suspended" : "queued"),
    );
    assert.deepEqual(
      segments.map(({ kind, from, to }) => [kind, from, to]),
      [
        ["queued", 0, 1],
        ["active", 1, 3],
        ["active", 3, 4],
        ["suspended", 4, 5],
        ["active", 5, 7],
        ["queued", 7, 9],
      ],
    );
  });

  it("end with the span, although an interval goes on", () => {
    const segments = splitIntoSegments([{ from: 2, to: 50 }], { from: 0, to: 9 });
    assert.deepEqual(segments.at(-1), { kind: "active", from: 2, to: 9 });
  });
});
