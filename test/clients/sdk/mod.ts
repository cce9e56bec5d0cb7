/** What a stock client may rely on, written once for every release of the SDK, every way to reach the service and every storage. */
import { assistants } from "./assistants.ts";
import { openBench, type Subject, type Suite, type TestApi } from "./bench.ts";
import { crons } from "./crons.ts";
import { doubleTexts } from "./double-texts.ts";
import { interrupts } from "./interrupts.ts";
import { reconnects } from "./reconnects.ts";
import { refusals } from "./refusals.ts";
import { runs } from "./runs.ts";
import { states } from "./states.ts";
import { stops } from "./stops.ts";
import { store } from "./store.ts";
import { streams } from "./streams.ts";
import { threads } from "./threads.ts";

export type { Subject } from "./bench.ts";

/** What of the suite asks a database the most different things. */
export function shortSuite(api: TestApi, name: string, subject: Subject): void {
  const suite: Suite = { ...api, name, bench: () => openBench(subject) };
  for (const part of [assistants, threads, crons, states, store]) part(suite);
}

/** The tests, for one SDK that reaches a service in one way, on one kind of storage. */
export function sdkSuite(api: TestApi, name: string, subject: Subject): void {
  const suite: Suite = { ...api, name, bench: () => openBench(subject) };
  for (const part of [
    assistants,
    threads,
    runs,
    crons,
    states,
    store,
    streams,
    interrupts,
    refusals,
    doubleTexts,
    stops,
    reconnects,
  ]) {
    part(suite);
  }
}
