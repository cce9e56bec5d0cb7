/** A form made from a JSON Schema, beside the raw JSON, which can always say what the form cannot. */
import type { VNode } from "preact";
import { useContext, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { DraftScope, discardDrafts, hasDraft, readDraft, saveDraft } from "../store/drafts.ts";

export interface Schema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly examples?: readonly unknown[];
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly format?: string;
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, Schema>>;
  readonly definitions?: Readonly<Record<string, Schema>>;
  readonly minimum?: number;
  readonly maximum?: number;
}

/**
 * Returns the schema that a reference inside `root` names, `{}` if there is none. For `T | null`, returns the members
 * of the schema with those of T over them; every other schema as it is.
 */
function resolveSchema(schema: Schema, root: Schema): Schema {
  const name = /^#\/(?:\$defs|definitions)\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  if (name) return resolveSchema((root.$defs ?? root.definitions)?.[name] ?? {}, root);
  const real = schema.anyOf?.filter(({ type }) => type !== "null") ?? [];
  return real.length === 1 ? { ...schema, ...resolveSchema(real[0] as Schema, root) } : schema;
}

const getSchemaType = ({ type, properties }: Schema): string =>
  (Array.isArray(type) ? type.find((name) => name !== "null") : (type as string | undefined)) ??
  (properties ? "object" : "any");

/**
 * Returns a first value that fits a schema: its default, first example, constant or first choice, else an empty value
 * by its type, with all properties of an object. Null without a schema, for an unknown type and below depth 5.
 */
export function createExample(schema: Schema | null | undefined, root: Schema = schema ?? {}, depth = 0): unknown {
  if (!schema || depth > 5) return null;
  const resolved = resolveSchema(schema, root);
  if (resolved.default !== undefined) return resolved.default;
  if (resolved.examples?.[0] !== undefined) return resolved.examples[0];
  if (resolved.const !== undefined) return resolved.const;
  if (resolved.enum?.[0] !== undefined) return resolved.enum[0];
  switch (getSchemaType(resolved)) {
    case "object": {
      const names = Object.entries(resolved.properties ?? {});
      return Object.fromEntries(names.map(([name, inner]) => [name, createExample(inner, root, depth + 1)]));
    }
    case "array":
      return [];
    case "string":
      return "";
    case "boolean":
      return false;
    case "number":
    case "integer":
      return Math.max(0, resolved.minimum ?? 0);
    default:
      return null;
  }
}

interface JsonFieldProps {
  readonly id?: string;
  readonly label: string;
  readonly value: unknown;
  readonly change: (value: unknown) => void;
  readonly rows?: number;
}

const formatJson = (value: unknown): string => JSON.stringify(value, null, 2) ?? "";

