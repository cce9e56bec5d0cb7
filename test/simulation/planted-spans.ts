// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are pieces of code.
/** Faults to plant in the spans of runs. */
import type { PlantedFault } from "./planted-platform.ts";

export const SPANS: readonly PlantedFault[] = [
  {
    name: "the spans of a retry replace those of the attempt before",
    file: "lib/traces/attempt-spans.ts",
    find: "const part = this.#traced.claim * PARTS_PER_CLAIM + this.#part++;",
    replace: "const part = PARTS_PER_CLAIM + this.#part++;",
  },
  {
    name: "spans are stored without a lease",
    file: "adapters/sql/statements/traces.ts",
    find: "as v where ${whileLeased(p)}\n    on conflict (run_id, part)",
    replace:
      "as v where exists (select 1 from run_traces where run_id = ${p.run_id} and ${p.token} is not null)\n    on conflict (run_id, part)",
  },
  {
    name: "a rollback leaves the spans of its run",
    file: "adapters/sql/traces.ts",
    find: "  onRunsDeleted: { deleteTracesOfRuns },\n",
    replace: "",
  },
  {
    name: "the totals of a retry do not count the attempts before",
    file: "lib/traces/attempt-spans.ts",
    find: "totals: head?.totals ?? NO_TOTALS,",
    replace: "totals: NO_TOTALS,",
  },
  {
    name: "a lost attempt that has stored its span is counted twice",
    file: "lib/traces/attempt-spans.ts",
    find: "      if (span.claim === head?.claim) this.recorder.addLater(span);\n      else this.recorder.addEnded(span);\n",
    replace: "      this.recorder.addEnded(span);\n",
  },
  {
    name: "the end of a run does not end its spans",
    file: "lib/traces/attempt-spans.ts",
    find: "    this.recorder.closeAll(OPEN_SPAN_STATUS[status]);\n",
    replace: "",
  },
  {
    name: "an attempt that goes back to the queue leaves its spans",
    file: "lib/engine/run-end.ts",
    find: '  const trace = spans?.release(createContinuedEnd("requeued", report.usage()));\n',
    replace: '  spans?.release(createContinuedEnd("requeued", report.usage()));\n  const trace = undefined;\n',
  },
  {
    name: "a lost attempt is not in the trace",
    file: "lib/traces/attempt-spans.ts",
    find: "    this.#recordLost(lost.toReversed(), head);\n",
    replace: "",
  },
  {
    name: "a replayed step makes another span",
    file: "lib/traces/journal-spans.ts",
    find: "const key = JSON.stringify([entry.kind, entry.name, entry.occurrence]);",
    replace: "const key = JSON.stringify([entry.kind, entry.name, entry.occurrence, entry.phase]);",
    durable: true,
  },
];
