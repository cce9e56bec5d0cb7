/** A cron expression in words, for the common forms; others keep their text. */
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const two = (value: string): string => value.padStart(2, "0");
const isNumber = (text: string | undefined): text is string => text !== undefined && /^\d+$/.test(text);

function daysOf(text: string): string | null {
  if (text === "*") return "every day";
  if (text === "1-5") return "Monday to Friday";
  if (text === "0,6" || text === "6,0" || text === "6,7") return "Saturday and Sunday";
  if (/^\d(?:,\d)*$/.test(text))
    return text
      .split(",")
      .map((day) => DAYS[Number(day)])
      .join(", ");
  const [, from, to] = /^(\d)-(\d)$/.exec(text) ?? [];
  return from && to ? `${DAYS[Number(from)]} to ${DAYS[Number(to)]}` : null;
}

export function inWords(schedule: string): string {
  const [minute, hour, day, month, week = "*", ...more] = schedule.trim().split(/\s+/);
  if (more.length > 0 || !minute || !hour || !day || !month) return schedule;
  const every = /^\*\/(\d+)$/.exec(minute)?.[1];
  if (hour === "*" && day === "*" && month === "*" && week === "*") {
    if (minute === "*") return "every minute";
    if (every) return `every ${every} minutes`;
    if (isNumber(minute)) return `every hour at :${two(minute)}`;
  }
  const hours = /^\*\/(\d+)$/.exec(hour)?.[1];
  if (isNumber(minute) && hours && day === "*" && month === "*" && week === "*") {
    return `every ${hours} hours at :${two(minute)}`;
  }
  if (!isNumber(minute) || !isNumber(hour) || month !== "*") return schedule;
  const time = `at ${two(hour)}:${two(minute)}`;
  const days = daysOf(week);
  if (day === "*" && days) return `${days} ${time}`;
  return isNumber(day) && week === "*" ? `on day ${day} of the month ${time}` : schedule;
}
