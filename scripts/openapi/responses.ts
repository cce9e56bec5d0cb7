/** The responses of operations: successes with an example, and errors with their codes and an example of each. */
import { type ErrorCode, type ErrorReason, REASONS, STATUS } from "../../lib/errors.ts";
import type { Route } from "../../lib/http/route.ts";
import type { JsonObject } from "../../lib/json.ts";
import { HELP } from "../errors.ts";
import { findAnswer } from "./answers.ts";
import { DETAILS } from "./details.ts";
import { RUN } from "./example-ids.ts";
import type { OperationText } from "./operations/text.ts";
import { ERRORS, HEADERS, ref, string, toContent } from "./schemas.ts";

/** The codes that each route with a status can send. */
const USUAL_CODES: Readonly<Partial<Record<number, readonly ErrorReason[]>>> = {
  400: ["bad_request"],
  401: ["api_key_missing", "api_key_invalid", "unauthenticated"],
  403: ["permission_missing", "workspace_forbidden", "origin_refused", "forbidden"],
  405: ["method_not_allowed"],
  408: ["too_slow"],
  410: ["gone"],
  413: ["too_large"],
  422: ["invalid"],
  426: ["upgrade_required"],
  429: ["too_many"],
  501: ["not_built"],
  503: ["server_busy", "server_stopping", "storage_unavailable", "auth_timeout"],
  507: ["storage_full"],
};

/** The codes that a 404 has because the path has this parameter, unless the operation lists its codes. */
const NOT_FOUND_CODES: Readonly<Record<string, ErrorReason>> = {
  thread_id: "thread_not_found",
  run_id: "run_not_found",
  assistant_id: "assistant_not_found",
  cron_id: "not_found",
};

const getStatus = (reason: ErrorReason): number =>
  STATUS[(REASONS as Partial<Record<ErrorReason, ErrorCode>>)[reason] ?? (reason as ErrorCode)];

/** Returns the codes of a 404: those of the operation, or those that follow from its path, and that of a hidden route. */
function listNotFoundCodes(route: Route, declared: readonly ErrorReason[] | undefined): readonly ErrorReason[] {
  const names = [...route.path.matchAll(/:(\w+)/g)].map(([, name = ""]) => name);
  // The deepest id of a path is the one that is looked up: a run of a thread that does not exist is not found either.
  const code = names.map((name) => NOT_FOUND_CODES[name]).findLast((reason) => reason !== undefined);
  const codes = declared ?? (code === undefined ? [] : [code]);
  return hidesRoutes(route) ? [...codes, "route_not_found"] : codes;
}

/** Returns true if callers without a permission in the workspace of the deployment get 404. */
export const hidesRoutes = ({ access }: Route): boolean => access !== "open" && access !== "account";

/** Returns the codes of an error of a route. Throws if it would have none. */
function listCodes(route: Route, text: OperationText, status: number): readonly ErrorReason[] {
  const declared = text.codes?.[status];
  // An event that comes too late has a code of its own; so have requests that no client accepts.
  const usual = declared && (status === 410 || status === 406) ? [] : (USUAL_CODES[status] ?? []);
  const codes = status === 404 ? listNotFoundCodes(route, declared) : [...usual, ...(declared ?? [])];
  const unique = [...new Set(codes)];
  if (unique.length === 0) throw new Error(`List the codes of ${status} of ${route.method} ${route.path} in its text`);
  const wrong = status === 406 ? [] : unique.filter((reason) => getStatus(reason) !== status);
  if (wrong.length > 0) throw new Error(`${route.method} ${route.path}: ${wrong.join(", ")} have another status`);
  return unique;
}

/** The format of the errors of a route. */
type Format = "" | "issues" | "message" | "text";

function getFormat({ error_text, error_message, issues }: Route, reason: ErrorReason): Format {
  if (error_text) return "text";
  if (error_message) return "message";
  return issues && reason === "invalid" ? "issues" : "";
}

