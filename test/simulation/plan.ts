/** The decisions of a seed before its simulation starts: the machines, the load and the possible faults (swarm: each seed has its own). */
import type { TraceOptions } from "../../lib/traces/options.ts";
import { Dice } from "./random.ts";

export type Fault =
  /** A storage call fails and nothing was written. */
  | "fail_before"
  /** A storage call fails and everything was written: its outcome is unknown. */
  | "fail_after"
  /** A storage call takes long, before or after it takes effect. */
  | "delay"
  /** The process ends within a storage call, before or after its commit. */
  | "crash_in_call"
  /** The process ends at any moment, and another one starts. */
  | "crash"
  /** The process is told to stop, and another one starts. */
  | "terminate"
  /** The process stalls, often for longer than a lease. */
  | "pause"
  /** Timers and ticks of the event loop come late. */
  | "slow_loop"
  /** Nothing can be written for a while. */
  | "disk_full"
  | "agent_throws"
  | "agent_hangs"
  | "agent_ignores_stop"
  /** Clients leave streams and waits before their end. */
  | "disconnect"
  /** Receivers of webhooks cannot be reached, or answer with errors. */
  | "hook_fails"
  /** Receivers of webhooks never answer. */
  | "hook_hangs"
  /** Receivers of webhooks take what is sent, and say otherwise or too late. */
  | "hook_lies";

export const FAULTS: readonly Fault[] = [
  "fail_before",
  "fail_after",
  "delay",
  "crash_in_call",
  "crash",
  "terminate",
  "pause",
  "slow_loop",
  "disk_full",
  "agent_throws",
  "agent_hangs",
  "agent_ignores_stop",
  "disconnect",
  "hook_fails",
  "hook_hangs",
  "hook_lies",
];

export interface Plan {
  readonly seed: number;
  /** `leases`: processes share the work. `file`: one executes, the others wait for its end. */
  readonly mode: "leases" | "file";
  /** The database is behind a network: batches are on their way for a while, and those of a dead process may still arrive. */
  readonly remote: boolean;
  /** Commits to an embedded file are made in a thread, by a disk that is slow. */
  readonly thread: boolean;
  /** Processes wake each other, by signals that may be lost, late or doubled. Every run's frames are stored then. */
  readonly signals: boolean;
  /** Executors with checkpoints of their own put them up to so long before they show them, as LangGraph does; they show messages too. */
  readonly lag_ms: number;
  /** The number of readers that poll threads whose runs execute. */
  readonly pollers: number;
  readonly nodes: number;
  readonly threads: number;
  readonly clients: number;
  /** The number of requests of each client. */
  readonly requests: number;
  /** The maximum time between two requests of a client. */
  readonly think_ms: number;
  readonly lease_ms: number;
  readonly run_timeout_ms: number;
  readonly concurrency: number;
  /** The maximum number of pending runs of a thread. */
  readonly pending_per_thread: number;
  /** The longest message, in characters: long lists are stored as tails. */
  readonly padding: number;
  /** The lifetime of rows that have ended: for ever in most seeds, unless the seed checks the retention. */
  readonly retention: { readonly frames_ms: number; readonly stateless_ms: number; readonly idempotency_ms: number };
  readonly faults: ReadonlySet<Fault>;
  /** The probability of each fault for a storage call. */
  readonly call_fault: number;
  /** Faults of processes come at most this far apart. */
  readonly process_fault_ms: number;
  /** The maximum clock skew of a machine. */
  readonly skew_ms: number;
  /** The share of requests that stop other runs. */
  readonly conflict: number;
  /** The share of runs with a webhook, and the options of its delivery. */
  readonly hooks: {
    readonly share: number;
    readonly schedule_ms: readonly number[];
    readonly timeout_ms: number;
    readonly concurrency: number;
  };
  /** The share of runs with feedback keys, and the lifetime of their links after the end. */
  readonly feedback: number;
  readonly token_ttl_ms: number;
  /** The machines sleep for hours: usage is summed by the hour. */
  readonly hours: boolean;
  /** What is kept of spans. */
  readonly traces: Pick<TraceOptions, "record" | "content" | "retention_ms">;
  /** Clients also speak the event protocol: messages and answers to a thread that waits come at the same time. */
  readonly talks: boolean;
}

/** Longer than a seed's work and the wait after it. */
export const SWEPT_MS = 300_000;

/** Creates the plan of a seed. `without` leaves faults out and `halve` halves the load this often: to find what a failure needs. */
export function createPlan(seed: number, without: readonly string[] = [], halve = 0, skew_ms = 0): Plan {
  const dice = new Dice(seed, "plan");
  const faults = new Set<Fault>();
  // One seed in eight has none: then nothing at all may go wrong.
  const calm = dice.chance(0.125);
  for (const fault of FAULTS) {
    const on = dice.chance(0.4);
    if (on && !calm && !without.includes(fault)) faults.add(fault);
  }
  const mode = dice.chance(0.35) ? "file" : "leases";
  const remote = mode === "leases" && dice.chance(0.5);
  const retentionMs = dice.chance(0.1) ? SWEPT_MS : 86_400_000;
  const share = 2 ** halve;
  return {
    seed,
    mode,
    remote,
    // Dice of its own: all else is decided as it was before there were signals.
    signals: mode === "leases" && new Dice(seed, "signals").chance(0.5),
    thread: !remote && new Dice(seed, "disk").chance(0.5),
    lag_ms: new Dice(seed, "lag").pick([0, 0, 4, 30]),
    pollers: new Dice(seed, "pollers").pick([0, 0, 0, 1, 4]),
    nodes: mode === "file" ? dice.between(1, 2) : dice.between(1, 3),
    threads: dice.between(1, 4),
    clients: Math.max(1, Math.ceil(dice.between(2, 5) / share)),
    requests: Math.max(1, Math.ceil(dice.between(4, 9) / share)),
    think_ms: dice.pick([50, 500, 2_000]),
    lease_ms: dice.pick([1_000, 2_000, 4_000]),
    run_timeout_ms: dice.pick([3_000, 8_000, 20_000]),
    concurrency: dice.pick([1, 2, 10]),
    pending_per_thread: dice.chance(0.2) ? 2 : 1_000,
    padding: dice.pick([0, 0, 900]),
    retention: { frames_ms: retentionMs, stateless_ms: dice.pick([0, 3_000, 60_000]), idempotency_ms: retentionMs },
    faults,
    skew_ms,
    call_fault: dice.pick([0.01, 0.03, 0.08]),
    process_fault_ms: dice.pick([1_500, 4_000, 10_000]),
    conflict: dice.pick([0.1, 0.3, 0.6]),
    hooks: {
      share: dice.pick([0, 0.3, 0.8]),
      schedule_ms: dice.pick([[], [200, 1_000], [0, 100, 500, 2_000]]),
      timeout_ms: dice.pick([300, 1_500]),
      concurrency: dice.pick([1, 3, 20]),
    },
    feedback: dice.pick([0, 0.3, 0.8]),
    token_ttl_ms: dice.pick([2_000, 10_800_000]),
    hours: dice.chance(0.15),
    traces: {
      record: new Dice(seed, "sampled").chance(0.15) ? { sample: 0.5, slow_ms: 5_000 } : "all",
      content: new Dice(seed, "copies").chance(0.3) ? "all" : "references",
      ...(retentionMs === SWEPT_MS ? { retention_ms: SWEPT_MS } : {}),
    },
    talks: new Dice(seed, "talks").chance(0.3),
  };
}
