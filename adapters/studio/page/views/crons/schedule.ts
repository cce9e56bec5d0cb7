/** Describes cron expressions in words. */
import cronstrue from "cronstrue";

/** Returns the schedule in words, such as "At 09:00, Monday through Friday"; the expression itself if it cannot be read. */
export function describeSchedule(schedule: string): string {
  try {
    return cronstrue.toString(schedule, { use24HourTimeFormat: true });
  } catch {
    return schedule;
  }
}
