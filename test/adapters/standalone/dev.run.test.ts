/** `greenroom dev --run`: a second program that needs the URL of the server. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createTemporaryFolder, type Program, root, start, waitForUrl } from "../../support/programs.ts";

const FILES = {
  "package.json": '{ "type": "module" }',
  "greenroom.json": '{ "graphs": { "agent": "./agent.mjs:agent" } }',
  "agent.mjs": 'export const agent = () => "Hi";\n',
  "page.sh": `trap 'echo "page stopped"; exit 0' TERM
echo "page of $GREENROOM_URL"
while [ ! -s end ]; do sleep 0.05; done
exit "$(cat end)"
`,
};

function createProject(): { readonly path: string; dev(command: string): Program } & Disposable {
  const folder = createTemporaryFolder();
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder.path, name), text);
  const args = ["--port", "0", "--database", ":memory:"];
  return { ...folder, dev: (run) => start("server.ts", ["dev", "--run", run, ...args], { cwd: folder.path }) };
}

describe("greenroom dev --run", () => {
  it("starts the command with the URL of the server, and ends it", async () => {
    using folder = createProject();
    await using program = folder.dev("sh page.sh");
    const url = await waitForUrl(program);
    assert.equal((await program.printed(/^page of (.*)$/m))[1], url);
    assert.equal(await program.kill("SIGTERM"), 0);
    assert.match(program.output(), /^page stopped$/m);
  });

  for (const [code, ends] of [
    ["0", 0],
    ["3", 1],
  ] as const) {
    it(`exits with the command's exit code ${code}`, async () => {
      using folder = createProject();
      await using program = folder.dev("sh page.sh");
      await program.printed(/^page of/m);
      writeFileSync(join(folder.path, "end"), code);
      assert.equal(await program.ended, ends, program.output());
      if (ends === 1) assert.match(program.output(), /^greenroom: --run: sh page\.sh ended with code 3$/m);
    });
  }

  it("reports a missing command", async () => {
    using folder = createProject();
    await using program = folder.dev("no-such-program --open");
    assert.equal(await program.ended, 1);
    assert.match(program.output(), /^greenroom: --run: no-such-program --open ended with code 127$/m);
  });

  it("is an option of dev only", async () => {
    await using program = start("server.ts", ["--run", "true"], { cwd: root });
    assert.equal(await program.ended, 1);
    assert.match(program.output(), /--run: unknown option/);
  });
});
