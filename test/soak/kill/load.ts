/** The clients of the kill soak: they create, follow, stop and read runs on shared threads while the server is killed. */
import type { Plan } from "../agents.ts";
import { type Answer, Broken, type Client, type Frame } from "../client.ts";
import { createKeyMaker } from "../database.ts";
import { sleep } from "../servers.ts";
import type { Create, Facts, History, Stop } from "./facts.ts";

export interface LoadOptions {
  readonly client: Client;
  readonly facts: Facts;
  /** Returns the URL that is notified of the end of a run. */
  webhook(key: string): string;
  /** Clients that create runs, and clients that also follow their streams. */
  readonly creators: number;
  readonly followers: number;
  /** The time that a client waits between two requests. */
  readonly think_ms: number;
}

export interface Load {
  /** Starts no new runs. Resolves once the followers are at the end of theirs and every fact is on the disk. */
  finish(): Promise<void>;
  /** Errors that no fault explains. */
  readonly problems: readonly string[];
}

const THREADS = 48;
const RUNS_PER_THREAD = 24;
const RETRY_MS = 50;
/** The maximum time of a run's stream to its end, over all its connections. */
const FOLLOW_MS = 180_000;
const random = (below: number): number => Math.floor(Math.random() * below);
const pick = <Item>(list: readonly Item[]): Item => list[random(list.length)] as Item;

interface Pooled {
  readonly thread_id: string;
  readonly graph: "agent" | "graph";
  remainingRuns: number;
}

