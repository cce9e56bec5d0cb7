/** Creates responses: JSON, errors and pagination headers. */
import type { PageOf } from "../assistants/mod.ts";
import { InputError, type InputIssue, isOutage, SchemaMismatch, ServiceError, STATUS } from "../errors.ts";
import type { ThreadState } from "../executor/contract.ts";
import { isObject } from "../json.ts";

/** Response headers by name. */
export type HeaderValues = Readonly<Record<string, string>>;

/** The size above which a body of a request or response reserves its size in the byte budget. */
export const LARGE_BYTES: number = 1024 * 1024;

const largeTexts = new WeakMap<Response, string>();
const repeats = new WeakMap<Response, () => Promise<Response>>();

/**
 * Creates a JSON response. Above `LARGE_BYTES` its body is empty, because a body would be a copy: the text is kept in
 * `largeTexts` under the response, and the handler sends it.
 */
export function jsonResponse(value: unknown, headers: HeaderValues = {}, status = 200): Response {
  const text: string | undefined = JSON.stringify(value);
  const isLarge = text !== undefined && text.length > LARGE_BYTES;
  const init = { status, headers: { "content-type": "application/json", ...headers } };
  const response = new Response(isLarge ? null : text, init);
  if (isLarge) largeTexts.set(response, text);
  return response;
}

/** Returns the text of a large JSON response, or undefined for other responses. */
export const findLargeText = (response: Response): string | undefined => largeTexts.get(response);

/**
 * Returns `response` itself. If it is large, keeps `repeat`, so that the handler may drop the response when it does not
 * fit the byte budget, and create it again without side effects. Otherwise does nothing.
 */
export function makeRepeatable(response: Response, repeat: () => Promise<Response>): Response {
  if (largeTexts.has(response)) repeats.set(response, repeat);
  return response;
}

/** Returns the function that creates the response again, or undefined if the response is not repeatable. */
export const findRepeat = (response: Response): (() => Promise<Response>) | undefined => repeats.get(response);

/** Creates a 204 response. Clients parse the body of every other success. */
export function noContentResponse(): Response {
  return new Response(null, { status: 204 });
}

/** Creates a 202 response without a body, which clients do not parse either. */
export function acceptedResponse(): Response {
  return new Response(null, { status: 202 });
}

export const PAGE_HEADERS: readonly string[] = ["X-Pagination-Total", "X-Pagination-Next"];

/** Creates a response with one page of a search. Each item has only the fields in `select`. */
export function pageResponse<Item extends object>(page: PageOf<Item>, select?: readonly string[]): Response {
  return jsonResponse(pickFields(page.items, select), toPageHeaders(page));
}

export type PageInfo = Omit<PageOf<unknown>, "items">;

/** Returns the pagination headers: the total, and the offset of the next page if there is one. */
export const toPageHeaders = ({ total, next }: PageInfo): HeaderValues => ({
  "x-pagination-total": String(total),
  ...(next === null ? {} : { "x-pagination-next": String(next) }),
});

/** Returns copies of the items with only the fields in `select`, or `items` itself if `select` is absent. */
export function pickFields(items: readonly object[], select?: readonly string[]): readonly object[] {
  if (!select) return items;
  const names = new Set(select);
  return items.map((item) => Object.fromEntries(Object.entries(item).filter(([key]) => names.has(key))));
}

/**
 * Returns a copy of a state with only the fields in `select`, which may name single values, such as `values.messages`.
 * `values` as a name selects all of them. Returns the state itself if `select` is absent.
 */
export function pickStateFields(state: ThreadState, select?: readonly string[]): object {
  if (!select) return state;
  const values = isObject(state.values) ? Object.entries(state.values) : [];
  const names = new Set(select);
  const selectedValues = Object.fromEntries(values.filter(([key]) => names.has(`values.${key}`)));
  const valuesField = select.some((field) => field.startsWith("values.")) ? { values: selectedValues } : {};
  return { ...valuesField, ...pickFields([state], select)[0] };
}

/** The format of the errors of a route. */
export interface ErrorFormat {
  /** The location of the issues that a 422 lists: that of the finding, or the field of the query. Absent: 422 has one text. */
  readonly issues?: "exact" | "query";
  /** True: errors have `message` beside `detail`, which clients of the event protocol read. */
  readonly error_message?: boolean;
  /** True: the body of an error is only its text, which pages of the AI SDK display. */
  readonly error_text?: boolean;
}

/**
 * Creates the response to an error: JSON with `detail`, `code` and the run's id, or plain text with
 * `format.error_text`. An error that is no ServiceError becomes `internal` and reveals nothing. `detail` is the text,
 * or the issues of an InputError if `format.issues` is set or it is a SchemaMismatch. The status is that of its code by
 * default.
 */
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
  const issueFormat = format.issues ?? (serviceError instanceof SchemaMismatch ? "exact" : undefined);
  const detail =
    serviceError instanceof InputError && issueFormat
      ? serviceError.issues.map(ISSUE_FORMATTERS[issueFormat])
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

const ISSUE_FORMATTERS: Readonly<Record<"exact" | "query", (issue: InputIssue) => InputIssue>> = {
  exact: (issue) => issue,
  query: ({ loc, ...issue }) => ({ loc: ["query", ...loc.slice(0, 1)], ...issue }),
};

/** The methods whose repeated requests have no second effect. */
const IDEMPOTENT_METHODS = new Set(["GET", "HEAD", "OPTIONS", "PUT", "DELETE"]);
const RETRY_SOON: HeaderValues = { "retry-after": "1" };
/** The delay after which other large bodies have been read, or their readers have been disconnected. */
const RETRY_LATER: HeaderValues = { "retry-after": "5" };

/**
 * Creates the response to a failed request. `server_busy` gets `Retry-After`. During a database outage so does a
 * request that is safe to repeat, by its method or its idempotency key; an unknown outcome then becomes
 * `storage_unavailable`. `idempotency_key` is true for a route that recognizes a repeated request by its key.
 */
export function failureResponse(
  error: unknown,
  request: Request,
  headers: HeaderValues,
  { idempotency_key = false, ...format }: ErrorFormat & { readonly idempotency_key?: boolean } = {},
): Response {
  // The request was refused before it had an effect.
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
