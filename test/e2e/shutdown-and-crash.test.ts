import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { createTemporaryFolder, type Program, start, waitForUrl } from "../support/programs.ts";

/** `gated` yields one word, waits for the file `open` and yields another. `deaf` ignores its signal. */
const agents = `
import { appendFileSync, existsSync } from "node:fs";
const note = (...words) => appendFileSync("journal.txt", words.join(" ") + "\\n");
const opened = async (signal) => {
  while (!existsSync("open") && !signal?.aborted) await new Promise((resolve) => setTimeout(resolve, 10));
};
export async function* gated({ run_id, attempt, signal }) {
  note("begin", run_id, attempt, process.pid);
  yield "one ";
  await opened(signal);
  if (signal.aborted) {
    note("stopped", run_id, attempt, signal.reason);
    return;
  }
  yield "two";
}
export async function* deaf() {
  note("deaf");
  await opened();
  yield "heard";
}
export async function* quick() {
  yield "quick";
}
`;
/** The lease is long enough that no test can wait for its end. */
const worker = { lease_ms: 600_000 };

interface Project extends Disposable {
  readonly path: string;
  serve(args?: readonly string[]): Program;
  /** Lets gated runs continue. */
  open(): void;
  journal(): string;
}

function project(path?: string): Project {
  const folder = createTemporaryFolder();
  const root = path ?? folder.path;
  const graphs = Object.fromEntries(["gated", "deaf", "quick"].map((name) => [name, `./agents.mjs:${name}`]));
  writeFileSync(join(folder.path, "agents.mjs"), agents);
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, worker }));
  writeFileSync(join(folder.path, "journal.txt"), "");
  const database = join(root, "agents.db");
  return {
    path: folder.path,
    serve: (args = []) => start("server.ts", ["--port", "0", "--database", database, ...args], { cwd: folder.path }),
    open: () => writeFileSync(join(folder.path, "open"), ""),
    journal: () => readFileSync(join(folder.path, "journal.txt"), "utf8"),
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

/** Polls `look` until it returns a value. */
async function eventually<Value>(
  look: () => Promise<Value | undefined | false> | Value | undefined | false,
): Promise<Value> {
  const until = Date.now() + 45_000;
  for (;;) {
    const value = await look();
    if (value !== undefined && value !== false) return value;
    assert.ok(Date.now() < until, `never: ${look}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const input = { messages: [{ role: "user", content: "Hello" }] };
const last = (values: unknown): unknown => (values as { messages: { content: unknown }[] }).messages.at(-1)?.content;
const waitForAttempt = (project: Project, run_id: string, attempt: number): Promise<string> =>
  eventually(() => new RegExp(`^begin ${run_id} ${attempt} (\\d+)$`, "m").exec(project.journal())?.[1]);
const post = (url: string, path: string, body: unknown): Promise<Response> =>
  fetch(url + path, { method: "POST", body: JSON.stringify(body) });

/** Reads the frames of a run's stream up to its end. */
async function readFrames(url: string, thread_id: string, run_id: string, after = "-1"): Promise<string[]> {
  const path = `${url}/threads/${thread_id}/runs/${run_id}/stream`;
  const text = await (await fetch(path, { headers: { "last-event-id": after } })).text();
  return text
    .replace(/^: heartbeat\n/gm, "")
    .split("\n\n")
    .filter(Boolean);
}

/** The SDK retries after a fetch error of Node, and not after one of Bun. */
const fetchRetried: typeof fetch = Object.assign(
  (...args: Parameters<typeof fetch>) =>
    fetch(...args).catch((cause: unknown) => {
      throw new TypeError("fetch failed", { cause });
    }),
  { preconnect: () => {} },
);

describe("a server on SIGTERM", () => {
  it("refuses new runs, fails /ready, and completes its runs and their streams", async () => {
    using home = project();
    await using server = home.serve(["--grace-ms", "600000"]);
    const url = await waitForUrl(server);
    const client = new Client({ apiUrl: url, callerOptions: { maxRetries: 0 } });
    const { thread_id } = await client.threads.create();
    const { run_id } = await client.runs.create(thread_id, "gated", { input, streamResumable: true });
    await waitForAttempt(home, run_id, 1);
    const waited = client.runs.join(thread_id, run_id);
    const stream = readFrames(url, thread_id, run_id);
    assert.deepEqual(await (await fetch(`${url}/ready`)).json(), { ok: true });

    const ended = server.kill("SIGTERM");
    await server.printed(/^Stopping/m);
    const ready = await fetch(`${url}/ready`);
    assert.deepEqual([ready.status, await ready.json()], [503, { ok: false, detail: "The server is stopping" }]);
    for (const path of ["/runs", "/runs/wait", "/runs/stream", `/threads/${thread_id}/runs`]) {
      const refused = await post(url, path, { assistant_id: "quick", input });
      assert.deepEqual(
        [refused.status, await refused.json()],
        [503, { detail: "The server is stopping", code: "server_stopping" }],
      );
    }
    assert.equal((await post(url, "/runs/batch", [{ assistant_id: "quick" }])).status, 503);
    assert.deepEqual(await (await fetch(`${url}/ok`)).json(), {
      ok: true,
      services: { worker: { ok: true }, database: { ok: true } },
    });
    assert.match(await (await fetch(`${url}/metrics`)).text(), /^greenroom_draining 1$/m);
    assert.equal((await client.runs.get(thread_id, run_id)).status, "running");

    home.open();
    assert.equal(last(await waited), "one two");
    assert.match((await stream).at(-1) ?? "", /event: end\ndata: .*"status":"success"/);
    assert.equal(await ended, 0);
  });

  it("requeues a run after the grace period without a charge, and its readers reconnect without loss", async () => {
    using home = project();
    const first = home.serve(["--grace-ms", "0"]);
    const url = await waitForUrl(first);
    const port = new URL(url).port;
    // On a machine that does much else the next server takes its time: by itself the SDK may try for only a quarter of a minute.
    const client = new Client({ apiUrl: url, callerOptions: { maxRetries: 6, fetch: fetchRetried } });
    const { thread_id } = await client.threads.create();
    const { run_id } = await client.runs.create(thread_id, "gated", {
      input,
      streamMode: ["messages-tuple", "values"],
      streamResumable: true,
    });
    await waitForAttempt(home, run_id, 1);
    const receivedFrames: { id?: string; event: string; data: unknown }[] = [];
    const reading = (async () => {
      for await (const frame of client.runs.joinStream(thread_id, run_id, { lastEventId: "-1" }))
        receivedFrames.push(frame);
    })();
    await eventually(() => receivedFrames.some(({ event }) => event === "messages"));
    {
      await using server = first;
      assert.equal(await server.kill("SIGTERM"), 0);
    }
    assert.match(home.journal(), new RegExp(`^stopped ${run_id} 1 shutting_down$`, "m"));
    home.open();
    await using _second = home.serve(["--port", port]);
    await reading;
    assert.match(home.journal(), new RegExp(`^begin ${run_id} 1 \\d+\n(.*\n)*begin ${run_id} 1 \\d+$`, "m"));
    assert.equal(last(await client.runs.join(thread_id, run_id)), "one two");
    const ids = receivedFrames.map(({ id }) => Number(id));
    assert.deepEqual(
      ids,
      Array.from(ids, (_, i) => i + 1),
    );
    assert.deepEqual(receivedFrames.at(-1)?.data, { run_id, status: "success" });
    const attempts = receivedFrames.filter(({ event }) => event === "metadata").map(({ data }) => data);
    assert.deepEqual(attempts[0], { run_id, attempt: 1, thread_id });
    const { resumed_after, ...again } = attempts[1] as Record<string, unknown>;
    assert.deepEqual([again, typeof resumed_after], [{ run_id, attempt: 1, thread_id }, "number"]);
  });

  it("exits at once on a second signal", async () => {
    using home = project();
    await using server = home.serve(["--grace-ms", "600000"]);
    const url = await waitForUrl(server);
    assert.equal((await post(url, "/runs", { assistant_id: "deaf", input })).status, 200);
    await eventually(() => home.journal().includes("deaf"));
    let over = false;
    const ended = server.kill("SIGTERM").finally(() => {
      over = true;
    });
    await server.printed(/^Stopping/m);
    // One that follows at once may be the same one, handed on by npm.
    await eventually(async () => {
      if (!over) void server.kill("SIGTERM");
      return over;
    });
    assert.equal(await ended, 1);
  });
});

describe("a server that was killed", () => {
  it("is replaced by one that claims its runs at once", async () => {
    using home = project();
    let thread_id: string;
    let run_id: string;
    {
      await using server = home.serve();
      const client = new Client({ apiUrl: await waitForUrl(server) });
      ({ thread_id } = await client.threads.create());
      ({ run_id } = await client.runs.create(thread_id, "gated", { input }));
      await waitForAttempt(home, run_id, 1);
      const next = await client.runs.create(thread_id, "quick", { input });
      assert.equal(next.status, "pending");
    }
    await using server = home.serve();
    const client = new Client({ apiUrl: await waitForUrl(server) });
    // The lease of the dead process would last for ten minutes.
    await waitForAttempt(home, run_id, 2);
    home.open();
    await client.runs.join(thread_id, run_id);
    await eventually(async () => (await client.threads.get(thread_id)).status === "idle");
    const [headState] = await client.threads.getHistory(thread_id, { metadata: { run_id } });
    assert.equal(last(headState?.values), "one two");
    const runs = await client.runs.list(thread_id);
    assert.deepEqual(
      runs.map(({ status }) => status),
      ["success", "success"],
    );
    assert.match(
      await (await fetch(`${await waitForUrl(server)}/metrics`)).text(),
      /^greenroom_runs_retried_total 1$/m,
    );
  });

  it("has stored the frames of resumable runs", async () => {
    using home = project();
    home.open();
    let frames: string[];
    let thread_id: string;
    let run_id: string;
    {
      await using server = home.serve();
      const url = await waitForUrl(server);
      const client = new Client({ apiUrl: url });
      ({ thread_id } = await client.threads.create());
      ({ run_id } = await client.runs.create(thread_id, "gated", {
        input,
        streamMode: ["messages-tuple", "updates"],
        streamResumable: true,
      }));
      frames = await readFrames(url, thread_id, run_id);
      assert.match(frames.at(-1) ?? "", /^id: \d+\nevent: end\n/);
    }
    await using server = home.serve();
    const url = await waitForUrl(server);
    assert.deepEqual(await readFrames(url, thread_id, run_id), frames);
    for (const [i, frame] of frames.entries()) {
      const id = /^id: (\d+)$/m.exec(frame)?.[1] as string;
      const remainingFrames = await readFrames(url, thread_id, run_id, id);
      assert.deepEqual(remainingFrames, i === frames.length - 1 ? remainingFrames : frames.slice(i + 1));
      assert.match(remainingFrames.at(-1) ?? "", /event: end\n/);
    }
  });
});

describe("a second server on one database", () => {
  it("serves requests, claims no run while the first lives, and takes over after its death", async () => {
    using home = project();
    const first = home.serve();
    const firstUrl = await waitForUrl(first);
    await using second = home.serve();
    const secondUrl = await waitForUrl(second);
    assert.match(second.output(), /^Standing by: another server executes all runs of .* --database OTHER\n/);
    assert.doesNotMatch(first.output(), /Standing by/);
    const client = new Client({ apiUrl: secondUrl });
    assert.deepEqual(await (await fetch(`${secondUrl}/ready`)).json(), { ok: true });
    assert.match(await (await fetch(`${secondUrl}/metrics`)).text(), /^greenroom_standby 1$/m);
    assert.match(await (await fetch(`${firstUrl}/metrics`)).text(), /^greenroom_standby 0$/m);

    const { thread_id } = await client.threads.create();
    const { run_id } = await client.runs.create(thread_id, "gated", { input, streamResumable: true });
    const pid = await waitForAttempt(home, run_id, 1);
    assert.equal(last(await client.runs.wait(null, "quick", { input })), "quick");
    assert.match(await (await fetch(`${secondUrl}/metrics`)).text(), /^greenroom_runs_started_total 0$/m);
    const stream = readFrames(secondUrl, thread_id, run_id);
    {
      await using server = first;
      await server.kill("SIGKILL");
    }
    assert.notEqual(await waitForAttempt(home, run_id, 2), pid);
    home.open();
    const frames = await stream;
    assert.deepEqual(
      frames.map((frame) => Number(/^id: (\d+)$/m.exec(frame)?.[1])),
      Array.from(frames, (_, i) => i + 1),
    );
    assert.match(frames.at(-1) ?? "", /event: end\ndata: .*"status":"success"/);
    assert.match(await (await fetch(`${secondUrl}/metrics`)).text(), /^greenroom_standby 0$/m);
  });
});

describe("a full disk", () => {
  it("answers 507, stores and loses nothing, and recovers when there is room", async (test) => {
    using folder = createTemporaryFolder();
    const disk = join(folder.path, "disk");
    mkdirSync(disk);
    if (spawnSync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]).status !== 0) {
      test.diagnostic?.("no small disk can be mounted here");
      return;
    }
    try {
      using home = project(disk);
      await using server = home.serve();
      const url = await waitForUrl(server);
      const client = new Client({ apiUrl: url, callerOptions: { maxRetries: 0 } });
      const { thread_id } = await client.threads.create();
      const { run_id } = await client.runs.create(thread_id, "gated", { input, streamResumable: true });
      await waitForAttempt(home, run_id, 1);

      fill(join(disk, "filler"));
      // The log has room left that SQLite uses again: small writes go on for a while.
      let threads = 1;
      const full = await eventually(async () => {
        const answer = await post(url, "/threads", { metadata: { text: "x".repeat(2_000) } });
        if (answer.status === 200) threads += 1;
        return answer.status !== 200 && (await fetch(`${url}/ready`)).status === 503 ? answer : undefined;
      });
      assert.deepEqual(
        [full.status, await full.json()],
        [507, { detail: "The disk of the database is full", code: "storage_full" }],
      );
      const countBefore = (await client.runs.list(thread_id, { limit: 1000 })).length;
      const metadata = { text: "x".repeat(100_000) };
      for (const [path, body] of [
        ["/threads", { metadata }],
        ["/assistants", { graph_id: "quick", metadata }],
        ["/runs", { assistant_id: "quick", input, metadata }],
        ["/runs/wait", { assistant_id: "quick", input, metadata }],
      ] as const) {
        assert.equal((await post(url, path, body)).status, 507, path);
      }
      assert.equal((await fetch(`${url}/ok`)).status, 200);
      assert.equal((await client.runs.list(thread_id, { limit: 1000 })).length, countBefore);
      home.open();

      rmSync(join(disk, "filler"));
      await eventually(async () => (await fetch(`${url}/ready`)).status === 200);
      assert.equal(last(await client.runs.join(thread_id, run_id)), "one two");
      assert.equal(last(await client.runs.wait(thread_id, "quick", { input })), "quick");
      const runs = await client.runs.list(thread_id, { limit: 1000 });
      assert.equal(runs.length, countBefore + 1);
      assert.ok(runs.every(({ status }) => status === "success"));
      assert.equal(await (await post(url, "/threads/count", {})).json(), threads);
    } finally {
      spawnSync("umount", ["-l", disk]);
    }
  });
});

/** Writes until there is no room for another byte. */
function fill(file: string): void {
  for (let size = 1 << 20; size >= 1; size >>= 1) {
    try {
      for (;;) appendFileSync(file, new Uint8Array(size));
    } catch (error) {
      assert.equal((error as { code?: string }).code, "ENOSPC");
    }
  }
}

describe("a server on an unusable database", () => {
  const refused = async (home: Project, says: RegExp): Promise<void> => {
    const size = statSync(join(home.path, "agents.db")).size;
    await using server = home.serve();
    assert.equal(await server.ended, 1);
    assert.match(server.output(), says);
    assert.doesNotMatch(server.output(), /^\s+at /m);
    assert.equal(statSync(join(home.path, "agents.db")).size, size);
  };
  /** Creates a database with some rows. */
  const used = async (home: Project): Promise<string> => {
    await using server = home.serve();
    await new Client({ apiUrl: await waitForUrl(server) }).threads.create();
    assert.equal(await server.kill("SIGTERM"), 0);
    const file = join(home.path, "agents.db");
    assert.ok(existsSync(file));
    return file;
  };

  it("refuses a newer database", async () => {
    using home = project();
    const database = new DatabaseSync(await used(home));
    database.exec("insert into greenroom_versions (version) values (999)");
    database.close();
    await refused(home, /schema version 999, this Greenroom knows versions up to \d+; use a newer Greenroom/);
  });

  it("refuses a damaged database", async () => {
    using home = project();
    const file = await used(home);
    const content = readFileSync(file);
    truncateSync(file, content.length - 1);
    await refused(home, /damaged|malformed/);
    writeFileSync(file, content.subarray(0, content.length >> 1));
    await refused(home, /damaged|malformed/);
    writeFileSync(file, content.fill(0x5a, 0, 100));
    await refused(home, /damaged or not a database|damaged or belongs to another program/);
  });
});
