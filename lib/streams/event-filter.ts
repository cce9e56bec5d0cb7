/** Which events of a thread pass a filter: by channel, namespace and depth. */
import { type EventFilter, METHODS, type ProtocolMethod } from "./protocol.ts";

/** Whether an event passes. `name`: the name in the data of a `custom` event. */
export type Passes = (method: ProtocolMethod, namespace: readonly string[], name: string | undefined) => boolean;

const NAMED = "custom:";
const INPUT = "input";

/** The channel of a method. */
const channelOf = (method: ProtocolMethod): string => (method.startsWith("input.") ? INPUT : method);

const CHANNELS: ReadonlySet<string> = new Set(METHODS.map(channelOf));

/** Whether the protocol has this channel. */
export const isChannel = (channel: string): boolean => CHANNELS.has(channel) || channel.startsWith(NAMED);

/** The methods that a filter can let pass. Unknown channels have none. */
export function methodsOf({ channels }: EventFilter): ReadonlySet<ProtocolMethod> {
  const wanted = new Set(channels.map((channel) => (channel.startsWith(NAMED) ? "custom" : channel)));
  return new Set(METHODS.filter((method) => wanted.has(channelOf(method))));
}

/** The filter as a function. `since` has no effect on it. */
export function compileFilter(filter: EventFilter): Passes {
  const { channels, namespaces = [], depth = Number.POSITIVE_INFINITY } = filter;
  const methods = methodsOf(filter);
  const every_name = channels.includes("custom");
  const names = new Set(
    channels.filter((channel) => channel.startsWith(NAMED)).map((channel) => channel.slice(NAMED.length)),
  );
  return (method, namespace, name) => {
    if (!methods.has(method)) return false;
    if (method === "custom" && !every_name && !(name !== undefined && names.has(name))) return false;
    if (namespaces.length === 0) return true;
    return namespaces.some(
      (prefix) =>
        prefix.length <= namespace.length &&
        namespace.length - prefix.length <= depth &&
        prefix.every((wanted, level) => isSegment(namespace[level] as string, wanted)),
    );
  };
}

/** Equal, or the node of it: a wanted segment without a task id matches all tasks of the node. */
function isSegment(segment: string, wanted: string): boolean {
  if (segment === wanted) return true;
  return !wanted.includes(":") && segment.startsWith(wanted) && segment[wanted.length] === ":";
}
