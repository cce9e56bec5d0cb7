/** Lists what can be pressed in the studio page, by its scripts, and what the tests have pressed. */
import { appendFileSync, globSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { assets } from "../../adapters/studio/assets.ts";
import type { Studio } from "../../lib/http/handler.ts";

/** Buttons, links and heads that fold, in a source and in a script. */
const IN_SOURCE = /<(?:button|a|summary)\b/g;
const IN_SCRIPT = /\("(?:button|a|summary)",\{/g;
const MARK = "data-press";

interface Pressable {
  readonly mark: string;
  /** The beginning of its properties. */
  readonly code: string;
}

/** Adds a mark to each pressable element of a script. */
const marked = (name: string, script: string): string =>
  script.replace(IN_SCRIPT, (start, at: number) => `${start}"${MARK}":"${name}:${at}",`);

function pressables(): readonly Pressable[] {
  const scripts = Object.entries(assets).filter(([name]) => name.endsWith(".js"));
  const pressables = scripts.flatMap(([name, { body }]) => {
    const script = gunzipSync(Buffer.from(body, "base64")).toString();
    return Array.from(script.matchAll(IN_SCRIPT), ({ index }) => ({
      mark: `${name}:${index}`,
      code: script.slice(index + 1, index + 240).replaceAll(/\s+/g, " "),
    }));
  });
  const sources = globSync("adapters/studio/page/**/*.tsx").map((file) => readFileSync(file, "utf8"));
  const written = sources.reduce((sum, source) => sum + (source.match(IN_SOURCE)?.length ?? 0), 0);
  if (written === 0 || written !== pressables.length)
    throw new Error(`The studio's sources have ${written} buttons and links, its scripts ${pressables.length}`);
  return pressables;
}

/** Creates a studio with marked scripts. All other files are those that it ships. */
export function withMarks(studio: Studio): Studio {
  return async (request, path) => {
    if (!path.endsWith(".js")) return await studio(request, path);
    // Without `accept-encoding`, the answer is text.
    const answer = await studio(new Request(request.url), path);
    const name = path.slice(path.lastIndexOf("/") + 1);
    const text = scripts.get(name) ?? marked(name, await answer.text());
    scripts.set(name, text);
    return new Response(text, { status: answer.status, headers: answer.headers });
  };
}
const scripts = new Map<string, string>();

/** The file to which the tests of one command write what they press, with a mark in each line. */
const FILE = "STUDIO_PRESSES";

/** Records what is pressed in a page. */
export async function notePresses(page: Page): Promise<void> {
  const file = process.env[FILE];
  if (file === undefined) return;
  await page.exposeFunction("notePress", (mark: string) => appendFileSync(file, `${mark}\n`));
  await page.addInitScript((name) => {
    const { notePress } = globalThis as unknown as { readonly notePress: (mark: string) => void };
    const note = ({ target, isTrusted }: Event): void => {
      const mark = (target as Element).closest?.(`[${name}]`)?.getAttribute(name);
      if (mark && isTrusted) notePress(mark);
    };
    addEventListener("click", note, true);
  }, MARK);
}

/** Makes the tests that start from now on record their presses. Returns a function that lists the missing ones. */
export function watchPresses(file: string): () => { readonly count: number; readonly missing: readonly string[] } {
  process.env[FILE] = file;
  appendFileSync(file, "");
  return () => {
    const pressed = new Set(readFileSync(file, "utf8").split("\n"));
    const all = pressables();
    const missing = all.filter(({ mark }) => !pressed.has(mark)).map(({ mark, code }) => `${mark} ${code}`);
    return { count: all.length, missing };
  };
}
