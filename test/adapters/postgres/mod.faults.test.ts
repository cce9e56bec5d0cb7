import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { connect, createServer, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { type PostgresOptions, type PostgresPool, postgres, postgresDriver } from "../../../adapters/postgres/mod.ts";
import { DatabaseUnavailable } from "../../../adapters/sql/driver.ts";
import { ConfigError } from "../../../lib/errors.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { freePort } from "../../support/sqld.ts";
import {
  allItems,
  dropTables,
  insert,
  readIds,
  readTryCount,
  tables,
  toStatement,
  withDriver,
} from "./postgres-suite.ts";

let server: TestPostgres;
before(async () => {
  server = await startPostgres({ fsync: false, ownServer: true });
});
after(() => server.stop());

const secret = "s3cr%40t-word";

/** An empty database with the tables: the same again, which is cheaper. */
let addressPromise: Promise<{ readonly url: string }> | undefined;
const createDatabase = async (): Promise<{ readonly url: string }> => {
  addressPromise ??= server.database();
  const { url } = await addressPromise;
  await withDriver(url, async (driver) => {
    await driver.batch([...dropTables, ...tables]);
  });
  return { url };
};

/** Returns a clock that runs faster by this factor. */
const createFastClock = (times: number): Pick<PostgresOptions, "now" | "timer"> => ({
  now: () => Date.now() * times,
  timer(ms, fn) {
    const id = setTimeout(fn, ms / times);
    return () => clearTimeout(id);
  },
});

/** Returns the Error of the promise, which must not contain a password. */
async function failure(work: () => unknown): Promise<Error> {
  const error = await (async () => await work())().then(
    () => assert.fail("it did not fail"),
    (error: Error) => error,
  );
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    for (const text of [secret, decodeURIComponent(secret), "t3st-passw0rd"]) {
      const all: string = `${cause.message}${cause.stack}${JSON.stringify(cause)}`;
      assert.ok(!all.includes(text), all);
    }
  }
  return error;
}

type Meddle = (to: Socket, from: Socket, bytes: Uint8Array) => void;

/**
 * Creates a proxy in front of the server. `onCommit` is called before a COMMIT is passed on, and may cut the connection; `onAnswer` with each
 * response.
 */
