/**
 * The page and the runtime of CopilotKit, as examples/copilotkit has them, against the AG-UI endpoint. Only `npm run test:browser -- --all`
 * installs CopilotKit.
 */
import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, relative } from "node:path";
import { before, describe, it } from "node:test";
import { build } from "esbuild";
import type { Page } from "playwright-core";
import { serve } from "../../adapters/node/mod.ts";
import { combine, type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { langchainAgents, ran } from "../compat/ai/agents.ts";
import { createTemporaryFolder, root, start } from "../support/programs.ts";
import { until } from "../support/until.ts";
import { type Host, openBrowser, openHost } from "./browser.ts";

const PACKAGES = join(root, "node_modules/.copilotkit/node_modules");
const require = createRequire(join(PACKAGES, "any.js"));

// CopilotKit sends no telemetry.
process.env.COPILOTKIT_TELEMETRY_DISABLED = "true";

/** A folder with the example, its packages, and this checkout as the package. Servers listen on free ports. */
function exampleFolder(): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  mkdirSync(join(folder.path, "node_modules"));
  for (const name of readdirSync(PACKAGES)) {
    if (!name.startsWith(".")) symlinkSync(join(PACKAGES, name), join(folder.path, "node_modules", name));
  }
  symlinkSync(root, join(folder.path, "node_modules/greenroom"));
  symlinkSync(join(root, "node_modules/esbuild"), join(folder.path, "node_modules/esbuild"));
  for (const name of ["page.tsx", "server.ts", "site.ts"]) {
    const text = readFileSync(join(root, "examples/copilotkit", name), "utf8");
    writeFileSync(join(folder.path, name), text.replace("port: 2024", "port: 0"));
  }
  writeFileSync(join(folder.path, "package.json"), '{ "type": "module" }');
  return folder;
}

/** Loads the page of the example and returns its files by path. */
async function bundleExample(): Promise<ReadonlyMap<string, string>> {
  using folder = exampleFolder();
  const { outputFiles } = await build({
    entryPoints: ["page.tsx"],
    absWorkingDir: folder.path,
    bundle: true,
    write: false,
    outdir: "/",
    jsx: "automatic",
    loader: { ".woff": "empty", ".woff2": "empty", ".ttf": "empty" },
    define: { "process.env.NODE_ENV": '"production"' },
  });
  return new Map(outputFiles.map(({ path, text }) => [path, text]));
}

const html = '<link rel="stylesheet" href="/page.css"><div id="root"></div><script src="/page.js"></script>';

/** The page with the runtime in this process, for one of these agents. */
async function openCopilot(agent: string, files: ReadonlyMap<string, string>) {
  const { CopilotRuntime, createCopilotRuntimeHandler, InMemoryAgentRunner } = require("@copilotkit/runtime/v2");
  const { HttpAgent } = require("@ag-ui/client");
  const { executor, open } = agents();
  const host = await openHost("", executor);
  const runner = new InMemoryAgentRunner();
  const remote = { default: new HttpAgent({ url: `${host.origin}/agents/ag-ui/${agent}` }) };
  const runtime = createCopilotRuntimeHandler({
    runtime: new CopilotRuntime({ agents: remote, runner }),
    basePath: "/copilotkit",
  });
  const server = await serve(
    async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname.startsWith("/copilotkit")) return await runtime(request);
      const type = pathname.endsWith(".js") ? "text/javascript" : pathname.endsWith(".css") ? "text/css" : "text/html";
      return new Response(files.get(pathname) ?? html, { headers: { "content-type": type } });
    },
    { hostname: "127.0.0.1", port: 0 },
  );
  return {
    host,
    open,
    url: `http://127.0.0.1:${server.port}`,
    /** Clears the runtime's memory, as a restart does. */
    forget: (): void => runner.clearThreads(),
    async [Symbol.asyncDispose]() {
      await server.close();
      await host[Symbol.asyncDispose]();
    },
  };
}

type Copilot = Awaited<ReturnType<typeof openCopilot>>;

