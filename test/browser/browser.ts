/** A host application with a page, and a browser that visits it. */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "esbuild";
import { type BrowserContext, chromium } from "playwright-core";
import { serve } from "../../adapters/node/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import type { Executor, Service } from "../../lib/mod.ts";
import { testService } from "../suite/kit.ts";
import { createGates, type Gates, testExecutor } from "../support/graphs.ts";

const NAMES = ["chromium", "chromium-browser", "google-chrome"];
/** The headless shell has no browser window and starts four times faster. With `--all`, pages are tested in the full browser. */
const SHELL = "chromium-headless-shell";
const WANTED = process.env.GREENROOM_TEST_ALL === "1" ? NAMES : [SHELL, ...NAMES];

/** Returns the path of Chromium. Throws if none is installed. */
export function findChromium(path: string = process.env.PATH ?? ""): string {
  for (const name of WANTED)
    for (const folder of path.split(delimiter)) if (existsSync(join(folder, name))) return join(folder, name);
  throw new Error(`Chromium is missing: no ${NAMES.join(", ")} in PATH. On Debian or Ubuntu: apt-get install chromium`);
}

export interface Principal extends AsyncDisposable {
  readonly context: BrowserContext;
}

const profile = mkdtempSync(join(tmpdir(), "greenroom-browser-"));
let launched: Promise<BrowserContext> | undefined;
after(async () => {
  await (await launched)?.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
});

/** The one browser of this process: each test has an origin of its own in it. Its pages are closed when this is disposed of. */
export async function openBrowser(): Promise<Principal> {
  launched ??= launch();
  const context = await launched;
  return {
    context,
    async [Symbol.asyncDispose]() {
      // The browser would exit without a page.
      await Promise.all(context.pages().map((page, at) => (at === 0 ? undefined : page.close())));
    },
  };
}

async function launch(): Promise<BrowserContext> {
  const executablePath = findChromium();
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  context.setDefaultTimeout(20_000);
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  return context;
}

/** Bundles the page's script into one file. */
export function bundlePage(): string {
  const bun = fileURLToPath(new URL("../../node_modules/.bin/bun", import.meta.url));
  const page = fileURLToPath(new URL("page.ts", import.meta.url));
  const define = 'process.env.NODE_ENV="production"';
  return execFileSync(bun, ["build", page, "--target=browser", "--define", define], {
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
  });
}

const PASSED_ON = "optimistic: asBag.optimistic";

/** Bundles an SDK other than the one that @langchain/react 1.1.0 pins. It does not pass the option `queue` on yet. */
const otherSdk = (sdk: string): Plugin => ({
  name: "sdk",
  setup({ onResolve, onLoad, resolve }) {
    onResolve({ filter: /^@langchain\/langgraph-sdk(\/|$)/ }, ({ path, kind }) =>
      resolve(path.replace("@langchain/langgraph-sdk", sdk), { kind, resolveDir: import.meta.dirname }),
    );
    onLoad({ filter: /react\/dist\/use-stream\.js$/ }, ({ path }) => {
      const contents = readFileSync(path, "utf8");
      if (!contents.includes(PASSED_ON)) throw new Error(`${path} does not contain: ${PASSED_ON}`);
      return { contents: contents.replace(PASSED_ON, `${PASSED_ON}, queue: asBag.queue`) };
    });
  },
});

/** A page, by its path from this folder, as one file. `sdk`: a package instead of @langchain/langgraph-sdk. */
export async function bundleWithSdk(page: string, sdk?: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [page],
    absWorkingDir: import.meta.dirname,
    bundle: true,
    write: false,
    format: "esm",
    jsx: "automatic",
    alias: { "greenroom/ai-client": fileURLToPath(new URL("../../adapters/ai-client.ts", import.meta.url)) },
    define: { "process.env.NODE_ENV": '"production"' },
    plugins: sdk === undefined ? [] : [otherSdk(sdk)],
    logLevel: "error",
  });
  return outputFiles[0]?.text ?? "";
}

/** Bundles the page of the template react with the SDK version that the template requires. */
export function bundleTemplate(): Promise<string> {
  const manifest = new URL("../../templates/react/package.json", import.meta.url);
  const { overrides } = JSON.parse(readFileSync(manifest, "utf8")) as { overrides?: Record<string, string> };
  const newer = overrides?.["@langchain/langgraph-sdk"] === "^1.15.0";
  return bundleWithSdk("../../templates/react/web/main.tsx", newer ? "langgraph-sdk-1-15" : undefined);
}

export interface Host extends AsyncDisposable {
  readonly service: Service;
  readonly gates: Gates;
  /** Serves the page at `/` and the API below the prefix. */
  readonly origin: string;
  /** Serves the page alone. */
  readonly elsewhere: string;
}

/** `executor`: the agents, instead of those of the client tests. `prefix`: the path of the API. */
export async function openHost(
  script: string,
  executor: (gates: Gates) => Executor = testExecutor,
  prefix: `/${string}` = "/agents",
): Promise<Host> {
  const gates = createGates();
  const greenroom = await testService({ executor: executor(gates) });
  const api = createHandler(greenroom.service, { prefix });
  const page = (request: Request): Response => {
    const { pathname } = new URL(request.url);
    if (pathname === "/page.js") return new Response(script, { headers: { "content-type": "text/javascript" } });
    const html =
      '<!doctype html><meta charset="utf-8"><title>Chat</title><div id="root"></div><script type="module" src="/page.js"></script>';
    return new Response(pathname === "/" ? html : null, {
      status: pathname === "/" ? 200 : 404,
      headers: { "content-type": "text/html; charset=utf-8" },
    });
  };
  const app = (request: Request, socket?: Parameters<typeof api>[1]): Response | Promise<Response> =>
    new URL(request.url).pathname.startsWith(`${prefix}/`) ? api(request, socket) : page(request);
  const address = { hostname: "127.0.0.1", port: 0 };
  const [main, pageServer] = [await serve(app, address), await serve(page, address)];
  return {
    service: greenroom.service,
    gates,
    origin: `http://127.0.0.1:${main.port}`,
    elsewhere: `http://127.0.0.1:${pageServer.port}`,
    async [Symbol.asyncDispose]() {
      await Promise.all([main.close(), pageServer.close()]);
      await greenroom[Symbol.asyncDispose]();
    },
  };
}
