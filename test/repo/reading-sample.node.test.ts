/** The sample of the reading test shows of each function what its reader may know, and nothing of the body. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { describe, it } from "node:test";
import {
  chooseSample,
  formatFunction,
  listReadableFunctions,
  type ReadableFunction,
} from "../../scripts/reading-sample.ts";
import { parseSource, readSources } from "../../scripts/sources.ts";

/** Returns the functions of files with these texts. */
const listIn = (...texts: string[]): ReadableFunction[] =>
  listReadableFunctions(texts.map((text, index) => parseSource(`lib/${index}.ts`, text)));
const findIn = (name: string, ...texts: string[]): ReadableFunction =>
  listIn(...texts).find((readable) => readable.name === name) ?? assert.fail(`${name} is not in the list`);

const STORE = `
export interface Store {
  /** Returns the text; null if there is none. */
  read(id: string): string | null;
  /** Deletes the text. */
  remove(id: string): void;
}`;
const READ = "(id) {\n  const text = texts.get(id);\n  return text ?? null;\n}";

describe("the list of functions", () => {
  it("has named functions of at least four lines, with their owners", () => {
    const text = `
const texts = new Map();
const short = () => {
  texts.clear();
};
export const long = (id: string): void => {
  texts.delete(id);
  texts.set(id, "");
};
class Cache {
  constructor() {
    texts.clear();
    texts.set("a", "b");
  }
  /** Deletes all. */
  async #clear() {
    function inner() {
      texts.clear();
      texts.clear();
    }
    texts.forEach((value) => {
      value.clear();
      value.clear();
    });
  }
}
const commands = {
  cache: {
    run: () => {
      texts.clear();
      texts.clear();
    },
  },
};`;
    assert.deepEqual(
      listIn(text).map(({ owner, name, line }) => [owner, name, line]),
      [
        ["", "long", 6],
        ["Cache", "constructor", 11],
        ["Cache", "#clear", 16],
        ["Cache.#clear", "inner", 17],
        ["commands.cache", "run", 29],
      ],
    );
  });

  it("gives the signature, the doc comment and the code without the indentation around them", () => {
    const text = `
class Cache {
  // Not for the reader.
  /**
   * Returns the text.
   * @throws if there is none
   */
  read(
    id: string,
  ): string {
    return texts.get(id);
  }
}`;
    const { signature, comment, code } = findIn("read", text);
    assert.equal(signature, "read(\n  id: string,\n): string");
    assert.equal(comment, "Returns the text.\n@throws if there is none");
    assert.equal(code, "read(\n  id: string,\n): string {\n  return texts.get(id);\n}");
  });

  it("gives a variable the comment and the head of its statement", () => {
    const text = "/** Adds one. */\nexport const add = (count: number): number =>\n  [\n    count,\n    1,\n  ].sum();";
    const { signature, comment } = findIn("add", text);
    assert.equal(signature, "export const add = (count: number): number =>");
    assert.equal(comment, "Adds one.");
  });
});