/** Returns why a text is no JSON; empty if it is, also for an empty text. */
function findJsonProblem(text: string): string {
  try {
    JSON.parse(text.trim() || "null");
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** Edits text that must be JSON. Text that does not parse stays as typed, is not passed to `change`, and blocks its form. */
export function JsonField({ id, label, value, change, rows = 8 }: JsonFieldProps): VNode {
  const draftKey = `${useContext(DraftScope)} ${label}`;
  const unparsed = readDraft<string | null>(draftKey, null);
  /** The text of the last value, as it was typed. */
  const [lastTyped, setLastTyped] = useState(() => ({ text: formatJson(value), value: formatJson(value) }));
  const now = formatJson(value);
  const text = unparsed ?? (lastTyped.value === now ? lastTyped.text : now);
  const problem = unparsed === null ? "" : findJsonProblem(unparsed);
  const problemId = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.setCustomValidity(problem && "This is not JSON"), [problem]);
  return (
    <div class="json-field">
      <textarea
        ref={field}
        id={id}
        class="mono"
        aria-label={id ? undefined : label}
        aria-invalid={problem !== ""}
        aria-describedby={problem ? problemId : undefined}
        spellcheck={false}
        rows={rows}
        value={text}
        onInput={(event) => {
          const typed = event.currentTarget.value;
          const isJson = findJsonProblem(typed) === "";
          saveDraft(draftKey, isJson ? undefined : typed);
          if (!isJson) return;
          const parsed: unknown = typed.trim() === "" ? undefined : JSON.parse(typed);
          setLastTyped({ text: typed, value: formatJson(parsed) });
          change(parsed);
        }}
        onInvalid={(event) => event.currentTarget.closest("details")?.setAttribute("open", "")}
      />
      {problem ? (
        <p class="field-problem" id={problemId} role="alert">
          Not JSON: {problem}
        </p>
      ) : null}
    </div>
  );
}

interface FieldProps {
  readonly name: string;
  readonly schema: Schema;
  readonly root: Schema;
  readonly required: boolean;
  readonly value: unknown;
  readonly change: (value: unknown) => void;
}

const isLongText = (value: unknown): boolean =>
  typeof value === "string" && (value.length > 60 || value.includes("\n"));

/**
 * Shows the input for one value by its schema: a choice, a checkbox, a number, a text, a nested form, or JSON for everything
 * else. An empty number is undefined.
 */
function Control({ id, schema, value, change, name, root }: FieldProps & { readonly id: string }): VNode {
  const type = getSchemaType(schema);
  // Decided once: another element would take the focus from a person who types.
  const [isLong] = useState(() => isLongText(value));
  if (schema.enum) {
    return (
      <select
        id={id}
        value={JSON.stringify(value ?? null)}
        onChange={(event) => change(JSON.parse(event.currentTarget.value))}
      >
        {value === undefined || value === null ? <option value="null">–</option> : null}
        {schema.enum.map((choice) => (
          <option key={JSON.stringify(choice)} value={JSON.stringify(choice)}>
            {String(choice)}
          </option>
        ))}
      </select>
    );
  }
  if (type === "boolean") {
    return <input id={id} type="checkbox" checked={value === true} onChange={(e) => change(e.currentTarget.checked)} />;
  }
  if (type === "number" || type === "integer") {
    return (
      <input
        id={id}
        type="number"
        step={type === "integer" ? 1 : "any"}
        min={schema.minimum}
        max={schema.maximum}
        value={typeof value === "number" ? value : ""}
        onInput={(event) => change(event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)}
      />
    );
  }
  if (type === "string") {
    const text = typeof value === "string" ? value : "";
    return isLong ? (
      <textarea id={id} rows={4} value={text} onInput={(event) => change(event.currentTarget.value)} />
    ) : (
      <input id={id} type="text" value={text} onInput={(event) => change(event.currentTarget.value)} />
    );
  }
  if (type === "object" && schema.properties) {
    return <SchemaForm schema={schema} root={root} value={value} change={change} />;
  }
  return <JsonField id={id} label={name} value={value} change={change} rows={6} />;
}

/** Shows a value's label, with `*` if it is required, the input for it and the description of its schema. */
function Field(props: FieldProps): VNode {
  const id = useId();
  const schema = resolveSchema(props.schema, props.root);
  const isGroup = getSchemaType(schema) === "object" && schema.properties !== undefined && !schema.enum;
  const label = `${schema.title ?? props.name}${props.required ? " *" : ""}`;
  return (
    <div class={isGroup ? "field group" : "field"}>
      {isGroup ? <p class="label">{label}</p> : <label for={id}>{label}</label>}
      <Control {...props} schema={schema} id={id} />
      {schema.description ? <p class="field-hint">{schema.description}</p> : null}
    </div>
  );
}

interface SchemaFormProps {
  readonly schema: Schema;
  readonly root?: Schema;
  readonly value: unknown;
  readonly change: (value: unknown) => void;
}

/**
 * Shows a field for each property of a schema. A change calls `change` with a copy of the value that has the new
 * member; members without a property stay.
 */
function SchemaForm({ schema, root = schema, value, change }: SchemaFormProps): VNode {
  const resolved = resolveSchema(schema, root);
  const members = typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  return (
    <div class="schema-form">
      {Object.entries(resolved.properties ?? {}).map(([name, inner]) => (
        <Field
          key={name}
          name={name}
          schema={inner}
          root={root}
          required={resolved.required?.includes(name) ?? false}
          value={members[name]}
          change={(next) => change({ ...members, [name]: next })}
        />
      ))}
    </div>
  );
}

/** Shows a button that discards the drafts under a key. Shows nothing if there are none. */
export function Discard({ draftKey }: { readonly draftKey: string }): VNode | null {
  if (!hasDraft(draftKey)) return null;
  return (
    <button type="button" onClick={() => discardDrafts(draftKey)}>
      Discard changes
    </button>
  );
}

interface EditorProps {
  readonly schema: Schema | null | undefined;
  readonly label: string;
  readonly value: unknown;
  readonly change: (value: unknown) => void;
}

/** Edits a value in a form if its schema has properties, with a switch to raw JSON; else as JSON. */
export function Editor({ schema, label, value, change }: EditorProps): VNode {
  const isSingle = schema
    ? schema.enum !== undefined || /^(?:string|boolean|number|integer)$/.test(getSchemaType(schema))
    : false;
  const hasForm = isSingle || Object.keys(schema?.properties ?? {}).length > 0;
  const unparsed = readDraft(`${useContext(DraftScope)} ${label}`, null);
  const [isRaw, setRaw] = useState(!hasForm || unparsed !== null);
  return (
    <div class="editor">
      {hasForm ? (
        <div class="segments" role="group" aria-label="How to edit">
          <button type="button" aria-pressed={!isRaw} onClick={() => setRaw(false)}>
            Form
          </button>
          <button type="button" aria-pressed={isRaw} onClick={() => setRaw(true)}>
            JSON
          </button>
        </div>
      ) : null}
      {isRaw || !schema ? (
        <JsonField label={label} value={value} change={change} rows={10} />
      ) : isSingle ? (
        <Field name={label} schema={schema} root={schema} required={false} value={value} change={change} />
      ) : (
        <SchemaForm schema={schema} value={value} change={change} />
      )}
    </div>
  );
}
