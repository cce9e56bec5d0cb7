/** The parameters and bodies of operations, with the values of their examples. */
import type { Route } from "../../lib/http/route.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { formatRoute, getPathValue } from "./operations/mod.ts";
import type { OperationText } from "./operations/text.ts";
import { HAND_READ, type HandRead } from "./platform.ts";
import { createRequestSchema, REQUESTS } from "./requests.ts";
import { list, ref, string, uuid } from "./schemas.ts";

/** Path parameters that are UUIDs. */
const IDS = new Set(["thread_id", "run_id", "cron_id", "token", "id"]);

/** The descriptions of path parameters. */
const PATH_DESCRIPTIONS: Readonly<Record<string, string>> = {
  assistant_id: "A UUID, or a graph id for its default assistant",
  chat_id: "The id that the chat has in the AI SDK: a UUID, or any text",
  name: "The name of the `wait`",
  namespace: "The namespace of the subgraph: names of nodes, joined by `|`",
  address: "The address that the `wait` handed out",
  token: "The id of the link",
};

export const getHandRead = (route: Route): HandRead => HAND_READ[formatRoute(route)] ?? {};
export const toTemplate = ({ path }: Pick<Route, "path">): string => path.replace(/:(\w+)\+?/g, "{$1}");
export const listPathParameters = (path: string): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);

const describeKeyHeader = ({ public_headers }: Route): string =>
  `1 to 255 visible ASCII characters; the same ${public_headers ? "submission again is recorded once" : "request again gives the same run"}`;

const withExample = (parameter: JsonObject, example: Json | undefined): JsonObject =>
  example === undefined ? parameter : { ...parameter, example };

/** Returns the parameters of a route, each with its value in the example of the operation if it has one. */
export function createParameters(route: Route, text: OperationText): JsonObject[] {
  const inPath = listPathParameters(toTemplate(route)).map((name) => {
    const description = PATH_DESCRIPTIONS[name];
    return {
      name,
      in: "path",
      required: true,
      schema: IDS.has(name) ? uuid : string,
      ...(description === undefined ? {} : { description }),
      example: getPathValue(text, name),
    };
  });
  const query = route.query ? createRequestSchema(route.query, "query") : {};
  const needed = new Set((query.required ?? []) as readonly string[]);
  const fromSchema = Object.entries((query.properties ?? {}) as JsonObject).map(([name, schema]) => ({
    ...{ name, in: "query", required: needed.has(name), schema },
  }));
  const inQuery = [...fromSchema, ...(getHandRead(route).query ?? [])].map((parameter) =>
    withExample(parameter, text.query?.[parameter.name as string] as Json | undefined),
  );
  const headers = {
    ...(route.idempotency_key ? { "Idempotency-Key": describeKeyHeader(route) } : {}),
    ...route.request_headers,
    ...HEADER_DESCRIPTIONS[formatRoute(route)],
  };
  const inHeader = Object.entries(headers).map(([name, description]) =>
    withExample({ name, in: "header", required: false, description, schema: string }, text.headers?.[name]),
  );
  const parameters = [...inPath, ...inQuery, ...inHeader];
  requireParameters(route, text, parameters);
  return parameters;
}

const A2A_VERSION = { "A2A-Version": "`1.0` or `0.3`; absent: `0.3`" };
/** The headers of requests that the handlers of protocols read. */
const HEADER_DESCRIPTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "post /a2a/:assistant_id": A2A_VERSION,
  "get /a2a/:assistant_id/.well-known/agent-card.json": A2A_VERSION,
  "get /.well-known/agent-card.json": A2A_VERSION,
};

/** Throws if an example has a value for a query or a header that the route does not have. */
function requireParameters(route: Route, { query = {}, headers = {} }: OperationText, parameters: JsonObject[]): void {
  // OpenAPI ignores a parameter `Accept`: the content of the responses says it.
  for (const name of [...Object.keys(query), ...Object.keys(headers)].filter((name) => name !== "Accept")) {
    if (!parameters.some((parameter) => parameter.name === name)) {
      throw new Error(`The example of ${formatRoute(route)} has ${name}, which is not a parameter of the route`);
    }
  }
}

/** Returns the body of a route with its example. Throws if the schema has no name, or the example is missing. */
export function createRequestBody(route: Route, text: OperationText): JsonObject {
  const { body, list: isList = false } = route;
  const byHand = getHandRead(route).body;
  if (!byHand && !body) return {};
  if (text.body === undefined) throw new Error(`Give the text of ${formatRoute(route)} an example \`body\``);
  const { schema, required } = byHand ? { schema: byHand, required: true } : createBodySchema(route, isList);
  return { requestBody: { required, content: { "application/json": { schema, example: text.body } } } };
}

function createBodySchema(route: Route, isList: boolean): { readonly schema: JsonObject; readonly required: boolean } {
  const body = route.body as NonNullable<Route["body"]>;
  const name = REQUESTS.get(body);
  if (!name) throw new Error(`Name the body of ${formatRoute(route)} in REQUESTS of scripts/openapi/requests.ts`);
  const element = ref(name);
  const required = isList || Object.values(body.entries).some(({ type }) => type !== "optional" && type !== "nullish");
  return { schema: isList ? { ...list(element), minItems: 1 } : element, required };
}
