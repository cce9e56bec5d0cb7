/** Pictures of the studio's views in both themes, for people to look at, and what is wrong with them at first sight. */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";

const FOLDER = fileURLToPath(new URL("screenshots/", import.meta.url));
const THEMES = ["light", "dark"] as const;
type Theme = (typeof THEMES)[number];

/** The appearance of a view below its head. */
interface Look {
  readonly colours: number;
  /** The share of pixels that are not the background. */
  readonly drawn: number;
  /** The brightness of the background: 0 is black, 255 is white. */
  readonly brightness: number;
}

async function lookAt(page: Page, picture: Buffer): Promise<Look> {
  return await page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const { left, top, width, height } = (document.querySelector("main") as Element).getBoundingClientRect();
    const drawing = new OffscreenCanvas(image.width, image.height).getContext(
      "2d",
    ) as OffscreenCanvasRenderingContext2D;
    drawing.drawImage(image, 0, 0);
    const pixels = new Uint32Array(drawing.getImageData(left, top + 48, width, height - 48).data.buffer);
    const counts = new Map<number, number>();
    // A third of the pixels is enough.
    for (let at = 0; at < pixels.length; at += 3) {
      const pixel = pixels[at] as number;
      counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    }
    const [[back, most] = [0, 0]] = [...counts].sort(([, first], [, second]) => second - first);
    const brightness = ((back & 255) + ((back >> 8) & 255) + ((back >> 16) & 255)) / 3;
    return { colours: counts.size, drawn: 1 - (3 * most) / pixels.length, brightness };
  }, picture.toString("base64"));
}

/** Returns what is wrong with a picture: it is blank or has the colours of the other theme. Null if nothing is wrong. */
function findProblem({ colours, drawn, brightness }: Look, theme: Theme): string | null {
  if (colours < 16 || drawn < 0.002) return `is blank: ${colours} colours, ${(drawn * 100).toFixed(2)} % drawn`;
  if (theme === "dark" ? brightness > 60 : brightness < 200) return `is not ${theme}: brightness ${brightness}`;
  return null;
}

/** Takes a picture in both themes. Returns what is wrong with the pictures. */
export async function takePictures(page: Page, createPath?: (theme: Theme) => string): Promise<readonly string[]> {
  const problems: string[] = [];
  const wasDark = await page.evaluate(() => matchMedia("(prefers-color-scheme: dark)").matches);
  // Ends with the theme that the page had before.
  for (const theme of wasDark ? THEMES : THEMES.toReversed()) {
    await page.emulateMedia({ colorScheme: theme });
    const path = createPath?.(theme);
    const picture = await page.screenshot(path ? { path } : {});
    const problem = findProblem(await lookAt(page, picture), theme);
    if (problem) problems.push(problem);
  }
  return problems;
}

export interface Album {
  take(page: Page, name: string): Promise<readonly string[]>;
  /** Returns the names of the pictures that exist in both themes. */
  names(): readonly string[];
}

/** Opens the album of one width and deletes its pictures of the last run. */
export function openAlbum(width: number): Album {
  const createFolderPath = (theme: Theme): string => join(FOLDER, `${width}-${theme}`);
  for (const theme of THEMES) {
    rmSync(createFolderPath(theme), { recursive: true, force: true });
    mkdirSync(createFolderPath(theme), { recursive: true });
  }
  return {
    take: (page, name) => takePictures(page, (theme) => join(createFolderPath(theme), `${name}.png`)),
    names() {
      const dark = new Set(readdirSync(createFolderPath("dark")));
      const files = readdirSync(createFolderPath("light")).filter((file) => dark.has(file));
      return files.map((file) => file.slice(0, -".png".length));
    },
  };
}
