/** A worker beside executors whose leases are lost or may be lost. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemEnvironment } from "../../../lib/environment.ts";
import type { Executor } from "../../../lib/executor/contract.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { type FunctionJob, fromFunctions } from "../../../lib/mod.ts";
import type { ClaimRequest, CreateRun, Scope } from "../../../lib/storage/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, createClockedService, createFaultyStorage, kill } from "../../support/faulty.ts";

const LEASE_MS = 10_000;
const worker = { concurrency: 2, lease_ms: LEASE_MS };

describe("a worker near a lost lease", () => {
  it("starts no run beside an executor of the same thread that has lost its lease", async () => {
    const clock = testClock();
    const log: string[] = [];
    const settle = Promise.withResolvers<void>();
    const { storage, faults, share } = createFaultyStorage();
    /** Settles long after its signal was aborted. */
    const agent = async ({ attempt }: FunctionJob): Promise<string> => {
      log.push(`begins ${attempt}`);
      if (attempt === 1) await settle.promise;
      log.push(`ends ${attempt}`);
      return "done";
    };
    await using kit = await createClockedService(clock, { storage, worker, executor: fromFunctions({ agent }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: {} });
    await advanceUntil(clock, () => log.length === 1);
    // Another process has claimed the run and died, so that the next claim here finds an expired lease.
    faults.renewLease = () => null;
    const { storage: real } = share();
    faults.claimRun = (_call, [scope, request]) => {
      const now = clock.now() + 2 * LEASE_MS;
      return real.claimRun(scope as Scope, { ...(request as ClaimRequest), now, lease_until: now + LEASE_MS });
    };
    await advanceUntil(clock, async () => (await real.getRun({ deployment: "default" }, run_id))?.attempt === 2);
    delete faults.claimRun;
    delete faults.renewLease;
    await clock.advance(2_000);
    assert.deepEqual(log, ["begins 1"]);
    settle.resolve();
    await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).status === "success");
    assert.deepEqual(log, ["begins 1", "ends 1", "begins 2", "ends 2"]);
  });

  it("ends an attempt whose lease is lost while it reads for its end", async () => {
    const clock = testClock();
    let behind_ms = 0;
    const failure = Promise.withResolvers<void>();
    const begun: number[] = [];
    const { storage, faults, share } = createFaultyStorage();
    /** Puts a checkpoint, and runs until it is stopped. */
    const begin = recordStates(async function* (_job, signal) {
      yield { type: "state", values: { step: 1 }, next: [], tasks: [] };
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    const executor: Executor = {
      graphs: () => [{ graph_id: "agent" }],
      async *execute(job, signal, environment) {
        begun.push(job.attempt);
        if (job.attempt === 1) yield* begin(job, signal, environment);
        await failure.promise;
        throw new Error("fails");
      },
    };
    const environment = { ...clock, now: () => clock.now() + behind_ms };
    await using kit = await createClockedService(clock, { storage, worker, environment, executor });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: {} });
    const { storage: real } = share();
    const at = { ns: "", run_id };
    await advanceUntil(
      clock,
      async () => (await real.getCheckpoint({ deployment: "default" }, thread_id, at)) !== null,
    );
    // The end of a later attempt reads the newest checkpoint, so the run needs a second one.
    faults.renewLease = () => null;
    faults.claimRun = (_call, [scope, request]) => {
      const now = clock.now() + 2 * LEASE_MS;
      return real.claimRun(scope as Scope, { ...(request as ClaimRequest), now, lease_until: now + LEASE_MS });
    };
    await advanceUntil(clock, () => begun.length === 2);
    delete faults.claimRun;
    // The process stands still during the read for longer than the lease lasts.
    faults.getCheckpoint = async (call) => {
      const checkpoint = await call();
      behind_ms = 5 * LEASE_MS;
      return checkpoint;
    };
    failure.resolve();
    await advanceUntil(clock, async () => (await runs.get(thread_id, run_id)).status === "error");
    assert.deepEqual(begun, [1, 2]);
  });

  it("starts no run with its creation after a stall, before it has checked its leases", async () => {
    const clock = testClock();
    let behind_ms = 0;
    const claimed: boolean[] = [];
    const { storage, faults } = createFaultyStorage();
    faults.createRun = (call, [, request]) => {
      claimed.push((request as CreateRun).claim !== undefined);
      return call();
    };
    const agent = ({ signal }: FunctionJob): Promise<void> =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const environment = { ...clock, now: () => clock.now() + behind_ms };
    await using kit = await createClockedService(clock, {
      storage,
      worker,
      environment,
      executor: fromFunctions({ agent }),
    });
    const { runs } = kit.service;
    const create = async (): Promise<void> => void (await runs.create(null, { assistant_id: "agent", input: {} }));
    await clock.advance(2_000);
    await create();
    behind_ms = 2 * LEASE_MS;
    await create();
    assert.deepEqual(claimed, [true, false]);
  });

  it("renews a lease in its last quarter before the executor starts", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    let stall_ms = 0;
    let skew_ms = 0;
    let renewals = 0;
    const renewalsAtStart: number[] = [];
    faults.createRun = async (call) => {
      const created = await call();
      stall_ms = LEASE_MS * 0.8;
      return created;
    };
    faults.renewLease = (call) => {
      renewals++;
      return call();
    };
    const environment = {
      ...clock,
      now: () => clock.now() + skew_ms,
      // The process stalls between the claim and the start, for less than the lease.
      defer(fn: () => void) {
        skew_ms += stall_ms;
        stall_ms = 0;
        systemEnvironment().defer(fn);
      },
    };
    const agent = async (): Promise<string> => {
      renewalsAtStart.push(renewals);
      return "done";
    };
    await using kit = await createClockedService(clock, {
      storage,
      worker,
      environment,
      executor: fromFunctions({ agent }),
    });
    await clock.advance(1_000);
    const { frames } = await kit.service.runs.stream(null, { assistant_id: "agent", input: {} });
    for await (const { event } of frames) if (event === "end") break;
    assert.equal(skew_ms, LEASE_MS * 0.8);
    assert.deepEqual(renewalsAtStart, [1]);
  });

  it("ends the messages of an earlier attempt when it could not read its events at first", async () => {
    const [clock, later] = [testClock(), testClock()];
    const first = createFaultyStorage();
    const second = first.share();
    const agent = async function* () {
      yield "Hel";
      await new Promise<void>(() => {});
    };
    const scope = { deployment: "default" };
    const executor = fromFunctions({ agent });
    await using a = await createClockedService(clock, { storage: first.storage, worker, executor });
    const { thread_id } = await a.service.threads.create();
    const request = { assistant_id: "agent", input: {} };
    const { run_id } = await a.service.runs.create(thread_id, request, { records_all: true });
    const readMessageEvents = async (): Promise<string[]> => {
      const { events } = await first.share().storage.readEvents(scope, thread_id, { after: 0 });
      return events.flatMap(({ method, data }) => (method === "messages" ? JSON.parse(data ?? "{}").event : []));
    };
    await advanceUntil(clock, async () => (await readMessageEvents()).includes("message-start"));
    kill(first);
    await later.advance(2 * LEASE_MS);
    let failures = 0;
    second.faults.readEvents = (call) => {
      if (++failures > LEASE_MS / 500 + 1) return call();
      throw new Error("the store could not be reached");
    };
    await using b = await createClockedService(later, { storage: second.storage, worker, executor });
    await advanceUntil(later, async () => (await b.service.runs.get(thread_id, run_id)).status === "error");
    assert.equal((await readMessageEvents()).at(-1), "error");
  });

  it("emits nothing of an attempt without lease to a reader that has seen a later attempt", async () => {
    const clock = testClock();
    const { storage, faults, share } = createFaultyStorage();
    let sentClaim: ClaimRequest | undefined;
    faults.claimRun = (call, [, request]) => {
      sentClaim = request as ClaimRequest;
      return call();
    };
    const agent = async function* () {
      yield "Hel";
      await new Promise<void>(() => {});
    };
    await using kit = await createClockedService(clock, { storage, worker, executor: fromFunctions({ agent }) });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const { run_id } = await runs.create(thread_id, { assistant_id: "agent", stream_mode: "messages-tuple" });
    const first = await runs.joinStream(thread_id, run_id);
    await advanceUntil(clock, () => sentClaim !== undefined);
    assert.ok((await first.frames.next()).length > 0);
    const now = clock.now() + 2 * LEASE_MS;
    const secondClaim = {
      ...(sentClaim as ClaimRequest),
      token: "other",
      worker: "other",
      now,
      lease_until: now + LEASE_MS,
    };
    const claimed = await share().storage.claimRun({ deployment: "default" }, secondClaim);
    assert.equal(claimed.kind === "claimed" && claimed.claimed.run.claims, 2);
    const { frames } = await runs.joinStream(thread_id, run_id, { after: 2 ** 32 + 3 });
    const emittedFrames: unknown[] = [];
    const reading = frames.next().then((list) => emittedFrames.push(...list));
    await clock.advance(100);
    assert.deepEqual(emittedFrames, []);
    frames.leave();
    await reading;
  });

  it("claims no run with the end of another while the lease of a third has expired", async () => {
    const clock = testClock();
    const { storage, faults } = createFaultyStorage();
    const gate = Promise.withResolvers<void>();
    const startedRuns: string[] = [];
    let stuck = "";
    const claims: boolean[] = [];
    faults.renewLease = (call, [, lease]) =>
      (lease as { readonly run_id: string }).run_id === stuck ? new Promise<never>(() => {}) : call();
    faults.finishRun = (call, [, , end]) => {
      claims.push((end as { readonly next?: object }).next !== undefined);
      return call();
    };
    const agent =
      (end: Promise<void>) =>
      ({ run_id }: FunctionJob): Promise<void> => {
        startedRuns.push(run_id);
        return end;
      };
    const agents = { stuck: agent(new Promise(() => {})), ends: agent(gate.promise) };
    const many = { ...worker, concurrency: 3 };
    await using kit = await createClockedService(clock, { storage, worker: many, executor: fromFunctions(agents) });
    const { runs, threads } = kit.service;
    const from = clock.now();
    await clock.advance(500);
    await clock.advance(300);
    const { thread_id } = await threads.create();
    ({ run_id: stuck } = await runs.create(thread_id, { assistant_id: "stuck", input: {} }));
    await runs.create(null, { assistant_id: "ends", input: {} });
    await runs.create(thread_id, { assistant_id: "ends", input: {} });
    await advanceUntil(clock, () => startedRuns.length === 2);
    // The process made a claim shortly before.
    while (clock.now() < from + LEASE_MS + 900) await clock.advance(10);
    gate.resolve();
    await advanceUntil(clock, () => claims.length > 0);
    assert.deepEqual(claims, [false]);
  });
});
