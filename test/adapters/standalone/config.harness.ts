import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createTemporaryFolder, type Program, root, start } from "../../support/programs.ts";

export const FILES = {
  "agents.ts": `
export function seen({ config, context, user }) {
  return JSON.stringify({ configurable: config.configurable, context, user });
}
export function sleeps({ signal }) {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}
export const asks = ({ command, interrupt }) =>
  command?.resume === undefined ? interrupt({ question: "Pay?", approval: true }) : "Got " + command.resume;
export function rests(job) {
  console.log("resting");
  return sleeps(job);
}
`,
  "graphs.ts": `
import { interrupt, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
const sleep = (_, { signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
export const builder = new StateGraph(MessagesAnnotation).addNode("sleep", sleep).addEdge(START, "sleep");
export const make = () => builder.compile();
const ask = () => ({ messages: [["ai", "Got " + interrupt({ question: "Pay?" })]] });
export const asks = new StateGraph(MessagesAnnotation).addNode("ask", ask).addEdge(START, "ask").compile();
`,
  "auth.ts": `
export const auth = {
  authenticate(request) {
    const [, name] = /^Bearer (\\w+)$/.exec(request.headers.get("authorization") ?? "") ?? [];
    if (!name) throw Object.assign(new Error("Who are you?"), { status: 401 });
    return name;
  },
};
export const odd = { authenticate: () => "x", on: { "threads:fly": () => true } };
export const none = 5;
`,
  "sdk-auth.ts": `
import { Auth } from "@langchain/langgraph-sdk/auth";
export const auth = new Auth().authenticate(() => "ann");
`,
  "embed.ts": `
export const embed = async (texts) => texts.map((text) => [text.length, 1]);
export const model = { embedDocuments: async (texts) => texts.map((text) => [text.length, texts.length]) };
export const none = { embed: 1 };
`,
  "app.ts": `
export const app = {
  greeting: "Hello from the application",
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/fails") throw new Error("it failed");
    return pathname === "/hello" || pathname === "/" ? new Response(this.greeting) : undefined;
  },
};
export default (request) => new Response(request.url);
export const none = "app";
`,
  "calls.ts": `
import { Annotation, START, StateGraph } from "@langchain/langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { getLogger } from "@langchain/langgraph-sdk/logging";
const logger = getLogger();
logger.info("module loaded", { at: "start" });
async function call() {
  const { thread_id } = await new Client().threads.create();
  logger.info("thread made", { made: thread_id });
  return { said: thread_id };
}
export const graph = new StateGraph(Annotation.Root({ said: Annotation })).addNode("call", call).addEdge(START, "call").compile();
`,
  "hono.ts": `
import { Client } from "@langchain/langgraph-sdk";
import { Hono } from "hono";
export const app = new Hono();
app.use("*", async (c, next) => {
  c.header("x-app", "mine");
  await next();
});
app.get("/count", async (c) => c.text(String(await new Client().assistants.count())));
`,
  "broken.ts": "throw new Error('no such luck');\n",
};

/** Creates a folder with a configuration and the files that it may name. */
export function createProject(config: unknown, name = "greenroom.json"): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  mkdirSync(join(folder.path, "src"));
  for (const [file, text] of Object.entries(FILES)) writeFileSync(join(folder.path, "src", file), text);
  writeFileSync(join(folder.path, name), JSON.stringify(config));
  symlinkSync(join(root, "node_modules"), join(folder.path, "node_modules"), "junction");
  return folder;
}

export const graphs = { seen: "./src/agents.ts:seen" };

export const serve = (cwd: string): Program => start("server.ts", ["--port", "0", "--database", ":memory:"], { cwd });
