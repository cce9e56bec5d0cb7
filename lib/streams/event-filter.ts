/** The events of the event protocol of threads (v2) on the wire, and the filters of its subscribers. */
import type { Json } from "../json.ts";
import { EVENT_METHODS, type EventMethod, type Scope } from "../storage/mod.ts";
import type { Frame } from "./frames.ts";
import type { Reader } from "./log.ts";

/** An event of a thread in the form of the wire. */
export interface ProtocolEvent {
  readonly type: "event";
  /** The id, equal in every replay: `synth:<run_id>:<seq>` for the lifecycle of a run, else the `seq` as text. */
  readonly event_id: string;
  /** The number `turn * 2^32 + n`, which increases along the thread, with gaps. */
  readonly seq: number;
  readonly method: EventMethod;
  readonly params: {
    /** The segments `<node>:<task id>` of each level; empty for the root graph. */
    readonly namespace: readonly string[];
    /** The time in milliseconds since 1970. */
    readonly timestamp: number;
    readonly node?: string;
    readonly data: Json;
  };
}

/** The filter of a subscriber of a thread's events. */
export interface EventFilter {
  /** The names of channels: methods, `input` for both `input.…` methods, or `custom:<name>`. */
  readonly channels: readonly string[];
  /** The prefixes of namespaces. A segment without `:` matches all tasks of that node. Absent or empty: all namespaces. */
  readonly namespaces?: readonly (readonly string[])[];
  /** The maximum number of segments beyond the prefix. Has no effect without `namespaces`. */
  readonly depth?: number;
  /** The `seq` above which events are included; 1 for all stored events. Default: the events of the last 10 turns. */
  readonly since?: number;
}

/** A serialized event, which all subscribers of a process share. */
export interface SerializedEvent extends Frame {
  readonly seq: number;
  /** The `event_id`. */
  readonly id: string;
  /** The method. */
  readonly event: EventMethod;
  readonly namespace: readonly string[];
  /** The name of the channel of a `custom` event. */
  readonly name: string | undefined;
  /** The envelope (`ProtocolEvent`) as one line of JSON. */
  readonly data: string;
}

/** The events of the threads of a service. */
export interface ThreadEvents {
  /**
   * Reads stored events, then live ones, without gap, duplicate or reordering. A thread that does not exist or is not visible in
   * `scope` has no events; the reader waits until it does. It ends when the thread is deleted or the service stops. From its
   * first read on, the runs of the thread record all methods.
   */
  subscribe(scope: Scope, thread_id: string, filter: EventFilter): Reader<SerializedEvent>;
  /**
   * Resolves once the next runs of a thread with readers here record all methods, in every process. Does nothing for a thread
   * without readers here, and for one that is not visible in `scope`.
   */
  recordAll(scope: Scope, thread_id: string): Promise<void>;
  /** Reads the stored events without live ones. */
  readStored(scope: Scope, thread_id: string, filter: EventFilter): AsyncIterable<SerializedEvent>;
  /** Counts the stored events that pass each filter. */
  count(scope: Scope, thread_id: string, filters: readonly EventFilter[]): Promise<EventCounts>;
  /** Returns the `seq` of the newest stored event; 0 without any. */
  lastEventSeq(scope: Scope, thread_id: string): Promise<number>;
}

/** The number of events that pass each filter, and the `seq` of the newest event of all. */
export interface EventCounts {
  readonly counts: readonly number[];
  readonly last: number;
}

/** Returns true if an event passes a filter. `name` is the name in the data of a `custom` event. */
export type EventPredicate = (method: EventMethod, namespace: readonly string[], name: string | undefined) => boolean;

const CUSTOM_PREFIX = "custom:";
const INPUT_CHANNEL = "input";

const toChannel = (method: EventMethod): string => (method.startsWith("input.") ? INPUT_CHANNEL : method);

const CHANNELS: ReadonlySet<string> = new Set(EVENT_METHODS.map(toChannel));

export const isChannel = (channel: string): boolean => CHANNELS.has(channel) || channel.startsWith(CUSTOM_PREFIX);

/** Validates a list of channels. Returns the problem as the end of a sentence; undefined for a valid list. */
export function validateChannels(channels: unknown): string | undefined {
  if (!Array.isArray(channels) || channels.length === 0) return "requires a non-empty channels array.";
  return channels.every((channel) => typeof channel === "string" && isChannel(channel))
    ? undefined
    : "received an unsupported channel.";
}

/** Returns the methods that can pass a filter. Unknown channels have none. */
export function listMethods({ channels }: EventFilter): ReadonlySet<EventMethod> {
  const channelNames = new Set(channels.map((channel) => (channel.startsWith(CUSTOM_PREFIX) ? "custom" : channel)));
  return new Set(EVENT_METHODS.filter((method) => channelNames.has(toChannel(method))));
}

/** Converts a filter to a predicate, without `since`. Channels and namespaces must both match; without namespaces all match. */
export function compileFilter(filter: EventFilter): EventPredicate {
  const { channels, namespaces = [], depth = Number.POSITIVE_INFINITY } = filter;
  const methods = listMethods(filter);
  const includesAllNames = channels.includes("custom");
  const names = new Set(
    channels
      .filter((channel) => channel.startsWith(CUSTOM_PREFIX))
      .map((channel) => channel.slice(CUSTOM_PREFIX.length)),
  );
  return (method, namespace, name) => {
    if (!methods.has(method)) return false;
    if (method === "custom" && !includesAllNames && !(name !== undefined && names.has(name))) return false;
    if (namespaces.length === 0) return true;
    return namespaces.some(
      (prefix) =>
        prefix.length <= namespace.length &&
        namespace.length - prefix.length <= depth &&
        prefix.every((prefixSegment, level) => matchesSegment(namespace[level] as string, prefixSegment)),
    );
  };
}

/** Returns true if the segments are equal, or if `prefixSegment` has no task id and names the node of `segment`. */
function matchesSegment(segment: string, prefixSegment: string): boolean {
  if (segment === prefixSegment) return true;
  return !prefixSegment.includes(":") && segment.startsWith(prefixSegment) && segment[prefixSegment.length] === ":";
}
