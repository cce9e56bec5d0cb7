/**
 * JSON Schemas of answers, from the TypeScript types of lib that declare them and their comments. isolatedDeclarations rules out the
 * other way, types inferred from schemas: exported values need their types written.
 */
import { fileURLToPath } from "node:url";
import * as ts from "typescript-5";
import type { JsonObject } from "../../lib/json.ts";
import { any, count, list, nullable, object, record, ref, string, time, uuid } from "./schemas.ts";

const boolean: JsonObject = { type: "boolean" };
const number: JsonObject = { type: "number" };
/** Types that say more in the document than in TypeScript. */
const KNOWN: Readonly<Record<string, JsonObject>> = {
  Uuid: uuid,
  IsoTime: time,
  Json: any,
  JsonObject: object,
};
/** Numbers are counts, except those of these names. */
const FRACTION = /_(?:usd|seconds)$|^(?:avg|min|max)$/;

/** The schemas of these types, by their names. `sources`: the types of each file, below lib. */
export function schemasOf(sources: Readonly<Record<string, readonly string[]>>): JsonObject {
  const files = Object.keys(sources).map((path) => fileURLToPath(new URL(`../../lib/${path}`, import.meta.url)));
  const program = ts.createProgram(files, {
    ...{ target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.NodeNext, strict: true, types: [] },
    ...{ moduleResolution: ts.ModuleResolutionKind.NodeNext, allowImportingTsExtensions: true, noEmit: true },
  });
  const names = new Set(Object.values(sources).flat());
  const reader = createReader(program.getTypeChecker(), names);
  const schemas: JsonObject = {};
  for (const [at, path] of Object.keys(sources).entries()) {
    const file = program.getSourceFile(files[at] as string);
    for (const name of sources[path] as readonly string[]) {
      const declared = file?.statements.find((node) => ts.isInterfaceDeclaration(node) && node.name.text === name);
      if (!declared) throw new Error(`lib/${path} declares no interface ${name}`);
      schemas[name] = reader.members(declared);
    }
  }
  return schemas;
}

function createReader(checker: ts.TypeChecker, names: ReadonlySet<string>) {
  /** An object with the members of this type, inherited ones too. */
  function members(node: ts.Node): JsonObject {
    const optional: string[] = [];
    const properties: JsonObject = {};
    for (const property of checker.getTypeAtLocation(node).getProperties()) {
      const { name } = property;
      const declared = property.declarations?.[0];
      if (!declared || !ts.isPropertySignature(declared) || !declared.type) throw new Error(`${name} has no type`);
      if (property.flags & ts.SymbolFlags.Optional) optional.push(name);
      const schema = schemaOf(declared.type, name);
      const said = ts.displayPartsToString(property.getDocumentationComment(checker)).replace(/\s+/g, " ");
      // A reference has nothing beside it.
      properties[name] = said === "" || "$ref" in schema ? schema : { ...schema, description: withoutStop(said) };
    }
    return record(properties, optional);
  }

  /** `name`: of the member that has the type. */
  function schemaOf(node: ts.TypeNode, name: string): JsonObject {
    switch (node.kind) {
      case ts.SyntaxKind.StringKeyword:
        return string;
      case ts.SyntaxKind.BooleanKeyword:
        return boolean;
      case ts.SyntaxKind.NumberKeyword:
        return FRACTION.test(name) ? number : count;
    }
    if (ts.isLiteralTypeNode(node) && ts.isStringLiteral(node.literal)) {
      return { type: "string", enum: [node.literal.text] };
    }
    if (ts.isParenthesizedTypeNode(node)) return schemaOf(node.type, name);
    if (ts.isTypeOperatorNode(node)) return schemaOf(node.type, name);
    if (ts.isArrayTypeNode(node)) return list(schemaOf(node.elementType, name));
    if (ts.isUnionTypeNode(node)) return unionOf(node.types, name);
    if (ts.isTypeReferenceNode(node)) return referenceOf(node, name);
    if (ts.isTypeLiteralNode(node) || ts.isIntersectionTypeNode(node) || ts.isIndexedAccessTypeNode(node)) {
      return members(node);
    }
    throw new Error(`${name}: there is no schema for the type ${node.getText()}`);
  }

  function unionOf(types: readonly ts.TypeNode[], name: string): JsonObject {
    const others = types.filter((type) => type.getText() !== "null").map((type) => schemaOf(type, name));
    const texts = others.flatMap((schema) => (schema.enum ?? []) as string[]);
    const one = others.length === 1 ? (others[0] as JsonObject) : { type: "string", enum: texts };
    if (others.length > 1 && !others.every((schema) => "enum" in schema)) {
      throw new Error(`${name}: a union must be of texts, or of one type and null`);
    }
    return others.length < types.length ? nullable(one) : one;
  }

  function referenceOf(node: ts.TypeReferenceNode, name: string): JsonObject {
    const type = node.typeName.getText();
    const known = KNOWN[type];
    if (known) return known;
    if (names.has(type)) return ref(type);
    const [of, values] = node.typeArguments ?? [];
    if (type === "Readonly" && of) return schemaOf(of, name);
    if (type === "Record" && of && values) {
      const keys = checker.getTypeFromTypeNode(of);
      // Without named keys it is open.
      if (!keys.isUnion()) return object;
      const texts = keys.types.map((key) => (key as ts.StringLiteralType).value);
      return record(Object.fromEntries(texts.map((key) => [key, schemaOf(values, key)])));
    }
    const symbol = checker.getSymbolAtLocation(node.typeName);
    const declared = (symbol && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol)
      ?.declarations?.[0];
    const isLocal = declared && ts.isTypeAliasDeclaration(declared) && !declared.typeParameters;
    return isLocal ? schemaOf(declared.type, name) : members(node);
  }

  return { members };
}

const withoutStop = (text: string): string => text.replace(/\.$/, "");
