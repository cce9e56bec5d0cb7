/** Rolls runs back in every stage of their life, and looks for anything that is left of them. */
import type { Plan } from "./agents.ts";
import { Broken, type Client, connect } from "./client.ts";
import { createKeyMaker, type Inspection, inspect } from "./database.ts";
import { type Executions, findOverlaps, followExecutions, type Mark } from "./executions.ts";
import type { Report } from "./report.ts";
import { createSite, freePort, RUNTIMES, type Server, sleep, startServer } from "./servers.ts";

export interface RollbackOptions {
  readonly rollbacks: number;
  /** Every so many rollbacks the server is killed in the middle of them. */
  readonly per_kill: number;
  readonly at_once: number;
}

export const SHORT: RollbackOptions = { rollbacks: 80, per_kill: 40, at_once: 12 };
export const LONG: RollbackOptions = { rollbacks: 10_000, per_kill: 400, at_once: 16 };

/**
 * The stages of a run at its rollback. `asking`: it is about to ask, and may have ended with its question first; `finishing`: it is about
 * to end, and may have ended. `answering`: it executes after an answer to an earlier run's question.
 */
const STAGES = ["pending", "starting", "streaming", "asking", "answering", "finishing", "careless"] as const;
type Stage = (typeof STAGES)[number];

/** The ways of a rollback. `replace`: by the create of the next run. */
const WAYS = ["cancel", "cancel and wait", "replace"] as const;
type Way = (typeof WAYS)[number];

interface Case {
  readonly stage: Stage;
  readonly way: Way;
  readonly graph: "agent" | "graph";
  readonly thread_id: string;
  /** The runs that are gone if the rollback came in time. */
  readonly victims: readonly { readonly run_id: string; readonly key: string }[];
  /** The thread before the victims: its messages and its open questions. */
  readonly before: ThreadNow;
  /** The key of the run that replaced the victims. */
  readonly next: string | null;
  /** The time at which the rollback was acknowledged. */
  readonly stopped_at: number;
  /** Some stages race with the run's own end. */
  readonly outcome: "rolled back" | "ended before";
}

interface ThreadNow {
  readonly status: string;
  readonly messages: readonly string[];
  readonly questions: string;
  readonly checkpoints: number;
}

interface Run {
  readonly run_id: string;
  readonly key: string;
}

const random = (below: number): number => Math.floor(Math.random() * below);
const pick = <Item>(list: readonly Item[]): Item => list[random(list.length)] as Item;

class Rollbacks {
  readonly cases: Case[] = [];
  readonly problems: string[] = [];
  /** Cases in which the rollback came before the run's own end. */
  removed = 0;
  readonly #client: Client;
  readonly #executions: Executions;
  readonly #newKey = createKeyMaker();

  constructor(client: Client, executions: Executions) {
    this.#client = client;
    this.#executions = executions;
  }

