/** The event protocol of threads (v2): its events on the wire, and which of them a subscriber gets. */
import type { Json } from "../json.ts";
import type { EventMethod, Scope } from "../storage/mod.ts";
import type { Frame } from "./hub.ts";
import type { Reader } from "./reader.ts";

export { EVENT_METHODS as METHODS } from "../storage/event-rows.ts";

/** The method of an event. Channel `input` has both `input.…` methods. */
export type ProtocolMethod = EventMethod;

/** One event of a thread, as a subscriber gets it. */
export interface ProtocolEvent {
  readonly type: "event";
  /** The same in every replay: `synth:<run_id>:<seq>` for the lifecycle of a run, else the `seq` as text. */
  readonly event_id: string;
  /** `turn * 2^32 + frame`: grows along the thread, with gaps. */
  readonly seq: number;
  readonly method: ProtocolMethod;
  readonly params: {
    /** Empty for the graph itself, else `<node>:<task id>` of each level. */
    readonly namespace: readonly string[];
    /** Milliseconds since 1970. */
    readonly timestamp: number;
    readonly node?: string;
    readonly data: Json;
  };
}

/** Which events of a thread a subscriber gets. */
export interface EventFilter {
  /** Names of channels: methods, `input`, or `custom:<name>`. */
  readonly channels: readonly string[];
  /** Prefixes. A segment without `:` matches all tasks of that node. Absent or empty: all namespaces. */
  readonly namespaces?: readonly (readonly string[])[];
  /** The most segments that a namespace may have beyond its prefix. No effect without `namespaces`. */
  readonly depth?: number;
  /** Only events with a higher `seq`; 1 for everything that is kept. Default: the events of the last 10 turns. */
  readonly since?: number;
}

/** An event as a frame, which all subscribers of a process share. */
export interface SentEvent extends Frame {
  readonly seq: number;
  /** The `event_id`. */
  readonly id: string;
  /** The method. */
  readonly event: ProtocolMethod;
  readonly namespace: readonly string[];
  /** Of `custom`: the name of its channel. */
  readonly name: string | undefined;
  /** The envelope (`ProtocolEvent`) as one line of JSON. */
  readonly data: string;
}

/** The events of the threads of a service. */
export interface ThreadEvents {
  /**
   * Events that are kept, then live ones, without gap, double or reordering. A thread that does not exist or is not visible in `scope`
   * has no events; the reader waits until it does. It ends when the thread is deleted or the service stops. From now on the runs of
   * the thread record all methods.
   */
  subscribe(scope: Scope, thread_id: string, filter: EventFilter): Reader<SentEvent>;
  /** The kept events alone. */
  kept(scope: Scope, thread_id: string, filter: EventFilter): AsyncIterable<SentEvent>;
  /** The `seq` of the newest kept event; 0 without any. */
  lastSeq(scope: Scope, thread_id: string): Promise<number>;
}