class Chat {
  readonly page: Page;
  readonly errors: string[] = [];
  /** Requests to other machines. */
  readonly foreign: string[] = [];
  constructor(page: Page) {
    this.page = page;
    page.on("pageerror", (error) => this.errors.push(error.message));
    page.on("request", (request) => {
      if (!/^(?:http:\/\/127\.0\.0\.1:|data:|blob:)/.test(request.url())) this.foreign.push(request.url());
    });
  }
  async say(text: string): Promise<void> {
    await this.page.getByTestId("copilot-chat-textarea").fill(text);
    await this.page.getByTestId("copilot-chat-textarea").press("Enter");
  }
  async sees(text: string): Promise<void> {
    await this.page.getByTestId("copilot-assistant-message").getByText(text).last().waitFor();
  }
  press(name: string): Promise<void> {
    return this.page.getByRole("button", { name, exact: true }).click();
  }
  async lines(): Promise<string[]> {
    const messages = this.page.getByTestId(/^copilot-(?:user|assistant)-message$/);
    return (await messages.allTextContents()).filter((text) => text !== "");
  }
}

const statuses = async ({ service }: Host): Promise<readonly string[]> => {
  const { items } = await service.runs.search();
  return items.map(({ status }) => status);
};

/** Creates the agents for the page of the example. */
function agents() {
  const gate = Promise.withResolvers<void>();
  const functions = {
    /** Goes on when the test says so. */
    async *gated({ messages, signal }: FunctionJob) {
      yield `Half of ${messages.at(-1)?.content}. `;
      const aborted = new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
      await Promise.race([gate.promise, aborted]);
      yield "The rest.";
    },
    /** Its tool is on the page. */
    async *painter({ messages, context }: FunctionJob) {
      const last = messages.at(-1);
      const { tools } = (context as { "ag-ui": { tools: { name: string }[] } })["ag-ui"];
      const tool_calls = [
        { name: String(tools[0]?.name), args: { color: "rgb(1, 2, 3)" }, id: "c1", type: "tool_call" },
      ];
      if (last?.type === "tool") yield `I hear: ${last.content}`;
      else yield { messages: [{ type: "ai", content: "", tool_calls }] };
    },
  };
  return { executor: () => combine(fromFunctions(functions), langchainAgents()), open: gate.resolve };
}

