/** An interrupt that waits for a person, with the answers that fit it. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { Json as JsonValue, WaitingInterrupt } from "../api/types.ts";
import { attempt, perform } from "../frame/notices.tsx";
import { DraftScope, discardDrafts, readDraft, saveDraft } from "../store/drafts.ts";
import { Approval, readHumanRequest } from "./approval.tsx";
import { createExample, Editor, JsonField, type Schema } from "./form.tsx";
import { isObject, Json } from "./json.tsx";
import { Markdown } from "./markdown.tsx";

const toDraftKey = (interrupt_id: string): string => `answer ${interrupt_id}`;

interface AnswerProps {
  readonly interrupt: WaitingInterrupt;
  readonly answer: (value: unknown) => void;
  readonly busy: boolean;
}

/**
 * Returns the texts that an interrupt offers as answers, of member `answers`, else `options`, else `choices`. Empty if
 * that is no list of texts.
 */
function readChoices(value: unknown): readonly string[] {
  if (!isObject(value)) return [];
  const list = value["answers"] ?? value["options"] ?? value["choices"];
  return Array.isArray(list) && list.every((choice) => typeof choice === "string") ? list : [];
}

interface FreeDraft {
  readonly text: string;
  readonly json?: unknown;
  readonly isJson: boolean;
}

/** Returns the schema of the answer: beside the value for `ask` of a durable function, otherwise in it. Null if there is none. */
function findResponseSchema({ value, response_schema }: WaitingInterrupt): Schema | null {
  const schema = response_schema ?? (isObject(value) ? value["response_schema"] : null);
  return isObject(schema) ? schema : null;
}

/**
 * Shows the form for an answer: buttons for offered choices, a form by the schema, JSON or text. What is typed is kept as a
 * draft. An answer that does not fit the schema is not sent.
 */
function FreeAnswer({ interrupt, answer, busy }: AnswerProps): VNode {
  const { value } = interrupt;
  const schema = findResponseSchema(interrupt);
  const [problem, setProblem] = useState("");
  const choices = readChoices(value);
  const draftKey = toDraftKey(interrupt.interrupt_id);
  const typed = readDraft<FreeDraft>(draftKey, { text: "", isJson: false });
  const set = (change: Partial<FreeDraft>): void => saveDraft(draftKey, { ...typed, ...change });
  const { text, isJson, json = schema ? createExample(schema) : undefined } = typed;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (schema) {
          attempt("Answer", async () => {
            const { findSchemaMismatches } = await import("../../../../lib/executor/schema-check.ts");
            const findings = findSchemaMismatches(schema as JsonValue, (json ?? null) as JsonValue, "answer", 5);
            setProblem(findings.join("; "));
            if (findings.length === 0) answer(json ?? null);
          });
        } else if (isJson) answer(json ?? null);
        else if (text.trim()) answer(text);
      }}
    >
      {choices.length > 0 ? (
        <div class="buttons">
          {choices.map((choice, index) => (
            <button
              key={choice}
              type="button"
              class={index === 0 ? "primary" : ""}
              disabled={busy}
              onClick={() => answer(choice)}
            >
              {choice}
            </button>
          ))}
        </div>
      ) : null}
      {schema ? (
        <DraftScope.Provider value={draftKey}>
          <Editor schema={schema} label="Answer" value={json} change={(next) => set({ json: next })} />
          {problem ? (
            <p class="field-problem" role="alert">
              The answer does not fit: {problem}
            </p>
          ) : null}
        </DraftScope.Provider>
      ) : isJson ? (
        <DraftScope.Provider value={draftKey}>
          <JsonField label="Answer as JSON" value={json ?? null} change={(next) => set({ json: next })} rows={4} />
        </DraftScope.Provider>
      ) : (
        <textarea
          rows={2}
          aria-label="Answer"
          placeholder="Answer…"
          value={text}
          onInput={(event) => set({ text: event.currentTarget.value })}
        />
      )}
      <div class="buttons">
        <button type="submit" class={choices.length > 0 ? "" : "primary"} disabled={busy}>
          Answer
        </button>
        {schema ? null : (
          <button type="button" class="quiet" aria-pressed={isJson} onClick={() => set({ isJson: !isJson })}>
            {isJson ? "Text" : "JSON"}
          </button>
        )}
      </div>
    </form>
  );
}

