import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { type PostgresOptions, postgresDriver } from "../../../adapters/postgres/mod.ts";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import type { SignalKind, Signals } from "../../../lib/storage/mod.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { toStatement } from "./postgres-suite.ts";

let server: TestPostgres;
let url = "";
before(async () => {
  server = await startPostgres({ fsync: false, ownServer: true });
  ({ url } = await server.database());
});
after(() => server.stop());

/** Two drivers of one database, as two processes have them. */
async function withTwoListeners(
  test: (first: SignalHarness, second: SignalHarness) => Promise<void>,
  options: Partial<PostgresOptions> = {},
): Promise<void> {
  const drivers = [0, 1].map(() => postgresDriver({ url, ...options } as PostgresOptions));
  try {
    const [first, second] = drivers.map(createSignalHarness) as [SignalHarness, SignalHarness];
    await Promise.all([first.ready(1), second.ready(1)]);
    await test(first, second);
  } finally {
    await Promise.all(drivers.map((driver) => driver.close()));
  }
}

interface SignalHarness {
  readonly signals: Signals;
  readonly driver: SqlDriver;
  readonly heard: string[];
  readonly missed: number;
  /** Resolves once `missed` was called this many times. */
  ready(times: number): Promise<void>;
  /** Resolves once this signal was received. */
  hears(signal: string): Promise<void>;
}

function createSignalHarness(driver: SqlDriver): SignalHarness {
  const signals = driver.signals as Signals;
  const heard: string[] = [];
  let missed = 0;
  let wake: (() => void)[] = [];
  const changed = (): void => {
    for (const fn of wake.splice(0)) fn();
  };
  const until = async (holds: () => boolean): Promise<void> => {
    while (!holds()) await new Promise<void>((resolve) => wake.push(resolve));
  };
  signals.subscribe({
    onSignal(kind, id) {
      heard.push(`${kind}:${id}`);
      changed();
    },
    onGap() {
      missed += 1;
      changed();
    },
  });
  wake = [];
  return {
    signals,
    driver,
    heard,
    get missed() {
      return missed;
    },
    ready: (times) => until(() => missed >= times),
    hears: (signal) => until(() => heard.includes(signal)),
  };
}

describe("Signals of Postgres", () => {
  it("reach other processes, and their publisher", () =>
    withTwoListeners(async (first, second) => {
      const kinds: SignalKind[] = ["run", "thread", "work", "deliveries"];
      for (const kind of kinds) first.signals.publish(kind, 'a:b, "c" 🎭 \'');
      for (const kind of kinds) {
        await Promise.all([first.hears(`${kind}:a:b, "c" 🎭 '`), second.hears(`${kind}:a:b, "c" 🎭 '`)]);
      }
    }));

  it("are merged if they are equal, and all arrive if they are many", () =>
    withTwoListeners(async (first, second) => {
      for (let i = 0; i < 1_000; i += 1) first.signals.publish("run", "same");
      const names = Array.from({ length: 2_000 }, (_, i) => `thread:${"🎭".repeat(10)}-${i}`);
      for (const name of names) first.signals.publish("thread", name.slice(7));
      first.signals.publish("run", "x".repeat(9_000));
      first.signals.publish("work", "last");
      await second.hears("work:last");
      assert.equal(second.heard.filter((signal) => signal === "run:same").length, 1);
      assert.deepEqual(new Set(second.heard), new Set(["run:same", "work:last", ...names]));
    }));

  it("are sent at most every 30 ms", async () => {
    const sentNumbers: number[] = [];
    let time = 0;
    const timers: { readonly at: number; readonly fn: () => void }[] = [];
    let listening = (): void => {};
    const driver = postgresDriver({
      pool: { connect: () => Promise.reject(new Error("unused")) },
      listen: async () => ({
        async query(text) {
          if (text.includes("pg_notify")) sentNumbers.push(time);
          if (text.startsWith("listen")) listening();
        },
        on() {},
      }),
      now: () => time,
      timer(ms, fn) {
        const timer = { at: time + ms, fn };
        timers.push(timer);
        return () => void timers.splice(0, timers.length, ...timers.filter((second) => second !== timer));
      },
    });
    const tick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
    await new Promise<void>((resolve) => {
      listening = resolve;
      driver.signals?.publish("run", "a");
    });
    for (; time < 200; time += 1) {
      await tick();
      driver.signals?.publish("run", "a");
      for (const timer of timers.splice(0)) (timer.at <= time ? timer.fn : () => timers.push(timer))();
    }
    assert.ok(sentNumbers.length >= 6 && sentNumbers.length <= 8, `${sentNumbers}`);
    await driver.close();
  });

  it("continue after their session was ended, and report that some may be lost", () =>
    withTwoListeners(async (first, second) => {
      for (let round = 2; round < 5; round += 1) {
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        await client.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'greenroom' and datname = current_database()",
        );
        await client.end();
        await Promise.all([first.ready(round), second.ready(round)]);
        first.signals.publish("run", `after ${round}`);
        await second.hears(`run:after ${round}`);
      }
      assert.deepEqual(await first.driver.read(toStatement("select 1 as one")), [{ one: 1 }]);
    }));

  it("continue after the server was gone", () =>
    withTwoListeners(async (first, second) => {
      await server.halt("immediate");
      first.signals.publish("run", "meanwhile");
      await server.resume();
      await Promise.all([first.ready(2), second.ready(2)]);
      first.signals.publish("run", "after");
      await second.hears("run:after");
    }));

  it("do not exist if a host's pool has no session that listens", async () => {
    const driver = postgresDriver({ pool: { connect: () => Promise.reject(new Error("unused")) } });
    assert.equal(driver.signals, undefined);
    await driver.close();
  });

  it("come by the session that a host opens, which is closed with the driver", async () => {
    const pool = new pg.Pool({ connectionString: url, max: 3 });
    let ended = false;
    const driver = postgresDriver({
      pool,
      listen: async () => {
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        client.on("end", () => {
          ended = true;
        });
        return client;
      },
    });
    const listener = createSignalHarness(driver);
    await listener.ready(1);
    listener.signals.publish("run", "a");
    await listener.hears("run:a");
    await driver.close();
    while (!ended) await new Promise((resolve) => setTimeout(resolve, 5));
    await pool.end();
  });

  it("reach every listener, also beside one that throws, and none that has left or after the driver was closed", () =>
    withTwoListeners(async (first, second) => {
      const late: string[] = [];
      second.signals.subscribe({
        onSignal() {
          throw new Error("broken");
        },
        onGap() {},
      });
      const leave = second.signals.subscribe({ onSignal: (_kind, id) => void late.push(id), onGap() {} });
      first.signals.publish("run", "first");
      await second.hears("run:first");
      leave();
      first.signals.publish("run", "second");
      await second.hears("run:second");
      assert.deepEqual(late, ["first"]);
      first.signals.publish("run", "last words");
      await first.driver.close();
      first.signals.publish("run", "nothing more");
      await second.hears("run:last words");
    }));

  it("ignore other notifications on their channel", () =>
    withTwoListeners(async (first) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      for (const payload of ["", "run:a", "{}", "[1, null]", '["nonsense:a", "run"]', '["run:good"]']) {
        await client.query("select pg_notify('greenroom', $1)", [payload]);
      }
      await client.end();
      await first.hears("run:good");
      assert.deepEqual(first.heard, ["run:good"]);
    }));
});
