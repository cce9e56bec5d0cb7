/** Defines the schemas of feedback requests, and converts their bodies for the service. */
import * as v from "valibot";
import { findKeyProblem } from "../../feedback/links.ts";
import type { FeedbackCreate, FeedbackSubmission } from "../../feedback/mod.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { FeedbackConfig, FeedbackPatch } from "../../storage/mod.ts";
import { isDeeperThan, isFiniteJson, isLongerThan, NUMBER_OUT_OF_RANGE } from "../../validation.ts";
import { encodeFinding, parseWithSchema, readObjectBody } from "../findings.ts";
import { MAX_DEPTH } from "../json-scan.ts";
import { type FieldSchema, passthroughObject, UUID, withDescription } from "../parse.ts";

const MAX_COMMENT_CHARS = 20_000;
export const FEEDBACK_SOURCES = ["api", "model", "app", "auto_eval"] as const;

/** A member that may be null or absent. */
type Nullish<Output> = v.GenericSchema<unknown, Output> & { readonly type: "nullish" };

const UUID_MESSAGE = encodeFinding("uuid_parsing", "must be a UUID");
const uuid = v.pipe(v.string(UUID_MESSAGE), v.regex(UUID, UUID_MESSAGE), v.toLowerCase());

/** Returns a check that refuses numbers such as 1e999, which JSON cannot represent. */
const checkFinite = <Value>(): v.CheckAction<Value, string> =>
  v.check<Value, string>(isFiniteJson, NUMBER_OUT_OF_RANGE);

/** The feedback key of a record or a link. */
const key: v.GenericSchema<string> = v.pipe(
  v.custom<string>(
    (input) => findKeyProblem(input) === null,
    ({ input }) => encodeFinding("value_error", findKeyProblem(input) ?? ""),
  ),
  v.metadata({ type: "string", minLength: 1, maxLength: 255 }),
);

const score = v.nullish(
  v.pipe(v.union([v.number(), v.boolean()], "must be a number, true or false"), checkFinite()),
  null,
);

const value: Nullish<Json> = v.nullish(
  v.pipe(
    v.custom<unknown>((input) => !Array.isArray(input), "must not be a list"),
    checkFinite(),
    v.metadata({ type: ["number", "boolean", "string", "object"] }),
  ),
  null,
) as Nullish<Json>;

const comment = v.nullish(
  v.pipe(
    v.string("must be a string"),
    v.metadata({ maxLength: MAX_COMMENT_CHARS }),
    v.transform((input) => input.replaceAll("\0", "").toWellFormed()),
    v.check(
      (input) => !isLongerThan(input, MAX_COMMENT_CHARS),
      encodeFinding("too_long", `must have at most ${MAX_COMMENT_CHARS} characters`),
    ),
  ),
  null,
);

const correction: Nullish<Json> = v.nullish(
  v.pipe(
    v.custom<unknown>((input) => isObject(input) || v.is(v.string(), input), "must be an object or a string"),
    v.check((input) => !isDeeperThan(input, MAX_DEPTH), `must not nest deeper than ${MAX_DEPTH} levels`),
    checkFinite(),
    v.metadata({ type: ["object", "string"] }),
  ),
  null,
) as Nullish<Json>;

/** An object of the client, which is stored unchanged. */
const anyObject = v.nullish(
  v.pipe(v.custom<JsonObject>(isObject, "must be an object"), checkFinite(), v.metadata({ type: "object" })),
  null,
);

/** The members that a submission and a record have in common. */
const contentFields = { score, value, comment, correction };

interface SourceInput {
  readonly type?: string | null;
  readonly metadata?: JsonObject | null;
}

/** The source of the feedback. */
const source: Nullish<SourceInput | null> = v.nullish(
  passthroughObject<SourceInput>({
    type: v.nullish(v.picklist(FEEDBACK_SOURCES, `must be one of ${FEEDBACK_SOURCES.join(", ")}`)),
    metadata: anyObject,
  }),
  null,
);

type Content = Pick<FeedbackSubmission, "score" | "value" | "comment" | "correction">;

/** The body of a submission to a link. */
export const submission: FieldSchema<Content & Pick<FeedbackSubmission, "metadata">> = withDescription(
  v.object({ ...contentFields, metadata: anyObject }),
  "Score, value, comment or correction must be given",
);

interface FeedbackInput extends Content {
  readonly id?: string | null;
  readonly run_id?: string | null;
  readonly session_id?: string | null;
  readonly key: string;
  readonly feedback_source: SourceInput | null;
  readonly extra: JsonObject | null;
}

const feedbackFields = v.object({
  id: v.nullish(uuid),
  run_id: v.nullish(uuid),
  session_id: v.nullish(uuid),
  key,
  ...contentFields,
  feedback_source: source,
  extra: anyObject,
});

/** The body that creates a record. */
export const feedbackCreate: FieldSchema<FeedbackInput> = v.pipe(
  feedbackFields,
  v.rawCheck(({ dataset, addIssue }) => {
    const { run_id = null, session_id = null } = dataset.value as { run_id?: unknown; session_id?: unknown };
    if (run_id !== null || session_id !== null) return;
    const pathItem = { type: "object", origin: "key", input: {}, key: "run_id", value: undefined } as const;
    addIssue({ message: encodeFinding("missing", "run_id or session_id is required"), path: [pathItem] });
  }),
  v.description("`run_id` or `session_id` must be given"),
);

/** The body that changes a record. */
export const feedbackPatch: FieldSchema<Content & { readonly feedback_source: SourceInput | null }> = withDescription(
  v.object({ ...contentFields, feedback_source: source }),
  "Present fields are changed, null clears",
);

