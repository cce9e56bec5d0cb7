/** The questions of interrupted runs, and their answers: LangChain's approvals in the spellings of npm's and Python's package, and any other value. */
import { isObject, type Json, type JsonObject } from "../json.ts";

const DECISIONS = ["approve", "edit", "reject", "respond"] as const;
export type DecisionType = (typeof DECISIONS)[number];

/** An action that waits for a decision. */
export interface Action {
  readonly name: string;
  readonly args: Json;
  readonly description: string | null;
  readonly allowed: readonly DecisionType[];
  /** Its review configuration as it was sent; null without one. */
  readonly config: JsonObject | null;
}

/** The value of an interrupt of LangChain's human-in-the-loop middleware. */
export interface Approval {
  readonly actions: readonly Action[];
  /** The member of an `edit` that has the changed action. */
  readonly edited: "editedAction" | "edited_action";
}

/** What a person decides on one action. `args` of `edit`: the changed arguments. */
export type Decision =
  | { readonly type: "approve" }
  | { readonly type: "reject"; readonly message?: string }
  | { readonly type: "respond"; readonly message: string }
  | { readonly type: "edit"; readonly args: JsonObject };

/** The members of the middleware's values, of npm's `langchain` and of Python's. */
const SPELLINGS = [
  ["actionRequests", "reviewConfigs", "actionName", "allowedDecisions", "editedAction"],
  ["action_requests", "review_configs", "action_name", "allowed_decisions", "edited_action"],
] as const;

/** The approval that the value of an interrupt asks for; null for any other value. */
export function approvalOf(value: Json): Approval | null {
  if (!isObject(value)) return null;
  const names = SPELLINGS.find(([requests]) => Array.isArray(value[requests]));
  if (!names) return null;
  const [requests, configsName, actionName, allowedName, edited] = names;
  const listed = value[configsName];
  const configs = (Array.isArray(listed) ? listed : []).map((one) => (isObject(one) ? one : null));
  const actions = (value[requests] as readonly Json[]).map((request, index): Action | null => {
    if (!isObject(request) || typeof request.name !== "string") return null;
    const { name, args = {}, description } = request;
    const config = configs.find((one) => one?.[actionName] === name) ?? configs[index] ?? null;
    const allowed = config?.[allowedName];
    return {
      ...{ name, args, config },
      description: typeof description === "string" ? description : null,
      allowed: DECISIONS.filter((one) => (Array.isArray(allowed) ? allowed.includes(one) : one !== "respond")),
    };
  });
  const known = actions.filter((action) => action !== null);
  return known.length > 0 && known.length === actions.length ? { actions: known, edited } : null;
}

/** True for the members by which Agent Inbox and LangChain ask for decisions on actions, however those are spelled inside. */
const asksForDecision = (value: Json): boolean =>
  isObject(value) &&
  ["action_request", ...SPELLINGS.map(([requests]) => requests)].some((name) => Object.hasOwn(value, name));

/**
 * True if an interrupt asks for the approval of an action: in LangChain's or Agent Inbox's form, or as its author marked it with
 * `approval: true`. A form that cannot be read counts too.
 */
export const isApproval = (value: Json): boolean =>
  (Array.isArray(value) ? value : [value]).some(
    (item: Json) => asksForDecision(item) || (isObject(item) && item.approval === true),
  );

/** The answer to an approval: one decision for each of its actions, in their order. */
export function decisionsAnswer({ actions, edited }: Approval, decisions: readonly Decision[]): Json {
  return {
    decisions: decisions.map((decision, index) => {
      if (decision.type !== "edit") return { ...decision };
      return { type: "edit", [edited]: { name: actions[index]?.name ?? "", args: decision.args } };
    }),
  };
}

const SAYING = ["message", "question", "prompt"];

/** What a question says: a text, or `message`, `question`, `prompt` or the descriptions of an approval; else its JSON. */
export function questionText(value: Json): string {
  if (typeof value === "string") return value;
  if (!isObject(value)) return JSON.stringify(value);
  const said = SAYING.map((name) => value[name]).find((one) => typeof one === "string" && one !== "");
  if (typeof said === "string") return said;
  const actions = approvalOf(value)?.actions ?? [];
  if (actions.length === 0) return JSON.stringify(value);
  return actions.map(({ name, args, description }) => description ?? `${name}(${JSON.stringify(args)})`).join("\n");
}
