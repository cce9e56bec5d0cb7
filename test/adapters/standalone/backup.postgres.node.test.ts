import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import pg from "pg";
import { postgres } from "../../../adapters/postgres/mod.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { createTemporaryFolder } from "../../support/programs.ts";
import { type Ask, checkCopy, checkRestored, type Row, readRunIds } from "./backup/invariants.ts";
import { type CopyEvidence, copyUnderLoad, type NotificationsByRun, serve } from "./backup/load.ts";

/** Opens a separate session. */
async function openSession(url: string): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() });
}

const createAsk =
  (client: pg.Client): Ask =>
  async (sql) =>
    (await client.query<Row>(sql)).rows;

/** Copies all tables as they are at one moment into an empty database, by a snapshot as `pg_dump` takes it. */
async function copyDatabase(from: string, to: string): Promise<void> {
  const storage = postgres({ url: to });
  await storage.migrate();
  await storage.close();
  await using source = await openSession(from);
  await using target = await openSession(to);
  await source.query("begin isolation level repeatable read read only");
  await target.query("begin");
  // Foreign keys are right at the end; a restore does not ask on the way.
  await target.query("set local session_replication_role = replica");
  const tables = await source.query<{ name: string }>(
    "select tablename as name from pg_tables where schemaname = 'public'",
  );
  for (const { name } of tables.rows) {
    // All of a table at once: the service goes on meanwhile.
    const { rows } = await source.query<{ all: string | null }>(`select json_agg(t)::text as all from ${name} t`);
    await target.query(`delete from ${name}`);
    await target.query(`insert into ${name} select * from json_populate_recordset(null::${name}, $1)`, [
      rows[0]?.all ?? "[]",
    ]);
  }
  await target.query("commit");
  await source.query("commit");
}

/** `pg_dump` refuses servers that are newer than itself. */
function fits(url: string, version: string): boolean {
  const { stdout } = spawnSync("pg_dump", ["--version"], { encoding: "utf8" });
  const ownPid = /\) (\d+)/.exec(stdout ?? "")?.[1];
  return url !== "" && ownPid !== undefined && Number(ownPid) >= Math.floor(Number(version) / 10_000);
}

function dumpDatabase(from: string, to: string): void {
  using folder = createTemporaryFolder();
  const file = join(folder.path, "greenroom.dump");
  const run = (program: string, ...args: readonly string[]): void => {
    const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
    assert.equal(status, 0, stderr);
  };
  run("pg_dump", "--format=custom", `--file=${file}`, from);
  run("pg_restore", "--no-owner", `--dbname=${to}`, file);
}

describe("a consistent copy of a Postgres database", () => {
  let server: TestPostgres;
  before(async () => {
    server = await startPostgres({ fsync: false });
  });
  after(() => server.stop());

  it("is made under load, and a service that continues it loses and repeats nothing", async () => {
    const { url: source } = await server.database();
    const copies = await Promise.all([1, 2].map(async () => (await server.database()).url));
    const notifications: NotificationsByRun = new Map();
    let acknowledged: CopyEvidence[];
    let remainingRunIds: ReadonlySet<string>;
    {
      await using site = await serve(postgres({ url: source }), notifications);
      await using client = await openSession(source);
      const { rows } = await client.query<{ server_version_num: string }>("show server_version_num");
      // With the program itself where there is one that fits the server.
      const dump = fits(source, rows[0]?.server_version_num ?? "") ? dumpDatabase : copyDatabase;
      acknowledged = await copyUnderLoad(
        site,
        notifications,
        copies.length,
        async (at) => await dump(source, copies[at] as string),
      );
      remainingRunIds = await readRunIds(createAsk(client));
      site.open();
    }
    for (const [at, copy] of copies.entries()) {
      const then = acknowledged[at] as CopyEvidence;
      await using client = await openSession(copy);
      const ask = createAsk(client);
      await checkCopy(ask, then.acknowledged, remainingRunIds);
      // What was being sent at the moment of the copy is due again a minute later.
      await ask("update webhook_deliveries set claimed_until = 1 where claim_token is not null");
      await using site = await serve(postgres({ url: copy }), then.notifications);
      await checkRestored(site, ask, then, remainingRunIds);
    }
  });
});
