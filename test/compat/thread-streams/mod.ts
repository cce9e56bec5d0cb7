/** The guarantees for a client that streams a thread, written once for every release of the SDK and every transport. */
import type { TestApi } from "../sdk/bench.ts";
import { openBench, type Subject, type Suite } from "./bench.ts";
import { connections } from "./connections.ts";
import { interrupts } from "./interrupts.ts";
import { projections } from "./projections.ts";
import { runs } from "./runs.ts";

const PARTS: readonly ((suite: Suite) => void)[] = [projections, interrupts, runs, connections];

export function threadStreams(api: TestApi, subject: Subject): void {
  const name = `threads.stream of SDK ${subject.sdk}, ${subject.transport}`;
  api.describe(name, () => {
    for (const part of PARTS) part({ ...api, subject, bench: () => openBench(subject) });
  });
}
