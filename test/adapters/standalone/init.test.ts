/** Checks the files that `greenroom init` writes, and its refusals. scripts/check-package.ts installs and runs each template. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readConfig } from "../../../adapters/standalone/config.ts";
import { createTemporaryFolder, type Program, root, start } from "../../support/programs.ts";

const COMMON = [
  ".env",
  ".gitignore",
  "README.md",
  "greenroom.json",
  "package.json",
  "src/agent.test.ts",
  "src/agent.ts",
];
const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  function: [],
  langgraph: [],
  "ai-sdk": ["src/model.ts"],
  "ai-chat": [
    ...["src/model.ts", "vite.config.ts"],
    ...["web/chat.tsx", "web/index.html", "web/main.tsx", "web/style.css"],
  ],
  react: ["vite.config.ts", "web/chat.tsx", "web/index.html", "web/main.tsx", "web/style.css"],
};

const init = (cwd: string, ...args: readonly string[]): Program => start("server.ts", ["init", ...args], { cwd });
const listFiles = (folder: string): string[] =>
  (readdirSync(folder, { recursive: true }) as string[])
    .filter((path) => statSync(join(folder, path)).isFile())
    .map((path) => path.replaceAll("\\", "/"))
    .sort();

describe("greenroom init", () => {
  for (const [template, expectedFiles] of Object.entries(TEMPLATES)) {
    it(`writes a project: ${template}`, async () => {
      using folder = createTemporaryFolder();
      await using program = init(folder.path, "my-agent", "--template", template);
      assert.equal(await program.ended, 0, program.output());
      assert.match(
        program.output(),
        /^Created my-agent: .*\nNext:\n {2}cd my-agent\n {2}\S+ install\n {2}.* run dev\n$/s,
      );
      const projectPath = join(folder.path, "my-agent");
      assert.deepEqual(listFiles(projectPath), [...COMMON, "tsconfig.json", ...expectedFiles].sort());
      const manifest = JSON.parse(readFileSync(join(projectPath, "package.json"), "utf8")) as Record<
        string,
        Record<string, string>
      >;
      const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
      assert.equal(manifest.name, "my-agent");
      assert.equal(manifest.engines?.node, ">=22.18");
      assert.equal(manifest.dependencies?.greenroom, `^${version}`);
      assert.deepEqual(
        ["dev", "start", "test", "check"].filter((name) => !manifest.scripts?.[name]),
        [],
      );
      assert.deepEqual(readConfig(join(projectPath, "greenroom.json")).problems, []);
      assert.match(readFileSync(join(projectPath, ".gitignore"), "utf8"), /^node_modules\/$[\s\S]*^\.env$/m);
      for (const file of listFiles(projectPath)) {
        assert.doesNotMatch(readFileSync(join(projectPath, file), "utf8"), /__[A-Z]+__/, file);
      }
    });
  }

  it("writes into the current folder, whose name it keeps if that is a valid package name", async () => {
    using folder = createTemporaryFolder();
    mkdirSync(join(folder.path, "here/.git"), { recursive: true });
    mkdirSync(join(folder.path, "Two Words"));
    for (const [cwd, name] of [
      ["here", "here"],
      ["Two Words", "my-agent"],
    ] as const) {
      await using program = init(join(folder.path, cwd));
      assert.equal(await program.ended, 0, program.output());
      const text = readFileSync(join(folder.path, cwd, "package.json"), "utf8");
      assert.equal((JSON.parse(text) as { name: string }).name, name);
    }
  });

  it("rejects folders with files, invalid names and unknown templates, all at once", async () => {
    using folder = createTemporaryFolder();
    mkdirSync(join(folder.path, "full"));
    writeFileSync(join(folder.path, "full/README.md"), "mine");
    writeFileSync(join(folder.path, "full/own.json"), '{ "name": "__NAME__" }');
    await using full = init(folder.path, "full", "--template", "reakt", "--fource");
    assert.equal(await full.ended, 1);
    assert.match(full.output(), /full is not empty: it has README\.md, own\.json\. .*--force/);
    assert.match(
      full.output(),
      /--template: there is no reakt; choose one:\n +function .*\n +langgraph .*\n +ai-sdk .*\n +ai-chat .*\n +react /,
    );
    assert.match(full.output(), /--fource: unknown option; did you mean --force\?/);
    assert.deepEqual(listFiles(join(folder.path, "full")), ["README.md", "own.json"]);
    await using named = init(folder.path, "My Agent");
    assert.equal(await named.ended, 1);
    assert.match(named.output(), /My Agent: cannot be the name of a package/);
    assert.ok(!existsSync(join(folder.path, "My Agent")));
    await using file = init(folder.path, "full/own.json/my-agent");
    assert.equal(await file.ended, 1);
    assert.match(file.output(), /^greenroom: .*my-agent: the project cannot be written: ENOTDIR: .*\n$/);
    await using forced = init(folder.path, "full", "--force");
    assert.equal(await forced.ended, 0, forced.output());
    assert.match(readFileSync(join(folder.path, "full/README.md"), "utf8"), /^# full/);
    assert.equal(readFileSync(join(folder.path, "full/own.json"), "utf8"), '{ "name": "__NAME__" }');
  });

  it("lets the server choose its port, and passes it to the page", () => {
    for (const template of ["react", "ai-chat"]) {
      const read = (name: string): string => readFileSync(join(root, "templates", template, name), "utf8");
      const { dev } = (JSON.parse(read("package.json")) as { scripts: Record<string, string> }).scripts;
      assert.equal(dev, 'greenroom dev --run "vite --open"');
      assert.match(read("vite.config.ts"), /process\.env\.GREENROOM_URL/);
    }
  });

  it("writes nothing through links, not even with --force", async () => {
    using folder = createTemporaryFolder();
    const [projectPath, outside] = [join(folder.path, "my-agent"), join(folder.path, "outside")];
    for (const path of [projectPath, outside]) mkdirSync(path);
    writeFileSync(join(outside, "mine.env"), "MINE=1");
    symlinkSync(join(outside, "mine.env"), join(projectPath, ".env"));
    symlinkSync(join(outside, "none.md"), join(projectPath, "README.md"));
    symlinkSync(outside, join(projectPath, "src"));
    await using program = init(folder.path, "my-agent", "--force");
    assert.equal(await program.ended, 1);
    for (const name of [".env", "README.md", "src"]) {
      assert.match(program.output(), new RegExp(`my-agent.${name} is a link: .* Remove it`));
    }
    assert.deepEqual(readdirSync(outside), ["mine.env"]);
    assert.equal(readFileSync(join(outside, "mine.env"), "utf8"), "MINE=1");
    assert.deepEqual(readdirSync(projectPath).sort(), [".env", "README.md", "src"]);
    // The folder itself may be one.
    symlinkSync(outside, join(folder.path, "linked"));
    await using linked = init(folder.path, "linked", "--force");
    assert.equal(await linked.ended, 0, linked.output());
    assert.ok(existsSync(join(outside, "src/agent.ts")));
  });
});
