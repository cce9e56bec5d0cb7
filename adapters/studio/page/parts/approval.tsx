/** Actions that wait for a decision, as LangChain's human-in-the-loop middleware sends them: one card after the other. */
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKey } from "../frame/keyboard.ts";
import { DraftScope, readDraft, saveDraft } from "../store/drafts.ts";
import { Editor, type Schema } from "./form.tsx";
import { isObject, Json } from "./json.tsx";
import { Markdown } from "./markdown.tsx";

const DECISIONS = ["approve", "edit", "reject", "respond"] as const;
type DecisionType = (typeof DECISIONS)[number];

interface Action {
  readonly name: string;
  readonly args: unknown;
  readonly description: string | null;
  readonly allowed: readonly DecisionType[];
  readonly schema: Schema | undefined;
}

/** `edited`: the member of a decision that has the changed action. */
export interface HumanRequest {
  readonly actions: readonly Action[];
  readonly edited: "editedAction" | "edited_action";
}

/** The names of the middleware's members, of npm's `langchain` and of Python's. */
const SPELLINGS = [
  ["actionRequests", "reviewConfigs", "actionName", "allowedDecisions", "argsSchema", "editedAction"],
  ["action_requests", "review_configs", "action_name", "allowed_decisions", "args_schema", "edited_action"],
] as const;

/** The middleware's own description repeats the arguments, which stand below it. */
const ARGUMENTS = /\n\nTool: .*\nArgs: [\s\S]*$/;

/**
 * Returns the actions that a value asks a person to decide, with the decisions that are allowed: all but `respond`
 * without a list. Null if it is no such request, or if an action has no name or no decision that this page offers.
 */
export function readHumanRequest(value: unknown): HumanRequest | null {
  if (!isObject(value)) return null;
  const names = SPELLINGS.find(([requests]) => Array.isArray(value[requests]));
  if (!names) return null;
  const [requestsName, configsName, actionName, allowedName, schemaName, edited] = names;
  const requests = value[requestsName] as readonly unknown[];
  const configs: readonly unknown[] = Array.isArray(value[configsName]) ? value[configsName] : [];
  const actions = requests.map((request, index): Action | null => {
    if (!isObject(request) || typeof request["name"] !== "string") return null;
    const { name, args, description } = request;
    const named = configs.find((candidate) => isObject(candidate) && candidate[actionName] === name) ?? configs[index];
    const config = isObject(named) ? named : {};
    const listed = config[allowedName];
    const allowed = DECISIONS.filter((decision) =>
      Array.isArray(listed) ? listed.includes(decision) : decision !== "respond",
    );
    if (allowed.length === 0) return null;
    return {
      ...{ name, args, allowed },
      description: typeof description === "string" ? description.replace(ARGUMENTS, "") : null,
      schema: isObject(config[schemaName]) ? (config[schemaName] as Schema) : undefined,
    };
  });
  const validActions = actions.filter((action) => action !== null);
  return validActions.length > 0 && validActions.length === actions.length ? { actions: validActions, edited } : null;
}

interface ActionDraft {
  readonly mode: "" | Exclude<DecisionType, "approve">;
  readonly text: string;
  readonly args?: unknown;
}

/** Returns a description of arguments that would make the middleware fail; an empty text if there is none. */
const findProblem = ({ mode }: ActionDraft, args: unknown): string =>
  mode === "edit" && !isObject(args) ? 'The arguments must be a JSON object, such as {"city": "Rome"}.' : "";

/** Button, key, and what sends the decision. */
const WORDS: Readonly<Record<DecisionType, readonly [label: string, key: string, send: string]>> = {
  approve: ["Approve", "a", ""],
  edit: ["Edit", "e", "Run with these arguments"],
  reject: ["Reject", "r", "Reject"],
  respond: ["Respond", "", "Respond"],
};

/** Binds the key of a decision. Shows nothing. */
function DecisionKey(props: { readonly type: DecisionType; readonly choose: () => void }): null {
  const [label, key] = WORDS[props.type];
  useKey(key, `${label} the action`, ({ repeat }) => {
    // A key that is held would decide the next action, too.
    if (!repeat) props.choose();
  });
  return null;
}

interface ActionProps {
  /** The key under which the typed text is stored. */
  readonly draftKey: string;
  readonly action: Action;
  readonly edited: HumanRequest["edited"];
  readonly busy: boolean;
  /** True if the keyboard shortcuts decide this action. */
  readonly hasKeys: boolean;
  readonly decide: (decision: unknown) => void;
}

