/** What a stock client may rely on, written once for every release of the SDK and every way to reach the service. */
import type { Client } from "langgraph-sdk-2";
import { assistants } from "./assistants.ts";
import { type Fetch, type Opened, openBench, type Suite, type TestApi } from "./bench.ts";
import { doubleTexts } from "./double-texts.ts";
import { interrupts } from "./interrupts.ts";
import { reconnects } from "./reconnects.ts";
import { refusals } from "./refusals.ts";
import { runs } from "./runs.ts";
import { stops } from "./stops.ts";
import { streams } from "./streams.ts";
import { threads } from "./threads.ts";

export type { Fetch, Opened } from "./bench.ts";

/** The tests, for one SDK reaching a service as `open` says. */
export function sdkSuite(
  api: TestApi,
  name: string,
  Sdk: typeof Client,
  open: (fetch: Fetch) => Promise<Opened>,
): void {
  const suite: Suite = { ...api, name, bench: () => openBench(Sdk, open) };
  for (const part of [assistants, threads, runs, streams, interrupts, refusals, doubleTexts, stops, reconnects]) {
    part(suite);
  }
}
