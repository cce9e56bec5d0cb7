/** Computes the fire times of schedules, without a clock or timers. */
import { Cron } from "croner";
import { invalidFieldError } from "../errors.ts";

/** The timing of a cron. Its fire times are before `end_time`, in milliseconds since 1970. */
export interface Timing {
  /** A cron expression of five fields, or a nickname such as `@daily`. */
  readonly schedule: string;
  /** An IANA name; null means UTC. */
  readonly timezone: string | null;
  readonly end_time: number | null;
}

const NICKNAMES = new Set(["@hourly", "@daily", "@weekly", "@monthly", "@yearly"]);

/**
 * Throws `invalid`, which names the field, if `schedule` or `timezone` is not valid, or the schedule never fires. Null is a
 * valid time zone. The end time is not checked.
 */
export function validateTiming({ schedule, timezone }: Timing): void {
  const fields = normalizeSchedule(schedule);
  if (!NICKNAMES.has(fields) && fields.split(" ").length !== 5) {
    const names = [...NICKNAMES].join(", ");
    throw invalidFieldError(
      "schedule",
      `must have five fields, such as "*/15 9-17 * * MON-FRI", or be one of ${names}`,
    );
  }
  let hasNoFireTime: boolean;
  try {
    hasNoFireTime = createCalculator(fields, "UTC")(0) === null;
  } catch {
    throw invalidFieldError("schedule", "is not a cron expression of five fields");
  }
  if (hasNoFireTime) throw invalidFieldError("schedule", "must match some date");
  if (timezone === null) return;
  // Some runtimes accept offsets such as +01:00; these have no rules for summer time.
  if (!/^[A-Za-z]/.test(timezone) || !isTimeZone(fields, timezone)) {
    throw invalidFieldError("timezone", "must be an IANA time zone, such as Europe/Berlin");
  }
}

/** Returns the first fire time after `after`, or null if `end_time` comes first. */
export function nextFireTime(timing: Timing, after: number): number | null {
  return createFireTimeFinder(timing)(after);
}

/**
 * Returns fire times in order, from `first` to `until` inclusive, at most `limit`. `first` must be one: it is returned
 * unchecked.
 */
export function fireTimesUntil(timing: Timing, first: number, until: number, limit: number): number[] {
  const next = createFireTimeFinder(timing);
  const fireTimes: number[] = [];
  for (
    let fireTime: number | null = first;
    fireTime !== null && fireTime <= until && fireTimes.length < limit;
    fireTime = next(fireTime)
  ) {
    fireTimes.push(fireTime);
  }
  return fireTimes;
}

/**
 * Returns a function that finds the next fire time after a time; null if there is none before the end time. Without a time zone
 * it computes in UTC.
 */
function createFireTimeFinder({ schedule, timezone, end_time }: Timing): (after: number) => number | null {
  const next = createCalculator(normalizeSchedule(schedule), timezone ?? "UTC");
  return (after) => {
    const fireTime = next(after);
    return fireTime === null || (end_time !== null && fireTime >= end_time) ? null : fireTime;
  };
}

const normalizeSchedule = (schedule: string): string => schedule.trim().split(/\s+/).join(" ");

/** Returns a function that computes the next date. Throws for an invalid expression; the function throws for an unknown time zone. */
function createCalculator(fields: string, timezone: string): (after: number) => number | null {
  const cron = new Cron(fields, { paused: true, timezone, mode: "5-part", fixedTimeRule: "no-wildcard" });
  return (after) => cron.nextRun(new Date(after))?.getTime() ?? null;
}

/** Returns true if the runtime knows the time zone. */
function isTimeZone(fields: string, timezone: string): boolean {
  try {
    return createCalculator(fields, timezone)(0) !== null;
  } catch {
    return false;
  }
}
