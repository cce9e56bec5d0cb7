/** A Postgres that crashes, stops, or cannot be reached while two processes execute runs on it. */
import assert from "node:assert/strict";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { after, before, describe, it } from "node:test";
import { postgres } from "../../adapters/postgres/mod.ts";
import type { FunctionJob, Service } from "../../lib/mod.ts";
import { type TestService, testService } from "../suite/kit.ts";
import { startPostgres, type TestPostgres } from "../support/postgres-server.ts";
import { until } from "../support/until.ts";
import { follow, resumable, whole } from "./outage.harness.ts";

let server: TestPostgres;
before(async () => {
  server = await startPostgres({ ownServer: true, fsync: false });
});
after(() => server.stop());

/** A proxy in front of the server that accepts no connection while it is shut. */
interface Door extends AsyncDisposable {
  readonly url: string;
  shut(): void;
  open(): void;
}

async function door(url: string): Promise<Door> {
  const target = Number(new URL(url).port);
  const sockets = new Set<Socket>();
  let closed = false;
  const listener = createServer((client) => {
    if (closed) {
      client.destroy();
      return;
    }
    const upstream = connect(target, "127.0.0.1");
    for (const [socket, otherSocket] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => otherSocket.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        otherSocket.destroy();
      });
      socket.pipe(otherSocket);
    }
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const cut = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: Object.assign(new URL(url), { port: String((listener.address() as AddressInfo).port) }).href,
    shut() {
      closed = true;
      cut();
    },
    open() {
      closed = false;
    },
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise<void>((resolve) => listener.close(() => resolve()));
    },
  };
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs ten steps of 100 ms. Counts attempts by run and the maximum number of concurrent executions of a thread. */
function stepping(): {
  readonly steps: (job: FunctionJob) => AsyncGenerator<unknown>;
  readonly attempts: Map<string, number>;
  readonly most: () => number;
} {
  const attempts = new Map<string, number>();
  const open = new Map<string, number>();
  let most = 0;
  return {
    attempts,
    most: () => most,
    async *steps(job) {
      const count = (open.get(job.thread_id) ?? 0) + 1;
      open.set(job.thread_id, count);
      most = Math.max(most, count);
      attempts.set(job.run_id, Math.max(job.attempt, attempts.get(job.run_id) ?? 0));
      try {
        for (let n = 0; n < 10; n++) {
          await new Promise<void>((resolve, reject) => {
            setTimeout(resolve, 100);
            job.signal.addEventListener("abort", () => reject(new Error("stopped")));
          });
          job.emit({ n, attempt: job.attempt });
          yield { messages: [{ type: "ai", id: `${job.run_id}/${n}`, content: `${n}` }] };
        }
      } finally {
        open.set(job.thread_id, (open.get(job.thread_id) ?? 1) - 1);
      }
    },
  };
}

interface Load {
  /** Checks that each run succeeded, its readers received all of it, and its thread has each message once. */
  proven(service: Service): Promise<void>;
}

const RUNS = 6;

/** Starts two runs on each of some threads, with readers of all of them in the other process. */
async function startLoad(making: TestService, reading: TestService, attempts: Map<string, number>): Promise<Load> {
  const createdRuns = await Promise.all(
    Array.from({ length: RUNS }, async (_, i) => {
      const { thread_id } = await making.service.threads.create();
      const first = await making.service.runs.create(thread_id, resumable);
      const second = await making.service.runs.create(thread_id, { ...resumable, multitask_strategy: "enqueue" });
      const kits = i % 2 ? [reading, making] : [making, reading];
      const runs = [first, second].map(({ run_id }) => ({
        run_id,
        readers: kits.map((kit) => follow(kit, thread_id, run_id)),
      }));
      return { thread_id, runs };
    }),
  );
  return {
    async proven(service) {
      for (const { thread_id, runs } of createdRuns) {
        for (const { run_id, readers } of runs) {
          await until(() => readers.every((reader) => reader.ended()), `run ${run_id} has ended for its readers`);
          assert.equal((await service.runs.get(thread_id, run_id)).status, "success");
          const count = attempts.get(run_id) as number;
          for (const { list } of readers) {
            const startedAttempts = list
              .filter(({ event }) => event === "metadata")
              .map(({ data }) => JSON.parse(data).attempt);
            assert.equal(startedAttempts.at(-1), count);
            whole(list, startedAttempts);
            assert.deepEqual(list, readers[0]?.list);
          }
        }
        const { values } = await service.threads.state(thread_id);
        const messages = (values as { messages: { id: string }[] }).messages.map(({ id }) => id);
        assert.deepEqual(
          messages,
          runs.flatMap(({ run_id }) => Array.from({ length: 10 }, (_, n) => `${run_id}/${n}`)),
        );
      }
    },
  };
}

