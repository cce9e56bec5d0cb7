/** The texts and examples of all operations. */
import type { Route } from "../../../lib/http/route.ts";
import { ADDRESS, CHECKPOINT, CRON, LINK, RUN, THREAD } from "../example-ids.ts";
import { assistantTexts } from "./assistants.ts";
import { cronTexts, storeTexts } from "./crons-and-store.ts";
import { feedbackTexts, platformTexts } from "./platform.ts";
import { protocolTexts } from "./protocols.ts";
import { runTexts } from "./runs.ts";
import { operationTexts, serverTexts } from "./server.ts";
import type { OperationText, OperationTexts } from "./text.ts";
import { threadTexts } from "./threads.ts";

export const TEXTS: OperationTexts = {
  ...assistantTexts,
  ...threadTexts,
  ...runTexts,
  ...cronTexts,
  ...storeTexts,
  ...serverTexts,
  ...operationTexts,
  ...platformTexts,
  ...feedbackTexts,
  ...protocolTexts,
};

/** The values of path parameters in examples. */
const PATH_VALUES: Readonly<Record<string, string>> = {
  thread_id: THREAD,
  run_id: RUN,
  assistant_id: "agent",
  cron_id: CRON,
  checkpoint_id: CHECKPOINT,
  chat_id: THREAD,
  id: LINK,
  token: LINK,
  address: ADDRESS,
};

export const formatRoute = ({ method, path }: Pick<Route, "method" | "path">): string => `${method} ${path}`;

/** Returns the text of an operation. Throws if it has none. */
export function findText(route: Pick<Route, "method" | "path">): OperationText {
  const text = TEXTS[formatRoute(route)];
  if (!text) throw new Error(`Describe ${formatRoute(route)} in a file of scripts/openapi/operations`);
  return text;
}

/** Returns the value of a path parameter in the example of an operation. */
export function getPathValue({ path = {} }: OperationText, name: string): string {
  const pathValue = path[name] ?? PATH_VALUES[name];
  if (pathValue === undefined) throw new Error(`Give the path parameter ${name} a value in \`path\` of its operation`);
  return pathValue;
}
