/** Two clients answer the same question at the same time, on real servers that are killed: one answer counts, for that question alone. */
import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { checkTries } from "./answers/checks.ts";
import { AGENTS, type Consumed, getGatePath, QUESTIONS } from "./answers/questions.ts";
import { insist, type Question, type Try, tryTwice } from "./answers/tries.ts";
import { type Client, connect } from "./client.ts";
import type { Report } from "./report.ts";
import { createSite, freePort, type Runtime, type Server, type Site, sleep, startServer } from "./servers.ts";

export interface AnswersOptions {
  /** The number of tries on Bun and Node by turns, and of those with the lowest LangGraph on Node. */
  readonly tries: number;
  /** The times between two kills. */
  readonly between_ms: readonly [least: number, most: number];
  /** Threads that are open at once. */
  readonly threads: number;
  /** Fewer kills put too little to the test. */
  readonly least_kills: number;
  /** No thread begins after this time. */
  readonly most_ms: number;
}

export const SHORT: AnswersOptions = {
  tries: 40,
  between_ms: [500, 2_500],
  threads: 8,
  least_kills: 2,
  most_ms: 120_000,
};
export const LONG: AnswersOptions = {
  tries: 1_000,
  between_ms: [1_000, 4_000],
  threads: 8,
  least_kills: 30,
  most_ms: 3_600_000,
};

/** A kill needs this many tries since the one before: a server that is killed at once again and again answers nothing. */
const TRIES_PER_KILL = 4;

/** The maximum time from one answer to the next question. */
const OPEN_MS = 180_000;
const ROOT = resolve(import.meta.dirname, "../..");
const LOWEST = join(ROOT, "node_modules/.lowest");

export async function answers(report: Report, options: AnswersOptions): Promise<void> {
  if (!existsSync(LOWEST)) throw new Error(`${LOWEST} is missing. Install it: node scripts/install.mjs testing`);
  await Promise.all([
    soak(report, options, "newest", ["bun", "node"], undefined),
    soak(report, options, "lowest", ["node"], LOWEST),
  ]);
}

/** Creates a folder with a project of the agents that ask, and packages for it. */
function createAskingSite(packages: string): Site {
  const site = createSite();
  const project = join(site.path, "project");
  for (const file of ["agents.ts", "questions.ts"]) {
    cpSync(join(import.meta.dirname, "answers", file), join(project, file));
  }
  symlinkSync(packages, join(project, "node_modules"), "junction");
  const agents = join(project, "agents.ts");
  // However often a process is killed, no answer may be given up.
  const graphs = Object.fromEntries(AGENTS.map((name) => [name, { path: `${agents}:${name}`, max_attempts: 1_000 }]));
  const http = { ag_ui: { on_disconnect: "continue" } };
  writeFileSync(site.config, JSON.stringify({ graphs, http, worker: { concurrency: 50, lease_ms: 2_000 } }));
  return site;
}

async function soak(
  report: Report,
  options: AnswersOptions,
  name: string,
  runtimes: readonly Runtime[],
  versions: string | undefined,
): Promise<void> {
  const site = createAskingSite(join(versions ?? ROOT, "node_modules"));
  const port = await freePort();
  const start = (at: number): Promise<Server> =>
    startServer({ runtime: runtimes[at % runtimes.length] as Runtime, site, port, ...(versions ? { versions } : {}) });
  let server = await start(0);
  const client = connect(server.url);
  const tries: Try[] = [];
  const wrong: string[] = [];
  const ids = new Map<string, Set<string>>();
  let started = 0;
  let kills = 0;
  let finished = false;

  async function loop(): Promise<void> {
    const deadline = Date.now() + options.most_ms;
    while ((tries.length < options.tries || kills < options.least_kills) && Date.now() < deadline) {
      const agent = AGENTS[started++ % AGENTS.length] as Question["agent"];
      await answerThread(client, site.path, agent, (attempt, interrupt_id) => {
        tries.push(attempt);
        ids.set(attempt.thread_id, (ids.get(attempt.thread_id) ?? new Set()).add(interrupt_id));
      }).catch((error: Error) => void wrong.push(error.message));
    }
  }

  async function disturb(): Promise<void> {
    const [least, most] = options.between_ms;
    for (;;) {
      const before = tries.length;
      await sleep(least + Math.random() * (most - least));
      while (!finished && tries.length < before + TRIES_PER_KILL) await sleep(20);
      if (finished) return;
      if (server.hasEnded()) wrong.push(`${server.runtime} ended by itself: ${server.output().slice(-800)}`);
      await server.end("SIGKILL");
      server = await start(++kills);
    }
  }

  const disturbing = disturb();
  await Promise.all(Array.from({ length: options.threads }, loop));
  finished = true;
  await disturbing;
  const questions = new Map<string, Set<number>>();
  for (const { thread_id, question } of tries) {
    questions.set(thread_id, (questions.get(thread_id) ?? new Set()).add(question));
  }
  const sharing = [...questions].filter(([thread_id, { size }]) => size > 1 && ids.get(thread_id)?.size === 1);
  report.atLeast(`${name}: SIGKILLs`, kills, options.least_kills);
  report.atLeast(`${name}: tries`, tries.length, options.tries);
  report.none(`${name}: threads that did not get on, processes that ended`, wrong);
  // One question of a node after the other, as only the lowest version has it.
  report.atLeast(`${name}: threads whose interrupts share one id`, sharing.length, versions ? 1 : 0);
  await checkTries(report, name, { tries, consumed: readConsumed(site.executions), client });
  client.close();
  await server.end("SIGTERM");
}

