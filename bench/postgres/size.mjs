// Do 1,000,000 threads with 10,000,000 runs behave as 1,000 with 10,000? The service makes the few; the database copies them with other ids.
import pg from "pg";
import { postgres } from "../../adapters/postgres/mod.ts";
import { createService, fromFunctions } from "../../lib/mod.ts";
import { quantiles } from "../load.mjs";
import { note, query, server } from "./context.mjs";

const FEW = 1_000;
const RUNS = 10;
const SAMPLES = 300;
const SEARCHES = 60;
const LIMIT = 2;
const COPIES_AT_ONCE = 20;
const reply = {
  messages: [{ type: "ai", content: "This is an answer of about sixty characters, as a short one is." }],
};
const request = { assistant_id: "echo", input: { messages: [{ role: "user", content: "hello" }] } };

function add(times, name, ms) {
  times[name] ??= [];
  times[name].push(ms);
}

/** Opens a service whose storage records the time of each call of an operation. */
async function openService(url, concurrency, times) {
  const storage = postgres({ url });
  const timed = Object.fromEntries(
    Object.entries(storage).map(([verb, call]) => {
      if (typeof call !== "function") return [verb, call];
      return [
        verb,
        async (...args) => {
          const from = performance.now();
          const outcome = await call.apply(storage, args);
          if (outcome !== null) add(times, verb, performance.now() - from);
          return outcome;
        },
      ];
    }),
  );
  const executor = fromFunctions({ echo: () => reply });
  const limits = { pending: 1_000_000 };
  const environment = { log() {} };
  // Reports are measured by bench/usage.
  return await createService({
    storage: timed,
    executor,
    limits,
    environment,
    worker: { concurrency },
    usage: { enabled: false },
  });
}

async function makeFew(service) {
  let createdCount = 0;
  const createThreads = async () => {
    while (createdCount < FEW) {
      const metadata = { owner: `user ${createdCount++}`, team: "all" };
      const { thread_id } = await service.threads.create({ metadata });
      for (let run = 0; run < RUNS; run += 1) await (await service.runs.wait(thread_id, request)).result;
    }
  };
  await Promise.all(Array.from({ length: 16 }, createThreads));
}

/** Ids of rows that belong to a thread or a run. */
const IDS = ["thread_id", "run_id", "last_run", "row_id", "trace_id"];

/** Copies of every row of the first threads: the last digits of their ids say which copy, and each copy is older than the one before. */
async function copy(url, copies) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const all = async (text) => (await client.query({ text, rowMode: "array" })).rows;
  const tables = await all(`select table_name from information_schema.columns
    where table_schema = current_schema() and column_name in ('thread_id', 'run_id', 'row_id')
    group by 1 order by table_name <> 'threads', table_name <> 'runs', 1`);
  await client.query("set session_replication_role = replica"); // foreign keys are as true as in the first rows
  await client.query("set synchronous_commit = off");
  const indexes = await all(`select indexname, indexdef, tablename from pg_indexes i where schemaname = current_schema()
    and not exists (select from pg_constraint c where c.conname = i.indexname)`);
  for (const [name] of indexes) await client.query(`drop index ${name}`);
  for (const [table] of tables) {
    const columns = await all(`select column_name, data_type from information_schema.columns
      where table_schema = current_schema() and table_name = '${table}' order by ordinal_position`);
    const values = columns.map(([column, type]) => {
      if (IDS.includes(column)) return `left(${column}, 24) || lpad(to_hex(i), 12, '0')`;
      return type === "bigint" && column.endsWith("_at") ? `${column} - i * 30000` : column;
    });
    const names = columns.map(([column]) => column).join();
    await client.query(`create temp table first_rows as select * from ${table}`);
    for (let from = 1; from < copies; from += COPIES_AT_ONCE) {
      const to = Math.min(copies - 1, from + COPIES_AT_ONCE - 1);
      await client.query(
        `insert into ${table} (${names}) select ${values} from generate_series(${from}, ${to}) i, first_rows`,
      );
    }
    await client.query("drop table first_rows");
  }
  for (const [, definition] of indexes) await client.query(definition);
  await client.query("vacuum (analyze)");
  await client.query("checkpoint");
  await client.end();
}

/** Opens the services of a database. Their methods record the time of each call; claims and ends are operations of the worker. */
async function side(url) {
  const times = {};
  const verbs = {};
  const api = await openService(url, 0, {});
  const timed = async (what, call) => {
    const from = performance.now();
    const result = await call();
    add(times, what, performance.now() - from);
    return result;
  };
  const createdRuns = [];
  let worker;
  return {
    times,
    async create(i) {
      // Ten have an owner that no other thread has.
      const metadata = { owner: i < 10 ? "rare" : `${i}` };
      const { thread_id } = await timed("create a thread", () => api.threads.create({ metadata }));
      const { run_id } = await timed("create a run", () => api.runs.create(thread_id, request));
      createdRuns.push({ thread_id, run_id });
    },
    async execute(i) {
      worker ??= await openService(url, 1, verbs);
      await (await worker.runs.join(createdRuns[i].thread_id, createdRuns[i].run_id)).result;
    },
    async look(i) {
      const { thread_id } = createdRuns[i];
      await timed("list the runs of a thread", () => api.runs.list(thread_id));
      await timed("read the state of a thread", () => api.threads.state(thread_id));
      if (i >= SEARCHES) return;
      await timed("search threads, first page", () => api.threads.search({ limit: 10 }));
      const metadata = { owner: "rare" };
      await timed("search threads by metadata, 10 match", () => api.threads.search({ limit: 10, metadata }));
    },
    async stop() {
      await api.stop(0);
      await worker.stop(0);
      Object.assign(times, { "claim a run": verbs.claimRun, "end a run": verbs.finishRun });
    },
  };
}

/** Makes the same calls on both databases in turns. Returns the median times of each. */
async function compare(urls) {
  const sides = [await side(urls[0]), await side(urls[1])];
  for (const step of ["create", "execute", "look"]) {
    for (let i = 0; i < SAMPLES; i += 1) {
      for (const side of i % 2 ? sides : sides.toReversed()) await side[step](i);
    }
  }
  for (const side of sides) await side.stop();
  // What was compiled or read for the first time does not count.
  return sides.map(({ times }) =>
    Object.fromEntries(Object.entries(times).map(([what, list]) => [what, quantiles(list.slice(10)).p50])),
  );
}

export async function stored(threads) {
  const prepare = async (url) => {
    const service = await openService(url, 16, {});
    await makeFew(service);
    await service.stop(0);
  };
  const urls = [];
  for (let i = 0; i < 2; i += 1) urls.push((await server.database(prepare)).url);
  await query(urls[0], "vacuum analyze");
  const began = performance.now();
  await copy(urls[1], Math.round(threads / FEW));
  console.error(`copied in ${((performance.now() - began) / 60_000).toFixed(1)} minutes`);
  const [[rows, runs, bytes]] = await query(
    urls[1],
    "select (select count(*) from threads), (select count(*) from runs), pg_database_size(current_database())",
  );
  const [few, many] = await compare(urls);
  note("stored threads", Number(rows));
  note("stored runs", Number(runs));
  note("database", Number(bytes) / 1e9, "GB");
  note("bytes of a thread with ten runs", Number(bytes) / Number(rows));
  for (const [what, ms] of Object.entries(many)) {
    note(`${what}, p50: ${FEW} threads`, few[what], "ms");
    note(`${what}, p50: all`, ms, "ms");
    note("  ratio", ms / few[what], "", LIMIT);
  }
}