const answer = async (kit: TestService, path: string): Promise<readonly [number, string | null]> => {
  const response = await kit.fetch(`http://greenroom${path}`);
  await response.body?.cancel();
  return [response.status, response.headers.get("retry-after")];
};

describe("Postgres outages", () => {
  it("with an immediate restart let runs and their readers continue", async () => {
    const { url } = await server.database();
    const { steps, attempts, most } = stepping();
    await using first = await testService({ storage: postgres(url), agents: { steps } });
    await using second = await testService({ storage: postgres(url), agents: { steps } });
    const load = await startLoad(first, second, attempts);
    await sleep(300);
    await server.restart("immediate");
    await load.proven(second.service);
    assert.equal(most(), 1);
    assert.deepEqual(new Set(attempts.values()), new Set([1]), "a short crash costs no attempt");
    assert.deepEqual(await first.service.ready(), { ok: true });
  });

  it("longer than every lease answer 503, and then every run is executed to its end", async () => {
    const { url } = await server.database();
    await using at = await door(url);
    const { steps, attempts, most } = stepping();
    const worker = { lease_ms: 2_000 };
    await using first = await testService({ storage: postgres(at.url), agents: { steps }, worker });
    await using second = await testService({ storage: postgres(at.url), agents: { steps }, worker });
    const load = await startLoad(first, second, attempts);
    const { thread_id } = await first.service.threads.create();
    await sleep(300);
    at.shut();
    const before = [first.log.length, second.log.length];
    const shut_at = Date.now();
    assert.deepEqual(await answer(first, `/threads/${thread_id}`), [503, "1"]);
    const refused = await first.fetch("http://greenroom/threads", { method: "POST", body: "{}" });
    assert.deepEqual([refused.status, refused.headers.get("retry-after")], [503, null]);
    assert.deepEqual((await answer(first, "/ready"))[0], 503);
    assert.deepEqual((await answer(first, "/ok"))[0], 200);
    await sleep(Math.max(0, shut_at + 8_000 - Date.now()));
    at.open();
    for (const kit of [first, second])
      await until(async () => (await kit.service.ready()).ok, "it is ready again", 15_000);
    await load.proven(first.service);
    assert.equal(most(), 1, "two executions at once on one thread");
    for (const [i, kit] of [first, second].entries()) {
      const records = kit.log.slice(before[i]);
      const recoveryRecords = records.filter(({ message }) => message === "the database can be reached again");
      assert.equal(recoveryRecords.length, 1);
      const failures = records.slice(0, records.indexOf(recoveryRecords[0] as (typeof records)[number]));
      assert.ok(failures.length <= 40, `${failures.length} records of one outage`);
    }
  });

  it("with a stop and a start keep all acknowledged runs, which are executed", async () => {
    const { url } = await server.database();
    const { steps, attempts, most } = stepping();
    await using first = await testService({ storage: postgres(url), agents: { steps }, worker: { lease_ms: 3_000 } });
    await using second = await testService({ storage: postgres(url), agents: { steps }, worker: { lease_ms: 3_000 } });
    const load = await startLoad(first, second, attempts);
    await server.halt("fast");
    await sleep(3_500);
    await server.resume();
    await load.proven(second.service);
    assert.equal(most(), 1);
  });
});
