import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { createTemporaryFolder, root } from "../support/programs.ts";

/** Notes each call, and answers as a file says: `<program>-<first word>`, its exit code in the first line. */
const fake = `#!/bin/sh
name=$(basename "$0")
[ "$1" = run ] && all=" with all: $GREENROOM_TEST_ALL"
echo "$name $*$all" >> calls.log
answer="answers/$name-$1"
[ -f "$answer" ] || exit 0
tail -n +2 "$answer"
exit $(head -n 1 "$answer")
`;

const manifest = { name: "greenroom", version: "1.2.3", scripts: { "test:all": "all of them" } };

interface Ran {
  readonly code: number | null;
  readonly output: string;
  /** The calls of npm and deno, in their order. */
  readonly calls: readonly string[];
}

/** A repository of one commit, whose version and tag fit. */
class Repository {
  readonly #folder = createTemporaryFolder();
  readonly path: string = this.#folder.path;

  constructor() {
    const ignored = ["node_modules/", "calls.log", "answers/"];
    this.write("package.json", { ...manifest, repository: "here" });
    this.write("package-lock.json", { version: "1.2.3" });
    this.write("jsr.json", { version: "1.2.3" });
    this.write("lib/service.ts", '/** This release. */\nexport const VERSION = "1.2.3";\n');
    this.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-21\n");
    this.write(".gitignore", ignored.join("\n"));
    cpSync(join(root, ".github"), join(this.path, ".github"), { recursive: true });
    for (const file of [".ci/run", "scripts/release.ts"]) this.write(file, "");
    for (const program of ["npm", "deno"]) {
      this.write(`node_modules/.bin/${program}`, fake);
      chmodSync(join(this.path, "node_modules/.bin", program), 0o755);
    }
    // Bun parses the workflows.
    symlinkSync(join(root, "node_modules/bun/bin/bun.exe"), join(this.path, "node_modules/.bin/bun"));
    this.git("init", "--quiet");
    this.commit();
    this.git("tag", "v1.2.3");
  }

  write(file: string, content: string | object): void {
    mkdirSync(join(this.path, file, ".."), { recursive: true });
    writeFileSync(join(this.path, file), typeof content === "string" ? content : JSON.stringify(content));
  }

  git(...args: readonly string[]): string {
    const who = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"];
    const { status, stdout, stderr } = spawnSync("git", [...who, ...args], { cwd: this.path, encoding: "utf8" });
    assert.equal(status, 0, stderr);
    return stdout.trim();
  }

  commit(): void {
    this.git("add", "--all");
    this.git("commit", "--quiet", "--message", "All of it");
  }

  /** Sets the answer that the program gives from now on. */
  answer(program: string, code: number, text = ""): void {
    this.write(`answers/${program}`, `${code}\n${text}`);
  }

  /** As the workflow does it. */
  release(...args: readonly string[]): Ran {
    return this.#run(args, { ACTIONS_ID_TOKEN_REQUEST_URL: "https://tokens.example" });
  }

  byHand(...args: readonly string[]): Ran {
    return this.#run(args, {});
  }

  #run(args: readonly string[], env: Readonly<Record<string, string>>): Ran {
    const log = join(this.path, "calls.log");
    rmSync(log, { force: true });
    const foreign = /^(?:NODE_TEST_CONTEXT|ACTIONS_ID_TOKEN_REQUEST_URL|SIGSTORE_ID_TOKEN)$/;
    const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, "scripts/release.ts"), ...args], {
      cwd: this.path,
      env: { ...inherited, ...env },
      encoding: "utf8",
    });
    const calls = existsSync(log) ? readFileSync(log, "utf8").trim().split("\n") : [];
    return { code: status, output: stdout + stderr, calls };
  }

  [Symbol.dispose](): void {
    this.#folder[Symbol.dispose]();
  }
}

const CHECK = "npm run check with all: 1";
const VIEW = "npm view greenroom@1.2.3 version gitHead --json";
const PUBLISH = "npm publish --access public --tag latest";

