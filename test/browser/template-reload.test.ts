/** The template react behind the proxy of Vite, while `greenroom dev` loads its agent again. */
import assert from "node:assert/strict";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, it } from "node:test";
import { build } from "esbuild";
import { createServer, type UserConfig } from "vite";
import { createTemporaryFolder, root, start, waitForUrl } from "../support/programs.ts";
import { bundleTemplate, openBrowser } from "./browser.ts";

const template = join(root, "templates/react");

/** The Vite configuration of the template for this server. The React plugin only compiles the page. */
async function viteConfig(url: string): Promise<UserConfig> {
  const { outputFiles } = await build({
    entryPoints: [join(template, "vite.config.ts")],
    bundle: true,
    write: false,
    format: "esm",
    define: { "process.env.GREENROOM_URL": JSON.stringify(url) },
    plugins: [
      {
        name: "stubs",
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /vite|@vitejs/ }, ({ path, kind }) =>
            kind === "entry-point" ? undefined : { path, namespace: "stub" },
          );
          const contents = "export const defineConfig = (config) => config; export default () => [];";
          onLoad({ filter: /^/, namespace: "stub" }, () => ({ contents }));
        },
      },
    ],
  });
  const config = `data:text/javascript,${encodeURIComponent(outputFiles[0]?.text ?? "")}`;
  return ((await import(config)) as { readonly default: UserConfig }).default;
}

async function openVite(url: string, folder: string, script: string) {
  const html =
    '<!doctype html><meta charset="utf-8"><div id="root"></div><script type="module" src="/page.js"></script>';
  const vite = await createServer({
    configFile: false,
    root: folder,
    cacheDir: join(folder, ".vite"),
    appType: "custom",
    logLevel: "silent",
    optimizeDeps: { noDiscovery: true },
    server: { ...(await viteConfig(url)).server, host: "127.0.0.1", port: 0 },
    plugins: [
      {
        name: "page",
        configureServer({ middlewares }) {
          middlewares.use("/page.js", (_request, response) => {
            response.setHeader("content-type", "text/javascript").end(script);
          });
          middlewares.use((request, response, next) => {
            if (!/^\/(\?|$)/.test(request.url ?? "")) return next();
            response.setHeader("content-type", "text/html").end(html);
          });
        },
      },
    ],
  });
  await vite.listen();
  const { port } = vite.httpServer!.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: () => vite.close() };
}

describe("the template react behind the proxy of Vite", () => {
  it("continues after the agent was reloaded, also the second time", async () => {
    using folder = createTemporaryFolder();
    cpSync(join(template, "src"), join(folder.path, "src"), { recursive: true });
    writeFileSync(join(folder.path, "package.json"), '{ "type": "module" }');
    writeFileSync(join(folder.path, "greenroom.json"), '{ "graphs": { "agent": "./src/agent.ts:agent" } }');
    const agent = join(folder.path, "src/agent.ts");
    const code = readFileSync(agent, "utf8");
    assert.ok(code.includes("you said"));
    await using program = start("server.ts", ["dev", "--port", "0", "--no-open"], { cwd: folder.path });
    await using vite = await openVite(await waitForUrl(program), folder.path, await bundleTemplate());
    await using principal = await openBrowser();
    const page = await principal.context.newPage();
    const answers = ["you said", "you wrote", "you typed"];
    await page.goto(vite.origin);
    for (const [reloads, words] of answers.entries()) {
      if (reloads > 0) {
        writeFileSync(agent, code.replace("you said", words));
        await program.printed(new RegExp(`(?:^Reloaded in [\\s\\S]*?){${reloads}}`, "m"));
      }
      await page.getByLabel("Message").fill("Hello");
      await page.getByLabel("Message").press("Enter");
      await page.locator("li").getByText(`${words} "Hello".`).waitFor();
      await page.getByRole("button", { name: "Send" }).waitFor();
    }
    const expectedLines = answers.flatMap((words, i) => ["Hello", `Message ${2 * i + 1}: ${words} "Hello".`]);
    assert.deepEqual(await page.locator("li").allTextContents(), expectedLines);
    assert.equal(await page.getByRole("alert").count(), 0);
  });
});
