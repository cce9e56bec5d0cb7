/** Facts of the reference and maintainer pages, held against the code. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { tables } from "../../adapters/sql/schema/mod.ts";
import { COMMANDS, usage } from "../../adapters/standalone/command-options.ts";
import { formatUsage } from "../../adapters/standalone/commands.ts";
import { type ErrorCode, REASONS, ServiceError, STATUS } from "../../lib/errors.ts";
import { errorResponse } from "../../lib/http/respond.ts";
import { loadAllRoutes } from "../../lib/http/routes/mod.ts";
import { errorsPage, HELP } from "../../scripts/errors.ts";
import { testService } from "../suite/kit.ts";

const ROOT = new URL("../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, ROOT), "utf8");
const matches = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, part = ""]) => part);

describe("docs/reference/errors.md", () => {
  const page = read("docs/reference/errors.md");
  it("equals the output of scripts/errors.ts", () => {
    assert.equal(page, errorsPage(page), "run: node scripts/errors.ts");
    const changed = page.replace("### gone: 410", "### gone: 411");
    assert.notEqual(changed, page);
    assert.equal(errorsPage(changed), page);
  });

  it("has a section for each code, with its status, and an item for each reason", () => {
    const codes = Object.keys(STATUS) as ErrorCode[];
    assert.ok(codes.length > 15);
    const [list = ""] = page.split("## Errors of runs");
    assert.deepEqual(matches(list, /^- \*\*`(\w+)`\*\*/gm).sort(), Object.keys(REASONS).sort());
    const expected = codes.map((code) => `${code}: ${errorResponse(new ServiceError(code, "")).status}`);
    assert.deepEqual(matches(page, /^### (\w+: \d+)$/gm).sort(), expected.sort());
  });

  it("names a remedy for each error, in a sentence", () => {
    for (const [reason, { meaning, remedy }] of Object.entries(HELP)) {
      assert.match(meaning, /^[A-Z`].*\.$/, reason);
      assert.match(remedy, /^[A-Z].* .*\.$/, reason);
      assert.doesNotMatch(remedy, /^None/, reason);
    }
  });

  it("has no reason that is never thrown", () => {
    const sources = globSync(["lib/**/*.ts", "adapters/{*.ts,*/*.ts}"], { cwd: ROOT }).map(read);
    // The table itself, and outcomes of the storage.
    const code = sources.join("\n").replace(/export const (?:STATUS|REASONS) = [^}]*\}|(?:kind:|case)[^;\n]*/g, "");
    const isThrown = (reason: string): boolean =>
      code.includes(`"${reason}"`) || code.includes(`notFoundError("${reason.replace("_not_found", "")}"`);
    const unused = (reasons: readonly string[]): string[] => reasons.filter((reason) => !isThrown(reason));
    assert.deepEqual(unused([...Object.keys(STATUS), ...Object.keys(REASONS)]), []);
    assert.deepEqual(unused(["never_thrown"]), ["never_thrown"]);
  });
});

describe("docs/reference/cli.md", () => {
  const page = read("docs/reference/cli.md");
  it("names every flag and every command", () => {
    const helps = [usage, ...[...COMMANDS].map(formatUsage)];
    for (const flag of helps.flatMap((help) => help.match(/(?<!\w)--[a-z-]+/g) ?? []))
      assert.ok(page.includes(flag), flag);
    const commands = helps.slice(1).flatMap((help) => matches(help, /^greenroom (\w+(?: [a-z]+)?)/gm));
    assert.ok(commands.length > 15);
    for (const command of commands) assert.ok(page.includes(`\`${command}`), command);
  });

  it("has every environment variable in docs/reference/configuration.md", () => {
    const sources = globSync("adapters/standalone/*.ts", { cwd: ROOT }).map(read).join("\n");
    const configuration = read("docs/reference/configuration.md");
    const names = sources.match(/GREENROOM_[A-Z_]+[A-Z]/g) ?? [];
    assert.ok(names.length > 10);
    for (const name of names) assert.ok(configuration.includes(`\`${name}\``), name);
  });
});

describe("docs/reference/configuration.md", () => {
  it("has the defaults of the server", async () => {
    const page = read("docs/reference/configuration.md");
    await using test = await testService({ agents: { echo: () => "Hi" } });
    const response = await test.fetch(new Request("http://localhost/greenroom/server"));
    const { configuration } = (await response.json()) as { readonly configuration: Record<string, unknown> };
    let compared = 0;
    for (const [name, value] of Object.entries(configuration)) {
      const row = new RegExp(`^\\| \`${name.replaceAll(".", "\\.")}\` \\| (?:\`([^\`]*)\`|–) \\|`, "m").exec(page);
      if (!row || value === null) continue;
      assert.equal(row[1], String(value), name);
      compared += 1;
    }
    assert.ok(compared > 20, String(compared));
  });
});

