/** A lease that cannot be renewed counts as lost at its end. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Heartbeat } from "../../../lib/engine/leases.ts";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import { type TestClock, testClock } from "../../suite/kit.ts";

const LEASE_MS = 2_000;

interface Subject {
  readonly clock: TestClock;
  readonly heartbeat: Heartbeat;
  readonly lost: () => boolean;
  /** Answers the pending renewal, and later ones at once. */
  answer(renewed: boolean): Promise<void>;
  /** Stalls the process for this time, and then lets timers fire before any response arrives. */
  standStill(ms: number): Promise<void>;
}

/** Creates a heartbeat whose lease begins now, on a storage that does not respond. */
function createSubject(alone = false): Subject {
  const clock = testClock();
  let skew = 0;
  let lost = false;
  const gate = Promise.withResolvers<{ readonly cancelled: boolean } | null>();
  const now = (): number => clock.now() + skew;
  const lease = new Heartbeat({
    storage: { single_process: alone, renewLease: () => gate.promise } as unknown as Storage,
    scope: { deployment: "d" },
    environment: { ...systemEnvironment(), timer: clock.timer, now, log: () => {} },
    lease: { run_id: "r", thread_id: "t", token: "x" },
    lease_ms: LEASE_MS,
    until: now() + LEASE_MS,
    onCancelled: () => {},
    onLost() {
      lost = true;
    },
  });
  return {
    clock,
    heartbeat: lease,
    lost: () => lost,
    async answer(renewed) {
      gate.resolve(renewed ? { cancelled: false } : null);
      await clock.advance(1);
    },
    async standStill(ms) {
      skew += ms;
      // Timers that became due during the stall fire only now.
      await clock.advance(LEASE_MS / 6);
    },
  };
}

describe("a lease that cannot be renewed", () => {
  it("is lost shortly before its end", async () => {
    const { clock, lost } = createSubject();
    await clock.advance(LEASE_MS * 0.85);
    assert.equal(lost(), false);
    await clock.advance(LEASE_MS * 0.15);
    assert.equal(lost(), true);
  });

  it("is not lost by stalls of the process, however many", async () => {
    const { clock, heartbeat: lease, lost, answer, standStill } = createSubject();
    await clock.advance(LEASE_MS / 2);
    for (let n = 0; n < 5; n++) {
      await standStill(LEASE_MS);
      assert.equal(lost(), false, `after ${n + 1} times`);
    }
    assert.ok(lease.isExpired(clock.now() + 5 * LEASE_MS));
    await answer(true);
    assert.equal(lost(), false);
    await clock.advance(LEASE_MS);
    assert.equal(lost(), false);
    lease.stop();
  });

  it("is lost after a stall if the store still does not respond", async () => {
    const { clock, lost, standStill } = createSubject();
    await clock.advance(LEASE_MS / 2);
    await standStill(LEASE_MS);
    assert.equal(lost(), false);
    await clock.advance(LEASE_MS);
    assert.equal(lost(), true);
  });

  it("is lost when the store refuses the renewal", async () => {
    const { clock, lost, answer, standStill } = createSubject(true);
    await clock.advance(LEASE_MS / 2);
    await standStill(LEASE_MS);
    await clock.advance(LEASE_MS);
    assert.equal(lost(), false, "nobody else can take it");
    await answer(false);
    assert.equal(lost(), true);
  });
});
