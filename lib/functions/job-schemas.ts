/** Validates the values of one call of a function by the schemas of its agent. Loaded only for agents that have some. */
import {
  type AgentSchemas,
  findUpdateIssues,
  formatIssues,
  InvalidInput,
  InvalidState,
  omitMessages,
  parseBySchema,
  type SchemaIssue,
  type SchemaResult,
} from "../executor/agent-schemas.ts";
import type { Schema } from "../executor/agent-types.ts";
import type { EventCoroutine } from "../executor/coroutine.ts";
import type { Json, JsonObject } from "../json.ts";
import { copyJson, isPlainObject } from "./copy-json.ts";
import type { BaseFunctionJob } from "./thread-head.ts";

export class JobSchemas {
  readonly #schemas: AgentSchemas;

  constructor(schemas: AgentSchemas) {
    this.#schemas = schemas;
  }

  /**
   * Returns a copy of the job with input, context, resume value and state as the schemas parse them. `state.messages` is not
   * validated. Throws `InvalidInput` or `InvalidState`, and an error without details if a schema throws.
   */
  *parseJob(job: BaseFunctionJob): EventCoroutine<BaseFunctionJob> {
    const { input, context, resume, state } = this.#schemas;
    const parsed: { -readonly [Name in keyof BaseFunctionJob]: BaseFunctionJob[Name] } = { ...job };
    const toInputError =
      (label: string) =>
      (issues: readonly SchemaIssue[]): Error =>
        new InvalidInput(label, issues);
    if (input) parsed.input = (yield* parse(input, job.input, "input", toInputError("input"))) as Json | undefined;
    if (context)
      parsed.context = (yield* parse(context, job.context, "context", toInputError("context"))) as JsonObject;
    if (resume && job.command?.resume !== undefined) {
      const answer = yield* parse(resume, job.command.resume, "resume value", toInputError("resume value"));
      parsed.command = { ...job.command, resume: answer };
    }
    if (state) {
      const values = yield* parse(state, omitMessages(job.state), "state", (issues) => new InvalidState(issues));
      const messages = Object.hasOwn(job.state, "messages") ? { messages: job.state.messages } : {};
      parsed.state = { ...(values as JsonObject), ...messages } as JsonObject;
    }
    return parsed;
  }

  /**
   * Throws `InvalidState` if `value` is a plain object that, merged into `values`, does not fit the schema of the state. Does
   * nothing for other values and without a schema of the state.
   */
  *checkUpdate(values: JsonObject, value: unknown): EventCoroutine {
    if (!isPlainObject(value) || !this.#schemas.state) return;
    const update = copyJson(value, "update") as JsonObject;
    const issues = (yield findUpdateIssues(this.#schemas, values, { ...values, ...update })) as readonly SchemaIssue[];
    if (issues.length > 0) throw new InvalidState(issues);
  }

  /**
   * Validates the argument of `interrupt()` or `emit()`, or by the schema of interrupts the value of an ask. `subject` names it. Throws
   * a TypeError if it does not fit. Returns undefined if it fits or has no schema; for an asynchronous schema, returns a promise that
   * rejects with the TypeError.
   */
  checkArgument(
    kind: "interrupt" | "custom",
    value: Json,
    subject: string = `${kind === "interrupt" ? "interrupt()" : "emit()"}: the argument`,
  ): Promise<void> | undefined {
    const schema = this.#schemas[kind];
    if (!schema) return undefined;
    const requireNoIssues = ({ issues }: SchemaResult): undefined => {
      if (issues) throw new TypeError(`${subject} does not fit the agent's ${kind} schema: ${formatIssues(issues)}`);
    };
    const result = parseBySchema(schema, value, `agent's ${kind} values`);
    if (!(result instanceof Promise)) return requireNoIssues(result);
    const checked = result.then(requireNoIssues);
    // The function may fail before the run awaits it.
    checked.catch(() => {});
    return checked;
  }
}

/** Returns the output of a schema, and awaits an asynchronous one. Throws what `toError` returns for the issues. */
function* parse(
  schema: Schema,
  value: unknown,
  label: string,
  toError: (issues: readonly SchemaIssue[]) => Error,
): EventCoroutine<unknown> {
  const parsing = parseBySchema(schema, value, label);
  const result = parsing instanceof Promise ? ((yield parsing) as SchemaResult) : parsing;
  if (result.issues) throw toError(result.issues);
  return result.value;
}
