/** Computes the ticks of schedules, without a clock or timers. */
import { Cron } from "croner";
import { invalidFieldError } from "../errors.ts";

/** The timing of a cron. Ticks are before `end_time`, in milliseconds since 1970. */
export interface Timing {
  /** A cron expression of five fields, or a nickname such as `@daily`. */
  readonly schedule: string;
  /** An IANA name; null means UTC. */
  readonly timezone: string | null;
  readonly end_time: number | null;
}

const NICKNAMES = new Set(["@hourly", "@daily", "@weekly", "@monthly", "@yearly"]);

/** Checks `schedule` and `timezone`. A schedule without any tick is invalid, too. Errors: invalid. */
export function checkTiming({ schedule, timezone }: Timing): void {
  const fields = fieldsOf(schedule);
  if (!NICKNAMES.has(fields) && fields.split(" ").length !== 5) {
    const names = [...NICKNAMES].join(", ");
    throw invalidFieldError(
      "schedule",
      `must have five fields, such as "*/15 9-17 * * MON-FRI", or be one of ${names}`,
    );
  }
  let never: boolean;
  try {
    never = calculator(fields, "UTC")(0) === null;
  } catch {
    throw invalidFieldError("schedule", "is not a cron expression of five fields");
  }
  if (never) throw invalidFieldError("schedule", "must match some date");
  if (timezone === null) return;
  // Some runtimes accept offsets such as +01:00; these have no rules for summer time.
  if (!/^[A-Za-z]/.test(timezone) || !isZone(fields, timezone)) {
    throw invalidFieldError("timezone", "must be an IANA time zone, such as Europe/Berlin");
  }
}

/** The first tick after this time; null when `end_time` comes first. */
export function nextTick(timing: Timing, after: number): number | null {
  return ticksOf(timing)(after);
}

/** The ticks from `first`, which must be a tick, to `until`, both included; at most `limit`. */
export function ticksUntil(timing: Timing, first: number, until: number, limit: number): number[] {
  const next = ticksOf(timing);
  const ticks: number[] = [];
  for (let tick: number | null = first; tick !== null && tick <= until && ticks.length < limit; tick = next(tick)) {
    ticks.push(tick);
  }
  return ticks;
}

function ticksOf({ schedule, timezone, end_time }: Timing): (after: number) => number | null {
  const next = calculator(fieldsOf(schedule), timezone ?? "UTC");
  return (after) => {
    const tick = next(after);
    return tick === null || (end_time !== null && tick >= end_time) ? null : tick;
  };
}

const fieldsOf = (schedule: string): string => schedule.trim().split(/\s+/).join(" ");

/** Throws for an invalid expression. The returned function throws for an unknown time zone. */
function calculator(fields: string, timezone: string): (after: number) => number | null {
  const cron = new Cron(fields, { paused: true, timezone, mode: "5-part", fixedTimeRule: "no-wildcard" });
  return (after) => cron.nextRun(new Date(after))?.getTime() ?? null;
}

function isZone(fields: string, timezone: string): boolean {
  try {
    return calculator(fields, timezone)(0) !== null;
  } catch {
    return false;
  }
}
