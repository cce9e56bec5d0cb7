import assert from "node:assert/strict";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { AgentFunction, CronCreate, FunctionJob, Service, ServiceOptions } from "../../../lib/mod.ts";
import type { CronFiring, Storage } from "../../../lib/storage/types.ts";
import { type TestClock, type TestService, testClock, testService } from "../../suite/kit.ts";
import { createFaultyStorage, type Faulty } from "../../support/faulty.ts";

export const here = { deployment: "default" };

export const START = Date.parse("2026-11-20T15:27:30Z");

export const MINUTE = 60_000;

export interface World extends AsyncDisposable {
  readonly clock: TestClock;
  readonly real: Storage;
  readonly jobs: FunctionJob[];
  /** Ends every run of `waiting`. */
  release(): void;
  /** Bodies of sent webhooks. */
  readonly webhookBodies: Record<string, unknown>[];
  /** Opens another process on the same database. */
  open(options?: Partial<ServiceOptions>): Promise<TestService & { readonly faulty: Faulty }>;
}

/** Creates processes on one database and one clock. Each test stops them. */
export async function world(): Promise<World> {
  const clock = testClock(START);
  const real = nodeSqlite(":memory:");
  const first = createFaultyStorage(real);
  const jobs: FunctionJob[] = [];
  const webhookBodies: World["webhookBodies"] = [];
  const gate = Promise.withResolvers<void>();
  const opened: TestService[] = [];
  const agents: Record<string, AgentFunction> = {
    async *echo(job) {
      jobs.push(job);
      yield { done: true };
    },
    async *waiting(job) {
      jobs.push(job);
      await gate.promise;
      yield {};
    },
    async *failing(job) {
      jobs.push(job);
      yield {};
      throw new Error("no");
    },
  };
  return {
    clock,
    real,
    jobs,
    webhookBodies,
    release: gate.resolve,
    async open(options = {}) {
      const mine = first.share();
      const kit = await testService({
        storage: mine.storage,
        agents,
        environment: clock,
        public_base_url: "https://agents.example",
        webhooks: {
          transport: {
            resolve: async () => ["93.184.215.14"],
            async send({ body }) {
              webhookBodies.push(JSON.parse(body));
              return { status: 200, retry_after: null, address: "93.184.215.14" };
            },
          },
        },
        ...options,
      });
      opened.push(kit);
      await loopTicks();
      return { ...kit, faulty: mine };
    },
    async [Symbol.asyncDispose]() {
      gate.resolve();
      for (const { service } of opened) {
        let stopped = false;
        void service.stop(0).then(() => {
          stopped = true;
        });
        for (let i = 0; i < 500 && !stopped; i++) await clock.advance(100);
        assert.ok(stopped, "it stops");
      }
      await real.close();
    },
  };
}

export async function loopTicks(count = 20): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setTimeout(resolve, 0));
}

/** Waits for ticks of the event loop without advancing the clock. */
export async function until(fact: () => Promise<boolean> | boolean): Promise<void> {
  for (let i = 0; i < 2000 && !(await fact()); i++) await loopTicks(1);
  assert.ok(await fact(), "it never came");
}

/** Sets the clock and waits for due work. */
export async function at({ clock }: World, moment: string | number): Promise<void> {
  await clock.set(typeof moment === "string" ? Date.parse(moment) : moment);
  await loopTicks();
}

export const minutely: CronCreate = { assistant_id: "echo", schedule: "* * * * *" };

export const time = (ms: number): string => new Date(ms).toISOString().slice(11, 19);

export async function firings({ real }: World, cron_id: string): Promise<string[]> {
  const rows: readonly CronFiring[] = await real.listCronFirings(here, cron_id, { limit: 1000, offset: 0 });
  return rows
    .toReversed()
    .map(({ scheduled_at, run_id, skipped }) => `${time(scheduled_at)} ${run_id ? "fired" : skipped}`);
}

export const readNextRunDate = async ({ crons }: Service, cron_id: string): Promise<string | null> =>
  (await crons.get(cron_id)).next_run_date;
