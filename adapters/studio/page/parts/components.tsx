/** Small pieces that every view uses: ids, times, statuses, empty and error states. */

import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { skew } from "../api/client.ts";
import { formatError, isForbidden, isMissing } from "../api/failure.ts";
import { notify } from "../frame/notices.tsx";

/** Copies a text and shows a notice, also if the browser refuses. Never rejects. */
export async function copy(text: string, what = "Copied"): Promise<void> {
  await navigator.clipboard.writeText(text).then(
    () => notify(what, "done", 1500),
    () => notify("The browser did not allow the page to copy", "failed"),
  );
}

/** Focuses a field when it appears. For use as a `ref`. */
export const focusOnMount = (field: HTMLElement | null): void => field?.focus();

/** Returns the end of an id, because ids that were created together have the same beginning. */
export const shortId = (id: string): string => id.slice(-8);

/** Shows a shortened id. A click copies the id, and the tooltip shows all of it. */
export function Id({ value, label = "id" }: { readonly value: string; readonly label?: string }): VNode {
  const short = value.length > 10 ? `…${shortId(value)}` : value;
  return (
    <button
      type="button"
      class="id"
      title={`${value} (click to copy)`}
      aria-label={`Copy ${label} ${short}`}
      onClick={(event) => {
        event.preventDefault();
        event.stopPropagation();
        void copy(value, `Copied ${label}`);
      }}
    >
      {short}
    </button>
  );
}

/** The time for relative times, updated every 5 s. */
const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 5000);

const UNITS = [
  [31_536_000, "y"],
  [2_592_000, "mo"],
  [86_400, "d"],
  [3600, "h"],
  [60, "m"],
] as const;

/**
 * Returns how long ago a time was, such as `5m`, or when it comes, `in 5m`, in the largest whole unit; `now` within ten
 * seconds of it.
 */
function formatRelativeTime(time: number, now: number): string {
  const seconds = Math.round((now - time) / 1000);
  const size = Math.abs(seconds);
  const unit = UNITS.find(([length]) => size >= length);
  if (!unit) return seconds < 10 ? (seconds < -10 ? `in ${size}s` : "now") : `${size}s`;
  const text = `${Math.floor(size / unit[0])}${unit[1]}`;
  return seconds < 0 ? `in ${text}` : text;
}

export const formatTime = (time: string | number): string =>
  new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Shows a time relative to now by the server's clock, with the exact time in the tooltip; a dash without a time. */
export function Time({ at }: { readonly at: string | null | undefined }): VNode {
  if (!at) return <span class="faint">–</span>;
  return (
    <time dateTime={at} title={formatTime(at)}>
      {formatRelativeTime(Date.parse(at), now.value + skew.value)}
    </time>
  );
}

/** Returns a duration in one or two units; a dash for none. */
export function formatDuration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms > 0 && ms < 0.5) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/**
 * Returns what a durable function waits for, as text: the time of a sleep, the event of a wait, the next try of a step
 * or that it runs.
 */
export function formatWait(wait: {
  readonly kind: string;
  readonly name: string;
  readonly until: string | null;
}): string {
  const until = wait.until ? formatTime(wait.until) : "";
  if (wait.kind === "sleep") return `sleeps until ${until}`;
  return wait.kind === "step" ? `${until ? `tries again ${until}` : "running"}` : `waits for ${wait.name}`;
}

export const formatCount = (value: number): string => value.toLocaleString();
export const formatMoney = (value: number): string =>
  value === 0 ? "$0" : `$${value.toFixed(value < 0.01 ? 5 : value < 1 ? 3 : 2)}`;

/** Status → sign and words. Colour never says it alone. */
const STATUSES: Readonly<Record<string, readonly [sign: string, text: string]>> = {
  running: ["●", "running"],
  busy: ["●", "running"],
  waiting: ["◐", "needs an answer"],
  interrupted: ["‖", "interrupted"],
  success: ["✓", "success"],
  delivered: ["✓", "delivered"],
  idle: ["○", "idle"],
  error: ["✕", "error"],
  failed: ["✕", "failed"],
  timeout: ["✕", "timeout"],
  pending: ["◌", "pending"],
  paused: ["‖", "paused"],
  suspended: ["◌", "suspended"],
  active: ["✓", "active"],
  ok: ["✓", "ok"],
};

/** Shows the sign and text of a status; with `short` only the sign. An unknown one shows its own text. */
export function Status({ value, short = false }: { readonly value: string; readonly short?: boolean }): VNode {
  const [sign, text] = STATUSES[value] ?? ["○", value];
  return (
    <span class={`status ${value}`} title={text}>
      <span class="sign" aria-hidden="true">
        {sign}
      </span>
      <span class={short ? "hidden" : ""}>{text}</span>
    </span>
  );
}

/** Shows why a list is empty, and what to do. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }): VNode {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children}
    </div>
  );
}

/** Shows an error, with a button to try again if `retry` is set. */
export function Problem({ error, retry }: { readonly error: unknown; readonly retry?: () => unknown }): VNode {
  return (
    <div class="problem" role="alert">
      <p>
        {isForbidden(error)
          ? `Not allowed: ${formatError(error)}`
          : isMissing(error)
            ? `Not found: ${formatError(error)}`
            : formatError(error)}
      </p>
      {retry ? (
        <button type="button" onClick={() => void retry()}>
          Try again
        </button>
      ) : null}
    </div>
  );
}

/** Shows grey bars in the place of content that takes longer than 150 ms to load. */
export function Skeleton({ rows = 6 }: { readonly rows?: number }): VNode | null {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 150);
    return () => clearTimeout(timer);
  }, []);
  if (!isLate) return null;
  return (
    <div class="skeleton" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: bars are all the same
        <div key={row} />
      ))}
    </div>
  );
}

/** Shows loaded data, else its error, else a skeleton. */
export function Ready<T>(props: {
  readonly of: { readonly data: T | undefined; readonly error: unknown; reload?(): unknown };
  readonly rows?: number;
  readonly children: (data: T) => ComponentChildren;
}): VNode {
  const { data, error, reload } = props.of;
  if (data !== undefined) return <>{props.children(data)}</>;
  if (error) return <Problem error={error} {...(reload ? { retry: reload } : {})} />;
  return <Skeleton rows={props.rows ?? 6} />;
}

/** Shows labels and values in two columns. */
export function Facts({ items }: { readonly items: readonly (readonly [string, ComponentChildren])[] }): VNode {
  return (
    <dl class="facts">
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Shows a table that scrolls sideways on narrow screens. */
export function TableBox({ label, children }: { readonly label: string; readonly children: ComponentChildren }): VNode {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
    <section class="table-box" aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}
