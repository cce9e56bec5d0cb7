import assert from "node:assert/strict";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { after, before, describe, it } from "node:test";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";
import { createTemporaryFolder, root, start, waitForUrl } from "../../support/programs.ts";

const secret = "s3cret-w0rd";

let server: TestPostgres;
before(async () => {
  server = await startPostgres({ fsync: false, ownServer: true });
});
after(() => server.stop());

function createProject(): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs: { echo: "./echo.ts:echo" } }));
  writeFileSync(join(folder.path, "echo.ts"), "export const echo = () => 'Hello';\n");
  return folder;
}

describe("the stand-alone server on Postgres", () => {
  it("serves, and names the database without its user and password", async () => {
    const { url } = await server.database();
    using folder = createProject();
    await using program = start("server.ts", ["--port", "0"], { cwd: folder.path, env: { GREENROOM_DATABASE: url } });
    const at = await waitForUrl(program);
    const answer = await fetch(`${at}/runs/wait`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ assistant_id: "echo", input: { messages: "Hi" } }),
    });
    assert.match(await answer.text(), /Hello/);
    const { host, pathname, password } = new URL(url);
    assert.ok(program.output().includes(`Database: postgres://${host}${pathname}\n`), program.output());
    assert.ok(!program.output().includes(password));
  });

  it("names its setting if it cannot start, and prints no password", async () => {
    const { url } = await server.database();
    const bad = Object.assign(new URL(url), { password: secret }).href;
    const refused: readonly (readonly [args: string[], env: Record<string, string>, says: RegExp])[] = [
      [["--database", bad], {}, /^greenroom: --database: .*refuses the user or the password/],
      [[], { GREENROOM_DATABASE: `${url}-absent` }, /^greenroom: GREENROOM_DATABASE: .*no such database/],
      [[], { GREENROOM_DATABASE: `postgres:${secret}` }, /^greenroom: GREENROOM_DATABASE: not of the form postgres:/],
      [
        ["--database", url],
        { GREENROOM_DATABASE_DIRECT_URL: bad },
        /^greenroom: GREENROOM_DATABASE_DIRECT_URL: .*refuses/,
      ],
    ];
    for (const [args, env, says] of refused) {
      using folder = createProject();
      await using program = start("server.ts", ["--port", "0", ...args], { cwd: folder.path, env });
      assert.equal(await program.ended, 1);
      assert.match(program.output(), says);
      assert.ok(!program.output().includes(secret), program.output());
    }
  });
});

describe("greenroom/postgres without the package pg", () => {
  it("reports the package to install", async () => {
    using folder = createTemporaryFolder();
    for (const part of ["adapters/postgres", "adapters/sql", "lib"]) {
      cpSync(join(root, part), join(folder.path, part), { recursive: true });
    }
    mkdirSync(join(folder.path, "node_modules"));
    symlinkSync(join(root, "node_modules/kysely"), join(folder.path, "node_modules/kysely"));
    writeFileSync(join(folder.path, "package.json"), JSON.stringify({ type: "module", dependencies: { kysely: "*" } }));
    const main = join(folder.path, "main.ts");
    writeFileSync(
      main,
      `import { postgresDriver } from "./adapters/postgres/mod.ts";
      const driver = postgresDriver("postgres://app:${secret}@127.0.0.1/app");
      await driver.read({ sql: "select 1", args: [] }).catch((error) => console.log(error.name, error.message));
      await driver.close();`,
    );
    await using program = start(relative(root, main), [], { cwd: folder.path });
    assert.equal(await program.ended, 0);
    assert.match(program.output(), /ConfigError postgres: the package pg cannot be loaded .*npm install pg/);
    assert.ok(!program.output().includes(secret));
  });
});