if (process.env.GREENROOM_TEST_ALL === "1") {
  describe("CopilotKit in Chromium", () => {
    let files: ReadonlyMap<string, string>;
    before(async () => {
      files = await bundleExample();
    });

    /** Opens a page with this agent. Fails if the page has an error or sends a request to another machine. */
    async function visit(agent: string, test: (chat: Chat, app: Copilot) => Promise<void>): Promise<void> {
      await using app = await openCopilot(agent, files);
      await using principal = await openBrowser();
      const chat = new Chat(await principal.context.newPage());
      await chat.page.goto(app.url);
      await test(chat, app);
      assert.deepEqual(chat.errors, []);
      assert.deepEqual(chat.foreign, []);
    }

    it("streams an answer and resumes it after a reload, also in the middle", () =>
      visit("gated", async (chat, app) => {
        await chat.say("it");
        await chat.sees("Half of it.");
        await chat.page.reload();
        await chat.sees("Half of it.");
        app.open();
        await chat.sees("The rest.");
        await chat.page.reload();
        await chat.sees("The rest.");
        assert.deepEqual(await chat.lines(), ["it", "Half of it. The rest."]);
        assert.deepEqual(await statuses(app.host), ["success"]);
      }));

    it("shows the whole thread with the next answer after the runtime has lost its memory", () =>
      visit("gated", async (chat, app) => {
        app.open();
        await chat.say("it");
        await chat.sees("The rest.");
        app.forget();
        await chat.page.reload();
        await chat.say("all");
        await chat.sees("Half of all.");
        await chat.sees("Half of it.");
        assert.deepEqual(await chat.lines(), ["it", "Half of it. The rest.", "all", "Half of all. The rest."]);
      }));

    it("stops a run", () =>
      visit("gated", async (chat, app) => {
        await chat.say("it");
        await chat.sees("Half of it.");
        // The send button stops the run while one is active.
        await chat.page.getByTestId("copilot-send-button").click();
        await until(async () => (await statuses(app.host))[0] === "interrupted");
        app.open();
        await chat.say("more");
        await chat.sees("Half of more.");
        assert.deepEqual(await statuses(app.host), ["success", "interrupted"]);
      }));

    it("shows the tool calls of an agent with their results", () =>
      visit("plain", async (chat) => {
        await chat.say("lookup");
        await chat.sees("Done:");
        const tool = chat.page.locator('[data-tool-name="lookup"]');
        assert.equal(await tool.getAttribute("data-status"), "complete");
        assert.match(String(await tool.getAttribute("data-args")), /1182/);
        assert.match(String(await tool.getAttribute("data-result")), /found/);
      }));

    it("shows an interrupt, also after a reload, and resumes with the answer", () =>
      visit("asks", async (chat, app) => {
        await chat.say("Go");
        await chat.page.getByText("Where to?").waitFor();
        await chat.page.reload();
        await chat.press("Yes");
        await chat.sees('Going to {"approved":true}');
        assert.deepEqual(await statuses(app.host), ["success", "success"]);
      }));

    it("shows approvals", () =>
      visit("clerk", async (chat) => {
        for (const [answer, expected] of [
          ["Yes", "Done: refunded 30"],
          ["No", "Done: "],
        ] as const) {
          ran.length = 0;
          await chat.say("refund");
          await chat.press(answer);
          await chat.sees(expected);
          await chat.page.getByText("Money").waitFor({ state: "detached" });
          assert.deepEqual(ran, answer === "Yes" ? ["refund 30"] : []);
        }
      }));

    it("runs a tool of the page", () =>
      visit("painter", async (chat) => {
        await chat.say("Paint");
        await chat.sees("I hear: The page is rgb(1, 2, 3)");
        assert.equal(await chat.page.evaluate(() => document.body.style.background), "rgb(1, 2, 3)");
      }));

    it("runs the example of the guide", async () => {
      const guide = readFileSync(join(root, "docs/guides/ag-ui.md"), "utf8");
      using folder = exampleFolder();
      const text = (name: string): string => readFileSync(join(root, "examples/copilotkit", name), "utf8");
      const readSnippet = (name: string) => new RegExp(`^// ${name}\\n([^]*?)^\`\`\``, "m").exec(guide)?.[1];
      for (const name of ["server.ts", "site.ts"]) assert.equal(readSnippet(name), text(name).replace(/^.*\n/, ""));
      assert.equal(readSnippet("page.tsx"), text("page.tsx"));

      const run = (name: string) => start(relative(root, join(folder.path, name)), [], { cwd: folder.path });
      await using server = run("server.ts");
      const [, agents = ""] = await server.printed(/Listening on (\S+)/);
      const site = text("site.ts").replace("http://127.0.0.1:2024", agents).replace("port: 3000", "port: 0");
      writeFileSync(join(folder.path, "site.ts"), site);
      await using program = run("site.ts");
      const [, url = ""] = await program.printed(/Listening on (\S+)/);
      await using principal = await openBrowser();
      const chat = new Chat(await principal.context.newPage());
      await chat.page.goto(url);
      await chat.say("Hello");
      await chat.sees("You said: Hello");
      await chat.say("Refund me");
      await chat.page.getByText("Refund 30 euros?").waitFor();
      await chat.press("Yes");
      await chat.sees("Refunded.");
      await chat.page.reload();
      await chat.sees("Refunded.");
      assert.deepEqual(await chat.lines(), ["Hello", "You said: Hello", "Refund me", "Refunded."]);
      assert.deepEqual([chat.errors, chat.foreign], [[], []]);
      // Without its agents the page shows an error, and the site continues.
      await server.kill("SIGKILL");
      await chat.say("Still there?");
      await chat.page.getByTestId("copilot-error-banner").first().waitFor();
      assert.equal((await fetch(url)).status, 200);
    });
  });
}
