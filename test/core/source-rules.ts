/** What the files of this repository may import and use (docs/architecture.md, Import rules), as functions of their text. */
import { posix } from "node:path";

/** The text without comments, and the same with the insides of strings blanked too. */
export function strip(source: string): { readonly code: string; readonly bare: string } {
  let code = "";
  let bare = "";
  const templates: number[] = [];
  let depth = 0;
  let at = 0;
  const both = (text: string): void => {
    code += text;
    bare += text;
  };
  const literal = (end: number): void => {
    code += source.slice(at, end);
    bare += source.slice(at, end).replace(/[^\n]/g, " ");
    at = end;
  };
  /** Copies a template's text from `at` up to its end or to the next `${`. */
  const template = (): void => {
    let end = at;
    while (end < source.length && source[end] !== "`" && !source.startsWith("${", end))
      end += source[end] === "\\" ? 2 : 1;
    literal(end);
    if (source[at] === "`") both("`");
    else {
      both("${");
      templates.push(depth);
      at += 1;
    }
    at += 1;
  };
  while (at < source.length) {
    const char = source[at] as string;
    if (source.startsWith("//", at)) {
      while (at < source.length && source[at] !== "\n") at += 1;
    } else if (source.startsWith("/*", at)) {
      const end = source.indexOf("*/", at + 2);
      at = end < 0 ? source.length : end + 2;
    } else if (char === '"' || char === "'" || (char === "/" && /(?:^|[(,=:[!&|?{};>]|\breturn)\s*$/.test(bare))) {
      let end = at + 1;
      let group = false;
      while (end < source.length && (source[end] !== char || group) && source[end] !== "\n") {
        if (char === "/" && (source[end] === "[" || source[end] === "]")) group = source[end] === "[";
        end += source[end] === "\\" ? 2 : 1;
      }
      both(char);
      at += 1;
      literal(end);
      both(char);
      at += 1;
    } else if (char === "`") {
      both(char);
      at += 1;
      template();
    } else if (char === "}" && templates.at(-1) === depth) {
      templates.pop();
      both(char);
      at += 1;
      template();
    } else {
      if (char === "{") depth += 1;
      if (char === "}") depth -= 1;
      both(char);
      at += 1;
    }
  }
  return { code, bare };
}

/** Every module the text names: static, type-only, re-exported and dynamic imports. `code`: those alone that a bundle would have. */
export function importsOf(source: string, kind: "all" | "code" = "all"): string[] {
  const named = strip(source).code.matchAll(
    /(?:^|[;\n}])\s*(?:import|export)\s(type\s)?(?:[^"';]*?\sfrom\s*)?["']([^"'\n]+)["']|\bimport\s*\(\s*["']([^"'\n]+)["']/g,
  );
  return [...named].filter(([, type]) => kind === "all" || !type).map(([, , name, later]) => (name ?? later) as string);
}

/**
 * The rooms of lib/, from top to bottom. A file imports from its own room and from the floors below: never upward, and no other
 * room of its own floor.
 */
export const FLOORS: readonly (readonly string[])[] = [
  ["mod"],
  ["http"],
  ["service"],
  ["crons", "functions", "protocol"],
  ["options", "runs"],
  ["threads"],
  ["store", "assistants", "engine", "usage", "feedback", "webhooks", "steps"],
  ["auth"],
  ["streams"],
  ["features", "a2a"],
  ["executor"],
  ["storage"],
  ["validation"],
  ["errors", "json", "environment", "rfc3339"],
];

/** Rooms that may use less than what lies below them. */
const NARROW: Readonly<Record<string, RegExp>> = {
  functions: /^lib\/(?:executor\/|(?:errors|json|environment)\.ts$)/,
};

/** A file's room in lib/: its folder, or the file itself. */
const roomOf = (path: string): string => /^lib\/([^/.]+)/.exec(path)?.[1] ?? "";
const floorOf = (room: string): number => FLOORS.findIndex((rooms) => rooms.includes(room));

/** Whether one file of lib/ may import another. A room without a floor may import nothing and be imported by nobody. */
export function isDownward(path: string, target: string): boolean {
  const [from, to] = [roomOf(path), roomOf(target)];
  if (from === to) return true;
  return floorOf(from) >= 0 && floorOf(to) > floorOf(from) && (NARROW[from]?.test(target) ?? true);
}

/**
 * First rule whose `files` matches decides. `may` is matched against a path from the root, or the package's name; imports
 * within lib/ are decided by floors instead. `types`: imports of types alone.
 */
const rules: readonly { readonly files: RegExp; readonly may: RegExp; readonly types?: RegExp }[] = [
  { files: /^lib\/webhooks\/send\.ts$/, may: /^node:(?:http|https|dns\/promises)$/ },
  { files: /^lib\/functions\/work\.ts$/, may: /^node:async_hooks$/ },
  { files: /^lib\/crons\//, may: /^croner$/ },
  { files: /^lib\/webhooks\/addresses\.ts$/, may: /^ipaddr\.js$/ },
  {
    files:
      /^lib\/(?:validation|(?:[a-z]+\/)?options|http\/(?:parse|run-request|routes\/[a-z-]+|endpoints\/(?:fields|[a-z0-9-]+\/requests)))\.ts$/,
    may: /^valibot$/,
  },
  { files: /^lib\/http\/route-table\.ts$/, may: /^itty-router$/ },
  { files: /^lib\//, may: /^(?!)/ },
  {
    files: /^adapters\/sql\//,
    may: /^adapters\/sql\/|^lib\/storage\/|^lib\/(?:executor\/contract|environment|errors|json)\.ts$|^kysely$/,
  },
  {
    files: /^adapters\/sqlite\/bun\.ts$/,
    may: /^adapters\/(?:sql|sqlite)\/|^lib\/storage\/|^lib\/(?:environment|errors)\.ts$|^bun:sqlite$|^node:(?:fs|path|process)$/,
  },
  {
    files: /^adapters\/sqlite\/node\.ts$/,
    may: /^adapters\/(?:sql|sqlite)\/|^lib\/storage\/|^lib\/(?:environment|errors)\.ts$|^node:(?:sqlite|fs|path)$/,
  },
  {
    files: /^adapters\/sqlite\/(?:connections|thread)\.ts$/,
    may: /^adapters\/(?:sql|sqlite)\/|^bun:sqlite$|^node:(?:sqlite|worker_threads)$/,
  },
  {
    files: /^adapters\/sqlite\//,
    may: /^adapters\/(?:sql|sqlite)\/|^lib\/storage\/|^lib\/(?:environment|errors)\.ts$|^node:(?:fs|path)$/,
  },
  { files: /^adapters\/node\//, may: /^adapters\/node\/|^node:(?:http|net|stream)$|^ws$/ },
  // For browsers: it stands alone.
  { files: /^adapters\/ai-client\.ts$/, may: /^(?!)/ },
  { files: /^adapters\/docs-page\.ts$/, may: /^lib\/http\/handler\.ts$/ },
  {
    files: /^adapters\/agents\.ts$/,
    may: /^adapters\/langgraph\/mod\.ts$|^lib\/(?:mod|validation|storage\/types|executor\/contract)\.ts$/,
  },
  {
    files: /^adapters\/(?:app|app-options|database)\.ts$/,
    may: /^adapters\/(?:agents|app-options|database)\.ts$|^adapters\/(?:sql|sqlite|libsql|postgres)\/|^lib\/(?:mod|validation|storage\/types|executor\/contract|http\/(?:handler|options))\.ts$/,
  },
  {
    files: /^adapters\/libsql\//,
    may: /^adapters\/(?:sql|sqlite|libsql)\/|^lib\/storage\/|^lib\/(?:environment|errors)\.ts$|^@libsql\/client$|^node:(?:fs|path)$/,
  },
  {
    files: /^adapters\/postgres\//,
    may: /^adapters\/(?:sql|postgres)\/|^lib\/storage\/|^lib\/(?:environment|errors)\.ts$|^pg$/,
  },
  {
    files: /^adapters\/kysely\//,
    may: /^adapters\/(?:sql|sqlite|kysely)\/|^lib\/storage\/|^lib\/(?:environment|errors)\.ts$|^kysely$|^kysely-bun-sqlite$|^bun:sqlite$/,
  },
  {
    files: /^adapters\/langgraph\//,
    may: /^adapters\/langgraph\/|^lib\/executor\/(?:contract|checkpoints|kwargs|content-blocks|journal|schema-check|schema-problems|step-names)\.ts$|^lib\/functions\/verbs\.ts$|^lib\/(?:environment|errors|json)\.ts$|^@langchain\/|^node:module$/,
  },
  {
    files: /^adapters\/studio\/page\//,
    may: /^adapters\/studio\/page\/|^lib\/executor\/schema-check\.ts$|^(?:preact|uplot|marked|dompurify|cronstrue)$|^@(?:preact\/signals|dagrejs\/dagre)$|^@langchain\/langgraph-sdk(?:\/client)?$/,
    types: /^lib\//,
  },
  { files: /^adapters\/studio\//, may: /^adapters\/studio\/|^lib\/http\/handler\.ts$/ },
  { files: /^adapters\/standalone\/loader\.ts$/, may: /^node:|^jiti$/ },
  {
    files: /^adapters\/standalone\//,
    may: /^adapters\/|^lib\/(?:mod|environment|validation)\.ts$|^lib\/(?:storage\/types|executor\/contract|http\/handler)\.ts$|^package\.json$|^node:/,
  },
  { files: /^server\.ts$/, may: /^adapters\/standalone\/main\.ts$/ },
  {
    files: /^examples\//,
    may: /^examples\/|^greenroom(?:\/|$)|^node:|^@(?:langchain|a2a-js|ag-ui|copilotkit)\/|^(?:zod|kysely|standardwebhooks|hono|express|next|ai|esbuild|react-dom)$/,
  },
  {
    files: /^test\/suite\//,
    may: /^test\/suite\/|^lib\/|^adapters\/(?:sql|sqlite)\/|^adapters\/(?:app|app-options|database)\.ts$|^node:/,
  },
];

/** Uses that would escape the clock, the randomness or the runtime a host or a test chose. */
const outside: readonly RegExp[] = [
  /\bDate\s*\.\s*now\b/,
  /\bnew\s+Date\s*(?:\(\s*\)|(?![\s(]))/,
  /\b(?:setTimeout|setInterval|setImmediate|queueMicrotask)\b/,
  /\bMath\s*\.\s*random\b/,
  /\b(?:randomUUID|getRandomValues)\b/,
  /(?<![.#\w])fetch\s*\(/,
  /\bperformance\s*\.\s*now\b/,
  /(?<![.\w"'])(?:process|Buffer|Deno|Bun|require|__dirname)\b(?!\s*[:?])/,
];

/** SQL text that is not a bound value or a checked identifier. */
const injectable: readonly RegExp[] = [/\bsql\s*\.\s*raw\b/, /\bsql\s*\.\s*lit\b(?!\((?:\d+|"[^"]*")\))/];

/** What answers callers: it has nouns that are bound to the caller, and names no scope. */
const bound = /^(?:lib\/http\/|adapters\/studio\/|lib\/protocol\/(?!(?:authorization|commands|mod)\.ts$))/;
/** Nouns without authorization, and what makes them. */
const unbound: readonly RegExp[] = [
  /\bdirectories\b/,
  /\bimport\s[^;]*?\b(?:\w*Director(?:y|ies)|inScope|create\w*Binding|Scope|Visibility|withVisibility|EVERYTHING|createStreamGuards|createRevocationCheck)\b[^;]*?\sfrom\b/,
];

/** What is wrong with one file, in words; empty when nothing is. `path` is relative to the root, with slashes. */
export function problemsOf(path: string, source: string): string[] {
  const problems: string[] = [];
  const rule = rules.find(({ files }) => files.test(path));
  const code_imports = new Set(importsOf(source, "code"));
  for (const name of rule ? importsOf(source) : []) {
    const target = name.startsWith(".")
      ? posix.join(posix.dirname(path), name)
      : name.replace(/^((?:@[^/]+\/)?[^/]+)(?:\/.*)?$/, (whole, root: string) =>
          /^(?:node:|@langchain\/|greenroom)/.test(root) ? whole : root,
        );
    const within = path.startsWith("lib/") && target.startsWith("lib/");
    const isAllowed = rule?.may.test(target) || (!code_imports.has(name) && rule?.types?.test(target));
    if (within ? !isDownward(path, target) : !isAllowed) problems.push(`${path} may not import ${name}`);
  }
  const { code, bare } = strip(source);
  const report = (text: string, patterns: readonly RegExp[]): void => {
    for (const pattern of patterns) {
      const found = pattern.exec(text);
      if (found) problems.push(`${path}:${text.slice(0, found.index).split("\n").length} uses ${found[0].trim()}`);
    }
  };
  if (path.startsWith("lib/") && path !== "lib/environment.ts") report(bare, outside);
  if (/^adapters\/(?:sql|sqlite)\//.test(path)) report(code, injectable);
  if (bound.test(path)) report(bare, unbound);
  return problems;
}
