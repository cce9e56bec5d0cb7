/** Every relative link of README.md and docs/ must lead to a file of the packed package or a picture, and every #anchor to a heading there. */
import { execFileSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { posix } from "node:path";
import process from "node:process";

const [{ files }] = JSON.parse(
  execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { encoding: "utf8" }),
) as [{ files: { path: string }[] }];
const packed = files.map(({ path }) => path);
// Pictures are in the repository alone.
const isPacked = (path: string): boolean =>
  path.startsWith("docs/images/") || packed.some((file) => file === path || file.startsWith(`${path}/`));

/** A heading's anchor, as GitHub makes it. */
const toAnchor = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[`*]|\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");

const withoutCode = (text: string): string => text.replace(/^```.*?^```/gms, "");
const listAnchors = (page: string): string[] =>
  [...withoutCode(readFileSync(page, "utf8")).matchAll(/^#{1,6} (.*)$/gm)].map(([, heading = ""]) => toAnchor(heading));

const pages = ["README.md", ...globSync("docs/**/*.md").sort()].map((page) => page.replaceAll("\\", "/"));
const problems = pages.flatMap((page) =>
  [...withoutCode(readFileSync(page, "utf8")).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = ""]) => link)
    .filter((link) => !/^[a-z]+:/.test(link))
    .flatMap((link) => {
      const [file = "", anchor] = link.split("#");
      const target = file === "" ? page : posix.normalize(posix.join(posix.dirname(page), file)).replace(/\/$/, "");
      if (!existsSync(target) || !isPacked(target)) return [`${page}: ${link} is not in the package`];
      if (anchor && target.endsWith(".md") && !listAnchors(target).includes(anchor))
        return [`${page}: ${link} has no such heading`];
      return [];
    }),
);
for (const problem of problems) console.log(problem);
console.log(`${pages.length} pages, ${problems.length} problems`);
process.exitCode = problems.length > 0 ? 1 : 0;