describe("the comment of the interface", () => {
  const expected = "Returns the text; null if there is none.";
  const implementations = {
    "a class": `class Texts implements Store {\n  read${READ}\n}`,
    "a class that extends a class": `class Base implements Store {}\nclass Texts extends Base {\n  read${READ}\n}`,
    "the result of a function": `function create(): Pick<Store, "read"> {\n  return {\n    read${READ},\n  };\n}`,
    "the result of an arrow function": `const create = (): Store => ({\n  read${READ},\n});`,
    "a variable": `const store: Store = {\n  read${READ},\n};`,
    "an object that satisfies it": `const store = {\n  read${READ},\n} satisfies Partial<Store>;`,
    "an object that is spread into it": `const store: Store = { ...(isOpen && {\n  read${READ},\n}) };`,
    "a function that is put into it": `function create(): Store {\n  function read${READ}\n  return { read };\n}`,
    "a type that extends it": `interface Wide extends Store {}\nconst store: Wide = {\n  read${READ},\n};`,
    "an alias": `type Narrow = Omit<Store, "remove">;\nconst store: Narrow = {\n  read${READ},\n};`,
  };
  for (const [title, text] of Object.entries(implementations))
    it(`is found by ${title}`, () => {
      const { interfaceComment } = findIn("read", STORE, text);
      assert.match(interfaceComment, new RegExp(`^(?:Store|Base|Wide|Narrow)\\.read: ${expected}$`));
    });

  it("is found by the type of a member", () => {
    const text = `const load: Store["read"] = (id) => {\n  const text = texts.get(id);\n  return text;\n};`;
    assert.equal(findIn("load", STORE, text).interfaceComment, `Store.read: ${expected}`);
  });

  it("is that of the same file if several files have a type of this name", () => {
    const text = `interface Store {\n  /** Reads a row. */\n  read(): void;\n}\nconst store: Store = {\n  read${READ},\n};`;
    assert.equal(findIn("read", STORE, text).interfaceComment, "Store.read: Reads a row.");
  });

  it("is not that of the constructor of a base class", () => {
    const base = "class Base {\n  /** Opens it. */\n  constructor() {}\n}";
    const text = "class Texts extends Base {\n  constructor() {\n    super();\n    texts.clear();\n  }\n}";
    assert.equal(findIn("constructor", base, text).interfaceComment, "");
  });

  it("is empty for other functions", () => {
    assert.equal(findIn("read", STORE, `function read${READ}`).interfaceComment, "");
    assert.equal(findIn("read", STORE, `const store: Other = {\n  read${READ},\n};`).interfaceComment, "");
  });
});

describe("the routes of a handler", () => {
  const BODY = "{\n  const body = await context.body();\n  return respond(body);\n}";

  it("are found in the definition, by name and through shared members", () => {
    const text = `
async function submit(context) ${BODY}
const shared = { access: "open", handle: submit } as const;
const PATH = "/texts/:id";
const ROUTES = [
  define("get", PATH, { async handle(context) ${BODY} }),
  define("put", "/texts", { handle: async (context) => ${BODY} }),
  define("post", "/texts", { ...shared }),
  define("get", "/submit", { ...shared, summary: "Submit" }),
];`;
    assert.deepEqual(
      listIn(text).map(({ name, routes }) => [name, routes]),
      [
        ["submit", ["POST /texts", "GET /submit"]],
        ["handle", ["GET /texts/:id"]],
        ["handle", ["PUT /texts"]],
      ],
    );
  });
});

describe("the sample", () => {
  const functions = listReadableFunctions(readSources(resolve("."), ["lib/http/**/*.ts"]));

  it("is the same for the same seed, and another for another seed", () => {
    const sample = chooseSample(functions, "a", 30);
    assert.equal(new Set(sample).size, 30);
    assert.deepEqual(chooseSample(functions, "a", 30), sample);
    assert.deepEqual(chooseSample(functions, "a", 10), sample.slice(0, 10));
    assert.notDeepEqual(chooseSample(functions, "b", 30), sample);
    assert.equal(chooseSample(functions, "a", 1e6).length, functions.length);
  });

  it("shows the body to the judge alone", () => {
    const [readable] = listIn(`/** Clears. */\nfunction clear(): void {\n  texts.clear();\n  texts.clear();\n}`);
    assert.ok(readable);
    assert.equal(
      formatFunction({ ...readable, routes: ["GET /texts"], interfaceComment: "Store.clear: Deletes all." }, 2, false),
      "## 2. lib/0.ts:2 clear\nRoute: GET /texts\nDoc comment: Clears.\nInterface: Store.clear: Deletes all.\n```ts\nfunction clear(): void\n```",
    );
    assert.match(formatFunction(readable, 2, true), /\{\n {2}texts\.clear\(\);/);
  });

  it("is printed by the command", () => {
    const run = (...args: string[]): string =>
      execFileSync(process.execPath, ["scripts/reading-sample.ts", ...args], { encoding: "utf8", stdio: "pipe" });
    const expected = chooseSample(functions, "a", 3).map(
      ({ path, line, name }, i) => `## ${i + 1}. ${path}:${line} ${name}`,
    );
    const printed = run("a", "3", "lib/http", "--bodies");
    assert.deepEqual(printed.match(/^## .*/gm), expected);
    assert.match(printed, new RegExp(`^# 3 of ${functions.length} functions, seed a\n`));
    assert.throws(() => run("a", "none", "lib"), /Usage: node scripts\/reading-sample\.ts/);
  });
});