  /** Asks until there is an answer: the server may be down. */
  async ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
    for (;;) {
      try {
        return await this.#client.call(method, path, body, { headers });
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        await sleep(50);
      }
    }
  }

  async get(path: string) {
    const { status, body } = await this.ask("GET", path);
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${JSON.stringify(body)}`);
    return body;
  }

  async create(thread_id: string, graph: string, plan: Omit<Plan, "key">, extraFields: object = {}): Promise<Run> {
    const key = this.#newKey();
    const body = {
      assistant_id: graph,
      input: {
        messages: [{ type: "human", id: key, content: `in ${key}` }],
        ...(graph === "graph" ? { done: 0 } : {}),
      },
      metadata: { soak: { ...plan, key } },
      stream_mode: ["custom", "updates"],
      stream_resumable: random(2) === 0,
      ...extraFields,
    };
    const { status, body: run } = await this.ask("POST", `/threads/${thread_id}/runs`, body, {
      "idempotency-key": key,
    });
    if (status !== 200) throw new Error(`a create was answered ${status} ${JSON.stringify(run)}`);
    return { run_id: run.run_id, key };
  }

  async ended(thread_id: string, { run_id }: Run): Promise<void> {
    for (let tries = 0; tries < 3_000; tries++) {
      const { body } = await this.ask("GET", `/threads/${thread_id}/runs/${run_id}`);
      if (body.status !== "pending" && body.status !== "running") return;
      await sleep(5);
    }
    throw new Error(`run ${run_id} does not end`);
  }

  async now(thread_id: string): Promise<ThreadNow> {
    const { status, interrupts } = await this.get(`/threads/${thread_id}`);
    const { values } = await this.get(`/threads/${thread_id}/state`);
    const history: unknown[] = await this.get(`/threads/${thread_id}/history?limit=1000`);
    const messages: { content: string }[] = values?.messages ?? [];
    return {
      status,
      messages: messages.map(({ content }) => content),
      questions: JSON.stringify(interrupts),
      checkpoints: history.length,
    };
  }

  /** One run in one stage, rolled back in one way; afterwards the thread goes on with a run of its own. */
  async rollBackOne(stage: Stage): Promise<void> {
    const graph = random(3) === 0 ? "graph" : "agent";
    const way = pick(WAYS);
    const thread_id = crypto.randomUUID();
    await this.ask("POST", "/threads", { thread_id, if_exists: "do_nothing" });
    // There is something before, so that a rollback has something to spare.
    const asks = stage === "answering";
    if (asks || random(2) === 0) await this.ended(thread_id, await this.create(thread_id, graph, { ask: asks }));
    const before = await this.now(thread_id);
    const victims: Run[] = [];
    const at = async (mark: Mark): Promise<void> => {
      await this.#executions.reached((victims.at(-1) as Run).key, mark);
    };
    const begin = async (plan: Omit<Plan, "key">, extraFields?: object): Promise<void> => {
      victims.push(await this.create(thread_id, graph, plan, extraFields));
    };
    const racing = stage === "asking" || stage === "finishing";
    switch (stage) {
      case "pending":
        await begin({ hold: "start" });
        await begin({ steps: 2 });
        break;
      case "starting":
        await begin({ hold: "start" });
        await at("hold");
        break;
      case "streaming":
        await begin({ steps: 3, tokens: 3, hold: 2 });
        await at("hold");
        break;
      case "asking":
        await begin({ steps: 2, ask: true });
        await at(random(2) === 0 ? "ask" : "step");
        await sleep(random(2));
        break;
      case "answering":
        await begin({ hold: "out" }, { input: null, command: { resume: "yes" } });
        await at("hold");
        break;
      case "finishing":
        await begin({ steps: 1 });
        await at("step");
        await sleep(random(2));
        break;
      case "careless":
        await begin({ steps: 3, hold: 1, zombie_ms: 300 });
        await at("hold");
        break;
    }
    const [next, stopped_at] = await this.#rollBack(thread_id, graph, way, victims);
    const outcome = racing ? await this.#outcome(thread_id, victims) : "rolled back";
    if (outcome === "rolled back") this.removed += 1;
    this.cases.push({ stage, way, graph, thread_id, victims, before, next, stopped_at, outcome });
  }

  async #rollBack(
    thread_id: string,
    graph: string,
    way: Way,
    victims: readonly Run[],
  ): Promise<readonly [next: string | null, stopped_at: number]> {
    if (way === "replace") {
      const run = await this.create(thread_id, graph, { steps: 1 }, { multitask_strategy: "rollback" });
      const stopped_at = Date.now();
      await this.ended(thread_id, run);
      return [run.key, stopped_at];
    }
    // The newest first: an older one that is gone would let it start.
    for (const { run_id } of victims.toReversed()) {
      const path = `/threads/${thread_id}/runs/${run_id}/cancel?action=rollback&wait=${way === "cancel" ? 0 : 1}`;
      const { status, body } = await this.ask("POST", path);
      // 404: it was gone, or is gone since a first try whose answer was lost.
      if (status !== 202 && status !== 204 && status !== 404) {
        this.problems.push(`a cancel was answered ${status} ${JSON.stringify(body)}`);
      }
      if (status === (way === "cancel" ? 204 : 202)) this.problems.push(`wait was not kept: ${path} gave ${status}`);
    }
    const stopped_at = Date.now();
    if (random(2) === 0) return [null, stopped_at];
    // It must not start before the executor of what was rolled back has let go.
    const run = await this.create(thread_id, graph, { steps: 1 });
    await this.ended(thread_id, run);
    return [run.key, stopped_at];
  }

  async #outcome(thread_id: string, victims: readonly Run[]): Promise<Case["outcome"]> {
    const { status } = await this.ask("GET", `/threads/${thread_id}/runs/${victims[0]?.run_id}`);
    return status === 404 ? "rolled back" : "ended before";
  }

  /** Everything a client can see of a case that is over. */
  async check(
    { stage, way, graph, thread_id, victims, before, next, outcome }: Case,
    findings: Findings,
  ): Promise<void> {
    const what = `${stage}, ${way}, ${graph}, thread ${thread_id}`;
    const now = await this.now(thread_id);
    if (outcome === "ended before") {
      // Then it counts whole, or is interrupted where it was; it is the other cases that matter here.
      if (now.status === "busy") findings.stuck.push(`${what}: still busy`);
      return;
    }
    for (const { run_id, key } of victims) {
      const at = `/threads/${thread_id}/runs/${run_id}`;
      for (const path of [at, `${at}/join`, `${at}/stream`, `/runs/${run_id}/stream`]) {
        const { status } = await this.ask("GET", path);
        if (status !== 404) findings.visible.push(`${what}: GET ${path} gave ${status}`);
      }
      const places: readonly [string, unknown][] = [
        ["list", await this.get(`/threads/${thread_id}/runs?limit=100`)],
        ["search", (await this.ask("POST", "/threads/search", { ids: [thread_id] })).body],
        ["state", await this.get(`/threads/${thread_id}/state`)],
        ["history", await this.get(`/threads/${thread_id}/history?limit=1000`)],
      ];
      for (const [source, content] of places) {
        const text = JSON.stringify(content);
        if (text.includes(run_id)) findings.visible.push(`${what}: run ${run_id} in the ${source}`);
        if (new RegExp(`${key}\\b`).test(text)) findings.visible.push(`${what}: ${key} in the ${source}`);
      }
    }
    const added = next ? [`in ${next}`, `s0 ${next}`, `out ${next}`] : [];
    const expected = [...before.messages.map(short), ...added].join(", ");
    const messages = now.messages.map(short).join(", ");
    if (messages !== expected) findings.state.push(`${what}: messages are ${messages}; they were ${expected}`);
    if (next) {
      if (now.status !== "idle") findings.state.push(`${what}: the thread is ${now.status} after the next run`);
    } else {
      if (now.status !== before.status)
        findings.state.push(`${what}: the thread is ${now.status}, it was ${before.status}`);
      if (now.questions !== before.questions) {
        findings.state.push(`${what}: its questions are ${now.questions}; they were ${before.questions}`);
      }
      if (now.checkpoints !== before.checkpoints) {
        findings.state.push(`${what}: ${now.checkpoints} states in its history; there were ${before.checkpoints}`);
      }
    }
  }
}

/** Returns a message without the token of its execution. */
const short = (content: string): string => content.split(" ").slice(0, 2).join(" ");

interface Findings {
  readonly visible: string[];
  readonly state: string[];
  readonly stuck: string[];
}

export async function rollback(report: Report, options: RollbackOptions): Promise<void> {
  const site = createSite({ lease_ms: 2_000 });
  const port = await freePort();
  const executions = followExecutions(site.executions);
  let server: Server = await startServer({ runtime: "bun", site, port });
  const client = connect(server.url);
  const rollbacks = new Rollbacks(client, executions);

  let startedCount = 0;
  let kills = 0;
  let over = false;
  const killing = (async () => {
    while (!over) {
      if (startedCount < (kills + 1) * options.per_kill) {
        await sleep(20);
        continue;
      }
      kills += 1;
      await server.end("SIGKILL");
      executions.killed(server.pid);
      server = await startServer({ runtime: RUNTIMES[kills % RUNTIMES.length] ?? "bun", site, port });
    }
  })();
  const loop = async (): Promise<void> => {
    // Runs that have ended before their rollback do not count.
    while (rollbacks.removed < options.rollbacks && startedCount < 2 * options.rollbacks) {
      const stage = STAGES[startedCount++ % STAGES.length] as Stage;
      try {
        await rollbacks.rollBackOne(stage);
      } catch (error) {
        rollbacks.problems.push(`${stage}: ${(error as Error).message}`);
      }
    }
  };
  await Promise.all(Array.from({ length: options.at_once }, loop));
  over = true;
  await killing;

  using database = inspect(site.database);
  await settle(database);
  const findings: Findings = { visible: [], state: [], stuck: [] };
  const queue = [...rollbacks.cases];
  const check = async (): Promise<void> => {
    for (let testCase = queue.pop(); testCase; testCase = queue.pop()) await rollbacks.check(testCase, findings);
  };
  await Promise.all(Array.from({ length: options.at_once }, check));

  const { cases } = rollbacks;
  const removed = cases.filter(({ outcome }) => outcome === "rolled back");
  const victims = removed.flatMap((testCase) => testCase.victims);
  const by = STAGES.map((stage) => `${stage} ${removed.filter((testCase) => testCase.stage === stage).length}`).join(
    ", ",
  );
  report.atLeast("rollbacks", removed.length, options.rollbacks);
  report.note("by stage", by);
  report.note("runs that had ended before", cases.length - removed.length);
  report.note("kills in between", kills);
  report.none("requests that went wrong", rollbacks.problems);
  report.none("rolled-back runs visible on a route", findings.visible);
  report.none("threads that are not as they were", findings.state);
  report.none("threads still busy", findings.stuck);
  const rows = database.listRemaining(victims.map(({ run_id }) => run_id));
  const words = database.mentions(victims.map(({ key }) => key));
  report.none("rows left in the database", [...rows, ...words]);
  const lines = executions.lines();
  report.none("late writes accepted", database.matches("%late_%", /\blate\d+ key-[a-z0-9]+-\d+/g));
  report.none("threads with two runs executing", findOverlaps(lines));
  const stopped = new Map(removed.flatMap((testCase) => testCase.victims.map(({ key }) => [key, testCase.stopped_at])));
  const steps = lines.filter(({ mark }) => mark === "begin" || mark === "step");
  const after = steps.map(({ key, at }) => at - (stopped.get(key) ?? at)).filter((ms) => ms > 0);
  report.note("steps begun after their rollback; latest", `${after.length}; ${Math.max(0, ...after)} ms`);

  client.close();
  await server.end("SIGTERM");
  executions.close();
}

/** Waits until nothing executes any more. */
async function settle(database: Inspection): Promise<void> {
  const sql = "select count(*) as n from runs where status in ('pending', 'running')";
  const until = Date.now() + 30_000;
  while (Number(database.rows(sql)[0]?.n) > 0 && Date.now() < until) await sleep(50);
  // Executors that do not stop write for a while yet.
  await sleep(500);
}
