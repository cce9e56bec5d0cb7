/** Loads the schedules with the first cron: their calculator, croner, is an eighth of the core. */
export type Schedules = typeof import("./schedule.ts");

let loading: Promise<Schedules> | undefined;

/** The functions of schedule.ts. The promise is kept, so that later calls take no tick of the event loop. */
export function loadSchedules(): Promise<Schedules> {
  loading ??= import("./schedule.ts");
  return loading;
}

/** How long the outcomes of ticks are kept. Older missed ticks are not recorded. */
export const FIRING_RETENTION_MS: number = 30 * 86_400_000;
