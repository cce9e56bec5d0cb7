/** The bodies of requests about feedback: their schemas, and what the service gets of them. */
import * as v from "valibot";
import { findKeyProblem } from "../../feedback/links.ts";
import type { FeedbackCreate, Submission } from "../../feedback/mod.ts";
import { isObject, type Json, type JsonObject } from "../../json.ts";
import { parseRfc3339 } from "../../rfc3339.ts";
import type { FeedbackConfig, FeedbackPatch } from "../../storage/mod.ts";
import { isDeeperThan, isFiniteJson, isLongerThan, NUMBER_OUT_OF_RANGE } from "../../validation.ts";
import { encodeFinding, parseWithSchema, readObjectBody } from "../findings.ts";
import { MAX_DEPTH } from "../json-scan.ts";
import { type FieldSchema, passthroughObject, UUID, withDescription } from "../parse.ts";

const MAX_COMMENT = 20_000;
export const FEEDBACK_SOURCES = ["api", "model", "app", "auto_eval"] as const;

/** A member that may be null or absent. */
type Nullish<Output> = v.GenericSchema<unknown, Output> & { readonly type: "nullish" };

const UUID_TEXT = encodeFinding("uuid_parsing", "must be a UUID");
const uuid = v.pipe(v.string(UUID_TEXT), v.regex(UUID, UUID_TEXT), v.toLowerCase());

/** Numbers such as 1e999 are no JSON. */
const finite = <Value>(): v.CheckAction<Value, string> => v.check<Value, string>(isFiniteJson, NUMBER_OUT_OF_RANGE);

/** The key of a record or a link. */
const key: v.GenericSchema<string> = v.pipe(
  v.custom<string>(
    (sent) => findKeyProblem(sent) === null,
    ({ input }) => encodeFinding("value_error", findKeyProblem(input) ?? ""),
  ),
  v.metadata({ type: "string", minLength: 1, maxLength: 255 }),
);

const score = v.nullish(v.pipe(v.union([v.number(), v.boolean()], "must be a number, true or false"), finite()), null);

const value: Nullish<Json> = v.nullish(
  v.pipe(
    v.custom<unknown>((sent) => !Array.isArray(sent), "must not be a list"),
    finite(),
    v.metadata({ type: ["number", "boolean", "string", "object"] }),
  ),
  null,
) as Nullish<Json>;

const comment = v.nullish(
  v.pipe(
    v.string("must be a string"),
    v.metadata({ maxLength: MAX_COMMENT }),
    v.transform((sent) => sent.replaceAll("\0", "").toWellFormed()),
    v.check(
      (sent) => !isLongerThan(sent, MAX_COMMENT),
      encodeFinding("too_long", `must have at most ${MAX_COMMENT} characters`),
    ),
  ),
  null,
);

const correction: Nullish<Json> = v.nullish(
  v.pipe(
    v.custom<unknown>((sent) => isObject(sent) || v.is(v.string(), sent), "must be an object or a string"),
    v.check((sent) => !isDeeperThan(sent, MAX_DEPTH), `must not nest deeper than ${MAX_DEPTH} levels`),
    finite(),
    v.metadata({ type: ["object", "string"] }),
  ),
  null,
) as Nullish<Json>;

/** An object of the client, which is stored as it came. */
const anyObject = v.nullish(
  v.pipe(v.custom<JsonObject>(isObject, "must be an object"), finite(), v.metadata({ type: "object" })),
  null,
);

/** The members that a submission and a record have in common. */
const content = { score, value, comment, correction };

interface SentSource {
  readonly type?: string | null;
  readonly metadata?: JsonObject | null;
}

/** Who gave the feedback. */
const source: Nullish<SentSource | null> = v.nullish(
  passthroughObject<SentSource>({
    type: v.nullish(v.picklist(FEEDBACK_SOURCES, `must be one of ${FEEDBACK_SOURCES.join(", ")}`)),
    metadata: anyObject,
  }),
  null,
);

type Content = Pick<Submission, "score" | "value" | "comment" | "correction">;

/** What a body submits to a link. */
export const submission: FieldSchema<Content & Pick<Submission, "metadata">> = withDescription(
  v.object({ ...content, metadata: anyObject }),
  "Score, value, comment or correction must be given",
);

interface SentFeedback extends Content {
  readonly id?: string | null;
  readonly run_id?: string | null;
  readonly session_id?: string | null;
  readonly key: string;
  readonly feedback_source: SentSource | null;
  readonly extra: JsonObject | null;
}

const created = v.object({
  id: v.nullish(uuid),
  run_id: v.nullish(uuid),
  session_id: v.nullish(uuid),
  key,
  ...content,
  feedback_source: source,
  extra: anyObject,
});

