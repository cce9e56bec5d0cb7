/** Schedules on days with a clock change, and invalid schedules. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fireTimesUntil, nextFireTime, validateTiming } from "../../../lib/crons/schedule.ts";

const NEW_YORK = "America/New_York";

/** schedule, zone, from, the next fire times */
const TABLE: readonly (readonly [string, string | null, string, readonly string[]])[] = [
  ["30 2 * * *", NEW_YORK, "2026-03-07T12:00Z", ["2026-03-08T07:00Z", "2026-03-09T06:30Z"]],
  ["30 2,14 * * *", NEW_YORK, "2026-03-08T00:00Z", ["2026-03-08T07:00Z", "2026-03-08T18:30Z", "2026-03-09T06:30Z"]],
  ["30 1 * * *", NEW_YORK, "2026-10-31T12:00Z", ["2026-11-01T05:30Z", "2026-11-02T06:30Z"]],
  ["30 1 * * *", NEW_YORK, "2026-11-01T06:15Z", ["2026-11-02T06:30Z"]],
  [
    "0 * * * *",
    NEW_YORK,
    "2026-11-01T03:30Z",
    ["2026-11-01T04:00Z", "2026-11-01T05:00Z", "2026-11-01T06:00Z", "2026-11-01T07:00Z"],
  ],
  ["*/30 * * * *", NEW_YORK, "2026-11-01T05:45Z", ["2026-11-01T06:00Z", "2026-11-01T06:30Z", "2026-11-01T07:00Z"]],
  ["0 0 * * *", "America/Santiago", "2026-09-05T12:00Z", ["2026-09-06T04:00Z", "2026-09-07T03:00Z"]],
  ["15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00Z", ["2026-10-03T15:30Z"]],
  ["27 15 * * *", "UTC", "2026-11-20T15:27:00Z", ["2026-11-21T15:27Z"]],
  ["27 15 * * *", null, "2026-11-20T15:27:00Z", ["2026-11-21T15:27Z"]],
  ["0 9 * * MON-FRI", "Europe/Berlin", "2026-11-20T12:00Z", ["2026-11-23T08:00Z"]],
  // Day of month or day of week matches.
  ["0 0 13 * 5", "UTC", "2026-11-07T00:00Z", ["2026-11-13T00:00Z", "2026-11-20T00:00Z"]],
  ["0 0 13 * 5", "UTC", "2026-12-11T00:00Z", ["2026-12-13T00:00Z", "2026-12-18T00:00Z"]],
  ["0 0 * * 7", "UTC", "2026-11-20T00:00Z", ["2026-11-22T00:00Z"]],
  ["0 0 1 jan *", "UTC", "2026-11-20T00:00Z", ["2027-01-01T00:00Z"]],
  ["  0   12\t* *  * ", "UTC", "2026-11-20T00:00Z", ["2026-11-20T12:00Z"]],
  ["@hourly", "UTC", "2026-11-20T15:27Z", ["2026-11-20T16:00Z"]],
  ["@daily", "UTC", "2026-11-20T15:27Z", ["2026-11-21T00:00Z"]],
  ["@weekly", "UTC", "2026-11-20T15:27Z", ["2026-11-22T00:00Z"]],
  ["@monthly", "UTC", "2026-11-20T15:27Z", ["2026-12-01T00:00Z"]],
  ["@yearly", "UTC", "2026-11-20T15:27Z", ["2027-01-01T00:00Z"]],
  ["0 0 29 2 *", "UTC", "2026-11-20T15:27Z", ["2028-02-29T00:00Z"]],
];

/** schedule, zone, invalid field */
const WRONG: readonly (readonly [string, string | null, string])[] = [
  ["0 0 30 2 *", null, "schedule"],
  ["0/15 * * * *", null, "schedule"],
  ["0 0 12 * * *", null, "schedule"],
  ["0 0 12 * * * 2026", null, "schedule"],
  ["2026-12-24T18:00:00", null, "schedule"],
  ["2026-12-24 18:00:00", null, "schedule"],
  ["2026-12-24T18:00:00Z", null, "schedule"],
  ["* * * *", null, "schedule"],
  ["", null, "schedule"],
  ["60 * * * *", null, "schedule"],
  ["* 24 * * *", null, "schedule"],
  ["* * 32 * *", null, "schedule"],
  ["* * * 13 *", null, "schedule"],
  ["* * * * 8", null, "schedule"],
  ["a b c d e", null, "schedule"],
  ["-5 * * * *", null, "schedule"],
  ["5-1 * * * *", null, "schedule"],
  ["*/0 * * * *", null, "schedule"],
  ["@reboot", null, "schedule"],
  ["@annually", null, "schedule"],
  ["@every 5m", null, "schedule"],
  ["* * * * *", "Mars/Phobos", "timezone"],
  ["* * * * *", "", "timezone"],
  ["* * * * *", "+02:00", "timezone"],
  ["* * * * *", "Europe", "timezone"],
];

const timing = (schedule: string, timezone: string | null = null, end_time: number | null = null) => ({
  schedule,
  timezone,
  end_time,
});

describe("schedules", () => {
  for (const [schedule, zone, from, fireTimes] of TABLE) {
    it(`${schedule} in ${zone} from ${from}`, () => {
      validateTiming(timing(schedule, zone));
      let at = Date.parse(from);
      for (const fireTime of fireTimes) {
        at = nextFireTime(timing(schedule, zone), at) ?? 0;
        assert.equal(new Date(at).toISOString(), new Date(fireTime).toISOString());
      }
    });
  }

  for (const [schedule, zone, field] of WRONG) {
    it(`"${schedule}" in ${zone} is refused`, () => {
      assert.throws(() => validateTiming(timing(schedule, zone)), {
        code: "invalid",
        message: new RegExp(`^${field}: `),
      });
    });
  }

  it("have no fire time at or after their end", () => {
    const noon = Date.parse("2026-11-20T12:00Z");
    const before = noon - 3_600_000;
    assert.equal(nextFireTime(timing("0 12 * * *", null, noon + 1), before), noon);
    assert.equal(nextFireTime(timing("0 12 * * *", null, noon), before), null);
    assert.equal(nextFireTime(timing("0 12 * * *", null, noon - 1), before), null);
  });

  it("list the fire times of a period up to a limit", () => {
    const first = Date.parse("2026-11-20T12:00Z");
    const minutes = (count: number): number[] => Array.from({ length: count }, (_, i) => first + i * 60_000);
    assert.deepEqual(fireTimesUntil(timing("* * * * *"), first, first + 179_999, 10), minutes(3));
    assert.deepEqual(fireTimesUntil(timing("* * * * *"), first, first + 180_000, 10), minutes(4));
    assert.deepEqual(fireTimesUntil(timing("* * * * *"), first, first + 180_000, 2), minutes(2));
    assert.deepEqual(fireTimesUntil(timing("* * * * *", null, first + 60_000), first, first + 180_000, 9), minutes(1));
    assert.deepEqual(fireTimesUntil(timing("* * * * *"), first, first - 1, 9), []);
  });
});