describe("docs/architecture.md", () => {
  const page = read("docs/architecture.md");
  it("has at most 400 lines", () => assert.ok(page.split("\n").length <= 401));

  it("lists the layers of lib/ in their order", async () => {
    const [, list = ""] = /form layers, from top to bottom: (.*?)\.\n\n/s.exec(page) ?? [];
    const layers = list.split("›").map((layer) => matches(layer, /`([\w-]+)(?:\.ts)?`/g));
    const { LAYERS } = (await import(new URL(".dependency-cruiser.mjs", ROOT).href)) as { readonly LAYERS: string[][] };
    assert.deepEqual(layers, LAYERS);
  });
});

describe("docs/contributing.md", () => {
  const page = read("docs/contributing.md").replace(/\s+/g, " ");
  it("names existing functions and constants of their files", () => {
    const named = [...page.matchAll(/`(\w+)` (?:in|of) `((?:lib|adapters|test|scripts)\/[\w/.-]+\.ts)`/g)];
    assert.ok(named.length >= 10);
    for (const [what, name = "", file = ""] of named) assert.match(read(file), new RegExp(`\\b${name}\\b`), what);
  });
});

describe("versions in README and docs", () => {
  // Measurements look like versions.
  const isMeasured = (page: string): boolean => page.endsWith("performance.md");
  const pages = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT, exclude: isMeasured })];
  const manifest = JSON.parse(read("package.json")) as {
    readonly version: string;
    readonly engines: { readonly node: string };
    readonly devDependencies: Readonly<Record<string, string>>;
  };
  it("of Node are those of the package and of a new project", () => {
    const engines = (file: string): string => (JSON.parse(read(file)) as typeof manifest).engines.node;
    const [packaged, project] = [manifest.engines.node, engines("templates/function/package.json")];
    assert.ok(read("README.md").includes(`![Node ${packaged.slice(2)} or newer]`));
    // The command loads TypeScript by itself; `node server.ts` does not.
    assert.match(read("docs/reference/cli.md"), new RegExp(`It needs Node ${packaged.slice(2)} or newer`));
    for (const page of pages)
      for (const version of matches(read(page), /\b(22\.\d+)\b/g))
        assert.ok([packaged, project].includes(`>=${version}`), `${page}: ${version}`);
  });

  it("of the package are in every name of its packed file", () => {
    const names = pages.flatMap((page) => matches(read(page), /(greenroom-\d[\w.-]*\.tgz)/g));
    assert.ok(names.length > 5);
    assert.deepEqual([...new Set(names)], [`greenroom-${manifest.version}.tgz`]);
  });

  it("of the SDK: 2.0.0 is never called the newest one", () => {
    for (const page of pages)
      assert.doesNotMatch(
        read(page).replace(/\s+/g, " "),
        /2\.0\.0[^.`]*`latest`|`latest`[^.`]*(?<!\d\.)(?<!\d)2\.0\.0/,
        page,
      );
    assert.match(
      read("docs/reference/sdk.md"),
      /Install 1\.15\.0, which is `latest` on npm[^.]*\. 2\.0\.0 is deprecated\./,
    );
  });

  it("of the SDK are in every command that installs it", () => {
    const version = manifest.devDependencies["@langchain/langgraph-sdk"];
    const installs = pages.flatMap((page) =>
      matches(read(page), /npm install (@langchain\/langgraph-sdk\S*)(?!.* without)/g),
    );
    assert.ok(installs.length > 3);
    for (const install of installs) assert.match(install, new RegExp(`^@langchain/langgraph-sdk@${version}\\b`));
  });
});

describe("limits in docs", () => {
  const readNumber = (file: string, pattern: RegExp): number => Number(pattern.exec(read(file))?.[1]);
  it("have the codes with which a WebSocket is closed", () => {
    const [, list = ""] = /const CLOSE = \{([^}]*)\}/.exec(read("lib/protocol/connection.ts")) ?? [];
    const codes = matches(list, /(\d{4})/g);
    assert.ok(codes.length > 5);
    const page = read("docs/reference/event-protocol.md");
    assert.deepEqual(matches(page, /^\| (\d{4}) \|/gm).sort(), codes.sort());
  });

  it("have the size of events and of submissions to feedback links", () => {
    const bytes = ["lib/steps/calls.ts", "lib/http/routes/feedback-links.ts"].map(
      (file) => readNumber(file, /: number = (\d+) \* 1024;/) * 1024,
    );
    assert.deepEqual(bytes, [256 * 1024, 256 * 1024]);
    for (const page of ["guides/durable-functions", "guides/feedback", "operations/guarantees", "reference/errors"])
      assert.ok(read(`docs/${page}.md`).includes("256 KiB"), page);
  });

  it("have the length of a chain of webhooks", () => {
    const deepest = readNumber("lib/webhooks/feature.ts", /const MAX_WEBHOOK_DEPTH = (\d+);/);
    assert.match(read("docs/guides/webhooks.md").replace(/\s+/g, " "), new RegExp(`depth of ${deepest} or more`));
    assert.match(read("docs/operations/guarantees.md"), new RegExp(`\`X-Webhook-Depth\` \\| ${deepest} \\|`));
  });

  it("have the number of events of ended runs that stay in memory", () => {
    const mebibytes = readNumber("lib/streams/hub.ts", /keep_size = (\d+) \* 1024 \* 1024/);
    assert.match(read("docs/guides/streaming.md").replace(/\s+/g, " "), new RegExp(`fit into ${mebibytes} MiB`));
  });
});

