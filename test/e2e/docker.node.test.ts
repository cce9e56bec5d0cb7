import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { freePort } from "../soak/servers.ts";
import { createTemporaryFolder, root } from "../support/programs.ts";
import { build, type Image, linkingNpm, listContextFiles, outside, parseInstructions } from "./docker/image.ts";

const KEY = "a-key-of-the-test-with-more-than-32-characters";
const agents = `
interface Job { readonly messages: readonly { content: unknown }[] }
export async function* counter({ messages }: Job) {
  yield \`Message \${messages.length}\`;
}
export async function* slow(): AsyncGenerator<string> {
  console.log("slow has begun");
  await new Promise((resolve) => setTimeout(resolve, 300));
  yield "slow but sure";
}
`;

interface Container {
  readonly url: string;
  output(): string;
  printed(text: string): Promise<void>;
  readonly ended: Promise<number | null>;
  kill(signal: NodeJS.Signals): Promise<number | null>;
}

describe("the Dockerfile", () => {
  const folder = createTemporaryFolder();
  const dockerfile = readFileSync(join(root, "Dockerfile"), "utf8");
  const children = new Set<ChildProcess>();
  let image: Image;

  before(() => {
    const programs = linkingNpm(join(folder.path, "bin"), root);
    image = build(dockerfile, { context: root, folder: folder.path, programs });
    writeFileSync(join(image.workdir, "agents.ts"), agents);
    const graphs = { counter: "./agents.ts:counter", slow: "./agents.ts:slow" };
    writeFileSync(join(image.workdir, "greenroom.json"), JSON.stringify({ graphs }));
    // As a mount that is only read.
    chmodSync(image.workdir, 0o555);
  });
  after(() => {
    for (const child of children) child.kill("SIGKILL");
    if (image) chmodSync(image.workdir, 0o755);
    folder[Symbol.dispose]();
  });

  const run = (env: Readonly<Record<string, string>>, args: readonly string[] = []): Container => {
    const [program = "", ...imageArgs] = [...image.entrypoint, ...args];
    const options = { cwd: image.workdir, env: { ...outside(), ...image.env, ...env } };
    const child = spawn(program, imageArgs, { ...options, stdio: ["ignore", "pipe", "pipe"] });
    children.add(child);
    let output = "";
    const looks = new Set<() => void>();
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (bytes: Buffer) => {
        output += bytes;
        for (const look of looks) look();
      });
    }
    const ended = new Promise<number | null>((resolve) => child.on("close", resolve));
    return {
      url: `http://127.0.0.1:${env.GREENROOM_PORT}`,
      output: () => output,
      printed: (text) =>
        new Promise((resolve, failed) => {
          const look = (): void => {
            if (output.includes(text)) resolve();
          };
          looks.add(look);
          look();
          ended.then((code) => failed(new Error(`It ended with ${code} before it printed ${text}:\n${output}`)));
        }),
      ended,
      kill(signal) {
        child.kill(signal);
        return ended;
      },
    };
  };
  const health = (env: Readonly<Record<string, string>>): number | null => {
    const [program = "", ...args] = image.healthcheck;
    return spawnSync(program, args, { env: { ...outside(), ...image.env, ...env } }).status;
  };
  const ask = async (url: string, path: string, body?: unknown): Promise<Record<string, unknown>> => {
    const headers = { "x-api-key": KEY, "content-type": "application/json" };
    const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(url + path, init);
    assert.ok(response.ok, `${path}: ${response.status}`);
    return (await response.json()) as Record<string, unknown>;
  };
  const last = (values: unknown): unknown => (values as { messages: { content: unknown }[] }).messages.at(-1)?.content;
  const input = { messages: [{ role: "user", content: "Hello" }] };

  it("starts no server without authentication", async () => {
    const container = run({ GREENROOM_PORT: String(await freePort()) });
    assert.equal(await container.ended, 1);
    assert.match(container.output(), /GREENROOM_HOST: the server has no authentication/);
  });

  it("is healthy while it serves, drains on its stop signal, and keeps its data", async () => {
    const env = { GREENROOM_PORT: String(await freePort()), GREENROOM_API_KEYS: KEY };
    assert.equal(health(env), 1, "before the start");
    const first = run(env);
    await first.printed("Greenroom listening on");
    assert.equal(health(env), 0);
    const { thread_id } = await ask(first.url, "/threads", {});
    const wait = `/threads/${thread_id}/runs/wait`;
    assert.equal(last(await ask(first.url, wait, { assistant_id: "counter", input })), "Message 1");

    const slow = ask(first.url, wait, { assistant_id: "slow", input });
    await first.printed("slow has begun");
    const stopped = first.kill(image.otherInstructions.STOPSIGNAL as NodeJS.Signals);
    assert.equal(last(await slow), "slow but sure");
    assert.equal(await stopped, 0);
    assert.equal(health(env), 1, "after the end");
    assert.ok(statSync(join(image.root, "data/greenroom.db")).size > 0);

    const second = run(env);
    await second.printed("Greenroom listening on");
    assert.equal(health(env), 0);
    assert.equal(last(await ask(second.url, wait, { assistant_id: "counter", input })), "Message 5");
    assert.equal(await second.kill("SIGTERM"), 0);
  });

  it("runs commands instead of the server", async () => {
    const copy = join(image.root, "data/copy.db");
    rmSync(copy, { force: true });
    const backup = run({}, ["backup", copy]);
    assert.equal(await backup.ended, 0, backup.output());
    assert.ok(existsSync(copy));
  });

  it("uses the tested Node and an unprivileged user, and names its port, data and signal", () => {
    const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
    const major = /^node:(\d+)-slim$/.exec(image.base)?.[1];
    assert.equal(major, String(devDependencies.node).split(".")[0]);
    assert.equal(major, process.versions.node.split(".")[0]);
    for (const { name, text } of parseInstructions(dockerfile)) {
      if (name === "FROM") assert.match(text, new RegExp(`^${image.base}(?: AS |$)`));
    }
    assert.equal(image.user, "node");
    const { VOLUME, EXPOSE, STOPSIGNAL } = image.otherInstructions;
    assert.deepEqual([VOLUME, EXPOSE, STOPSIGNAL], ["/data", image.env.GREENROOM_PORT, "SIGTERM"]);
    // `docker stop` waits for 10 s.
    assert.ok(Number(image.env.GREENROOM_GRACE_MS) < 10_000);
  });

  it("sends nothing to the builder that the package does not need", () => {
    const files = listContextFiles(root, readFileSync(join(root, ".dockerignore"), "utf8"));
    const folders = new Set(files.map((file) => file.split("/")[0]));
    for (const name of ["node_modules", ".git", "bench", "examples"]) assert.ok(!folders.has(name), name);
    assert.deepEqual(
      files.filter((file) => file.startsWith("test/") && !file.startsWith("test/suite/")),
      [],
    );
    for (const name of ["package-lock.json", ".npmrc", "server.ts", "test/suite/mod.ts", "LICENSE"]) {
      assert.ok(files.includes(name), name);
    }
  });
});