/** Takes a thread through all its questions, and then answers once more. */
async function answerThread(
  client: Client,
  folder: string,
  agent: Question["agent"],
  onTry: (attempt: Try, interrupt_id: string) => void,
): Promise<void> {
  const thread_id = crypto.randomUUID();
  const headers = { "idempotency-key": thread_id };
  await insist(() => client.get("POST", "/threads", { thread_id, if_exists: "do_nothing" }));
  const first = { assistant_id: agent, input: { asked: [] } };
  await insist(() => client.get("POST", `/threads/${thread_id}/runs`, first, { headers }));
  for (let question = 0; question < QUESTIONS; ) {
    const interrupt_id = await untilAsked(client, thread_id, question);
    if (interrupt_id === null) {
      question++;
      continue;
    }
    const attempt = await tryTwice(client, { thread_id, agent, question, interrupt_id });
    onTry(attempt, interrupt_id);
    // Only now may the agent go on: no answer could have been meant for its next question.
    for (const { answer } of attempt.answers) writeFileSync(getGatePath(folder, answer), "");
  }
  await untilAsked(client, thread_id, QUESTIONS);
  const before = (await insist(() => client.get("GET", `/threads/${thread_id}/runs`))).length;
  const late = { assistant_id: agent, command: { resume: "late" } };
  const { status, body } = await insist(() => client.call("POST", `/threads/${thread_id}/runs`, late));
  const runs = (await insist(() => client.get("GET", `/threads/${thread_id}/runs`))).length;
  if (status === 409 && body.code === "no_open_interrupt" && runs === before) return;
  throw new Error(
    `an answer to the idle thread ${thread_id}: ${status} ${JSON.stringify(body)}, ${runs - before} runs`,
  );
}

/** Waits until the thread rests. Resolves with the id of the open question; null if it has been answered. */
async function untilAsked(client: Client, thread_id: string, question: number): Promise<string | null> {
  const deadline = Date.now() + OPEN_MS;
  for (;;) {
    const { status, interrupts } = await insist(() => client.get("GET", `/threads/${thread_id}`));
    const open = Object.values(interrupts).flat() as { id: string; value: { question: number } }[];
    if (status === "idle" && open.length === 0) return null;
    if (status === "error") throw new Error(`thread ${thread_id} has failed before question ${question}`);
    const [openInterrupt] = open;
    if (status === "interrupted" && openInterrupt) {
      if (open.length > 1) throw new Error(`thread ${thread_id} has ${open.length} open questions`);
      if (openInterrupt.value.question === question) return openInterrupt.id;
      if (openInterrupt.value.question > question) return null;
    }
    if (Date.now() > deadline) throw new Error(`thread ${thread_id} is ${status} for long before question ${question}`);
    await sleep(20);
  }
}

/** A process that is killed as it writes may leave a part of a line. */
function readConsumed(file: string): Consumed[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return line === "" ? [] : [JSON.parse(line) as Consumed];
      } catch {
        return [];
      }
    });
}
