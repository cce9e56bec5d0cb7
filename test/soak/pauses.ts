/** Checks that a server which stalls for longer than its lease neither executes a run twice nor lets a second server do so. */
import type { Plan } from "./agents.ts";
import { type Client, connect } from "./client.ts";
import { createKeyMaker } from "./database.ts";
import { type Executions, findOverlaps, followExecutions } from "./executions.ts";
import { quantile, type Report } from "./report.ts";
import { createSite, type Runtime, type Server, signal, sleep, startServer, until } from "./servers.ts";

export interface PauseOptions {
  /** The runtimes of the servers, one after the other. */
  readonly runtimes: readonly Runtime[];
  readonly pauses: number;
  readonly blocks: number;
  /** Runs that execute at each pause. */
  readonly runs: number;
  readonly least_paused: number;
  /** Goal for the time from a kill to the re-start of its runs by a server that waits. */
  readonly most_takeover_ms: number;
}

export const SHORT: PauseOptions = {
  runtimes: ["bun"],
  pauses: 1,
  blocks: 1,
  runs: 30,
  least_paused: 30,
  most_takeover_ms: 5_000,
};
export const LONG: PauseOptions = {
  runtimes: ["bun", "node", "deno"],
  pauses: 10,
  blocks: 8,
  runs: 40,
  least_paused: 1_000,
  most_takeover_ms: 1_000,
};

const LEASE_MS = 2_000;
const STEPS = 4;

interface StartedRun {
  readonly key: string;
  readonly thread_id: string;
  readonly run_id: string;
}

export async function pauses(report: Report, options: PauseOptions): Promise<void> {
  let paused = 0;
  for (const runtime of options.runtimes) paused += await pausing(report, runtime, options);
  report.atLeast("executions that stood still for more than their lease", paused, options.least_paused);
}

async function pausing(report: Report, runtime: Runtime, options: PauseOptions): Promise<number> {
  const site = createSite({ lease_ms: LEASE_MS });
  const executions = followExecutions(site.executions);
  const server = await startServer({ runtime, site });
  // It serves requests on the same file, and waits for the first to die.
  const second = await startServer({ runtime: runtime === "node" ? "bun" : "node", site });
  const client = connect(server.url);
  const startedRuns: StartedRun[] = [];
  let paused = 0;
  const executing = (): number => {
    const open = new Set<string>();
    for (const { mark, token } of executions.lines()) mark === "end" ? open.delete(token) : open.add(token);
    return open.size;
  };
  const newKey = createKeyMaker();
  const start = async (count: number, plan: Omit<Plan, "key">): Promise<void> => {
    const runs = await Promise.all(Array.from({ length: count }, () => create(client, { ...plan, key: newKey() })));
    startedRuns.push(...runs);
    await Promise.all(runs.map(({ key }) => executions.reached(key, "step")));
  };

  for (let count = 0; count < options.pauses; count++) {
    await start(options.runs, { steps: STEPS, wait_ms: 600 });
    paused += executing();
    signal(server.pid, "SIGSTOP");
    await sleep(LEASE_MS * (1.5 + Math.random()));
    signal(server.pid, "SIGCONT");
    await settled(client, startedRuns);
  }
  for (let count = 0; count < options.blocks; count++) {
    await start(options.runs - 1, { steps: STEPS, wait_ms: 400 });
    const blocking = await create(client, { key: newKey(), steps: STEPS, block_ms: 2.5 * LEASE_MS });
    paused += executing() + 1;
    startedRuns.push(blocking);
    await settled(client, startedRuns);
  }
  await checkPauses(report, runtime, client, second, executions, startedRuns);
  // Now it has to step in.
  await start(options.runs, { steps: STEPS, wait_ms: 600 });
  const killed_at = Date.now();
  await server.end("SIGKILL");
  executions.killed(server.pid);
  const expectedIds = startedRuns.slice(-options.runs).map(({ run_id }) => run_id);
  const takeoverTimes = new Map<string, number>();
  await until("the second server takes over", () => {
    for (const { mark, pid, run, at } of executions.lines()) {
      if (mark === "begin" && pid === second.pid && expectedIds.includes(run) && !takeoverTimes.has(run))
        takeoverTimes.set(run, at - killed_at);
    }
    return takeoverTimes.size === expectedIds.length;
  });
  report.atMost(
    `${runtime}: kill to re-start by a waiting server p99`,
    quantile([...takeoverTimes.values()], 0.99),
    options.most_takeover_ms,
    "ms",
  );

  client.close();
  await Promise.all([server.end(), second.end()]);
  executions.close();
  return paused;
}

async function create(client: Client, plan: Plan): Promise<StartedRun> {
  const { thread_id } = await client.get("POST", "/threads", {});
  const { run_id } = await client.get("POST", `/threads/${thread_id}/runs`, {
    assistant_id: "agent",
    input: { messages: [{ type: "human", id: plan.key, content: `in ${plan.key}` }] },
    metadata: { soak: plan },
  });
  return { key: plan.key, thread_id, run_id };
}

async function settled(client: Client, startedRuns: readonly StartedRun[]): Promise<void> {
  for (const { thread_id, run_id } of startedRuns.slice(-100)) {
    const ended = async (): Promise<boolean> => {
      const { status } = await client.get("GET", `/threads/${thread_id}/runs/${run_id}`);
      return status !== "pending" && status !== "running";
    };
    await until(`run ${run_id} ends`, ended);
  }
}

async function checkPauses(
  report: Report,
  runtime: Runtime,
  client: Client,
  second: Server,
  executions: Executions,
  startedRuns: readonly StartedRun[],
): Promise<void> {
  const lines = executions.lines();
  const begins = new Map<string, number>();
  for (const { mark, run } of lines) if (mark === "begin") begins.set(run, (begins.get(run) ?? 0) + 1);
  const again = startedRuns.filter(({ run_id }) => begins.get(run_id) !== 1);
  report.none(
    `${runtime}: runs not executed exactly once`,
    again.map(({ run_id, key }) => `run ${run_id} (${key}): ${begins.get(run_id) ?? 0} times`),
  );
  const charged = lines.filter(({ mark, attempt }) => mark === "begin" && attempt !== 1);
  report.none(
    `${runtime}: attempts above 1`,
    charged.map(({ run, attempt }) => `run ${run}: attempt ${attempt}`),
  );
  const foreign = lines.filter(({ mark, pid }) => mark === "begin" && pid === second.pid);
  report.none(
    `${runtime}: runs that a second server took`,
    foreign.map(({ run }) => `run ${run}`),
  );
  report.none(`${runtime}: threads with two runs executing`, findOverlaps(lines));
  const wrong: string[] = [];
  for (const { key, thread_id, run_id } of startedRuns) {
    const { status } = await client.get("GET", `/threads/${thread_id}/runs/${run_id}`);
    const { values } = await client.get("GET", `/threads/${thread_id}/state`);
    const token = lines.find((line) => line.run === run_id && line.mark === "begin")?.token;
    const steps = [...Array.from({ length: STEPS }, (_, step) => `s${step}`), "out"];
    const expected = [`in ${key}`, ...steps.map((step) => `${step} ${key} ${token}`)];
    const contents = (values?.messages ?? []).map(({ content }: { content: string }) => content);
    if (status !== "success" || contents.join() !== expected.join())
      wrong.push(`run ${run_id}: ${status}, ${contents}`);
  }
  report.none(`${runtime}: results lost, or late writes`, wrong);
}