export async function startLoad(options: LoadOptions): Promise<Load> {
  const { client, facts, think_ms } = options;
  const problems: string[] = [];
  const newKey = createKeyMaker();
  const pool: (Pooled | null)[] = Array.from({ length: THREADS }, () => null);
  let stopping = false;

  /** Repeats a request without lasting effect, or one that changes nothing the second time, until it is answered. */
  async function insist<Result>(ask: () => Promise<Result>): Promise<Result> {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        await sleep(RETRY_MS);
      }
    }
  }

  const createdAssistant = await insist(() =>
    client.get("POST", "/assistants", { graph_id: "agent", context: { version: 0 } }),
  );
  const assistant_id: string = createdAssistant.assistant_id;

  async function threadFor(): Promise<Pooled> {
    const at = random(THREADS);
    const pooledThread = pool[at];
    if (pooledThread && pooledThread.remainingRuns-- > 0) return pooledThread;
    const graph = random(4) === 0 ? "graph" : "agent";
    const thread_id = crypto.randomUUID();
    await insist(() => client.get("POST", "/threads", { thread_id, if_exists: "do_nothing" }));
    await facts.addThread(thread_id, graph);
    const fresh = { thread_id, graph, remainingRuns: RUNS_PER_THREAD } as const;
    pool[at] = { ...fresh };
    return fresh;
  }

  function newPlan(): Plan {
    return {
      key: newKey(),
      steps: 1 + random(4),
      // A few are so slow that spans are stored before their end.
      wait_ms: random(40) === 0 ? 1_600 : pick([0, 5, 20, 20, 60, 200]),
      tokens: random(4),
      ask: random(12) === 0,
      zombie_ms: random(10) === 0 ? 150 : 0,
    };
  }

  /** Resolves once the create is on the disk, so that it may be sent. */
  async function prepare(
    { thread_id, graph }: Pooled,
    framed: boolean,
  ): Promise<{ create: Create; body: object; headers: object }> {
    const plan = newPlan();
    const strategy = pick(["enqueue", "enqueue", "enqueue", "enqueue", "reject", "interrupt", "rollback"] as const);
    const versioned = graph === "agent" && random(2) === 0;
    const create: Create = {
      key: plan.key,
      thread_id,
      graph,
      strategy,
      plan,
      versioned,
      version_from: facts.version_acknowledged,
      framed,
      ...(random(2) === 0 ? { webhook: options.webhook(plan.key) } : {}),
      keyed: random(3) === 0,
      sent_at: Date.now(),
    };
    const body = {
      assistant_id: versioned ? assistant_id : graph,
      input: {
        messages: [{ type: "human", id: plan.key, content: `in ${plan.key}` }],
        ...(graph === "graph" ? { done: 0 } : {}),
      },
      metadata: { soak: plan },
      multitask_strategy: strategy,
      stream_mode: ["custom", "updates"],
      stream_resumable: framed,
      ...(create.webhook === undefined ? {} : { webhook: create.webhook }),
      ...(create.keyed ? { feedback_keys: ["score"] } : {}),
    };
    await facts.addCreate(create);
    return { create, body, headers: { "idempotency-key": plan.key } };
  }

  async function acknowledge(create: Create, run_id: string): Promise<void> {
    create.version_to = facts.version_sent;
    create.acknowledged_at = Date.now();
    create.run_id = run_id;
    await facts.updateCreate(create);
  }

  function refuse(create: Create, status: number, body: unknown): void {
    create.refused = status;
    void facts.updateCreate(create);
    // A busy thread under `reject`; a repeated create whose run was rolled back; too many pending runs.
    if (status !== 409) problems.push(`a create was answered ${status} ${JSON.stringify(body)}`);
  }

  async function createOne(): Promise<void> {
    const thread = await threadFor();
    const { create, body, headers } = await prepare(thread, random(3) === 0);
    const path = `/threads/${create.thread_id}/runs`;
    const waits = random(5) === 0;
    // Half of the clients ask again when they got no answer, as the HTTP libraries of many do.
    const repeats = random(2) === 0;
    for (;;) {
      try {
        if (waits) {
          await client.stream("POST", `${path}/wait`, body, () => {}, {
            headers: headers as Record<string, string>,
            onHead(response) {
              const at = /\/runs\/([\w-]+)$/.exec(String(response.headers["content-location"]))?.[1];
              if ((response.statusCode ?? 0) < 400 && at) void acknowledge(create, at);
              else refuse(create, response.statusCode ?? 0, null);
            },
          });
        } else {
          const answer = await client.call("POST", path, body, { headers: headers as Record<string, string> });
          if (answer.status < 300) await acknowledge(create, answer.body.run_id);
          else refuse(create, answer.status, answer.body);
        }
        break;
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        if (!repeats || create.run_id) break;
        create.repeated = true;
        await facts.updateCreate(create);
        await sleep(RETRY_MS);
      }
    }
    const { run_id } = create;
    if (run_id && random(8) === 0) await stopOne(run_id, create.thread_id);
  }

  async function stopOne(run_id: string, thread_id: string): Promise<void> {
    await sleep(random(60));
    const action = pick(["interrupt", "rollback"] as const);
    const stop: Stop = { stop_id: crypto.randomUUID(), run_id, thread_id, action, sent_at: Date.now() };
    await facts.addStop(stop);
    try {
      const wait = random(2);
      const path = `/threads/${thread_id}/runs/${run_id}/cancel?wait=${wait}&action=${action}`;
      const { status, body } = await client.call("POST", path);
      stop.status = status;
      stop.acknowledged_at = Date.now();
      await facts.updateStop(stop);
      // 404: another client has rolled it back.
      if (status >= 300 && status !== 404) problems.push(`a cancel was answered ${status} ${JSON.stringify(body)}`);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
    }
  }

  async function followOne(): Promise<void> {
    const thread = await threadFor();
    const { create, body, headers } = await prepare(thread, true);
    const history: History = { run_id: "", key: create.key, frames: [], connections: 1 };
    const take = (frame: Frame): void => void history.frames.push(frame);
    let location = "";
    try {
      await client.stream("POST", `/threads/${create.thread_id}/runs/stream`, body, take, {
        headers: headers as Record<string, string>,
        onHead(response) {
          const run_id = /\/runs\/([\w-]+)$/.exec(String(response.headers["content-location"]))?.[1];
          if (response.statusCode === 200 && run_id) {
            location = String(response.headers.location);
            void acknowledge(create, run_id);
          } else refuse(create, response.statusCode ?? 0, null);
          // Some clients lose their connection by themselves, and soon.
          if (random(4) === 0) setTimeout(() => response.destroy(), random(60));
        },
      });
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
    }
    if (!create.run_id) return;
    const first = { ...history, run_id: create.run_id };
    facts.histories.push(first);
    const second: History = { run_id: create.run_id, key: create.key, frames: [], connections: 0 };
    const twice = random(3) === 0;
    if (twice) facts.histories.push(second);
    await Promise.all([follow(first, location), twice ? follow(second, location) : null]);
    for (const followed of twice ? [first, second] : [first]) await facts.finishHistory(followed);
    await submitFeedback(first);
  }

  /** Submits feedback for a run that a client has followed to its end. */
  async function submitFeedback({ run_id, key, frames }: History): Promise<void> {
    const links = frames.findLast(({ event }) => event === "feedback")?.data;
    if (links === undefined) return;
    const { pathname } = new URL(JSON.parse(links).score);
    const ask = (): Promise<Answer> =>
      client.call("POST", pathname, { score: 1, comment: key }, { headers: { "idempotency-key": key } });
    // Again with the same key: what was not answered may count, once.
    const { status, body } = await insist(ask);
    if (status !== 200) problems.push(`feedback on run ${run_id} was answered ${status} ${JSON.stringify(body)}`);
    else await facts.addSubmitted({ run_id, feedback_id: body.feedback_id, comment: key });
  }

  async function follow(history: History, location: string): Promise<void> {
    const until = Date.now() + FOLLOW_MS;
    while (!history.outcome) {
      const last = history.frames.findLast(({ id }) => id !== null)?.id ?? "-1";
      if (history.frames.at(-1)?.event === "end") {
        history.outcome = "end";
        break;
      }
      try {
        const status = await client.stream("GET", location, undefined, (frame) => void history.frames.push(frame), {
          headers: { "last-event-id": last },
          onHead(response) {
            history.connections += 1;
            if (random(4) === 0) setTimeout(() => response.destroy(), random(60));
          },
        });
        if (status === 404) history.outcome = "gone";
        else if (status >= 400) throw new Error(`a stream was answered ${status}`);
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
      }
      if (Date.now() > until) throw new Error(`the stream of run ${history.run_id} never ends`);
      await sleep(10);
    }
  }

  async function changeAssistant(): Promise<void> {
    const version = ++facts.version_sent;
    try {
      const { status } = await client.call("PATCH", `/assistants/${assistant_id}`, {
        graph_id: "agent",
        context: { version },
      });
      if (status === 200) facts.version_acknowledged = version;
      else problems.push(`an assistant's change was answered ${status}`);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      // Whether it counts is not known until it is read: the next one is sent only then.
      const { context } = await insist(() => client.get("GET", `/assistants/${assistant_id}`));
      facts.version_acknowledged = context.version;
    }
    await sleep(200);
  }

  async function read(): Promise<void> {
    const [thread_id] = pick([...facts.threads]) ?? [];
    if (thread_id) {
      const path = pick(["", "/state", "/history", "/runs"]);
      try {
        const { status } = await client.call("GET", `/threads/${thread_id}${path}`);
        if (status !== 200) problems.push(`GET of a thread's ${path || "row"} was answered ${status}`);
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
      }
    }
    await sleep(20);
  }

  async function repeat(work: () => Promise<void>): Promise<void> {
    while (!stopping) {
      try {
        await work();
      } catch (error) {
        problems.push((error as Error).message);
      }
      await sleep(random(think_ms * 2));
    }
  }

  const loops = [
    ...Array.from({ length: options.creators }, () => repeat(createOne)),
    ...Array.from({ length: options.followers }, () => repeat(followOne)),
    repeat(changeAssistant),
    repeat(read),
  ];
  return {
    problems,
    async finish() {
      stopping = true;
      await Promise.all(loops);
      // An acknowledgement that arrives with the headers of a stream is written while nobody waits for it.
      await facts.flush();
    },
  };
}
