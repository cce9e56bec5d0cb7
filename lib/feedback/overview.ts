/** Feedback of all runs: scores over time, and feedback links. */

import type { InternalResource } from "../auth/authorizer.ts";
import { uuidV5 } from "../environment.ts";
import { invalidFieldError, ServiceError } from "../errors.ts";
import type { IsoTime, Uuid } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import {
  type CursorPage,
  type CursorQuery,
  decodeCursor,
  encodeCursor,
  type ListPosition,
  parseTime,
} from "../storage/cursor.ts";
import { type Caller, requireWorkspacesWith } from "../storage/identity.ts";
import type { FeedbackStorage, FeedbackTokenRow } from "../storage/mod.ts";

/** The width of the buckets of scores. */
export type ScoreStride = "hour" | "day" | "week";

/** Records with `start <= created_at < end`, in RFC 3339. */
export interface ScoreQuery {
  readonly start: string;
  readonly end: string;
  /** Default `day`. Buckets count from `start`. */
  readonly stride?: ScoreStride;
  readonly key?: readonly string[];
}

/** The scores of each feedback key over time. */
export interface ScoreSeries {
  readonly start: IsoTime;
  readonly end: IsoTime;
  readonly stride: ScoreStride;
  readonly keys: readonly {
    readonly key: string;
    /** The buckets that have records, oldest first. Records without a score count only in `n`. */
    readonly buckets: readonly {
      readonly start: IsoTime;
      readonly n: number;
      readonly avg: number | null;
      readonly min: number | null;
      readonly max: number | null;
    }[];
  }[];
}

/** A feedback token with its use; times are ISO 8601, UTC. */
export interface FeedbackLink {
  /** The id of the token. Callers without `feedback:create` get another unique id, which submits nothing. */
  readonly id: Uuid;
  /** Empty for callers without `feedback:create`. */
  readonly url: string;
  readonly run_id: Uuid;
  readonly feedback_key: string;
  readonly created_at: IsoTime;
  /** Null while the run that created the token has not ended. */
  readonly expires_at: IsoTime | null;
  readonly submissions: number;
}

/** Scores over time, and feedback links, of all runs that a caller can see. */
export interface FeedbackOverview {
  /** Returns scores in buckets of time. Throws `forbidden` or `invalid` (a time, the range). */
  scores(caller: Caller, query: ScoreQuery): Promise<ScoreSeries>;
  /**
   * Returns links, newest first, including expired ones. Default limit: 50. Throws `forbidden` or `invalid` (no public base URL, the
   * cursor).
   */
  links(caller: Caller, query?: CursorQuery): Promise<CursorPage<FeedbackLink>>;
  /** Deletes a link. Its records stay. Throws `forbidden` or `not_found`. */
  revokeLink(caller: Caller, id: string): Promise<void>;
}

const HOUR_MS = 3_600_000;
const STRIDES: Readonly<Record<ScoreStride, number>> = { hour: HOUR_MS, day: 24 * HOUR_MS, week: 7 * 24 * HOUR_MS };
const MAX_BUCKETS = 1_000;

/**
 * Returns the id and URL of a token. For a caller without `feedback:create` the URL is empty, and the id is derived from the
 * token's and submits nothing.
 */
export async function toTokenForCaller(
  caller: Caller,
  { token_id, workspace_id }: Pick<FeedbackTokenRow, "token_id" | "workspace_id">,
  buildUrl: (token_id: string) => string,
): Promise<{ readonly id: Uuid; readonly url: string }> {
  if (canSubmit(caller, workspace_id)) return { id: token_id, url: buildUrl(token_id) };
  return { id: await uuidV5(token_id, "link"), url: "" };
}

const canSubmit = (caller: Caller, workspace_id: string): boolean =>
  caller.workspaces.get(workspace_id)?.has("feedback:create") === true;

/**
 * Returns the list position of a token. For a caller who may not submit, it has only the first digits of the id: they suffice
 * to order tokens of one millisecond, and do not reveal the token.
 */
function toListPosition(caller: Caller, { token_id, workspace_id, created_at }: FeedbackTokenRow): ListPosition {
  const id = canSubmit(caller, workspace_id) ? token_id : `${token_id.slice(0, 8)}-0000-0000-0000-000000000000`;
  return { created_at, id };
}

/** Creates the operations of the studio on feedback: scores over time, and links with their revocation. */
export function createFeedbackOverview(
  storage: FeedbackStorage,
  buildUrl: (token_id: string) => string,
): InternalResource<FeedbackOverview> {
  return {
    /**
     * Returns the scores of each key in buckets of a stride, a day by default; buckets without records are missing. Throws
     * `permission_missing`, and `invalid` for wrong times or too many buckets.
     */
    async scores(scope, caller, query) {
      const workspace_ids = requireWorkspacesWith(caller, "feedback:read");
      const { stride = "day", key } = query;
      const [start, end] = [parseTime("start", query.start), parseTime("end", query.end)];
      const stride_ms = STRIDES[stride];
      if (end <= start) throw invalidFieldError("end", "must be after start");
      if (end - start > MAX_BUCKETS * stride_ms) {
        throw invalidFieldError("end", `must be at most ${MAX_BUCKETS} ${stride}s after start`);
      }
      const rows = await storage.feedbackBuckets({
        workspace_ids,
        scope,
        ...(key ? { keys: key } : {}),
        ...{ min_created_at: start, max_created_at: end - 1, origin: start, stride_ms },
      });
      const keys = [...new Set(rows.map((row) => row.key))].map((key) => ({
        key,
        buckets: rows
          .filter((row) => row.key === key)
          .map(({ bucket, n, avg, min, max }) => ({
            start: formatIsoTime(start + bucket * stride_ms),
            n,
            avg,
            min,
            max,
          })),
      }));
      return { start: formatIsoTime(start), end: formatIsoTime(end), stride, keys };
    },

    /**
     * Returns a page of links, newest first and 50 without a limit, and the cursor of the next page, null at the end. Links
     * have no usable address for a caller without `feedback:create`. Throws `permission_missing` and `invalid`.
     */
    async links(scope, caller, { limit = 50, cursor } = {}) {
      const workspace_ids = requireWorkspacesWith(caller, "feedback:read");
      const query = { workspace_ids, limit, ...decodeCursor(cursor) };
      const rows = await storage.listFeedbackTokens({ ...query, scope, sort_order: "desc" });
      const last = rows.length === limit ? rows.at(-1) : undefined;
      const items = rows.map(async (row): Promise<FeedbackLink> => {
        const { run_id, feedback_key, created_at, expires_at, submissions } = row;
        const times = { created_at: formatIsoTime(created_at), expires_at: formatIsoTime(expires_at) };
        return { ...(await toTokenForCaller(caller, row, buildUrl)), run_id, feedback_key, submissions, ...times };
      });
      return { items: await Promise.all(items), next: encodeCursor(last ? toListPosition(caller, last) : null) };
    },

    /**
     * Deletes a link by the id of its token; its records stay. Throws `permission_missing`, and `not_found` also for a link in
     * a workspace where the caller may not create feedback.
     */
    async revokeLink(scope, caller, id) {
      const workspace_ids = requireWorkspacesWith(caller, "feedback:create");
      const deleted = await storage.deleteFeedbackToken(scope, workspace_ids, id.toLowerCase());
      if (!deleted) throw new ServiceError("not_found", "Feedback link not found");
    },
  };
}
