/** Defines the schema of requests that create runs, and reads the origin of a run from the request. */
import * as v from "valibot";
import { STREAM_MODES, type StreamMode } from "../executor/contract.ts";
import { CHOICES, type RunCreate, type RunOrigin } from "../runs/mod.ts";
import type { TraceSource } from "../storage/mod.ts";
import { findTraceContext, type TraceContext } from "../traces/ids.ts";
import { MAX_URL_LENGTH } from "../webhooks/policy.ts";
import * as parse from "./parse.ts";
import { readIdempotencyKey, readWebhookDepth } from "./request.ts";
import type { RequestContext } from "./route.ts";

const sendFields = parse.passthroughObject({ node: parse.name });
/** A JSON value, which may be null. Undefined means that the list is too short. */
const presentJson = v.pipe(
  parse.anyJson,
  v.check((value) => value !== undefined),
);
/** The maximum number of tasks of one step. */
const MAX_GOTO_TARGETS = 100;
const GOTO_MESSAGE = `must be a node name, a Send or a list of at most ${MAX_GOTO_TARGETS} of these`;
const gotoTarget = v.union([parse.name, sendFields], GOTO_MESSAGE);
const breakpoints = v.optional(
  v.union([v.literal("*"), parse.listSchema(parse.name)], 'must be "*" or a list of node names') as v.GenericSchema<
    "*" | string[]
  >,
);

/** The command of a run or of a state update. */
export const command: v.GenericSchema<NonNullable<RunCreate["command"]>> = parse.passthroughObject<
  NonNullable<RunCreate["command"]>
>({
  update: v.optional(
    v.union(
      [parse.anyObject, v.array(v.strictTuple([parse.name, presentJson]))],
      "must be an object or a list of [channel, value] pairs",
    ),
  ),
  expected_answers: parse.withDescription(
    v.optional(
      v.record(parse.name, parse.integer(0, Number.MAX_SAFE_INTEGER), "must be an object of interrupt ids and numbers"),
    ),
    "By interrupt id: how many answers its task had taken when it was shown. Any other number is refused",
  ),
  goto: v.optional(
    v.union(
      [parse.name, sendFields, v.pipe(v.array(gotoTarget), v.maxLength(MAX_GOTO_TARGETS, GOTO_MESSAGE))],
      GOTO_MESSAGE,
    ),
  ),
});

/** The service decides which keys and URLs are valid; these bounds are for the OpenAPI document. */
const feedbackKey = v.pipe(v.string(), v.metadata({ minLength: 1, maxLength: 255 }));
const feedbackKeys = v.union(
  [feedbackKey, v.pipe(v.array(feedbackKey), v.metadata({ maxItems: 50 }))],
  "must be a list of strings",
);
const webhook = v.pipe(v.string("must be a string"), v.metadata({ minLength: 1, maxLength: MAX_URL_LENGTH }));

/** The body of each route that creates a run. */
export const runCreate: parse.FieldSchema<RunCreate> = v.object({
  assistant_id: parse.assistantId,
  assistant_version: parse.withDescription(
    v.optional(parse.integer(1, Number.MAX_SAFE_INTEGER)),
    "The version of the assistant to run. Default: the active one. `config.assistant_version` is the same, for SDKs",
  ),
  input: v.optional(parse.anyJson),
  command: v.optional(command),
  config: v.optional(parse.config),
  context: v.optional(parse.anyObject),
  metadata: v.optional(parse.anyObject),
  checkpoint: v.optional(parse.checkpoint),
  checkpoint_id: v.optional(parse.name),
  stream_mode: v.optional(
    v.union(
      [parse.streamMode, v.array(parse.streamMode)],
      `must be one of ${STREAM_MODES.join(", ")}, or a list of these`,
    ) as v.GenericSchema<StreamMode | StreamMode[]>,
  ),
  stream_subgraphs: v.optional(parse.flag),
  stream_resumable: parse.withDescription(
    v.optional(parse.flag),
    "Stores the frames, so that clients can resume the stream after a restart and after the end",
  ),
  multitask_strategy: parse.withDescription(
    v.optional(parse.oneOf(CHOICES.multitask_strategy)),
    "What to do with active runs of the thread. Default `enqueue`: wait for them",
  ),
  if_not_exists: v.optional(parse.oneOf(CHOICES.if_not_exists)),
  on_disconnect: v.optional(parse.oneOf(CHOICES.on_disconnect)),
  // Some SDK types have values that no server knows. They are ignored.
  on_completion: v.fallback(v.optional(parse.oneOf(["delete", "keep"])), undefined),
  after_seconds: parse.withDescription(
    v.optional(v.pipe(v.number("must be a number"), v.finite("must be finite"), v.minValue(0, "must be at least 0"))),
    "Delays the start by so many seconds. `created_at` is the time of the start",
  ),
  interrupt_before: breakpoints,
  interrupt_after: breakpoints,
  strict_resume: parse.withDescription(
    v.optional(parse.flag),
    "Refuses answers to interrupts that are not open; by default they are ignored",
  ),
  durability: v.optional(parse.oneOf(CHOICES.durability)),
  checkpoint_during: v.optional(parse.flag),
  webhook: parse.withDescription(
    v.optional(webhook),
    "Receives a POST when the run ends: an absolute URL, or a path of the host application",
  ),
  feedback_keys: parse.withDescription(
    v.optional(feedbackKeys),
    "Creates a feedback link for each key; the `feedback` event contains the links",
  ),
});

/** Validates a run that an authorization handler has changed. */
export const revalidateRun = (run: RunCreate): RunCreate =>
  parse.readObject(new TextEncoder().encode(JSON.stringify(run)), runCreate);

/** The trace contexts of a message: one that precedes that of the headers, and one that follows it. */
interface MessageContexts {
  readonly first?: TraceContext;
  readonly last?: TraceContext;
}

/**
 * Reads the parts of a run that come from the headers: the configurable values that the options copy, the webhook
 * depth, and for its trace the call and its `traceparent`. Adds the function that validates a run again. `source` is the
 * way in which the run is created; a run of a webhook has its own. Throws `invalid` for a malformed depth.
 */
export function readRunOriginFromHeaders(
  { request, handler, request_id, route }: RequestContext,
  source: TraceSource,
  { first, last }: MessageContexts = {},
): RunOrigin {
  const { headers } = request;
  const webhook_depth = readWebhookDepth(headers);
  const header = { traceparent: headers.get("traceparent"), tracestate: headers.get("tracestate") };
  const { traceparent, tracestate } = findTraceContext([first, header, last]) ?? {};
  return {
    configurable: handler.copyHeaders(headers),
    webhook_depth,
    recheck: revalidateRun,
    trace: {
      source: webhook_depth > 0 ? "webhook" : source,
      ...{ route, request_id },
      ...(traceparent === undefined ? {} : { traceparent }),
      ...(typeof tracestate === "string" ? { tracestate } : {}),
    },
  };
}

/**
 * Reads the parts of a run that come from the request: those of the headers, and the idempotency key if there is one,
 * which is scoped to `route` and has the hash of `bytes`. Throws `invalid`.
 */
export async function readRunOrigin(
  context: RequestContext,
  source: TraceSource,
  bytes: Uint8Array,
  route: string,
): Promise<RunOrigin> {
  const idempotency = await readIdempotencyKey(context.request.headers, route, bytes);
  return { ...readRunOriginFromHeaders(context, source), ...(idempotency ? { idempotency } : {}) };
}
