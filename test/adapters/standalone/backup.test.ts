import assert from "node:assert/strict";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { runBackup } from "../../../adapters/standalone/backup.ts";
import { formatUsage } from "../../../adapters/standalone/commands.ts";
import { forgetClaims } from "../../soak/platform.ts";
import { createTemporaryFolder, type Program, start } from "../../support/programs.ts";
import { type Ask, checkCopy, checkRestored, type Row, readRunIds } from "./backup/invariants.ts";
import { type CopyEvidence, copyUnderLoad, type NotificationsByRun, serve } from "./backup/load.ts";

/** The command, as a process of its own. */
const backup = (cwd: string, ...args: readonly string[]): Program =>
  start("adapters/standalone/bin.ts", ["backup", ...args], { cwd });

async function backUp(cwd: string, ...args: readonly string[]): Promise<string> {
  await using program = backup(cwd, ...args);
  assert.equal(await program.ended, 0, program.output());
  return program.output();
}

/** Runs the command in this process. Returns its exit code and its output. */
async function runCommand(...args: readonly string[]): Promise<readonly [code: number, text: string]> {
  const lines: string[] = [];
  const line = (text: string): void => void lines.push(text);
  const code = await runBackup(args, { out: line, err: line, env: {} });
  return [code, lines.join("\n")];
}

async function assertRefused(...args: readonly string[]): Promise<string> {
  const [code, text] = await runCommand(...args);
  assert.equal(code, 1, text);
  return text;
}

/** Asks a file that no service has open, or beside one. */
function createAsk(file: string): { readonly ask: Ask } & Disposable {
  const database = new DatabaseSync(file, { readOnly: true });
  database.exec("pragma busy_timeout = 5000");
  return {
    ask: async (sql) =>
      database
        .prepare(sql)
        .all()
        .map((row): Row => ({ ...row })),
    [Symbol.dispose]: () => database.close(),
  };
}

async function createSource(file: string): Promise<void> {
  const storage = nodeSqlite(file);
  await storage.migrate();
  await storage.close();
}

