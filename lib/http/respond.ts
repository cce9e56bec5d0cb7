/** Responses: JSON, errors, pagination headers. */
import type { PageOf } from "../assistants/mod.ts";
import { InputError, type InputIssue, isOutage, ServiceError, STATUS } from "../errors.ts";
import type { ThreadState } from "../executor/contract.ts";
import { isObject } from "../json.ts";

/** Response headers by name. */
export type HeaderValues = Readonly<Record<string, string>>;

/** A larger body of a request or response takes its size from the byte budget. In bytes, or characters of a text. */
export const LARGE_BYTES: number = 1024 * 1024;

const largeTexts = new WeakMap<Response, string>();
const repeats = new WeakMap<Response, () => Promise<Response>>();

/** A JSON answer. The handler sends the text of a large one, whose body is empty: a body would be a copy. */
export function jsonResponse(value: unknown, headers: HeaderValues = {}, status = 200): Response {
  const text: string | undefined = JSON.stringify(value);
  const isLarge = text !== undefined && text.length > LARGE_BYTES;
  const init = { status, headers: { "content-type": "application/json", ...headers } };
  const response = new Response(isLarge ? null : text, init);
  if (isLarge) largeTexts.set(response, text);
  return response;
}

/** Returns the text of a large JSON response; undefined for other responses. */
export const findLargeText = (response: Response): string | undefined => largeTexts.get(response);

/** Lets a large response be dropped while there is no room for it: `again` makes it anew, and changes nothing. */
export function makeRepeatable(response: Response, repeat: () => Promise<Response>): Response {
  if (largeTexts.has(response)) repeats.set(response, repeat);
  return response;
}

/** Returns what makes the response anew; undefined for one that is not repeatable. */
export const findRepeat = (response: Response): (() => Promise<Response>) | undefined => repeats.get(response);

/** Success without a body. Not 200: clients parse the body of every other success. */
export function noContentResponse(): Response {
  return new Response(null, { status: 204 });
}

/** Accepted, to be done later. Clients parse no body of it either. */
export function acceptedResponse(): Response {
  return new Response(null, { status: 202 });
}

/** The headers of `paged`. */
export const PAGE_HEADERS: readonly string[] = ["X-Pagination-Total", "X-Pagination-Next"];

/** One page of a search; of each item only the fields in `select`. */
export function pageResponse<Item extends object>(page: PageOf<Item>, select?: readonly string[]): Response {
  return jsonResponse(pickFields(page.items, select), toPageHeaders(page));
}

export type PageInfo = Omit<PageOf<unknown>, "items">;

export const toPageHeaders = ({ total, next }: PageInfo): HeaderValues => ({
  "x-pagination-total": String(total),
  ...(next === null ? {} : { "x-pagination-next": String(next) }),
});

/** The items with only the fields in `select`; all fields when it is absent. */
export function pickFields(items: readonly object[], select?: readonly string[]): readonly object[] {
  if (!select) return items;
  const names = new Set(select);
  return items.map((item) => Object.fromEntries(Object.entries(item).filter(([key]) => names.has(key))));
}

/** A state with only the fields in `select`, which may name single values, such as `values.messages`. */
export function pickStateFields(state: ThreadState, select?: readonly string[]): object {
  if (!select) return state;
  const values = isObject(state.values) ? Object.entries(state.values) : [];
  const names = new Set(select);
  const selectedValues = Object.fromEntries(values.filter(([key]) => names.has(`values.${key}`)));
  const valuesField = select.some((field) => field.startsWith("values.")) ? { values: selectedValues } : {};
  return { ...valuesField, ...pickFields([state], select)[0] };
}

/** How a route answers errors. */
export interface ErrorFormat {
  /** 422 lists the issues: with the place that was found, or with the field of the query. Absent: one text. */
  readonly issues?: "found" | "query";
  /** True: errors have `message` beside `detail`, as clients of the event protocol read it. */
  readonly error_message?: boolean;
  /** True: errors are their text alone, as pages of the AI SDK show it. */
  readonly error_text?: boolean;
}

/** The answer to an error. Clients see only the text, issues and reason of a ServiceError. Default: the status of its code. */
export function errorResponse(
  error: unknown,
  headers: HeaderValues = {},
  format: ErrorFormat = {},
  status?: number,
): Response {
  const serviceError = error instanceof ServiceError ? error : new ServiceError("internal", "Internal server error");
  const { message, reason: code, run_id } = serviceError;
  if (format.error_text) {
    const text = serviceError.code === "not_found" ? "Not found" : message;
    return new Response(text, {
      status: status ?? STATUS[serviceError.code],
      headers: { "content-type": TEXT_CONTENT_TYPE, ...headers },
    });
  }
  const detail =
    serviceError instanceof InputError && format.issues
      ? serviceError.issues.map(ISSUE_FORMATTERS[format.issues])
      : message;
  const body = {
    detail,
    ...(format.error_message ? { message } : {}),
    code,
    ...(run_id === undefined ? {} : { run_id }),
  };
  return jsonResponse(body, headers, status ?? STATUS[serviceError.code]);
}

const TEXT_CONTENT_TYPE = "text/plain; charset=utf-8";

const ISSUE_FORMATTERS: Readonly<Record<"found" | "query", (issue: InputIssue) => InputIssue>> = {
  found: (issue) => issue,
  query: ({ loc, ...issue }) => ({ loc: ["query", ...loc.slice(0, 1)], ...issue }),
};

/** Methods for which a repeated request has no second effect. */
const IDEMPOTENT_METHODS = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);
const RETRY_SOON: HeaderValues = { "retry-after": "1" };
/** After this time other large bodies have been read, or their readers have been disconnected. */
const RETRY_LATER: HeaderValues = { "retry-after": "5" };

/**
 * The answer to a failed request. While the database cannot be reached, requests that are safe to repeat get `Retry-After`:
 * `idempotency_key` says that the route knows a repeated request by its key.
 */
export function failureResponse(
  error: unknown,
  request: Request,
  headers: HeaderValues,
  { idempotency_key = false, ...format }: ErrorFormat & { readonly idempotency_key?: boolean } = {},
): Response {
  // Nothing has happened yet.
  if (error instanceof ServiceError && error.reason === "server_busy") {
    return errorResponse(error, { ...headers, ...RETRY_LATER }, format);
  }
  if (!(error instanceof ServiceError && isOutage(error))) return errorResponse(error, headers, format);
  const has_key = request.headers.has("idempotency-key");
  const isOutcomeUnknown = error.code === "outcome_unknown";
  if (!IDEMPOTENT_METHODS.has(request.method) && !(has_key && (idempotency_key || !isOutcomeUnknown))) {
    return errorResponse(error, headers, format);
  }
  const repeatableError = isOutcomeUnknown ? new ServiceError("storage_unavailable", error.message) : error;
  return errorResponse(repeatableError, { ...headers, ...RETRY_SOON }, format);
}
