/** Loads the schedules with the first cron: their calculator, croner, is an eighth of the core. */
export type Schedules = typeof import("./schedule.ts");

let loading: Promise<Schedules> | undefined;

/**
 * Returns the functions of schedule.ts, imported at the first call. Keeps the promise, so that later calls do not wait for an
 * import.
 */
export function loadSchedules(): Promise<Schedules> {
  loading ??= import("./schedule.ts");
  return loading;
}

/** The retention of firings, in milliseconds. Missed fire times older than this are not recorded. */
export const FIRING_RETENTION_MS: number = 30 * 86_400_000;
