/** Requests of the thread event protocol. */
import * as v from "valibot";
import type { Command, EventFilter } from "../../protocol/mod.ts";
import { anyObject, type Fields, integer, listOf, text } from "./pieces.ts";

/** The most channels and namespaces of a filter, and segments of a namespace: each event is compared with them. */
const MOST_CHANNELS = 100;
const MOST_NAMESPACES = 1_000;
const MOST_SEGMENTS = 100;

const count = integer(0, Number.MAX_SAFE_INTEGER);

/** POST /threads/{thread_id}/commands */
export const threadCommand: Fields<Command> = v.object({
  id: count,
  method: text,
  params: v.optional(anyObject),
});

/** POST /threads/{thread_id}/stream/events. Unknown channels match nothing. */
export const eventFilter: Fields<EventFilter> = v.object({
  channels: v.pipe(
    listOf(text),
    v.minLength(1, "must name a channel"),
    v.maxLength(MOST_CHANNELS, `must name at most ${MOST_CHANNELS} channels`),
  ),
  namespaces: v.optional(
    v.pipe(
      listOf(v.pipe(listOf(text), v.maxLength(MOST_SEGMENTS, `must have at most ${MOST_SEGMENTS} segments`))),
      v.maxLength(MOST_NAMESPACES, `must hold at most ${MOST_NAMESPACES} namespaces`),
    ) as v.GenericSchema<string[][]>,
  ),
  depth: v.optional(count),
  since: v.optional(count),
});
