/** `greenroom init`: writes a project from a template of this package. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { ConfigError, VERSION } from "../../lib/mod.ts";
import { describeUnknownOption, parseTokens } from "./arguments.ts";

const TEMPLATES: Readonly<Record<string, string>> = {
  function: "a plain function",
  langgraph: "a LangGraph.js graph",
  "ai-sdk": "a stream of the AI SDK",
  "ai-chat": "a stream of the AI SDK and a chat page with useChat",
  react: "a plain function and a chat page with @langchain/react",
};

const TEMPLATE_LIST = Object.entries(TEMPLATES)
  .map(([name, summary]) => `    ${name.padEnd(12)} ${summary}`)
  .join("\n");

export const initUsage: string = `greenroom init: write a new project

  greenroom init [DIR] [--template NAME] [--force]

  DIR              the project's folder, whose name becomes the name of its package; default: this folder
  --template NAME  default function:
${TEMPLATE_LIST}
  --force          also in a folder with files: those of the same names are replaced, but no links
`;

/**
 * Writes a project and prints what comes next, or prints the usage. Throws a ConfigError for invalid options, and
 * without `--force` if the folder has files.
 */
export function init(args: readonly string[]): void {
  const { help, template, force, folders, problems } = readInitOptions(args);
  if (help) {
    console.log(initUsage);
    return;
  }
  const folder = resolve(folders[0] ?? ".");
  const name = choosePackageName(folder, folders[0], problems);
  if (!force) problems.push(...findFilesInTheWay(folder));
  if (problems.length > 0) throw new ConfigError(problems);
  writeProject(template, folder, name);
  printNextSteps(template, folder);
}

interface InitOptions {
  readonly help: boolean;
  readonly template: string;
  readonly force: boolean;
  readonly folders: readonly string[];
  readonly problems: string[];
}

const INIT_OPTIONS = ["template", "force", "help"];

/**
 * Returns the options of `init`; the template is `function` if none is named. Does not throw: `problems` has everything
 * that is wrong.
 */
function readInitOptions(args: readonly string[]): InitOptions {
  const problems: string[] = [];
  const folders: string[] = [];
  const options = new Map<string, string | undefined>();
  for (const { name, rawName, value } of parseTokens(args, ["template"])) {
    if (name === undefined) folders.push(rawName);
    else if (INIT_OPTIONS.includes(name)) options.set(name, value);
    else problems.push(describeUnknownOption(rawName, INIT_OPTIONS));
  }
  const template = options.has("template") ? (options.get("template") ?? "") : "function";
  if (folders.length > 1) problems.push(`${folders[1]}: init takes one folder`);
  if (!Object.hasOwn(TEMPLATES, template)) {
    problems.push(
      `--template: ${template === "" ? "needs a name" : `there is no ${template}`}; choose one:\n${TEMPLATE_LIST}`,
    );
  }
  return { help: options.has("help"), template, force: options.has("force"), folders, problems };
}

/**
 * Returns a list with one problem if the folder has files other than `.git`, which names up to three; else an empty
 * list. Throws a ConfigError if the folder cannot be read.
 */
function findFilesInTheWay(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  const files = explainFailure(folder, () => readdirSync(folder))
    .filter((entry) => entry !== ".git")
    .sort();
  if (files.length === 0) return [];
  const names = files.slice(0, 3).join(", ") + (files.length > 3 ? " and more" : "");
  return [`${folder} is not empty: it has ${names}. Name another folder, or add --force to replace files`];
}

/**
 * Writes the files of a template, in place of those that exist, with the name of the project and this version. Throws a
 * ConfigError if one would be written through a link, before anything is written, or if a write fails.
 */
function writeProject(template: string, folder: string, name: string): void {
  const files = listTemplateFiles(template, folder);
  const links = new Set(explainFailure(folder, () => files.flatMap(({ target }) => findLink(folder, target) ?? [])));
  if (links.size > 0) {
    throw new ConfigError([...links].map((link) => `${link} is a link: --force writes no file through it. Remove it`));
  }
  explainFailure(folder, () => {
    for (const { source, target } of files) {
      const text = readFileSync(source, "utf8").replaceAll("__NAME__", name).replaceAll("__GREENROOM__", `^${VERSION}`);
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, text);
    }
  });
}

/** Returns what the operation returns. Throws its error as a ConfigError that names the folder. */
function explainFailure<T>(folder: string, operation: () => T): T {
  try {
    return operation();
  } catch (error) {
    throw new ConfigError([`${folder}: the project cannot be written: ${(error as Error).message}`]);
  }
}

/**
 * Returns the name of the folder if a package may have it, else `my-agent`. Adds a problem in that case if the folder
 * was named and is not the current one.
 */
function choosePackageName(folder: string, folderArgument: string | undefined, problems: string[]): string {
  const name = basename(folder);
  if (/^[a-z0-9][a-z0-9._-]{0,213}$/.test(name) && name !== "node_modules") return name;
  if (folderArgument !== undefined && resolve(folderArgument) !== process.cwd()) {
    problems.push(
      `${name}: cannot be the name of a package. Use lower-case letters, digits, "-", "_" and ".", such as my-agent`,
    );
  }
  return "my-agent";
}

/**
 * Returns the files of a template and those of all templates, with their places in the project: `env` and `gitignore`
 * get a dot in front. Throws if the package has no templates.
 */
function listTemplateFiles(template: string, folder: string): { readonly source: string; readonly target: string }[] {
  // Beside lib in a checkout, beside dist in the package.
  const [templates] = ["../../templates", "../../../templates"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url).href))
    .filter((path) => existsSync(path));
  if (!templates) throw new Error("The templates of this package are missing: install it again");
  return ["common", template].flatMap((part) =>
    listFiles(join(templates, part)).map((source) => {
      // npm packs no .gitignore, and git no .env.
      const target = join(folder, relative(join(templates, part), source)).replace(/(?<=[\\/])(env|gitignore)$/, ".$1");
      return { source, target };
    }),
  );
}

/** Returns the files of a folder and of those in it. Throws if it cannot be read. */
function listFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? listFiles(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

/**
 * Returns the path of the outermost symbolic link between the folder and a file, the file included; undefined if there
 * is none. A write through it could leave the folder.
 */
function findLink(folder: string, file: string): string | undefined {
  const names = relative(folder, file).split(sep);
  const paths = names.map((_, index) => join(folder, ...names.slice(0, index + 1)));
  return paths.find((path) => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink());
}

/** Prints what was created, and the commands to install and start it with the package manager of this runtime. */
function printNextSteps(template: string, folder: string): void {
  const relativeFolder = relative(process.cwd(), folder);
  const isBun = "Bun" in globalThis;
  console.log(
    [
      `Created ${relativeFolder || "a project here"}: ${TEMPLATES[template]}. Its agent is in src/agent.ts.`,
      "Next:",
      ...(relativeFolder ? [`  cd ${relativeFolder}`] : []),
      isBun ? "  bun install" : "  npm install",
      isBun ? "  bun --bun run dev" : "  npm run dev",
    ].join("\n"),
  );
}