/** Shows an action of a request, its arguments, and a button for each allowed decision. */
function ActionCard({ draftKey, action, edited, busy, hasKeys, decide }: ActionProps): VNode {
  const typed = readDraft<ActionDraft>(draftKey, { mode: "", text: "" });
  const set = (change: Partial<ActionDraft>): void => saveDraft(draftKey, { ...typed, ...change });
  const [isRefused, setRefused] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const isOpening = useRef(false);
  const { mode, text, args = action.args } = typed;
  const problem = findProblem(typed, args);
  /** Approves at once; other decisions open their form first. */
  const choose = (type: DecisionType): void => {
    if (type === "approve") decide({ type });
    else {
      isOpening.current = true;
      set({ mode: type });
    }
  };
  useLayoutEffect(() => {
    if (isOpening.current) form.current?.querySelector<HTMLElement>("textarea, input, select")?.focus();
    isOpening.current = false;
  }, [mode]);
  useKey("Escape", "Back to the decisions", () => set({ mode: "" }), { when: hasKeys && mode !== "", inFields: true });
  /** Sends the decision of the open form. If its text is not valid, shows why instead. */
  const send = (): void => {
    setRefused(problem !== "");
    if (problem || busy || mode === "") return;
    if (mode === "edit") decide({ type: mode, [edited]: { name: action.name, args } });
    else decide({ type: mode, ...(text || mode === "respond" ? { message: text } : {}) });
  };
  return (
    <form
      class="action-card"
      ref={form}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <p>
        <strong>{action.name}</strong>
      </p>
      {action.description ? <Markdown text={action.description} /> : null}
      {mode === "edit" ? (
        <DraftScope.Provider value={draftKey}>
          <Editor
            schema={action.schema}
            label={`Arguments of ${action.name}`}
            value={args}
            change={(next) => set({ args: next ?? null })}
          />
          {isRefused && problem ? (
            <p class="field-problem" role="alert">
              {problem}
            </p>
          ) : null}
        </DraftScope.Provider>
      ) : (
        <Json value={action.args} open={3} />
      )}
      {mode === "reject" || mode === "respond" ? (
        <textarea
          rows={3}
          aria-label={mode === "reject" ? "Reason" : "Response"}
          placeholder={
            mode === "reject" ? "Why not? The agent reads it." : "What the agent gets in place of the result"
          }
          value={text}
          onInput={(event) => set({ text: event.currentTarget.value })}
        />
      ) : null}
      <div class="buttons">
        {mode === "" ? (
          action.allowed.map((type) => {
            const [label, key] = WORDS[type];
            const hint = hasKeys && key ? `${label} (${key})` : undefined;
            return (
              <button
                key={type}
                type="button"
                class={type === "approve" ? "primary" : ""}
                disabled={busy}
                title={hint}
                onClick={() => choose(type)}
              >
                {label}
              </button>
            );
          })
        ) : (
          <>
            <button type="submit" class="primary" disabled={busy}>
              {WORDS[mode][2]}
            </button>
            <button type="button" onClick={() => set({ mode: "" })}>
              Back
            </button>
          </>
        )}
      </div>
      {hasKeys && mode === "" && !busy
        ? action.allowed.map((type) =>
            WORDS[type][1] ? <DecisionKey key={type} type={type} choose={() => choose(type)} /> : null,
          )
        : null}
    </form>
  );
}

interface ApprovalProps extends Pick<ActionProps, "draftKey" | "busy" | "hasKeys"> {
  readonly request: HumanRequest;
  readonly answer: (value: unknown) => void;
}

/** Shows the actions of a request one after the other. Calls `answer` once, after the last decision. */
export function Approval({ draftKey, request, answer, busy, hasKeys }: ApprovalProps): VNode {
  const { actions, edited } = request;
  const [decisions, setDecisions] = useState<readonly unknown[]>([]);
  const index = decisions.length;
  const action = actions[index];
  if (!action) return <p class="faint">Sent.</p>;
  return (
    <>
      {actions.length > 1 ? (
        <p class="faint">
          Action {index + 1} of {actions.length}
        </p>
      ) : null}
      <ActionCard
        key={index}
        draftKey={`${draftKey} ${index}`}
        {...{ action, edited, busy, hasKeys }}
        decide={(decision) => {
          const all = [...decisions, decision];
          setDecisions(all);
          if (all.length === actions.length) answer({ decisions: all });
        }}
      />
    </>
  );
}
