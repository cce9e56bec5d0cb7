/** Validates examples and answers by the schemas of the OpenAPI document. */
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import type { Answer } from "../../../scripts/openapi/answers.ts";

/** An example of the document, with the pointer of its schema. */
export interface Example {
  readonly pointer: string;
  readonly schema: string;
  readonly json: Json;
}

export interface Validator {
  /** Returns what is wrong with a json by the schema at a JSON pointer. */
  validate(pointer: string, json: Json): readonly string[];
  /** Returns what is wrong with the answer of an operation. A status or type that the document does not have is wrong. */
  validateAnswer(path: string, method: string, answer: Answer): readonly string[];
  /** Returns all examples of the document. */
  listExamples(): readonly Example[];
}

const escapePointer = (name: string): string => name.replaceAll("~", "~0").replaceAll("/", "~1");

/** Creates the validator of a document. */
export function createValidator(document: JsonObject): Validator {
  // OpenAPI has keywords of its own beside the schemas.
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  (addFormats as unknown as (instance: unknown) => void)(ajv);
  ajv.addSchema(document, "document");

  const find = (pointer: string): Json =>
    pointer
      .split("/")
      .slice(1)
      .reduce<Json>((json, name) => {
        const key = name.replaceAll("~1", "/").replaceAll("~0", "~");
        return (isObject(json) ? json[key] : (json as readonly Json[])[Number(key)]) as Json;
      }, document);

  /** Returns the pointer of what a reference names, or the pointer itself. */
  function resolve(pointer: string): string {
    const json = find(pointer);
    return isObject(json) && typeof json.$ref === "string" ? json.$ref.slice(1) : pointer;
  }

  const toUri = (pointer: string): string => `document#${pointer.split("/").map(encodeURIComponent).join("/")}`;

  function validate(pointer: string, json: Json): readonly string[] {
    const check = ajv.getSchema(toUri(pointer));
    if (!check) throw new Error(`There is no schema at ${pointer}`);
    return check(json) ? [] : (check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  }

  function listExamples(): Example[] {
    const examples: Example[] = [];
    const visit = (json: Json, pointer: string): void => {
      if (Array.isArray(json)) for (const [index, element] of json.entries()) visit(element, `${pointer}/${index}`);
      if (!isObject(json)) return;
      if ("schema" in json && "example" in json)
        examples.push({ pointer, schema: `${pointer}/schema`, json: json.example as Json });
      if ("schema" in json && isObject(json.examples)) {
        for (const name of Object.keys(json.examples)) {
          const example = find(resolve(`${pointer}/examples/${escapePointer(name)}`));
          if (isObject(example)) examples.push({ pointer, schema: `${pointer}/schema`, json: example.value as Json });
        }
      }
      for (const [name, member] of Object.entries(json)) {
        if (name !== "example" && name !== "value") visit(member, `${pointer}/${escapePointer(name)}`);
      }
    };
    visit(document, "");
    return examples;
  }

  return {
    validate,
    listExamples,
    validateAnswer(path, method, { status, type, body }) {
      const responses = `/paths/${escapePointer(path)}/${method}/responses`;
      const described = find(responses);
      if (!isObject(described) || !(status in described)) return [`The status ${status} is not in the document`];
      const response = resolve(`${responses}/${status}`);
      const { content } = find(response) as { readonly content?: JsonObject };
      if (content === undefined) return type === null ? [] : [`The document has no body for ${status}`];
      if (type === null || !(type in content)) return [`The type ${type} is not in the document`];
      return validate(`${response}/content/${escapePointer(type)}/schema`, body);
    },
  };
}
