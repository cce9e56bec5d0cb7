/** Checks what is stored of spans as it is stored: a span that has ended never changes again. The checks at the end need the records. */
import type { Span } from "../../../lib/storage/spans.ts";
import type { World } from "../world.ts";

export class SpanRules {
  /** The newest record of each stored span, by run and by span id. */
  readonly stored: Map<string, Map<string, Span>> = new Map();
  /** The spans that executors have ended, by the span of their attempt. */
  readonly ended: Map<string, string[]> = new Map();
  /** Runs with an attempt that could not read what earlier ones had stored: their totals lack it, as the log says. */
  readonly incompleteRunIds: Set<string> = new Set();
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** An executor has ended spans. */
  end(attempt_id: string, span_ids: readonly string[]): void {
    this.ended.set(attempt_id, [...(this.ended.get(attempt_id) ?? []), ...span_ids]);
  }

  /** A batch has stored a list of spans. */
  store(run_id: string, json: string): void {
    const records = this.stored.get(run_id) ?? new Map<string, Span>();
    this.stored.set(run_id, records);
    for (const span of JSON.parse(json) as readonly Span[]) {
      const earlier = records.get(span.span_id);
      records.set(span.span_id, span);
      this.#world.count(`span stored: ${span.kind} ${span.status}`);
      if (!earlier || earlier.status === "open" || isSameEnd(span, earlier)) continue;
      const tag = this.#world.oracle.runs.byId.get(run_id)?.tag ?? run_id;
      this.#world.violation(
        "I16",
        `${span.kind} ${span.span_id} of ${tag} was ${describeEnd(earlier)} and became ${describeEnd(span)}`,
      );
    }
  }
}

/** Returns true if two records of a span end it in the same way. */
export const isSameEnd = (a: Span, b: Span): boolean => a.status === b.status && a.duration_ms === b.duration_ms;

export const describeEnd = ({ status, duration_ms }: Span): string => `${status} after ${duration_ms ?? "?"} ms`;
