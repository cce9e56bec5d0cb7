/** Case files to cases: what kind a file is follows from its groups. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { type Case, type Fields, failing, isFields, strangers } from "./case.ts";
import { FEEDBACK_GROUPS, feedbackCases } from "./feedback.ts";
import { USAGE_GROUPS, usageCases } from "./usage.ts";
import { WEBHOOK_GROUPS, webhookCases } from "./webhooks.ts";

const FORMAT = 1;

interface Kind {
  /** A file that has any of them is of this kind. */
  readonly marks: string;
  /** All that it may have. */
  readonly groups: string;
  cases(file: string, of: Fields): readonly Case[];
}

const KINDS: readonly Kind[] = [
  { marks: "cases sequences list_cases", groups: FEEDBACK_GROUPS, cases: feedbackCases },
  { marks: "dataset queries stride_cases error_cases csv_cells", groups: USAGE_GROUPS, cases: usageCases },
  {
    marks: "policies url_cases delivery_cases header_templates config_cases",
    groups: WEBHOOK_GROUPS,
    cases: webhookCases,
  },
];

/** All cases of a file's text. Groups that are not known, and what is no case file, are cases that fail. */
export function casesOfText(file: string, text: string): readonly Case[] {
  let of: unknown;
  try {
    of = JSON.parse(text.replace(/^\ufeff/, ""));
  } catch (error) {
    return [failing(file, `the file is no JSON: ${(error as Error).message}`)];
  }
  if (!isFields(of)) return [failing(file, "the file is no object")];
  const groups = of;
  const kind = KINDS.find(({ marks }) => marks.split(" ").some((name) => Object.hasOwn(groups, name)));
  if (!kind) return [failing(file, `no group is known: ${Object.keys(groups).join(", ")}`)];
  const unknown = strangers(groups, kind.groups).map((name) => failing(`${file} ${name}`, `unknown group ${name}`));
  const format =
    groups["format"] === FORMAT
      ? []
      : [failing(`${file} format`, `unknown format ${JSON.stringify(groups["format"])}`)];
  const cases = kind.cases(file, groups);
  const none = cases.length === 0 ? [failing(file, "the file has no case")] : [];
  return [...format, ...unknown, ...cases, ...none];
}

/** All cases of the `.json` files of a folder, by name; of one file where the path is one. */
export function casesIn(path: string): readonly Case[] {
  const casesOfFile = (file: string): readonly Case[] => casesOfText(basename(file), readFileSync(file, "utf8"));
  if (!statSync(path).isDirectory()) return casesOfFile(path);
  const files = readdirSync(path)
    .filter((name) => name.endsWith(".json"))
    .sort();
  if (files.length === 0) return [failing(path, "there is no case file in this folder")];
  return files.flatMap((name) => casesOfFile(join(path, name)));
}
