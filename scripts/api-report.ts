/**
 * Writes `api/<entry>.api.md`: the public API of each entry point, as api-extractor reads it from the declarations in dist. Fails where a
 * signature uses a type that its entry point does not export. A report names the declarations that an earlier report has, in one line.
 *
 *   node scripts/api-report.ts [--check]     --check: writes nothing, and fails if a report differs
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { CompilerState, Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";

/** Types that are computed from the definitions of all tables. Their parts are no API. */
const COMPUTED_TYPES: Readonly<Record<string, readonly string[]>> = {
  sql: ["CoreTables", "RowsOf", "FeatureTables"],
  kysely: ["CoreTables", "RowsOf", "FeatureTables"],
};

const root = resolve(import.meta.dirname, "..");
const reports = join(root, "api");
const isCheck = process.argv.includes("--check");
const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly exports: Readonly<Record<string, string | { readonly types: string }>>;
};
const folder = mkdtempSync(join(tmpdir(), "greenroom-api-"));

/** Returns the settings of one entry point. Other scripts check its doc comments. */
const createConfig = (name: string, types: string): ExtractorConfig =>
  ExtractorConfig.prepare({
    configObject: {
      projectFolder: root,
      mainEntryPointFilePath: join(root, types),
      newlineKind: "lf",
      compiler: {
        overrideTsconfig: {
          compilerOptions: {
            target: "ES2023",
            lib: ["ES2024", "DOM", "DOM.Iterable", "ESNext.Disposable"],
            module: "NodeNext",
            moduleResolution: "NodeNext",
            types: ["bun-types", "node"],
            strict: true,
            skipLibCheck: true,
          },
          include: ["dist"],
        },
      },
      apiReport: {
        enabled: true,
        reportFileName: `${name}.api.md`,
        reportFolder: folder,
        reportTempFolder: join(folder, "temp"),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
      messages: {
        extractorMessageReporting: {
          default: { logLevel: ExtractorLogLevel.None },
          "ae-forgotten-export": { logLevel: ExtractorLogLevel.Warning },
        },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: join(root, "package.json"),
  });

/** The report that has each declaration first. */
const reportNames = new Map<string, string>();

/** Replaces the declarations of a report that an earlier report has by a line with their names. */
function shorten(name: string, report: string): string {
  const repeated = new Map<string, string[]>();
  const blocks = report.split(/\n\n(?=\/\/ @|\/\/ Warning: |```|export \{)/).filter((block) => {
    const declared = /^export (?:declare )?(?:abstract )?(?:type|interface|class|const|function) (\w+)/m.exec(
      block,
    )?.[1];
    if (declared === undefined) return true;
    const first = reportNames.get(block);
    if (first === undefined) reportNames.set(block, name);
    else repeated.set(first, [...(repeated.get(first) ?? []), declared]);
    return first === undefined;
  });
  const lines = [...repeated].map(([first, names]) => `As in ${first}.api.md: ${names.join(", ")}.\n`);
  return `${blocks.join("\n\n").trimEnd()}\n${lines.length > 0 ? `\n${lines.join("\n")}` : ""}`;
}

const entries = Object.entries(exports).flatMap(([key, target]) =>
  typeof target === "string" ? [] : [[key === "." ? "greenroom" : key.slice(2), target.types] as const],
);
// Others repeat what storages and executors have.
const order = ["storage", "executor", "greenroom"];
const configs = entries
  .toSorted(([first], [second]) => order.indexOf(second) - order.indexOf(first))
  .map(([name, types]) => ({ name, config: createConfig(name, types) }));
const [first] = configs;
if (!first) throw new Error("package.json has no entry point with types");
const compilerState = CompilerState.create(first.config, {
  additionalEntryPoints: configs.map(({ config }) => config.mainEntryPointFilePath),
});

const problems: string[] = [];
for (const { name, config } of configs) {
  Extractor.invoke(config, {
    compilerState,
    localBuild: true,
    messageCallback(message) {
      message.handled = true;
      const { category, logLevel, text } = message;
      if (category === "console" ? logLevel !== "error" : logLevel === "none") return;
      const isComputed = (COMPUTED_TYPES[name] ?? []).some((type) => text.startsWith(`The symbol "${type}" `));
      if (!isComputed) problems.push(`${name}: ${text}`);
    },
  });
  const report = shorten(name, readFileSync(join(folder, `${name}.api.md`), "utf8"));
  const file = join(reports, `${name}.api.md`);
  if (isCheck && (!existsSync(file) || readFileSync(file, "utf8") !== report)) {
    problems.push(
      `api/${name}.api.md differs. Read the change, describe it in CHANGELOG.md, and run node scripts/api-report.ts`,
    );
  }
  if (isCheck) continue;
  mkdirSync(reports, { recursive: true });
  writeFileSync(file, report);
}
const unknownReports = readdirSync(reports).filter((file) => !configs.some(({ name }) => file === `${name}.api.md`));
problems.push(...unknownReports.map((file) => `api/${file} belongs to no entry point: delete it`));
rmSync(folder, { recursive: true });
for (const problem of problems) console.log(problem);
console.log(`${configs.length} API reports, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
