/**
 * Parses and answers the interrupts of runs: approvals in the spellings of LangChain's packages for npm and Python, and any other
 * value.
 */
import { isObject, type Json, type JsonObject } from "../json.ts";

const DECISIONS = ["approve", "edit", "reject", "respond"] as const;
export type DecisionType = (typeof DECISIONS)[number];

/** An action that waits for a decision. */
export interface Action {
  readonly name: string;
  readonly args: Json;
  readonly description: string | null;
  readonly allowed: readonly DecisionType[];
  /** The review configuration of the action; null without one. */
  readonly config: JsonObject | null;
}

/** The value of an interrupt of LangChain's human-in-the-loop middleware. */
export interface Approval {
  readonly actions: readonly Action[];
  /** The member of an `edit` decision that holds the changed action. */
  readonly editMember: "editedAction" | "edited_action";
}

/** The decision of a person on one action. `args` of `edit` are the changed arguments. */
export type Decision =
  | { readonly type: "approve" }
  | { readonly type: "reject"; readonly message?: string }
  | { readonly type: "respond"; readonly message: string }
  | { readonly type: "edit"; readonly args: JsonObject };

/** The member names of the middleware's values, in npm's and in Python's `langchain`. */
const SPELLINGS = [
  ["actionRequests", "reviewConfigs", "actionName", "allowedDecisions", "editedAction"],
  ["action_requests", "review_configs", "action_name", "allowed_decisions", "edited_action"],
] as const;

/**
 * Parses the value of an interrupt of LangChain's human-in-the-loop middleware, in each of its spellings. Returns null for any
 * other value, and if one of its actions is malformed. Without configuration every decision but `respond` is allowed.
 */
export function parseApproval(value: Json): Approval | null {
  if (!isObject(value)) return null;
  const names = SPELLINGS.find(([requests]) => Array.isArray(value[requests]));
  if (!names) return null;
  const [requests, configsName, actionName, allowedName, editMember] = names;
  const reviewConfigs = value[configsName];
  const configs = (Array.isArray(reviewConfigs) ? reviewConfigs : []).map((config) =>
    isObject(config) ? config : null,
  );
  const actions = (value[requests] as readonly Json[]).map((request, index): Action | null => {
    if (!isObject(request) || typeof request.name !== "string") return null;
    const { name, args = {}, description } = request;
    const config = configs.find((candidate) => candidate?.[actionName] === name) ?? configs[index] ?? null;
    const allowed = config?.[allowedName];
    return {
      ...{ name, args, config },
      description: typeof description === "string" ? description : null,
      allowed: DECISIONS.filter((decision) =>
        Array.isArray(allowed) ? allowed.includes(decision) : decision !== "respond",
      ),
    };
  });
  const parsedActions = actions.filter((action) => action !== null);
  return parsedActions.length > 0 && parsedActions.length === actions.length
    ? { actions: parsedActions, editMember }
    : null;
}

/** Returns true if a value has a member by which Agent Inbox or LangChain request decisions on actions, in any form. */
const hasActionRequest = (value: Json): boolean =>
  isObject(value) &&
  ["action_request", ...SPELLINGS.map(([requests]) => requests)].some((name) => Object.hasOwn(value, name));

/**
 * Returns true if an interrupt requests the approval of an action: in LangChain's or Agent Inbox's form, or marked by its author
 * with `approval: true`. A form that cannot be parsed counts too.
 */
export const isApproval = (value: Json): boolean =>
  (Array.isArray(value) ? value : [value]).some(
    (item: Json) => hasActionRequest(item) || (isObject(item) && item.approval === true),
  );

/**
 * Returns the resume value of an approval, `{ decisions }`, with the decisions in the order of its actions. An `edit` gets the
 * name of its action and the changed arguments; the others are copied.
 */
export function toApprovalResumeValue({ actions, editMember }: Approval, decisions: readonly Decision[]): Json {
  return {
    decisions: decisions.map((decision, index) => {
      if (decision.type !== "edit") return { ...decision };
      return { type: "edit", [editMember]: { name: actions[index]?.name ?? "", args: decision.args } };
    }),
  };
}

const TEXT_MEMBERS = ["message", "question", "prompt"];

/**
 * Returns the text of an interrupt: a string itself, else `message`, `question`, `prompt` or the descriptions of an approval,
 * else JSON.
 */
export function describeInterrupt(value: Json): string {
  if (typeof value === "string") return value;
  if (!isObject(value)) return JSON.stringify(value);
  const message = TEXT_MEMBERS.map((name) => value[name]).find((text) => typeof text === "string" && text !== "");
  if (typeof message === "string") return message;
  const actions = parseApproval(value)?.actions ?? [];
  if (actions.length === 0) return JSON.stringify(value);
  return actions.map(({ name, args, description }) => description ?? `${name}(${JSON.stringify(args)})`).join("\n");
}
