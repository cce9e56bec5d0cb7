/** The event protocol of threads (v2): its events on the wire, and which of them a subscriber gets. */
import type { Json } from "../json.ts";
import { EVENT_METHODS, type EventMethod, type Scope } from "../storage/mod.ts";
import type { Frame } from "./frames.ts";
import type { Reader } from "./log.ts";

/** One event of a thread, as a subscriber gets it. */
export interface ProtocolEvent {
  readonly type: "event";
  /** The same in every replay: `synth:<run_id>:<seq>` for the lifecycle of a run, else the `seq` as text. */
  readonly event_id: string;
  /** `turn * 2^32 + n`: grows along the thread, with gaps. */
  readonly seq: number;
  readonly method: EventMethod;
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
  /** Names of channels: methods, `input` for both `input.…` methods, or `custom:<name>`. */
  readonly channels: readonly string[];
  /** Prefixes. A segment without `:` matches all tasks of that node. Absent or empty: all namespaces. */
  readonly namespaces?: readonly (readonly string[])[];
  /** The most segments that a namespace may have beyond its prefix. No effect without `namespaces`. */
  readonly depth?: number;
  /** Only events with a higher `seq`; 1 for everything that is kept. Default: the events of the last 10 turns. */
  readonly since?: number;
}

/** An event as a frame, which all subscribers of a process share. */
export interface SerializedEvent extends Frame {
  readonly seq: number;
  /** The `event_id`. */
  readonly id: string;
  /** The method. */
  readonly event: EventMethod;
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
   * has no events; the reader waits until it does. It ends when the thread is deleted or the service stops. From its first read on
   * the runs of the thread record all methods.
   */
  subscribe(scope: Scope, thread_id: string, filter: EventFilter): Reader<SerializedEvent>;
  /** For a thread with readers here: resolves once its next runs record all methods, wherever they are executed. */
  recordAll(scope: Scope, thread_id: string): Promise<void>;
  /** The kept events alone. */
  readStored(scope: Scope, thread_id: string, filter: EventFilter): AsyncIterable<SerializedEvent>;
  /** How many events are kept that pass each filter. */
  count(scope: Scope, thread_id: string, filters: readonly EventFilter[]): Promise<EventCounts>;
  /** The `seq` of the newest kept event; 0 without any. */
  lastEventSeq(scope: Scope, thread_id: string): Promise<number>;
}

/** The events that filters let pass, counted for each, and the `seq` of the newest event of all. */
export interface EventCounts {
  readonly counts: readonly number[];
  readonly last: number;
}

/** Whether an event passes. `name`: the name in the data of a `custom` event. */
export type EventPredicate = (method: EventMethod, namespace: readonly string[], name: string | undefined) => boolean;

const CUSTOM_PREFIX = "custom:";
const INPUT_CHANNEL = "input";

/** The channel of a method. */
const toChannel = (method: EventMethod): string => (method.startsWith("input.") ? INPUT_CHANNEL : method);

const CHANNELS: ReadonlySet<string> = new Set(EVENT_METHODS.map(toChannel));

/** Whether the protocol has this channel. */
export const isChannel = (channel: string): boolean => CHANNELS.has(channel) || channel.startsWith(CUSTOM_PREFIX);

/** What is wrong with a list of channels; undefined if nothing is. */
export function validateChannels(channels: unknown): string | undefined {
  if (!Array.isArray(channels) || channels.length === 0) return "requires a non-empty channels array.";
  return channels.every((channel) => typeof channel === "string" && isChannel(channel))
    ? undefined
    : "received an unsupported channel.";
}

/** The methods that a filter can let pass. Unknown channels have none. */
export function listMethods({ channels }: EventFilter): ReadonlySet<EventMethod> {
  const channelNames = new Set(channels.map((channel) => (channel.startsWith(CUSTOM_PREFIX) ? "custom" : channel)));
  return new Set(EVENT_METHODS.filter((method) => channelNames.has(toChannel(method))));
}

/** The filter as a function. `since` has no effect on it. */
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

/** Equal, or the node of it: a wanted segment without a task id matches all tasks of the node. */
function matchesSegment(segment: string, prefixSegment: string): boolean {
  if (segment === prefixSegment) return true;
  return !prefixSegment.includes(":") && segment.startsWith(prefixSegment) && segment[prefixSegment.length] === ":";
}