describe("scripts/release.ts", () => {
  it("runs the checks, then publishes to npm and JSR, in this order and with provenance", () => {
    using repository = new Repository();
    repository.answer("npm-view", 1, '{ "error": { "code": "E404" } }');
    const { code, output, calls } = repository.release("v1.2.3");
    assert.equal(code, 0, output);
    assert.deepEqual(calls, [CHECK, VIEW, `${PUBLISH} --provenance`, "deno publish"]);
  });

  it("runs all steps but the publication in a dry run", () => {
    using repository = new Repository();
    const { code, output, calls } = repository.release("v1.2.3", "--dry-run");
    assert.equal(code, 0, output);
    assert.deepEqual(calls, [CHECK, `${PUBLISH} --dry-run`, "deno publish --dry-run"]);
    assert.match(output, /1\.2\.3 can be released/);
  });

  it("compares the tag with the versions and does nothing else with --verify-tag", () => {
    using repository = new Repository();
    const { code, output, calls } = repository.byHand("v1.2.3", "--verify-tag");
    assert.deepEqual([code, calls], [0, []], output);
    assert.equal(output, "v1.2.3 fits the versions, the changelog and the tree\n");
  });

  it("requires neither a tag nor a clean tree to print what it would publish", () => {
    using repository = new Repository();
    repository.git("tag", "--delete", "v1.2.3");
    repository.write("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n");
    repository.answer("deno-publish", 0, "file:///tree/LICENSE (1KB)\nfile:///tree/THIRD-PARTY-LICENSES (9KB)");
    const incomplete = repository.release("--dry-run");
    assert.equal(incomplete.code, 1);
    assert.match(incomplete.output, /JSR would not get assets\.ts/);

    const listed = ["LICENSE", "THIRD-PARTY-LICENSES", "adapters/studio/assets.ts"];
    repository.answer("deno-publish", 0, listed.map((file) => `file:///tree/${file} (1KB)`).join("\n"));
    const { code, output, calls } = repository.release("--dry-run");
    assert.equal(code, 0, output);
    assert.deepEqual(calls.slice(-3), [
      `${PUBLISH} --dry-run --ignore-scripts`,
      "deno publish --dry-run --allow-dirty --quiet --no-check",
      "deno publish --dry-run --allow-dirty --no-check",
    ]);
  });

  it("publishes nothing if tag, versions, changelog and tree do not match, and names every problem", () => {
    using repository = new Repository();
    const refused = (pattern: RegExp, ...args: readonly string[]): void => {
      const { code, output, calls } = repository.release(...args);
      assert.deepEqual([code, calls], [1, []], output);
      assert.match(output, /^Nothing was published:$/m);
      assert.match(output, pattern);
    };
    refused(/Name one tag/);
    refused(/Name one tag/, "--verify-tag");
    refused(/Name one tag/, "v1.2.3", "v1.2.4");
    for (const extraArgs of [[], ["--dry-run"], ["--verify-tag"]]) {
      refused(/1\.2\.3: is not a version tag such as v1\.2\.3/, "1.2.3", ...extraArgs);
      refused(/v1\.2\.4: package\.json says 1\.2\.3[\s\S]*v1\.2\.4: the tag does not exist/, "v1.2.4", ...extraArgs);
    }

    repository.write("jsr.json", { version: "1.2.2" });
    repository.write("package-lock.json", {});
    repository.write("lib/service.ts", 'export const VERSION = "1.3.0";\n');
    repository.write("CHANGELOG.md", "# Changelog\n\n## [1.2.3] - soon\n\n## [1.2.30] - 2026-11-21\n");
    const problems = [
      "package-lock\\.json: the version is missing; package\\.json says 1\\.2\\.3",
      "jsr\\.json: the version is 1\\.2\\.2; package\\.json says 1\\.2\\.3",
      "VERSION in lib/service\\.ts: the version is 1\\.3\\.0; package\\.json says 1\\.2\\.3",
      "The tree is not clean:[\\s\\S]*M jsr\\.json",
      'CHANGELOG\\.md: has no heading "## \\[1\\.2\\.3\\] - YYYY-MM-DD"',
    ];
    for (const args of [["v1.2.3"], ["v1.2.3", "--dry-run"], ["v1.2.3", "--verify-tag"]])
      refused(new RegExp(problems.join("[\\s\\S]*")), ...args);
    refused(/jsr\.json: the version is 1\.2\.2/, "--dry-run");
    repository.commit();
    refused(/v1\.2\.3: the tag is on another commit than the one checked out/, "v1.2.3");
  });

  it("publishes nothing without provenance", () => {
    using repository = new Repository();
    repository.write("package.json", manifest);
    repository.commit();
    repository.git("tag", "--force", "v1.2.3");
    const { code, output, calls } = repository.release("v1.2.3");
    assert.deepEqual([code, calls], [1, []], output);
    assert.match(output, /package\.json: `repository` is missing; npm requires it for provenance/);
    const { output: by_hand } = repository.byHand("v1.2.3");
    assert.match(by_hand, /Provenance is available only in the release workflow/);
  });

  it("publishes nothing if a check fails", () => {
    using repository = new Repository();
    repository.answer("npm-run", 1);
    const { code, calls } = repository.release("v1.2.3");
    assert.deepEqual([code, calls], [1, [CHECK]]);
  });

  it("can be repeated after a partial publication: npm keeps its version, JSR gets the rest", () => {
    using repository = new Repository();
    repository.answer("npm-view", 0);
    repository.answer("deno-publish", 1);
    const first = repository.release("v1.2.3");
    assert.equal(first.code, 1);
    assert.deepEqual(first.calls.slice(-2), [`${PUBLISH} --provenance`, "deno publish"]);
    assert.match(first.output, /deno publish failed\. What was published stays/);

    rmSync(join(repository.path, "answers/deno-publish"));
    const gitHead = repository.git("rev-parse", "HEAD");
    for (const answer of [{ version: "1.2.3", gitHead }, "1.2.3"]) {
      repository.answer("npm-view", 0, JSON.stringify(answer));
      const again = repository.release("v1.2.3");
      assert.equal(again.code, 0, again.output);
      assert.deepEqual(again.calls, [CHECK, VIEW, "deno publish"]);
    }
  });

  it("publishes nothing if npm has this version of another commit, or gives no commit", () => {
    using repository = new Repository();
    repository.answer("npm-view", 0, JSON.stringify({ version: "1.2.3", gitHead: "0".repeat(40) }));
    const otherRelease = repository.release("v1.2.3");
    assert.deepEqual([otherRelease.code, otherRelease.calls], [1, [CHECK, VIEW]]);
    assert.match(otherRelease.output, /npm has 1\.2\.3 from another commit/);
    repository.answer("npm-view", 1, '{ "error": { "code": "ENOTFOUND" } }');
    const away = repository.release("v1.2.3");
    assert.deepEqual([away.code, away.calls], [1, [CHECK, VIEW]]);
    assert.match(away.output, /npm view: .*ENOTFOUND/);
  });

  it("publishes a prerelease under its own tag only", () => {
    using repository = new Repository();
    const version = "1.3.0-rc.1";
    for (const file of ["package.json", "package-lock.json", "jsr.json"]) {
      repository.write(file, { ...manifest, version, repository: "here" });
    }
    repository.write("lib/service.ts", `export const VERSION = "${version}";\n`);
    repository.write("CHANGELOG.md", `## [${version}] - 2026-11-21\n`);
    repository.commit();
    repository.git("tag", `v${version}`);
    const { code, output, calls } = repository.release(`v${version}`);
    assert.equal(code, 0, output);
    assert.equal(calls.at(-2), "npm publish --access public --tag next --provenance");
  });

  /** A dry run after one change of a workflow: the problems it names. */
  const findProblems = (repository: Repository, file: string, from: string | RegExp, to: string): string => {
    const path = `.github/workflows/${file}`;
    const yaml = readFileSync(join(repository.path, path), "utf8");
    const changed = yaml.replace(from, to);
    assert.notEqual(changed, yaml, `${from} is not in ${file}`);
    repository.write(path, changed);
    const { code, output, calls } = repository.release("--dry-run");
    repository.write(path, yaml);
    assert.deepEqual([code, calls], [1, []], output);
    return output.replace("Nothing was published:\n- ", "").replaceAll(`${path}: `, "").trimEnd();
  };

  it("names the problems of a workflow", () => {
    using repository = new Repository();
    const problems: readonly (readonly [file: string, from: string | RegExp, to: string, problem: string])[] = [
      ["ci.yml", "jobs:", "jobs: [", "is not YAML: YAML Parse error: Unexpected token"],
      ["ci.yml", /^[\s\S]*$/, "- a list", "is not a YAML mapping"],
      ["ci.yml", "  pull_request:\n", "", "on: pull_request is missing"],
      ["ci.yml", "run: .ci/run", "run: npm ci", "does not run .ci/run"],
      [
        "ci.yml",
        "run: .ci/run",
        "run: |\n          .ci/run\n          .ci/walk",
        "job ci: .ci/walk: there is no file .ci/walk",
      ],
      [
        "ci.yml",
        / {6}- run: /,
        "      - uses: a/b@main\n$&",
        "job ci: a/b@main: name a commit or a major version after the @",
      ],
      ["release.yml", '["v*"]', '["*"]', 'on: write {"push":{"tags":["v*"]}}'],
      [
        "release.yml",
        "environment: release",
        "if: always()",
        "job publish: if: a release must not skip a step or ignore its failure",
      ],
      [
        "release.yml",
        "run: .ci/run",
        "run: .ci/run\n        continue-on-error: true",
        "job verify: continue-on-error: a release must not skip a step or ignore its failure",
      ],
      [
        "release.yml",
        "    needs: verify\n",
        "",
        'run npm run test:all before node scripts/release.ts "$GITHUB_REF_NAME"',
      ],
      ["release.yml", /( {6}- run: \.ci\/run\n)( {6}- run: .*\n)/, "$2$1", "run .ci/run before npm run test:all"],
      [
        "release.yml",
        / {6}- run: node .* --verify-tag\n/,
        "",
        'runs node scripts/release.ts "$GITHUB_REF_NAME" --verify-tag 0 times; run it once',
      ],
    ];
    for (const [file, from, to, problem] of problems) assert.equal(findProblems(repository, file, from, to), problem);

    const everything = findProblems(repository, "release.yml", "run test:all", "run test:some");
    assert.match(everything, /^job verify: npm run test:some: package\.json has no script test:some$/m);
    assert.match(everything, /^- runs npm run test:all 0 times; run it once$/m);
  });

  it("permits provenance only for the job that publishes", () => {
    using repository = new Repository();
    const read = '{"contents":"read"}';
    const publish = '{"contents":"read","id-token":"write"}';
    const line = "permissions:\n  contents: read\n";
    assert.equal(
      findProblems(repository, "ci.yml", line, "permissions: write-all\n"),
      `permissions: is "write-all"; write ${read}\n- job ci: permissions: is "write-all"; write ${read}`,
    );
    assert.match(
      findProblems(repository, "release.yml", line, ""),
      /^permissions: is missing; write .*\n- job verify: permissions: is missing/,
    );
    assert.equal(
      findProblems(repository, "release.yml", /\n {6}id-token: write.*/, ""),
      `job publish: permissions: is ${read}; write ${publish}`,
    );
  });

  it("requires both workflows", () => {
    using repository = new Repository();
    rmSync(join(repository.path, ".github"), { recursive: true });
    const { code, output } = repository.release("--dry-run");
    assert.equal(code, 1);
    assert.match(output, /ci\.yml: is missing\n- .*release\.yml: is missing/);
  });
});