const ISSUES = [{ loc: ["body", "score"], msg: "must be a number, true or false", type: "value_error" }];
/** Returns the body of an error as the server writes it. */
function createErrorBody(reason: ErrorReason, format: Format): JsonObject | string {
  const detail = DETAILS[reason];
  // Pages of the AI SDK display the text of an error, so an absent id has none of its own.
  if (format === "text") return getStatus(reason) === 404 ? "Not found" : detail;
  if (format === "issues") return { detail: ISSUES, code: reason };
  const run: JsonObject = reason === "interrupt_already_answered" ? { run_id: RUN } : {};
  const message: JsonObject = format === "message" ? { message: detail } : {};
  return { detail, ...message, code: reason, ...run };
}

/** Removes the links of a text of the documentation, which lead nowhere from the document. */
const withoutLinks = (text: string): string => text.replace(/\[([^\]]+)\]\([^)]+\)/g, "$1");

/** Collects the responses and examples that operations share. */
export class SharedParts {
  readonly responses: Record<string, JsonObject> = {};
  readonly examples: Record<string, JsonObject> = {};

  /** Returns a reference to the example of a code, and adds the example. */
  #getExample(reason: ErrorReason, format: Format): JsonObject {
    const name = format === "" ? reason : `${reason}.${format}`;
    const { meaning, remedy } = HELP[reason];
    this.examples[name] = {
      summary: reason,
      description: withoutLinks(`${meaning} ${remedy}`),
      value: createErrorBody(reason, format),
    };
    return { $ref: `#/components/examples/${name}` };
  }

  /** Returns the response of an error, as a reference where other operations can have the same one. */
  getErrorResponse(route: Route, text: OperationText, status: number): JsonObject {
    const body = text.error_bodies?.[status];
    if (body) {
      const content = { "application/json": { schema: ref(body.schema), example: body.example } };
      return { description: ERRORS[status] as string, content };
    }
    const codes = listCodes(route, text, status);
    const examples = Object.fromEntries(
      codes.map((reason) => [reason, this.#getExample(reason, getFormat(route, reason))]),
    );
    const content: JsonObject = route.error_text
      ? { "text/plain": { schema: string, examples } }
      : { "application/json": { schema: ref("Error"), examples } };
    const limit = status === 413 ? route.max_body_bytes : undefined;
    const meaning =
      limit === undefined
        ? ERRORS[status]
        : `The body is larger than ${limit / 1024} KiB or holds more values than \`http.max_body_values\``;
    const response = { description: `${meaning}. Codes: ${codes.map((code) => `\`${code}\``).join(", ")}`, content };
    if (limit !== undefined || status === 406) return response;
    const formats = new Set(codes.map((reason) => getFormat(route, reason)).filter((format) => format !== ""));
    const name = [...codes, ...formats].join(".");
    this.responses[name] = response;
    return { $ref: `#/components/responses/${name}` };
  }
}

/** Returns the successful responses of a route, with the recorded example. */
export function createSuccesses(route: Route, operationId: string): JsonObject {
  const { response, accepted, no_content, upgrades, response_headers } = route;
  const headers = Object.fromEntries((response_headers ?? []).map((name) => [name, HEADERS[name] as JsonObject]));
  const responses: JsonObject = {};
  if (response !== undefined) {
    const answer = findAnswer(operationId);
    const content = Object.fromEntries(
      Object.entries(toContent(response)).map(([type, media]) => [
        type,
        answer?.type === type ? { ...(media as JsonObject), example: answer.body } : media,
      ]),
    );
    responses["200"] = { description: "Success", ...(response_headers ? { headers } : {}), content };
  }
  if (upgrades) responses["101"] = { description: upgrades };
  if (accepted) responses["202"] = { description: accepted };
  const isEmpty = response === undefined && !upgrades && !accepted && !route.errors?.includes(405);
  if (no_content || isEmpty) responses["204"] = { description: no_content ?? "Done" };
  return responses;
}
