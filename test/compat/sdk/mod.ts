/** The guarantees for a stock client, written once for every release of the SDK, every way to reach the service and every storage. */
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

const FAMILY = ["tokens", "chat"];
const WAITING = ["wait", "waiting"];
const HALF = ["half", "halfway"];
const FAILING = ["fail", "failing"];
const TOLD = ["tell", "informed"];
const ASKING = ["ask", "approval", "questions", "outer", "family"];

/** The agents that each part runs. All of them would be made anew for each test, which takes longer than most tests on a distant database. */
const PARTS: ReadonlyMap<(suite: Suite) => void, readonly string[]> = new Map([
  [assistants, ["agent", "chat", "family"]],
  [threads, ["ask", "tell"]],
  [runs, [...FAMILY, ...WAITING, ...FAILING, ...TOLD]],
  [crons, ["agent"]],
  [states, [...FAMILY, ...WAITING, ...TOLD, ...ASKING]],
  [store, ["agent"]],
  [streams, [...FAMILY, ...WAITING]],
  [interrupts, ["agent", ...ASKING]],
  [refusals, FAMILY],
  [doubleTexts, ["agent", "ask", "outer", ...FAMILY, ...WAITING, ...HALF]],
  [stops, ["agent", ...FAMILY, ...WAITING, ...HALF, ...FAILING]],
  [reconnects, [...FAMILY, ...WAITING, ...HALF]],
]);

/** Registers the tests for one SDK that reaches a service in one way, on one kind of storage. */
export function sdkSuite(api: TestApi, name: string, subject: Subject): void {
  for (const [part, agents] of PARTS) part({ ...api, name, bench: () => openBench(subject, agents) });
}