async function proxy(
  url: string,
  onCommit: Meddle = (_client, server, bytes) => void server.write(bytes),
  onAnswer: Meddle = (client, _server, bytes) => void client.write(bytes),
): Promise<{ readonly url: string; readonly refuse: () => void; readonly close: () => Promise<void> }> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let refusing = false;
  const listener = createServer((client) => {
    if (refusing) return void client.destroy();
    const onward = connect(Number(target.port), target.hostname);
    for (const [from, to] of [
      [client, onward],
      [onward, client],
    ] as const) {
      sockets.add(from);
      from.on("error", () => {});
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    client.on("data", (bytes: Uint8Array<ArrayBuffer>) => {
      if (new TextDecoder().decode(bytes).includes("commit\0")) onCommit(client, onward, bytes);
      else onward.write(bytes);
    });
    onward.on("data", (bytes: Uint8Array<ArrayBuffer>) => onAnswer(client, onward, bytes));
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as { port: number };
  return {
    url: Object.assign(new URL(url), { port: String(port) }).href,
    refuse() {
      refusing = true;
      for (const socket of sockets) socket.destroy();
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}

const counted = [toStatement("select nextval('tries')"), insert(1)];

describe("Postgres driver: a lost connection", () => {
  for (const prepare of [true, false]) {
    const how = prepare ? "all statements at once" : "one statement after the other";

    it(`before the commit: the batch runs again (${how})`, async () => {
      const { url } = await createDatabase();
      await withDriver({ url, prepare }, async (driver) => {
        const kill = toStatement(
          "do $$ begin if nextval('tries') < 3 then perform pg_terminate_backend(pg_backend_pid()); end if; end $$",
        );
        await driver.batch([insert(1), kill, insert(2)], ["thread:a"]);
        assert.deepEqual(readIds(await driver.read(allItems)), [1, 2]);
        assert.equal(await readTryCount(driver), 3);
      });
    });

    it(`before COMMIT reaches the server: the batch takes effect once (${how})`, async () => {
      const { url } = await createDatabase();
      let cuts = 0;
      const between = await proxy(url, (client, onward, commit) => {
        cuts += 1;
        if (cuts < 3) client.destroy();
        else onward.write(commit);
      });
      await withDriver({ url: between.url, prepare }, async (driver) => {
        await driver.batch(counted);
        assert.deepEqual(readIds(await driver.read(allItems)), [1]);
        assert.equal(await readTryCount(driver), 3);
      });
      await between.close();
    });

    it(`after COMMIT has reached the server: the batch takes effect once (${how})`, async () => {
      const { url } = await createDatabase();
      let cut = false;
      const between = await proxy(url, (client, onward, commit) => {
        if (!cut) onward.removeAllListeners("data").once("data", () => client.destroy());
        cut = true;
        onward.write(commit);
      });
      await withDriver({ url: between.url, prepare }, async (driver) => {
        const [, , rows] = await driver.batch([...counted, toStatement("select item_id from item")]);
        assert.deepEqual(rows, [{ item_id: 1 }]);
        assert.deepEqual(readIds(await driver.read(allItems)), [1]);
        assert.equal(await readTryCount(driver), 1);
      });
      await between.close();
    });
  }

  it("during COMMIT: the batch takes effect once, whichever transaction was first", async () => {
    const { url } = await createDatabase();
    let commits = 0;
    const between = await proxy(url, (client, onward, commit) => {
      commits += 1;
      onward.write(commit);
      if (commits % 2) client.destroy();
    });
    await withDriver({ url: between.url }, async (driver) => {
      for (let i = 0; i < 10; i += 1) await driver.batch([insert(i)]);
      assert.equal((await driver.read(allItems)).length, 10);
    });
    await between.close();
  });

  for (const prepare of [true, false]) {
    const how = prepare ? "the answer waits for it" : "it comes too late";

    it(`during COMMIT, while its outcome is read: ${how}`, async () => {
      const { url } = await createDatabase();
      const rival = new pg.Client({ connectionString: url });
      await rival.connect();
      let late: Promise<void> | undefined;
      const between = await proxy(url, (client, onward, commit) => {
        if (late) return void onward.write(commit);
        client.removeAllListeners("close").destroy();
        late = (async () => {
          const waiting = "select 1 from pg_locks where not granted";
          while ((await rival.query(waiting)).rows.length === 0) await new Promise((done) => setTimeout(done, 5));
          onward.write(commit);
          await new Promise((done) => onward.once("data", done));
        })();
      });
      await withDriver({ url: between.url, prepare }, async (driver) => {
        const next = toStatement("insert into item (item_id) select coalesce(max(item_id), 0) + 1 from item");
        await driver.batch([...counted, next], ["item"]);
        await late;
        assert.deepEqual(readIds(await driver.read(allItems)), [1, 2]);
        assert.equal(await readTryCount(driver), prepare ? 1 : 2);
      });
      await between.close();
      await rival.end();
    });
  }

  it("during a commit, without a reconnect: the outcome is unknown", async () => {
    const { url } = await createDatabase();
    const between = await proxy(url, () => between.refuse());
    await withDriver({ url: between.url, ...createFastClock(40) }, async (driver) => {
      await driver.read(allItems);
      const error = await failure(() => driver.batch([insert(1)]));
      assert.ok(error instanceof DatabaseUnavailable);
      assert.equal(error.unknown, true);
      assert.match(error.message, /not known/);
    });
    await between.close();
  });

  it("by the server, which ends a transaction that waits for this process too long", async () => {
    const { url } = await createDatabase();
    const inner = new pg.Pool({ connectionString: url });
    inner.on("error", () => {});
    let waits = 0;
    const pool: PostgresPool = {
      async connect() {
        const client = await inner.connect();
        client.on("error", () => {});
        const pid = (client as unknown as { processID: number }).processID;
        return {
          async query(text, values) {
            if (text.startsWith("insert") && waits < 1) {
              waits += 1;
              const countSessions = "select count(*)::int as total from pg_stat_activity where pid = $1";
              while ((await inner.query(countSessions, [pid])).rows[0].total > 0)
                await new Promise((done) => setTimeout(done, 5));
            }
            // Only the first try: the second must not be ended on a slow machine.
            return await client.query(waits < 1 ? text.replace(/(session_timeout = )5000/, "$130") : text, values);
          },
          release: (broken) => client.release(broken),
        };
      },
    };
    await withDriver({ pool }, async (driver) => {
      await driver.batch(counted);
      assert.deepEqual(readIds(await driver.read(allItems)), [1]);
      assert.equal(await readTryCount(driver), 2);
    });
    assert.equal(waits, 1);
    await inner.end();
  });

  for (const whose of ["of its own", "of a host's pool"]) {
    it(`when it is opened: the driver opens another one (${whose})`, async () => {
      const { url } = await createDatabase();
      const over = "E\0\0\0\x3bSFATAL\0VFATAL\0C57P01\0Mthe server is shutting down now\0\0";
      let ended = 0;
      const between = await proxy(url, undefined, (client, onward, bytes) => {
        const ready = Buffer.from(bytes).toString("latin1").endsWith("Z\0\0\0\x05I");
        // Its greeting and its end come as one piece.
        if (ready && ended++ < 2) {
          client.end(Buffer.concat([bytes, Buffer.from(over, "latin1")]));
          onward.destroy();
        } else client.write(bytes);
      });
      const pool = new pg.Pool({ connectionString: between.url });
      pool.on("error", () => {});
      await withDriver(whose === "of its own" ? between.url : { pool }, async (driver) => {
        await driver.batch([insert(1)]);
        assert.deepEqual(readIds(await driver.read(allItems)), [1]);
      });
      assert.ok(ended > 2);
      await pool.end();
      await between.close();
    });
  }

  it("while it is idle: no call fails", async () => {
    const { url } = await createDatabase();
    await withDriver({ url, pool_size: 3 }, async (driver) => {
      await Promise.all([1, 2, 3].map((id) => driver.batch([insert(id)])));
      const rival = new pg.Client({ connectionString: url });
      await rival.connect();
      await rival.query("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'greenroom'");
      await rival.end();
      await Promise.all([4, 5, 6].map((id) => driver.batch([insert(id)])));
      assert.equal((await driver.read(allItems)).length, 6);
    });
  });

  it("with the whole server, under load: every batch takes effect once", async () => {
    const { url } = await createDatabase();
    await withDriver(url, async (driver) => {
      let next = 0;
      let restarted = false;
      const worker = async (): Promise<void> => {
        while (!restarted) {
          const id = next++;
          await driver.batch([insert(id)], [`item:${id % 3}`]);
        }
      };
      const workers = Array.from({ length: 8 }, worker);
      await driver.batch([insert(-1)]);
      for (const how of ["immediate", "fast"] as const) await server.restart(how);
      restarted = true;
      await Promise.all(workers);
      const expected = Array.from({ length: next + 1 }, (_, i) => i - 1);
      assert.deepEqual(readIds(await driver.read(allItems)), expected);
    });
  });
});

describe("Postgres driver: an unreachable server", () => {
  it("makes batches and reads fail, and both succeed when it is back", async () => {
    const { url } = await createDatabase();
    await withDriver({ url, ...createFastClock(20) }, async (driver) => {
      await driver.batch([insert(1)]);
      await server.halt("fast");
      for (const work of [() => driver.batch([insert(2)]), () => driver.read(allItems), () => driver.now?.()]) {
        const error = await failure(work);
        assert.ok(error instanceof DatabaseUnavailable, error.message);
        assert.equal(error.unknown, false);
        assert.match(error.message, /127\.0\.0\.1:\d+\/greenroom_\w+ cannot be reached/);
      }
      await server.resume();
      await driver.batch([insert(2)]);
      assert.deepEqual(readIds(await driver.read(allItems)), [1, 2]);
    });
  });

  it("is waited for if it comes back soon", async () => {
    const { url } = await createDatabase();
    await withDriver(url, async (driver) => {
      await driver.batch([insert(1)]);
      await server.halt("immediate");
      const batch = driver.batch([insert(2)]);
      const read = driver.read(allItems);
      await server.resume();
      await batch;
      assert.ok((await read).length > 0);
    });
  });

  it("does not prevent the driver from closing", async () => {
    const { url } = await createDatabase();
    const driver = postgresDriver(url);
    await driver.batch([insert(1)]);
    await server.halt("fast");
    try {
      const batch = driver.batch([insert(2)]);
      driver.signals?.publish("run", "a");
      await Promise.all([assert.rejects(batch, DatabaseUnavailable), driver.close()]);
    } finally {
      await server.resume();
    }
  });

  it("is reported if a host's pool has no free connection", async () => {
    const pool: PostgresPool = { connect: () => new Promise(() => {}) };
    await withDriver({ pool, ...createFastClock(100) }, async (driver) => {
      const error = await failure(() => driver.read(allItems));
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, /pool: .*no connection from the pool within 10 s/);
    });
  });

  it("returns a late connection to the host's pool", async () => {
    let released = 0;
    let give: ((connection: Awaited<ReturnType<PostgresPool["connect"]>>) => void) | undefined;
    const pool: PostgresPool = {
      connect: () =>
        new Promise((resolve) => {
          give = resolve;
        }),
    };
    await withDriver({ pool, ...createFastClock(100) }, async (driver) => {
      await failure(() => driver.read(allItems));
      give?.({ query: () => Promise.reject(new Error("unused")), release: () => released++ });
    });
    await new Promise((resolve) => setTimeout(resolve, 0));
    assert.equal(released, 1);
  });
});

describe("Postgres driver: invalid options", () => {
  const at = (url: string, change: Partial<URL>): string => Object.assign(new URL(url), change).href;

  it("are rejected before a connection is opened", async () => {
    const bad: [PostgresOptions, RegExp][] = [
      [{ url: `mysql://root:${secret}@localhost/a` }, /: url: not of the form/],
      [{ url: `postgres://root:${secret}@local host/a` }, /: url: not of the form/],
      [{ url: undefined as never }, /: url: not of the form/],
      [{ url: "postgres://root:100%@localhost/a" }, /: url: write %/],
      [{ url: "postgres://localhost/a", direct_url: secret }, /: direct_url: not of/],
      [{ url: "postgres://localhost/a", pool_size: 0 }, /pool_size/],
      [{ url: "postgres://localhost/a", pool_size: 1.5 }, /pool_size/],
    ];
    for (const [options, message] of bad) {
      const error = await failure(() => postgresDriver(options));
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, message);
    }
  });

  it("are named if the server rejects them", async () => {
    const { url } = await createDatabase();
    const closed = String(await freePort());
    const bad: [PostgresOptions, RegExp][] = [
      [{ url: at(url, { password: secret }) }, /: url: .*refuses the user or the password .*check both/],
      [{ url: at(url, { password: "" }) }, /: url: .*refuses the user or the password/],
      [{ url: at(url, { username: "nobody-here" }) }, /: url: .*refuses the user or the password/],
      [{ url: at(url, { pathname: "/absent" }) }, /: url: .*no such database .*"absent"/],
      [{ url: at(url, { port: closed, password: secret }) }, /: url: .*127\.0\.0\.1:\d+.* cannot be reached/],
      [{ url: `postgres://u:${secret}@127.0.0.1:${closed}/a?password=${secret}` }, /: url: .* cannot be reached/],
      [{ url, direct_url: at(url, { password: secret }) }, /: direct_url: .*refuses the user/],
      [{ url, direct_url: at(url, { port: closed }) }, /: direct_url: .*cannot be reached/],
    ];
    for (const [options, message] of bad) {
      await withDriver({ ...options, ...createFastClock(20) }, async (driver) => {
        for (const work of [() => driver.read(allItems), () => driver.batch([insert(1)])]) {
          const error = await failure(work);
          assert.ok(error instanceof ConfigError, error.message);
          assert.match(error.message, message);
        }
      });
    }
  });

  it("are named if a host's address does not exist", async () => {
    const options = { url: `postgres://u:${secret}@nowhere.invalid/a`, ...createFastClock(20) };
    await withDriver(options, async (driver) => {
      const error = await failure(() => driver.read(allItems));
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, /nowhere\.invalid/);
    });
  });

  it("are named if the database accepts no writes", async () => {
    const { url } = await server.database();
    await withDriver(url, async (driver) => void (await driver.batch(tables)));
    await withDriver(url, async (driver) => {
      const name = new URL(url).pathname.slice(1);
      await driver.batch([toStatement(`alter database ${name} set default_transaction_read_only = on`)]);
    });
    await withDriver(url, async (driver) => {
      assert.deepEqual(await driver.read(allItems), []);
      const error = await failure(() => driver.batch([insert(1)]));
      assert.ok(error instanceof ConfigError);
      assert.match(error.message, /: url: .* takes no writes .*name the primary/);
    });
  });

  it("give the same errors in a Storage", async () => {
    const { url } = await createDatabase();
    const storage = postgres({ url: at(url, { password: secret }) });
    const error = await failure(() => storage.probe(0));
    assert.ok(error instanceof ConfigError);
    await storage.close();
  });
});
