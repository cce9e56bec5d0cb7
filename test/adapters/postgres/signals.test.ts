import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { type PostgresOptions, postgresDriver } from "../../../adapters/postgres/mod.ts";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import type { SignalKind, Signals } from "../../../lib/storage/mod.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { statement } from "./postgres-suite.ts";

let server: TestPostgres;
let url = "";
before(async () => {
  server = await startPostgres({ fsync: false, own: true });
  ({ url } = await server.database());
});
after(() => server.stop());

/** Two drivers of one database, as two processes have them. */
async function two(
  test: (one: Ear, other: Ear) => Promise<void>,
  options: Partial<PostgresOptions> = {},
): Promise<void> {
  const drivers = [0, 1].map(() => postgresDriver({ url, ...options } as PostgresOptions));
  try {
    const [one, other] = drivers.map(ear) as [Ear, Ear];
    await Promise.all([one.ready(1), other.ready(1)]);
    await test(one, other);
  } finally {
    await Promise.all(drivers.map((driver) => driver.close()));
  }
}

interface Ear {
  readonly signals: Signals;
  readonly driver: SqlDriver;
  readonly heard: string[];
  readonly missed: number;
  /** Until `missed` was called so often. */
  ready(times: number): Promise<void>;
  /** Until this was heard. */
  hears(signal: string): Promise<void>;
}

function ear(driver: SqlDriver): Ear {
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
  it("are heard by other processes, and by whoever published them", () =>
    two(async (one, other) => {
      const kinds: SignalKind[] = ["run", "thread", "work", "deliveries"];
      for (const kind of kinds) one.signals.publish(kind, 'a:b, "c" 🎭 \'');
      for (const kind of kinds) {
        await Promise.all([one.hears(`${kind}:a:b, "c" 🎭 '`), other.hears(`${kind}:a:b, "c" 🎭 '`)]);
      }
    }));

  it("are one where they are equal, and all there where they are many", () =>
    two(async (one, other) => {
      for (let i = 0; i < 1_000; i += 1) one.signals.publish("run", "same");
      const names = Array.from({ length: 2_000 }, (_, i) => `thread:${"🎭".repeat(10)}-${i}`);
      for (const name of names) one.signals.publish("thread", name.slice(7));
      one.signals.publish("run", "x".repeat(9_000));
      one.signals.publish("work", "last");
      await other.hears("work:last");
      assert.equal(other.heard.filter((signal) => signal === "run:same").length, 1);
      assert.deepEqual(new Set(other.heard), new Set(["run:same", "work:last", ...names]));
    }));

  it("go out at most every 30 ms", async () => {
    const sent: number[] = [];
    let time = 0;
    const timers: { readonly at: number; readonly fn: () => void }[] = [];
    let listening = (): void => {};
    const driver = postgresDriver({
      pool: { connect: () => Promise.reject(new Error("unused")) },
      listen: async () => ({
        async query(text) {
          if (text.includes("pg_notify")) sent.push(time);
          if (text.startsWith("listen")) listening();
        },
        on() {},
      }),
      now: () => time,
      timer(ms, fn) {
        const timer = { at: time + ms, fn };
        timers.push(timer);
        return () => void timers.splice(0, timers.length, ...timers.filter((other) => other !== timer));
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
    assert.ok(sent.length >= 6 && sent.length <= 8, `${sent}`);
    await driver.close();
  });

  it("come back after their session was ended, and say that some may be lost", () =>
    two(async (one, other) => {
      for (let round = 2; round < 5; round += 1) {
        const client = new pg.Client({ connectionString: url });
        await client.connect();
        await client.query(
          "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'greenroom' and datname = current_database()",
        );
        await client.end();
        await Promise.all([one.ready(round), other.ready(round)]);
        one.signals.publish("run", `after ${round}`);
        await other.hears(`run:after ${round}`);
      }
      assert.deepEqual(await one.driver.read(statement("select 1 as one")), [{ one: 1 }]);
    }));

  it("come back after the server was gone", () =>
    two(async (one, other) => {
      await server.halt("immediate");
      one.signals.publish("run", "meanwhile");
      await server.resume();
      await Promise.all([one.ready(2), other.ready(2)]);
      one.signals.publish("run", "after");
      await other.hears("run:after");
    }));

  it("are not there where a host's pool has no session that listens", async () => {
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
    const listener = ear(driver);
    await listener.ready(1);
    listener.signals.publish("run", "a");
    await listener.hears("run:a");
    await driver.close();
    while (!ended) await new Promise((resolve) => setTimeout(resolve, 5));
    await pool.end();
  });

  it("reach every listener, one that throws too, and none after it has left or the driver is closed", () =>
    two(async (one, other) => {
      const late: string[] = [];
      other.signals.subscribe({
        onSignal() {
          throw new Error("broken");
        },
        onGap() {},
      });
      const leave = other.signals.subscribe({ onSignal: (_kind, id) => void late.push(id), onGap() {} });
      one.signals.publish("run", "first");
      await other.hears("run:first");
      leave();
      one.signals.publish("run", "second");
      await other.hears("run:second");
      assert.deepEqual(late, ["first"]);
      one.signals.publish("run", "last words");
      await one.driver.close();
      one.signals.publish("run", "nothing more");
      await other.hears("run:last words");
    }));

  it("do not mind what others send on their channel", () =>
    two(async (one) => {
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      for (const payload of ["", "run:a", "{}", "[1, null]", '["nonsense:a", "run"]', '["run:good"]']) {
        await client.query("select pg_notify('greenroom', $1)", [payload]);
      }
      await client.end();
      await one.hears("run:good");
      assert.deepEqual(one.heard, ["run:good"]);
    }));
});
