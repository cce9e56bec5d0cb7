/** Runs with webhooks while the server is killed: every end is delivered, to receivers that fail and hang. */
import { type Answer, Broken, connect } from "./client.ts";
import { createKeyMaker, inspect } from "./database.ts";
import { followExecutions } from "./executions.ts";
import { type AcknowledgedRun, awaitDeliveries, checkTraces, checkWebhooks, forgetClaims, UNSENT } from "./platform.ts";
import { startReceivers } from "./receivers.ts";
import type { Report } from "./report.ts";
import { configure, createSite, freePort, RUNTIMES, type Server, sleep, startServer } from "./servers.ts";

export interface WebhookOptions {
  readonly runs: number;
  readonly kills: number;
  readonly at_once: number;
  /** True: deliveries that a dead process had claimed are due again at once, not a minute later. */
  readonly hurried: boolean;
}

export const SHORT: WebhookOptions = { runs: 200, kills: 3, at_once: 8, hurried: true };
export const LONG: WebhookOptions = { runs: 10_000, kills: 60, at_once: 16, hurried: false };

/** Runs of one thread follow each other. */
const THREADS = 32;
/** The maximum time of runs that nothing disturbs. */
const END_MS = 60_000;

const random = (below: number): number => Math.floor(Math.random() * below);

interface CreatedRun {
  readonly run_id: string;
  readonly webhook: string;
  rolled_back: boolean;
}

export async function webhooks(report: Report, options: WebhookOptions): Promise<void> {
  const receivers = await startReceivers();
  const site = createSite({}, { webhooks: receivers.settings });
  const executions = followExecutions(site.executions);
  const port = await freePort();
  // Shorter than what a killed process had before it would keep.
  configure(site, { lease_ms: 2_000 });
  let server: Server = await startServer({ runtime: "bun", site, port });
  const client = connect(server.url);
  const createdRuns: CreatedRun[] = [];
  const problems: string[] = [];
  const newKey = createKeyMaker();
  const threads = Array.from({ length: THREADS }, () => crypto.randomUUID());
  let requestCount = 0;
  let kills = 0;

  /** Asks until there is an answer: the server may be down. */
  async function ask(method: string, path: string, body?: unknown, key?: string): Promise<Answer> {
    for (;;) {
      try {
        return await client.call(method, path, body, key === undefined ? {} : { headers: { "idempotency-key": key } });
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        await sleep(50);
      }
    }
  }

  async function createOne(): Promise<void> {
    const key = newKey();
    const webhook = receivers.url(key);
    const thread_id = random(6) === 0 ? null : (threads[random(THREADS)] as string);
    const body = {
      assistant_id: random(3) === 0 ? "echo" : "agent",
      input: { messages: [{ type: "human", id: key, content: `in ${key}` }] },
      metadata: { soak: { key, steps: random(3), wait_ms: random(20) } },
      webhook,
      ...(thread_id === null ? {} : { if_not_exists: "create" }),
    };
    const at = thread_id === null ? "" : `/threads/${thread_id}`;
    const { status, body: run } = await ask("POST", `${at}/runs`, body, key);
    if (status !== 200) {
      problems.push(`a create was answered ${status} ${JSON.stringify(run)}`);
      return;
    }
    const createdRun: CreatedRun = { run_id: run.run_id, webhook, rolled_back: false };
    createdRuns.push(createdRun);
    if (thread_id === null || random(10) > 0) return;
    const action = random(2) === 0 ? "rollback" : "interrupt";
    const { status: stopped } = await ask("POST", `${at}/runs/${createdRun.run_id}/cancel?wait=1&action=${action}`);
    if (stopped >= 300 && stopped !== 404) problems.push(`a cancel was answered ${stopped}`);
    createdRun.rolled_back = (await ask("GET", `${at}/runs/${createdRun.run_id}`)).status === 404;
  }

  async function killing(): Promise<void> {
    while (kills < options.kills) {
      const enough = (options.runs * (kills + 1)) / (options.kills + 1);
      if (createdRuns.length < enough) {
        if (requestCount >= options.runs && problems.length > 0) return;
        await sleep(5);
        continue;
      }
      kills += 1;
      await server.end("SIGKILL");
      executions.killed(server.pid);
      if (options.hurried) forgetClaims(site.database);
      server = await startServer({ runtime: RUNTIMES[kills % RUNTIMES.length] ?? "bun", site, port });
    }
  }

  async function creating(): Promise<void> {
    while (requestCount < options.runs) {
      requestCount += 1;
      await createOne();
    }
  }

  await Promise.all([killing(), ...Array.from({ length: options.at_once }, creating)]);
  using database = inspect(site.database);
  const active = (): number =>
    Number(database.rows("select count(*) as n from runs where status in ('pending', 'running')")[0]?.n);
  const quiet_from = Date.now();
  while (active() > 0 && Date.now() < quiet_from + END_MS) await sleep(50);
  const told_ms = await awaitDeliveries(() => Number(database.rows(UNSENT)[0]?.n));

  report.atLeast("SIGKILLs", kills, options.kills);
  report.atLeast("acknowledged runs", createdRuns.length, options.runs);
  report.none("clients' errors that no fault explains", problems);
  report.atMost("runs that have not ended", active(), 0);
  report.note("end of the last run to the last webhook", `${(told_ms / 1000).toFixed(1)} s`);
  const runs = createdRuns.map(
    ({ run_id, webhook, rolled_back }): AcknowledgedRun => ({ run_id, webhook, rolledBack: rolled_back }),
  );
  checkWebhooks(report, { database, receivers, runs });
  checkTraces(report, { database, lines: executions.lines() });

  client.close();
  const how = await server.end("SIGTERM");
  report.none("servers that did not stop", how === 0 ? [] : [`${server.runtime}: SIGTERM ended it with ${how}`]);
  executions.close();
  receivers.close();
}