/** A record to be made. */
export const feedbackCreate: FieldSchema<SentFeedback> = v.pipe(
  created,
  v.rawCheck(({ dataset, addIssue }) => {
    const { run_id = null, session_id = null } = dataset.value as { run_id?: unknown; session_id?: unknown };
    if (run_id !== null || session_id !== null) return;
    const item = { type: "object", origin: "key", input: {}, key: "run_id", value: undefined } as const;
    addIssue({ message: encodeFinding("missing", "run_id or session_id is required"), path: [item] });
  }),
  v.description("`run_id` or `session_id` must be given"),
);

/** What a patch changes. */
export const feedbackPatch: FieldSchema<Content & { readonly feedback_source: SentSource | null }> = withDescription(
  v.object({ ...content, feedback_source: source }),
  "Present fields are changed, null clears",
);

const sourceOf = (
  sent: SentSource | null,
): { readonly source?: string; readonly source_metadata?: JsonObject | null } => ({
  ...(sent?.type ? { source: sent.type } : {}),
  ...(sent?.metadata === undefined ? {} : { source_metadata: sent.metadata }),
});

export const readSubmission = (bytes: Uint8Array): Submission => ({
  ...parseWithSchema(submission, readObjectBody(bytes), ["body"]),
  from: "body",
});

export function readFeedbackCreate(bytes: Uint8Array): FeedbackCreate {
  const { id, run_id, session_id, feedback_source, ...sent } = parseWithSchema(feedbackCreate, readObjectBody(bytes), [
    "body",
  ]);
  return {
    ...(id ? { id } : {}),
    ...(run_id ? { run_id } : {}),
    ...(session_id ? { session_id } : {}),
    ...sent,
    ...{ source: "api", source_metadata: null },
    ...sourceOf(feedback_source),
  };
}

/** Members that are null are cleared. */
export function readFeedbackPatch(bytes: Uint8Array): FeedbackPatch {
  const body = readObjectBody(bytes);
  const { feedback_source, ...sent } = parseWithSchema(feedbackPatch, body, ["body"]);
  const given = Object.entries(sent).filter(([name]) => Object.hasOwn(body, name));
  const { source_metadata } = sourceOf(feedback_source);
  return { ...Object.fromEntries(given), ...(source_metadata === undefined ? {} : { source_metadata }) };
}

const CONFIGS = ["continuous", "categorical", "freeform"] as const;
const NUMBER = encodeFinding("type_error", "must be a number");
const number = v.pipe(v.number(NUMBER), v.finite(NUMBER));
const INTEGER = encodeFinding("type_error", "must be an integer");
const integer = v.optional(v.pipe(v.number(INTEGER), v.integer(INTEGER)));

/** A null member counts as absent. */
interface SentConfig {
  readonly type: FeedbackConfig["type"];
  readonly min?: number | null;
  readonly max?: number | null;
  readonly categories?: readonly { readonly value: number; readonly label?: string | null }[] | null;
}

const config = v.pipe(
  passthroughObject<SentConfig>({
    type: v.picklist(CONFIGS, `must be one of ${CONFIGS.join(", ")}`),
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
    const item = { type: "object", origin: "value", input: {}, key: "categories", value: categories } as const;
    if (!categories || categories.length === 0) addIssue({ message: problem, path: [item] });
  }),
);

/** A link to be made. A null member counts as absent. */
export interface LinkInput {
  readonly run_id: string;
  readonly feedback_key: string;
  readonly expires_in?: { readonly [unit in "days" | "hours" | "minutes"]?: number | null } | null;
  readonly expires_at?: string | null;
  readonly feedback_config?: SentConfig | null;
}

const MOMENT = encodeFinding("datetime_parsing", "must be a date or time in RFC 3339");

export const feedbackLink: FieldSchema<LinkInput> = withDescription(
  passthroughObject<LinkInput>({
    run_id: uuid,
    feedback_key: key,
    expires_in: v.optional(passthroughObject({ days: integer, hours: integer, minutes: integer })),
    expires_at: withDescription(
      v.optional(
        v.pipe(
          v.string(MOMENT),
          v.check((sent) => parseRfc3339(sent) !== null, MOMENT),
        ),
      ),
      "RFC 3339; UTC where no offset is given; a date alone is its start",
    ),
    feedback_config: v.optional(config),
  }),
  "Without `expires_in` and `expires_at` it expires after 3 hours; 365 days at most",
) as FieldSchema<LinkInput>;

export function toFeedbackConfig(sent: SentConfig | null | undefined): FeedbackConfig | null {
  if (!sent) return null;
  const { type, min, max, categories } = sent;
  return {
    type,
    ...((min ?? null) === null ? {} : { min: min as number }),
    ...((max ?? null) === null ? {} : { max: max as number }),
    ...(categories ? { categories: categories.map((one) => ({ value: one.value, label: one.label ?? null })) } : {}),
  };
}
