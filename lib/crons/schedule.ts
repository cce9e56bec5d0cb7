/** When crons fire: schedules as a calculation, without a clock and without timers. */
import { Cron } from "croner";
import { ServiceError } from "../errors.ts";

/** What says when a cron fires. `end_time` itself and what comes after it are no ticks. */
export interface Timing {
  /** Five fields, or a nickname as `@daily`. */
  readonly schedule: string;
  /** An IANA name; null is UTC. */
  readonly timezone: string | null;
  readonly end_time: number | null;
}

const NICKNAMES = new Set(["@hourly", "@daily", "@weekly", "@monthly", "@yearly"]);

/** Errors: invalid (`schedule` or `timezone`, by name). A schedule that never comes is none. */
export function checkTiming({ schedule, timezone }: Timing): void {
  const fields = fieldsOf(schedule);
  if (!NICKNAMES.has(fields) && fields.split(" ").length !== 5) {
    const names = [...NICKNAMES].join(", ");
    throw new ServiceError(
      "invalid",
      `schedule: must have five fields, as "*/15 9-17 * * MON-FRI", or be one of ${names}`,
    );
  }
  let never: boolean;
  try {
    never = calculator(fields, "UTC")(0) === null;
  } catch {
    throw new ServiceError("invalid", "schedule: is not a cron expression of five fields");
  }
  if (never) throw new ServiceError("invalid", "schedule: never comes");
  if (timezone === null) return;
  // Offsets, which some runtimes take for names, have no rules for summer time.
  if (!/^[A-Za-z]/.test(timezone) || !isZone(fields, timezone)) {
    throw new ServiceError("invalid", "timezone: must be an IANA time zone, as Europe/Berlin");
  }
}

/** The first tick after this moment; null when there is none before the end. */
export function nextTick(timing: Timing, after: number): number | null {
  return ticksOf(timing)(after);
}

/** The ticks from `first`, which is one, to this moment, in order and at most so many. */
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

/** Throws for a schedule that is none, and when it is asked for a zone that is not known. */
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
