/** Feedback links of runs: the keys in a request, and the frame with the links. */
import { ServiceError } from "../errors.ts";
import type { FeatureContext, FeatureOf } from "../features/mod.ts";
import type { NewRun } from "../storage/mod.ts";
import { createLazyFeedback } from "./lazy.ts";
import { buildTokenUrl, findKeyProblem } from "./links.ts";
import type { FeedbackOptions } from "./mod.ts";

type ReportFeedback = NonNullable<FeedbackOptions["onStored"]>;

interface FeedbackContext extends FeatureContext {
  readonly settings: {
    readonly feedback: { readonly token_ttl_ms: number; readonly external_runs: boolean };
    readonly retention: { readonly tokens_ms: number };
  };
}

/**
 * Creates the feature of feedback: links for the `feedback_keys` of a run, which are tokens stored with it and a frame before its
 * end.
 */
export function feedbackFeature(context: FeedbackContext): FeatureOf<"feedback"> {
  const { environment, base_url, deployment, settings } = context;
  const { workspace_id, project_id } = deployment;
  let report: ReportFeedback | undefined;
  const onStored: ReportFeedback = async (stored) => await report?.(stored);
  return {
    resources: { feedback: createLazyFeedback({ ...context, ...settings.feedback, onStored }) },
    /** Notes who wants to know about stored feedback. */
    connect(parts: { readonly reportFeedback?: ReportFeedback }) {
      report = parts.reportFeedback;
    },
    /**
     * Returns new tokens for the keys of a run, which are stored with it; an empty object without keys. Throws `invalid` for
     * wrong keys, and `public_base_url_missing`.
     */
    prepare({ feedback_keys }: { readonly feedback_keys?: unknown }): Pick<NewRun, "feedback"> {
      const keys = readFeedbackKeys(feedback_keys);
      if (keys.length === 0) return {};
      if (base_url() === undefined) throw new ServiceError("public_base_url_missing", "public_base_url is not set");
      const tokens = keys.map((key) => [key, environment.uuid()] as const);
      return { feedback: { tokens, life_ms: settings.feedback.token_ttl_ms, workspace_id, project_id } };
    },
    isUsedBy: ({ feedback }) => feedback.length > 0,
    trailer: {
      event: "feedback",
      /** Returns the links by key; null without tokens or without a public address. */
      data({ feedback }) {
        const base = base_url();
        if (feedback.length === 0 || base === undefined) return null;
        return Object.fromEntries(feedback.map(([key, id]) => [key, buildTokenUrl(base, id)]));
      },
    },
    keep_ms: settings.retention.tokens_ms,
  };
}

/** The maximum number of feedback keys of one run. */
const MAX_FEEDBACK_KEYS = 50;

/**
 * Returns the feedback keys of a run without duplicates. A string is a list of one key. Throws `invalid` (more than 50 keys, an empty
 * key, a key of more than 255 code points).
 */
export function readFeedbackKeys(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const list: unknown = typeof value === "string" ? [value] : value;
  if (!Array.isArray(list)) throw new ServiceError("invalid", "feedback_keys: must be a list of strings");
  const keys = [...new Set<unknown>(list)];
  if (keys.length > MAX_FEEDBACK_KEYS)
    throw new ServiceError("invalid", `feedback_keys: must have at most ${MAX_FEEDBACK_KEYS} keys`);
  return keys.map((key) => {
    const problem = findKeyProblem(key);
    if (problem !== null) throw new ServiceError("invalid", `feedback_keys.${list.indexOf(key)}: ${problem}`);
    return key as string;
  });
}
