/** What the files of this repository may import and use (design: "Who may import what"), as functions of their text. */
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

/** Every module the text names: static, type-only, re-exported and dynamic imports. */
export function importsOf(source: string): string[] {
  const { code } = strip(source);
  const named = code.matchAll(
    /(?:^|[;\n}])\s*(?:import|export)\s(?:[^"';]*?\sfrom\s*)?["']([^"'\n]+)["']|\bimport\s*\(\s*["']([^"'\n]+)["']/g,
  );
  return [...named].map((match) => (match[1] ?? match[2]) as string);
}

/** First rule whose `files` matches decides. `may` is matched against a path from the root, or the package's name. */
const rules: readonly { readonly files: RegExp; readonly may: RegExp }[] = [
  {
    files: /^lib\/(?:assistants|thread-stream)\.ts$|^lib\/threads\//,
    may: /^lib\/threads\/|^lib\/(?:storage|executor|checkpoints|events|ambient|errors|json|filter|assistants|state-config|thread-stream)\.ts$/,
  },
  {
    files: /^lib\/runs\//,
    may: /^lib\/runs\/|^lib\/(?:storage|platform-storage|executor|checkpoints|events|ambient|errors|json|known-keys|filter|kwargs|answers|assistants|threads\/mod|worker|feedback)\.ts$|^lib\/webhooks\/policy\.ts$/,
  },
  {
    files: /^lib\/(?:feedback|usage|accounts|access|keys|static-identity)\.ts$/,
    may: /^lib\/(?:storage|platform-storage|identity|auth|filter|ambient|errors|json|keys|accounts)\.ts$/,
  },
  {
    files: /^lib\/crons\//,
    may: /^lib\/(?:crons|runs)\/|^lib\/(?:storage|cron-storage|executor|events|ambient|errors|json|filter|kwargs|moments|assistants|threads\/mod|worker)\.ts$|^lib\/webhooks\/policy\.ts$|^croner$/,
  },
  {
    files: /^lib\/(?:store\/|(?:auth|filter)\.ts$)/,
    may: /^lib\/store\/|^lib\/(?:storage|item-storage|executor|filter|ambient|errors|json)\.ts$/,
  },
  {
    files: /^lib\/webhooks\/send\.ts$/,
    may: /^lib\/(?:webhooks\/.*|ambient\.ts|errors\.ts)$|^node:(?:http|https|dns\/promises)$/,
  },
  {
    files: /^lib\/webhooks\//,
    may: /^lib\/webhooks\/|^lib\/(?:storage|platform-storage|ambient|errors|json|kwargs)\.ts$/,
  },
  { files: /^lib\/(?:clock|signals)\.ts$/, may: /^lib\/(?:storage|ambient)\.ts$/ },
  { files: /^lib\/(?:http\/parse\/[a-z]+|service)\.ts$/, may: /^lib\/|^valibot$/ },
  { files: /^lib\/http\/handler\.ts$/, may: /^lib\/|^itty-router$/ },
  { files: /^lib\//, may: /^lib\// },
  {
    files: /^adapters\/sql\//,
    may: /^adapters\/sql\/|^lib\/(?:storage|platform-storage|cron-storage|item-storage|filter|identity|executor|ambient|errors|json|signals)\.ts$|^kysely$|^node:(?:fs|path)$/,
  },
  {
    files: /^adapters\/bun-sqlite\.ts$/,
    may: /^adapters\/sql\/|^lib\/(?:storage|ambient|errors)\.ts$|^bun:sqlite$|^node:(?:fs|path)$/,
  },
  {
    files: /^adapters\/node-sqlite\.ts$/,
    may: /^adapters\/sql\/|^lib\/(?:storage|ambient|errors)\.ts$|^node:(?:sqlite|fs|path)$/,
  },
  { files: /^adapters\/node\.ts$/, may: /^node:(?:http|net)$/ },
  {
    files: /^adapters\/libsql\.ts$/,
    may: /^adapters\/sql\/|^lib\/(?:storage|ambient|errors)\.ts$|^@libsql\/client$|^node:(?:fs|path)$/,
  },
  {
    files: /^adapters\/postgres(?:\.ts$|\/)/,
    may: /^adapters\/(?:sql|postgres)\/|^lib\/(?:storage|ambient|errors|signals)\.ts$|^pg$/,
  },
  {
    files: /^adapters\/kysely\.ts$/,
    may: /^adapters\/sql\/|^lib\/(?:storage|ambient|errors)\.ts$|^kysely$|^kysely-bun-sqlite$|^bun:sqlite$/,
  },
  {
    files: /^adapters\/langgraph\//,
    may: /^adapters\/langgraph\/|^lib\/(?:executor|checkpoint-ids|ambient|errors|json|kwargs|answers)\.ts$|^@langchain\/|^node:module$/,
  },
  { files: /^adapters\/standalone\/loader\.ts$/, may: /^node:|^jiti$/ },
  {
    files: /^adapters\/standalone\//,
    may: /^adapters\/|^lib\/(?:mod|ambient)\.ts$|^lib\/http\/handler\.ts$|^package\.json$|^node:/,
  },
  { files: /^server\.ts$/, may: /^adapters\/standalone\/bin\.ts$/ },
  {
    files: /^examples\//,
    may: /^examples\/|^greenroom(?:\/|$)|^node:|^@langchain\/|^(?:zod|kysely|standardwebhooks|hono|express|next|ai)$/,
  },
  {
    files: /^test\/suite\//,
    may: /^test\/suite\/|^lib\/|^adapters\/(?:sql\/|node-sqlite\.ts$|bun-sqlite\.ts$)|^node:/,
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
const injectable: readonly RegExp[] = [
  /\.(?:key|at)\(\s*(?!["']|-?\d+\s*\))/,
  /\bsql\s*\.\s*(?:raw\b|lit\(\s*(?!["']|-?\d))/,
];

/** What is wrong with one file, in words; empty when nothing is. `path` is relative to the root, with slashes. */
export function problemsOf(path: string, source: string): string[] {
  const problems: string[] = [];
  const rule = rules.find(({ files }) => files.test(path));
  for (const name of rule ? importsOf(source) : []) {
    const target = name.startsWith(".")
      ? posix.join(posix.dirname(path), name)
      : name.replace(/^((?:@[^/]+\/)?[^/]+)(?:\/.*)?$/, (whole, root: string) =>
          /^(?:node:|@langchain\/|greenroom)/.test(root) ? whole : root,
        );
    if (!rule?.may.test(target)) problems.push(`${path} may not import ${name}`);
  }
  const { code, bare } = strip(source);
  const report = (text: string, patterns: readonly RegExp[]): void => {
    for (const pattern of patterns) {
      const found = pattern.exec(text);
      if (found) problems.push(`${path}:${text.slice(0, found.index).split("\n").length} uses ${found[0].trim()}`);
    }
  };
  if (path.startsWith("lib/") && path !== "lib/ambient.ts") report(bare, outside);
  if (path.startsWith("adapters/sql/")) report(code, injectable);
  return problems;
}
