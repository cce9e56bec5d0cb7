/** Ids of checkpoints: UUIDs that sort as text by age. */
import type { Environment } from "../environment.ts";

// 100 ns ticks between 1582-10-15, where UUID time begins, and 1970.
const UUID_EPOCH = 122_192_928_000_000_000n;

/** A UUID version 6, which sorts as text by time. It is above `above`, even if the clock was set back. */
export function checkpointId(environment: Pick<Environment, "now" | "uuid">, above: string | null): string {
  let ticks = BigInt(Math.floor(environment.now())) * 10_000n + UUID_EPOCH;
  if (above !== null) {
    const hex = above.replaceAll("-", "");
    if (/^[0-9a-f]{12}6[0-9a-f]{3}/.test(hex)) {
      const floor = (BigInt(`0x${hex.slice(0, 12)}`) << 12n) | BigInt(`0x${hex.slice(13, 16)}`);
      if (ticks <= floor) ticks = floor + 1n;
    }
  }
  const time = ticks.toString(16).padStart(15, "0");
  const tail = environment.uuid().slice(19);
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-6${time.slice(12, 15)}-${tail}`;
}