describe("greenroom backup", () => {
  it("copies a database under load, and a service that continues a copy loses and repeats nothing", async () => {
    using folder = createTemporaryFolder();
    const source = join(folder.path, "agents.db");
    const copies = [1, 2, 3].map((n) => join(folder.path, `copy-${n}.db`));
    const notifications: NotificationsByRun = new Map();
    let acknowledged: CopyEvidence[];
    let remainingRunIds: ReadonlySet<string>;
    {
      await using site = await serve(nodeSqlite(source), notifications);
      acknowledged = await copyUnderLoad(site, notifications, copies.length, async (at) => {
        const backupResult = await backUp(folder.path, copies[at] as string, "--database", source);
        assert.match(backupResult, /: \d+ bytes, schema version \d+, whole/);
      });
      using database = createAsk(source);
      remainingRunIds = await readRunIds(database.ask);
      site.open();
    }
    for (const [at, copy] of copies.entries()) {
      const then = acknowledged[at] as CopyEvidence;
      {
        using database = createAsk(copy);
        assert.deepEqual(await database.ask("pragma integrity_check"), [{ integrity_check: "ok" }]);
        assert.deepEqual(await database.ask("pragma foreign_key_check"), []);
        await checkCopy(database.ask, then.acknowledged, remainingRunIds);
      }
      // What was being sent at the moment of the copy is due again a minute later.
      forgetClaims(copy);
      await using site = await serve(nodeSqlite(copy), then.notifications);
      using database = createAsk(copy);
      await checkRestored(site, database.ask, then, remainingRunIds);
    }
  });

  it("includes the log of a killed server, and writes to neither file", async () => {
    using folder = createTemporaryFolder();
    const [source, killed] = [join(folder.path, "agents.db"), join(folder.path, "killed")];
    mkdirSync(killed);
    await using site = await serve(nodeSqlite(source), new Map());
    for (let n = 0; n < 5; n++) await site.call("POST", "/threads", {});
    // What is on the disk after a kill.
    for (const end of ["", "-wal"]) copyFileSync(`${source}${end}`, join(killed, `agents.db${end}`));
    const readBytes = (): Buffer[] => ["", "-wal"].map((end) => readFileSync(join(killed, `agents.db${end}`)));
    const before = readBytes();
    assert.ok((before[1]?.length ?? 0) > 0, "nothing was left in the log");
    const copy = join(folder.path, "copy.db");
    await backUp(folder.path, copy, "--database", join(killed, "agents.db"));
    assert.deepEqual(readBytes(), before);
    using database = createAsk(copy);
    assert.deepEqual(await database.ask("select count(*) as n from threads"), [{ n: 5 }]);
    assert.equal(statSync(copy).mode & 0o777, statSync(join(killed, "agents.db")).mode & 0o777);
  });

  it("never replaces a file, and leaves none if it fails", async () => {
    using folder = createTemporaryFolder();
    const path = (name: string): string => join(folder.path, name);
    await createSource(path("agents.db"));
    writeFileSync(path("there.db"), "something else");
    const from = ["--database", path("agents.db")];
    assert.match(await assertRefused(path("there.db"), ...from), /FILE: .*there\.db exists/);
    assert.equal(readFileSync(path("there.db"), "utf8"), "something else");
    assert.match(
      await assertRefused(path("new.db"), "--database", path("none.db")),
      /--database: there is no file .*none\.db/,
    );
    assert.equal(existsSync(path("none.db")), false);
    assert.match(await assertRefused(path("no/new.db"), ...from), /FILE: .*new\.db cannot be written/);
    assert.match(await assertRefused(path("new.db"), "--database", path("there.db")), /not a database/);
    const otherDatabase = new DatabaseSync(path("other.db"));
    otherDatabase.exec("create table invoices (id integer)");
    otherDatabase.close();
    assert.match(
      await assertRefused(path("new.db"), "--database", path("other.db")),
      /other\.db is no database of Greenroom/,
    );
    copyFileSync(path("agents.db"), path("cut.db"));
    truncateSync(path("cut.db"), Math.floor(statSync(path("cut.db")).size / 8192) * 4096);
    assert.match(
      await assertRefused(path("new.db"), "--database", path("cut.db")),
      /cut\.db cannot be copied .* malformed/,
    );
    assert.deepEqual(
      readdirSync(folder.path).filter((name) => name.includes("new")),
      [],
    );
  });

  it("reports invalid arguments, and copies files only", async () => {
    using folder = createTemporaryFolder();
    const wrong = await assertRefused("a.db", "b.db", "--json=1", "--to", "x", "--config");
    for (const problem of [
      /b\.db: not exp/,
      /--json: takes no value/,
      /--to: unknown option/,
      /--config: needs a value/,
    ]) {
      assert.match(wrong, problem);
    }
    assert.match(await assertRefused(), /FILE: is missing/);
    assert.match(await assertRefused("a.db", "--database", ":memory:"), /in memory alone/);
    assert.match(
      await assertRefused("a.db", "--database", "libsql://db.example"),
      /libsql: databases use what its server/,
    );
    const secret = await assertRefused("a.db", "--database", "postgres://u:secret@db.example/x");
    assert.match(secret, /pg_dump$/);
    assert.doesNotMatch(secret, /secret/);
    assert.match((await runCommand("--help"))[1], /^greenroom backup FILE$/m);
    assert.match(formatUsage("backup"), /^greenroom backup FILE$/m);
    await createSource(join(folder.path, "agents.db"));
    const copy = join(folder.path, "a copy.db");
    const [, json] = await runCommand(copy, "--json", "--database", `file:${join(folder.path, "agents.db")}`);
    const { schema_version, ...manifest } = JSON.parse(json);
    assert.deepEqual(manifest, { file: copy, bytes: statSync(copy).size });
    assert.ok(schema_version > 0);
  });
});
