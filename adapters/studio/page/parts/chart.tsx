/** A chart over time: lines or stacked bars, in the colours of the theme. */
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { isDark } from "../frame/theme.ts";

export interface Series {
  readonly label: string;
  readonly values: readonly (number | null)[];
}

interface ChartProps {
  readonly label: string;
  /** Milliseconds. */
  readonly times: readonly number[];
  readonly lines: readonly Series[];
  readonly kind?: "lines" | "bars";
  readonly height?: number;
  /** The ends of the time axis; those of the data by default. */
  readonly range?: readonly [from: number, to: number];
  readonly format?: (value: number) => string;
}

const COLOURS = [
  ["#15693f", "#5fc991"],
  ["#1a5fb4", "#7db4f5"],
  ["#8a5200", "#f2b861"],
  ["#b3261e", "#ff8a80"],
  ["#6d3bb0", "#c3a5f7"],
  ["#0b6b74", "#6cced9"],
] as const;

/**
 * Adds to the values of each line those of the lines before it, and reverses the order: the highest sum comes first, so
 * that all are visible. A missing value counts as 0.
 */
function stackLines(lines: readonly Series[]): Series[] {
  const sums: number[] = [];
  return lines
    .map(({ label, values }) => ({
      label,
      values: values.map((value, index) => {
        sums[index] = (sums[index] ?? 0) + (value ?? 0);
        return sums[index] as number;
      }),
    }))
    .reverse();
}

/** Returns the indexes of values that exist and have no value before and after them. */
const findIsolatedPoints = (values: ArrayLike<number | null | undefined>): number[] =>
  Array.from({ length: values.length }, (_, index) => index).filter(
    (index) => values[index] != null && values[index - 1] == null && values[index + 1] == null,
  );

/** Returns short texts for the time axis: the time of day for a range within two days, else the date. */
function formatTimes(splits: readonly number[]): string[] {
  const isShort = (splits.at(-1) ?? 0) - (splits[0] ?? 0) < 2 * 86_400;
  return splits.map((seconds) =>
    isShort
      ? new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" })
      : new Date(seconds * 1000).toLocaleDateString(undefined, { month: "short", day: "numeric" }),
  );
}

/** Draws lines or stacked bars over times, in the colours of the theme and the width of the page. Empty without times. */
export function Chart({ label, times, lines, kind = "lines", height = 160, format, range }: ChartProps): VNode {
  const box = useRef<HTMLDivElement>(null);
  const dark = isDark.value;
  // With the page: a picture of the other theme would flash.
  useLayoutEffect(() => {
    const { current } = box;
    if (!current || times.length === 0) return;
    const style = getComputedStyle(current);
    /** Returns the computed colour of a style variable, read from an element that is added for it and removed. */
    const colour = (name: string): string => {
      const probe = document.createElement("span");
      probe.style.color = `var(${name})`;
      current.append(probe);
      const computed = getComputedStyle(probe).color;
      probe.remove();
      return computed;
    };
    const plotted = kind === "bars" ? stackLines(lines) : lines;
    const axis = {
      stroke: colour("--faint"),
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
      font: `12px ${style.fontFamily}`,
    };
    const bars = kind === "bars" ? (uPlot.paths.bars?.({ size: [0.7, 48] }) ?? null) : null;
    const plot = new uPlot(
      {
        width: Math.max(200, current.clientWidth),
        height,
        legend: { show: false },
        cursor: { y: false },
        scales: {
          x: { time: true, ...(range ? { range: [range[0] / 1000, range[1] / 1000] } : {}) },
          // Times below 10 ms would get ticks that read the same.
          y: { range: (_, __, high) => [0, Math.max(format ? 10 : 1, (high ?? 0) * 1.1)] },
        },
        axes: [
          { ...axis, space: 80, values: (_, splits) => formatTimes(splits) },
          { ...axis, size: 64, ...(format ? { values: (_, ticks) => ticks.map(format) } : {}) },
        ],
        series: [
          {},
          ...plotted.map((series) => {
            const index = lines.findIndex((line) => line.label === series.label);
            const [light = "", night = ""] = COLOURS[index % COLOURS.length] ?? [];
            const stroke = dark ? night : light;
            return {
              label: series.label,
              stroke,
              width: kind === "bars" ? 0 : 1.5,
              ...(kind === "bars" ? { fill: stroke, paths: bars as uPlot.Series.PathBuilder } : {}),
              // A line of one point would not be seen.
              points: {
                show: kind === "lines",
                size: 5,
                fill: stroke,
                filter: (chart: uPlot, seriesIndex: number) => findIsolatedPoints(chart.data[seriesIndex] ?? []),
              },
            };
          }),
        ],
      },
      [times.map((time) => time / 1000), ...plotted.map(({ values }) => [...values])] as uPlot.AlignedData,
      current,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(200, current.clientWidth), height }));
    observer.observe(current);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times, lines, dark, kind, height]);
  return (
    <figure class="chart">
      <figcaption>
        {label}
        {lines.length > 1
          ? lines.map((line, index) => (
              <span key={line.label} class={`key key-${index % COLOURS.length}`}>
                ■ {line.label}
              </span>
            ))
          : null}
      </figcaption>
      <div ref={box} role="img" aria-label={`${label}. The table below has the numbers.`} />
    </figure>
  );
}