/**
 * Returns the source and its metadata under their names in feedback. Omits a type that is absent and metadata that are
 * undefined; metadata of null stay.
 */
const toSource = (
  input: SourceInput | null,
): { readonly source?: string; readonly source_metadata?: JsonObject | null } => ({
  ...(input?.type ? { source: input.type } : {}),
  ...(input?.metadata === undefined ? {} : { source_metadata: input.metadata }),
});

/**
 * Parses a submission in a JSON body, and marks it as from the body. Throws an InputError, also for a body that is no
 * object.
 */
export const readSubmission = (bytes: Uint8Array): FeedbackSubmission => ({
  ...parseWithSchema(submission, readObjectBody(bytes), ["body"]),
  from: "body",
});

/** Reads the body of new feedback; the source is `api` by default. Throws an InputError with all findings. */
export function readFeedbackCreate(bytes: Uint8Array): FeedbackCreate {
  const { id, run_id, session_id, feedback_source, ...input } = parseWithSchema(feedbackCreate, readObjectBody(bytes), [
    "body",
  ]);
  return {
    ...(id ? { id } : {}),
    ...(run_id ? { run_id } : {}),
    ...(session_id ? { session_id } : {}),
    ...input,
    ...{ source: "api", source_metadata: null },
    ...toSource(feedback_source),
  };
}

/**
 * Reads the body of a patch. Returns only members that the body has; null clears one. Of the source only the metadata
 * can change: its type is ignored. Throws an InputError with all findings.
 */
export function readFeedbackPatch(bytes: Uint8Array): FeedbackPatch {
  const body = readObjectBody(bytes);
  const { feedback_source, ...input } = parseWithSchema(feedbackPatch, body, ["body"]);
  const changedEntries = Object.entries(input).filter(([name]) => Object.hasOwn(body, name));
  const { source_metadata } = toSource(feedback_source);
  return { ...Object.fromEntries(changedEntries), ...(source_metadata === undefined ? {} : { source_metadata }) };
}

const CONFIG_TYPES = ["continuous", "categorical", "freeform"] as const;
const NUMBER_MESSAGE = encodeFinding("type_error", "must be a number");
const number = v.pipe(v.number(NUMBER_MESSAGE), v.finite(NUMBER_MESSAGE));
const INTEGER_MESSAGE = encodeFinding("type_error", "must be an integer");
const integer = v.optional(v.pipe(v.number(INTEGER_MESSAGE), v.integer(INTEGER_MESSAGE)));

/** A null member counts as absent. */
interface ConfigInput {
  readonly type: FeedbackConfig["type"];
  readonly min?: number | null;
  readonly max?: number | null;
  readonly categories?: readonly { readonly value: number; readonly label?: string | null }[] | null;
}

const config = v.pipe(
  passthroughObject<ConfigInput>({
    type: v.picklist(CONFIG_TYPES, `must be one of ${CONFIG_TYPES.join(", ")}`),
    min: v.optional(number),
    max: v.optional(number),
    categories: v.optional(
      v.array(passthroughObject({ value: number, label: v.optional(v.string("must be a string")) }), "must be a list"),
    ),
  }),
  v.check(
    ({ min, max }) => (min ?? Number.NEGATIVE_INFINITY) <= (max ?? Number.POSITIVE_INFINITY),
    "min must not be above max",
  ),
  v.rawCheck(({ dataset, addIssue }) => {
    if (!dataset.typed || dataset.value.type !== "categorical") return;
    const { categories } = dataset.value;
    const problem = categories ? "must have an item" : encodeFinding("missing", "is required");
    const pathItem = { type: "object", origin: "value", input: {}, key: "categories", value: categories } as const;
    if (!categories || categories.length === 0) addIssue({ message: problem, path: [pathItem] });
  }),
);

/** The input of a feedback link. A null member counts as absent. */
export interface LinkInput {
  readonly run_id: string;
  readonly feedback_key: string;
  readonly expires_in?: { readonly [unit in "days" | "hours" | "minutes"]?: number | null } | null;
  readonly expires_at?: string | null;
  readonly feedback_config?: ConfigInput | null;
}

const TIME_MESSAGE = encodeFinding("datetime_parsing", "must be a date or time in RFC 3339");

export const feedbackLink: FieldSchema<LinkInput> = withDescription(
  passthroughObject<LinkInput>({
    run_id: uuid,
    feedback_key: key,
    expires_in: v.optional(passthroughObject({ days: integer, hours: integer, minutes: integer })),
    expires_at: withDescription(
      v.optional(
        v.pipe(
          v.string(TIME_MESSAGE),
          v.check((input) => parseRfc3339(input) !== null, TIME_MESSAGE),
        ),
      ),
      "RFC 3339; UTC where no offset is given; a date alone is its start",
    ),
    feedback_config: v.optional(config),
  }),
  "Without `expires_in` and `expires_at` it expires after 3 hours; 365 days at most",
) as FieldSchema<LinkInput>;

/**
 * Returns a copy of the config without its null members; null without a config. A category without a label gets the label null.
 */
export function toFeedbackConfig(input: ConfigInput | null | undefined): FeedbackConfig | null {
  if (!input) return null;
  const { type, min, max, categories } = input;
  return {
    type,
    ...((min ?? null) === null ? {} : { min: min as number }),
    ...((max ?? null) === null ? {} : { max: max as number }),
    ...(categories
      ? { categories: categories.map((category) => ({ value: category.value, label: category.label ?? null })) }
      : {}),
  };
}
