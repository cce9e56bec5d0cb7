/** Hours of usage: the service sums what has closed, and reports agree with the traces. */
import type { Storage, UsageGroup } from "../../../lib/storage/mod.ts";
import { Dice } from "../random.ts";
import type { World } from "../world.ts";
import { checkTraces } from "./final.ts";

const HOUR = 3_600_000;
/** A time that is longer than the interval at which the service sums, in milliseconds. */
const SUMMED_MS = 6_000;

/** Lets the machines sleep for hours, a few times: whichever wakes first sums what has closed, and reports stay exact. */
export async function passHours(world: World): Promise<void> {
  const { scheduler, nodes, violations } = world;
  const dice = new Dice(world.plan.seed, "hours");
  const failed = (): boolean => violations.length > 0;
  for (let sleep = dice.between(1, 3); sleep > 0 && !failed(); sleep--) {
    const ms = dice.between(HOUR / 4, 30 * HOUR);
    world.note(`all sleep for ${ms}`);
    for (const { process } of nodes) scheduler.pause(process);
    await scheduler.run(scheduler.now + ms, failed);
    for (const { process } of nodes) {
      scheduler.at(dice.below(500), null, () => scheduler.resume(process));
    }
    await scheduler.run(scheduler.now + SUMMED_MS + 2_000, failed);
    checkTraces(world);
    if (!failed()) await checkReports(world, dice);
  }
  const [seal] = world.database.query("select sealed_before from usage_seals");
  const closed = Math.floor((scheduler.now - SUMMED_MS - HOUR) / HOUR) * HOUR;
  if (Number(seal?.sealed_before) < closed)
    world.violation("I8", `${seal?.sealed_before} is summed, ${closed} has closed`);
}

const COLUMNS: Readonly<Record<UsageGroup, string>> = {
  workspace: "workspace_id",
  project: "project_id",
  user: "user_id",
  api_key: "api_key",
};

/** Checks I8: the sums of any range are those of the traces. */
async function checkReports(world: World, dice: Dice): Promise<void> {
  const { scheduler, database } = world;
  const node = world.reachable(dice);
  if (!node) return;
  const storage = node.process.storage as Storage;
  const workspaces = database.query("select distinct workspace_id from traces").map((row) => String(row.workspace_id));
  if (workspaces.length === 0) return;
  for (const group_by of Object.keys(COLUMNS) as UsageGroup[]) {
    const unit = dice.pick([1, HOUR]);
    const end = Math.ceil((scheduler.now - dice.below(2 * HOUR)) / unit) * unit;
    const start = end - dice.between(1, 80) * (unit === 1 ? 1_234_567 : unit);
    const stride_ms = dice.pick([1, 3, 24]) * HOUR;
    const origin = Math.floor(start / HOUR) * HOUR;
    const workspace_ids = dice.chance(0.3) ? [dice.pick(workspaces)] : workspaces;
    let rows: readonly unknown[] | undefined;
    const count = (): ReturnType<Storage["countUsage"]> =>
      storage.countUsage({ workspace_ids, start, end, origin, stride_ms, group_by });
    node.request(count).then(
      (counted) => {
        rows = counted;
      },
      (error: unknown) => world.violation("final", `usage cannot be counted: ${String(error)}`),
    );
    await scheduler.run(scheduler.now + 10_000, () => rows !== undefined);
    const expected = database.query(
      `select (started_at - ?1) / ?2 as bucket, ${COLUMNS[group_by]} as dimension, count(*) as traces from traces
        where counted = 1 and started_at >= ?3 and started_at < ?4
          and workspace_id in (select value from json_each(?5)) group by 1, 2 order by bucket, dimension is null, dimension`,
      [origin, stride_ms, start, end, JSON.stringify(workspace_ids)],
    );
    const text = (of: readonly unknown[] | undefined): string => JSON.stringify(of);
    if (text(rows) === text(expected)) continue;
    world.violation("I8", `by ${group_by} from ${start} to ${end}: ${text(rows)}, the traces say ${text(expected)}`);
  }
}
