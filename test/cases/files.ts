/** Case files to cases: what kind a file is follows from its groups. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { type Case, createFailingCase, type Fields, isFields, listUnknownFields } from "./case.ts";
import { createFeedbackCases, FEEDBACK_GROUPS } from "./feedback.ts";
import { createUsageCases, USAGE_GROUPS } from "./usage.ts";
import { createWebhookCases, WEBHOOK_GROUPS } from "./webhooks.ts";

const FORMAT = 1;

interface Kind {
  /** A file that has any of them is of this kind. */
  readonly marks: string;
  /** All that it may have. */
  readonly groups: string;
  cases(file: string, of: Fields): readonly Case[];
}

const KINDS: readonly Kind[] = [
  { marks: "cases sequences list_cases", groups: FEEDBACK_GROUPS, cases: createFeedbackCases },
  { marks: "dataset queries stride_cases error_cases csv_cells", groups: USAGE_GROUPS, cases: createUsageCases },
  {
    marks: "policies url_cases delivery_cases header_templates config_cases",
    groups: WEBHOOK_GROUPS,
    cases: createWebhookCases,
  },
];

/** Creates all cases of a file's text. Unknown groups, and a text that is no case file, are cases that fail. */
export function createTextCases(file: string, text: string): readonly Case[] {
  let of: unknown;
  try {
    of = JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (error) {
    return [createFailingCase(file, `the file is no JSON: ${(error as Error).message}`)];
  }
  if (!isFields(of)) return [createFailingCase(file, "the file is no object")];
  const groups = of;
  const kind = KINDS.find(({ marks }) => marks.split(" ").some((name) => Object.hasOwn(groups, name)));
  if (!kind) return [createFailingCase(file, `no group is known: ${Object.keys(groups).join(", ")}`)];
  const unknown = listUnknownFields(groups, kind.groups).map((name) =>
    createFailingCase(`${file} ${name}`, `unknown group ${name}`),
  );
  const format =
    groups["format"] === FORMAT
      ? []
      : [createFailingCase(`${file} format`, `unknown format ${JSON.stringify(groups["format"])}`)];
  const cases = kind.cases(file, groups);
  const none = cases.length === 0 ? [createFailingCase(file, "the file has no case")] : [];
  return [...format, ...unknown, ...cases, ...none];
}

/** Creates all cases of the `.json` files of a folder, by name; of one file if the path is one. */
export function readCases(path: string): readonly Case[] {
  const readCaseFile = (file: string): readonly Case[] => createTextCases(basename(file), readFileSync(file, "utf8"));
  if (!statSync(path).isDirectory()) return readCaseFile(path);
  const files = readdirSync(path)
    .filter((name) => name.endsWith(".json"))
    .sort();
  if (files.length === 0) return [createFailingCase(path, "there is no case file in this folder")];
  return files.flatMap((name) => readCaseFile(join(path, name)));
}