describe("docs/guides", () => {
  it("agents.md names every member of the object that a function receives, and every reason of its signal", async () => {
    const page = read("docs/guides/agents.md");
    const [, section = ""] = /The object has these members:(.*?)\n## /s.exec(page) ?? [];
    let members: string[] = [];
    const agent = (job: object): void => {
      members = Object.keys(job);
    };
    await using test = await testService({ agents: { agent } });
    await (await test.service.runs.wait(null, { assistant_id: "agent", input: {} })).result;
    assert.ok(members.length > 20);
    const named = new Set(matches(section, /`(\w+)(?:\([^`]*\))?`/g));
    assert.deepEqual(
      members.filter((name) => !named.has(name)),
      [],
      "name them in docs/guides/agents.md",
    );
    const [, reasons = ""] = /type StopReason = ([^;]*);/.exec(read("lib/engine/attempt-state.ts")) ?? [];
    for (const reason of [...matches(reasons, /"(\w+)"/g), "suspended"]) assert.ok(named.has(reason), reason);
  });

  it("accounts.md names every path that requires no key", async () => {
    const [, section = ""] = /These paths need no key:\n(.*?)\n## /s.exec(read("docs/guides/accounts.md")) ?? [];
    const named = matches(section, /`(\/[^`]*)`/g);
    const open = (await loadAllRoutes()).filter(({ access, open_locally }) => access === "open" || open_locally);
    assert.ok(open.length > 10);
    for (const { path } of open) {
      const isNamed = named.some((name) => path === name || (/\/$|-resource$/.test(name) && path.startsWith(name)));
      assert.ok(isNamed, path);
    }
  });
});

describe("docs/operations/running.md", () => {
  const page = read("docs/operations/running.md").replace(/\s+/g, " ");
  it("names the headers that identify a proxy, as deployment.md does", () => {
    const [, list = ""] = /const PROXY_HEADERS = \[([^\]]*)\]/.exec(read("lib/http/access.ts")) ?? [];
    const headers = matches(list, /"([\w-]+)"/g);
    assert.equal(headers.length, 5);
    const [, section = ""] = /## Health(.*?) ## /.exec(page) ?? [];
    for (const header of headers) assert.ok(section.toLowerCase().includes(`\`${header}\``), header);
    const [, nginx = ""] = /```nginx\n(.*?)```/s.exec(read("docs/operations/deployment.md")) ?? [];
    assert.match(nginx, /proxy_set_header X-Forwarded-For /);
    assert.match(nginx, /proxy_set_header Host \$host;/);
  });

  it("repeats no figure of performance.md", () => {
    const [, section = ""] = /## Sizing(.*?)$/.exec(page) ?? [];
    assert.match(section, /\(performance\.md#figures\)/);
    assert.doesNotMatch(section, /\| CPU of /);
  });

  it("selects columns of the table runs", () => {
    const [, list = ""] = /select ([\w, ]+) from runs where/.exec(page) ?? [];
    const columnNames = Object.keys(tables.runs.columns);
    // Which process executed the run.
    assert.ok(list.split(", ").includes("claim_log"));
    assert.deepEqual(
      list.split(", ").filter((column) => !columnNames.includes(column)),
      [],
    );
  });

  it("names log records of the engine", () => {
    const [, section = ""] = /## Find out why a run was retried(.*?) ## /.exec(page) ?? [];
    const records = matches(section, / - `([^`]+)`:/g);
    assert.equal(records.length, 3);
    const engine = globSync("lib/engine/*.ts", { cwd: ROOT }).map(read).join("\n");
    for (const record of records) assert.ok(engine.includes(`"${record}"`), record);
  });
});

describe("maintainer pages", () => {
  for (const name of ["docs/architecture.md", "docs/contributing.md", "docs/decisions.md"]) {
    it(`${name} names only files that exist`, () => {
      const paths = matches(read(name), /`((?:lib|adapters|test|scripts|examples|bench|docs)(?:\/[\w.*-]+)+)`/g);
      assert.ok(paths.length > 10);
      for (const path of paths) assert.ok(globSync(path, { cwd: ROOT }).length > 0, path);
    });
  }
});