/**
 * Returns the text that an interrupt shows to the person: the value itself, the names of actions to approve, or member
 * `question`, `message`, `prompt` or `text`. Null if there is none.
 */
export function findPrompt(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (!isObject(value)) return null;
  const request = readHumanRequest(value);
  if (request) return request.actions.map(({ name }) => name).join(", ");
  const text = value["question"] ?? value["message"] ?? value["prompt"] ?? value["text"];
  return typeof text === "string" ? text : null;
}

/** Returns the part of a value that the prompt, the offered answers and the form do not show; undefined if they show all. */
function findUndisplayedValue(value: unknown, prompt: string | null): unknown {
  if (!isObject(value)) return typeof value === "string" ? undefined : value;
  const displayed = new Set<unknown>([prompt ?? undefined, readChoices(value), value["response_schema"]]);
  const remaining = Object.entries(value).filter(([, member]) => !displayed.has(member));
  return remaining.length > 0 ? Object.fromEntries(remaining) : undefined;
}

/** Shows one interrupt with its prompt, and the form of an approval or a free answer. */
function InterruptCard({ hasKeys, ...props }: AnswerProps & { readonly hasKeys: boolean }): VNode {
  const { interrupt, answer, busy } = props;
  const request = readHumanRequest(interrupt.value);
  const prompt = request ? null : findPrompt(interrupt.value);
  const undisplayed = request ? undefined : findUndisplayedValue(interrupt.value, prompt);
  return (
    <section class="interrupt" aria-label="Interrupt">
      <p class="kind">
        <span aria-hidden="true">◐</span> {interrupt.node ? `${interrupt.node} waits` : "waits for an answer"}
      </p>
      {prompt ? <Markdown text={prompt} /> : null}
      {undisplayed === undefined ? null : <Json value={undisplayed} open={2} />}
      {request ? (
        <Approval draftKey={toDraftKey(interrupt.interrupt_id)} {...{ request, answer, busy, hasKeys }} />
      ) : (
        <FreeAnswer {...props} />
      )}
    </section>
  );
}

interface InterruptsProps {
  readonly interrupts: readonly WaitingInterrupt[];
  readonly busy: boolean;
  /** Called once, with the answers to all of them. */
  readonly answer: (answers: Readonly<Record<string, unknown>>) => Promise<unknown>;
}

/** Shows all interrupts of a thread. Sends their answers together, because one run takes them all. */
export function Interrupts({ interrupts, busy, answer }: InterruptsProps): VNode {
  const [answers, setAnswers] = useState<Readonly<Record<string, unknown>>>({});
  const [isSending, setSending] = useState(false);
  // Cards that were refused begin anew, with what was typed.
  const [tries, setTries] = useState(0);
  const open = interrupts.filter(({ interrupt_id }) => !Object.hasOwn(answers, interrupt_id));
  const nextDecision = open.find(({ value }) => readHumanRequest(value));
  /**
   * Keeps the answer to one interrupt. With the last one, sends all of them and discards the drafts; if that fails, all are asked
   * again.
   */
  const saveAnswer = (interrupt_id: string, value: unknown): void => {
    const all = { ...answers, [interrupt_id]: value };
    setAnswers(all);
    if (interrupts.some((interrupt) => !Object.hasOwn(all, interrupt.interrupt_id))) return;
    setSending(true);
    void perform("Answer", async () => {
      try {
        await answer(
          Object.fromEntries(interrupts.map((interrupt) => [interrupt.interrupt_id, all[interrupt.interrupt_id]])),
        );
        for (const interrupt of interrupts) discardDrafts(toDraftKey(interrupt.interrupt_id));
      } catch (error) {
        setAnswers({});
        setTries(tries + 1);
        throw error;
      } finally {
        setSending(false);
      }
    });
  };
  return (
    <>
      {open.map((interrupt) => (
        <InterruptCard
          key={`${interrupt.interrupt_id} ${tries}`}
          interrupt={interrupt}
          busy={busy || isSending}
          hasKeys={interrupt === nextDecision}
          answer={(value) => saveAnswer(interrupt.interrupt_id, value)}
        />
      ))}
      {open.length > 0 && open.length < interrupts.length ? (
        <p class="faint">
          {open.length} more of this thread, then the run goes on.{" "}
          <button type="button" class="quiet" onClick={() => setAnswers({})}>
            Answer again
          </button>
        </p>
      ) : null}
    </>
  );
}
