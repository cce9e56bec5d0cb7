/**
 * Measures the cost of the defences: each with and without, in turns, in microseconds of CPU of this process. Prints medians of the
 * rounds; on a busy machine only the differences count.
 *
 *   node bench/defences.mjs [--rounds 9] [--threads 100000] [--only file,pending,body,labels,gin]
 */
import { closeSync, fstatSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { parseArgs } from "node:util";
import { createIndexEntries } from "../adapters/sql/metadata-index.ts";
import { PendingCounter } from "../adapters/sql/runs/pending-counter.ts";
import { FileWatch } from "../adapters/sqlite/file-watch.ts";
import { nodeSqlite } from "../adapters/sqlite/node.ts";
import { readJson } from "../lib/http/parse.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "9" },
    threads: { type: "string", default: "100000" },
    only: { type: "string", default: "file,pending,body,labels,gin" },
  },
});
const rounds = Number(values.rounds);
const threads = Number(values.threads);
const folder = mkdtempSync(join(tmpdir(), "greenroom-defences-"));
const here = { deployment: "d" };
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

/** Microseconds of CPU for each of `count` calls. */
async function cost(count, call) {
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) await call(i);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / count;
}

/** Prints the medians of all calls, measured in turns. */
async function compare(what, count, calls) {
  const samples = Object.fromEntries(Object.keys(calls).map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const [name, call] of Object.entries(calls)) {
      const microseconds = await cost(count, call);
      if (round > 0) samples[name].push(microseconds);
    }
  }
  const medians = Object.entries(samples).map(([name, list]) => `${name} ${median(list).toFixed(1)}`);
  console.log(`${what}: ${medians.join(", ")}`);
}

let ids = 0;
const thread = () => ({ thread_id: `t${ids++}`, metadata: {}, config: {}, stateless: false });

async function file() {
  const storage = nodeSqlite(join(folder, "file.db"));
  await storage.migrate();
  const { requireIntactLog, confirmCommit } = FileWatch.prototype;
  const commit = () => storage.createThread(here, thread(), 1);
  await compare("commit to a file, checks of the files and mark", 500, {
    with: async () => {
      Object.assign(FileWatch.prototype, { requireIntactLog, confirmCommit });
      await commit();
    },
    without: async () => {
      Object.assign(FileWatch.prototype, { requireIntactLog() {}, confirmCommit() {} });
      await commit();
    },
  });
  Object.assign(FileWatch.prototype, { requireIntactLog, confirmCommit });
  await storage.close();
  const log = openSync(join(folder, "mark"), "w");
  const text = new TextEncoder().encode(
    JSON.stringify({ inode: "1:123456", salts: "0123456789abcdef", bytes: 123456 }),
  );
  await compare("one call", 20_000, {
    fstat: () => fstatSync(log),
    "pwrite of the mark": () => writeSync(log, text, 0, text.length, 0),
  });
  closeSync(log);
}

async function pending() {
  const storage = nodeSqlite(":memory:");
  await storage.migrate();
  const content = { graph_id: "g", name: "a", description: null, config: {}, context: {}, metadata: {} };
  const { assistant } = await storage.createAssistant(here, { assistant_id: "a", ...content }, 1);
  const expected = { assistant_revision: assistant.revision, thread_revision: null };
  const create = () => {
    const { thread_id } = thread();
    const fixed = { assistant_id: "a", graph_id: "g", metadata: {}, kwargs: {}, multitask_strategy: "enqueue" };
    return storage.createRun(here, {
      run: { run_id: `r${ids++}`, thread_id, ...fixed, stateless: false, resumable: false, created_at: 1 },
      expected,
      create_thread: { thread_id, metadata: {}, config: {}, stateless: false },
      limits: { pending_per_thread: 1000, pending: 1_000_000 },
      now: 1,
    });
  };
  for (let i = 0; i < 10_000; i++) await create();
  const { create: counted } = PendingCounter.prototype;
  await compare("creation of a run beside 10,000 pending ones, limit of the deployment", 20, {
    "by PendingCounter": () => {
      PendingCounter.prototype.create = counted;
      return create();
    },
    "by counting": () => {
      PendingCounter.prototype.create = (_deployment, limit, call) => call(limit);
      return create();
    },
  });
  PendingCounter.prototype.create = counted;
  await storage.close();
}

async function body() {
  const text = JSON.stringify({ assistant_id: "a", input: { messages: [{ role: "user", content: "x".repeat(900) }] } });
  const bytes = new TextEncoder().encode(text);
  await compare(`body of ${bytes.length} bytes, depth checked`, 5000, {
    with: () => readJson(bytes),
    without: () => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)),
  });
}

/** Metadata of a thread as users have it: an owner, an assistant, a number, tags. */
const createMetadata = (i) => ({
  owner: `user-${i % 1000}`,
  assistant_id: `assistant-${i % 10}`,
  ticket: i,
  tags: ["a", `b${i % 100}`],
  place: { team: `t${i % 50}` },
});
const searched = (i) => [{ owner: `user-${i % 1000}` }, { place: { team: `t${i % 50}` }, owner: `user-${i % 1000}` }];

/** Compares threads with index entries, with an index on one member, and without either: bytes, time to write, time to search. */
async function labels() {
  const tables = {
    labels: [
      "create table labels (path_hash integer, value_hash integer, exact text, created_at integer, row_id text, primary key (row_id, path_hash, value_hash)) without rowid",
      "create index labels_value on labels (path_hash, value_hash, exact, created_at, row_id)",
    ],
    "JSON index on owner": ["create index threads_owner on threads (json_extract(metadata, '$.owner'), created_at)"],
    nothing: [],
  };
  for (const [name, extra] of Object.entries(tables)) {
    const path = join(folder, `${name.split(" ")[0]}.db`);
    const db = new DatabaseSync(path);
    db.exec("pragma journal_mode = wal; pragma synchronous = off");
    for (const sql of ["create table threads (id text primary key, created_at integer, metadata text)", ...extra])
      db.exec(sql);
    const row = db.prepare("insert into threads values (?, ?, ?)");
    const label = name === "labels" ? db.prepare("insert into labels values (?, ?, ?, ?, ?)") : undefined;
    db.exec("begin");
    const write = await cost(threads, (i) => {
      const metadata = createMetadata(i);
      row.run(`t${i}`, i, JSON.stringify(metadata));
      for (const [path_hash, value_hash, exact] of label ? createIndexEntries(metadata) : [])
        label.run(path_hash, value_hash, exact, i, `t${i}`);
    });
    db.exec("commit");
    const search =
      name === "labels"
        ? db.prepare(
            `select t.* from labels l join threads t on t.id = l.row_id where l.path_hash = ? and l.value_hash = ?
              and l.exact = ? order by l.created_at desc limit 10`,
          )
        : db.prepare(
            "select * from threads where json_extract(metadata, '$.owner') = ? order by created_at desc limit 10",
          );
    const nested =
      name === "labels"
        ? db.prepare(
            `select t.* from labels l join threads t on t.id = l.row_id where l.path_hash = ? and l.value_hash = ?
              and l.exact = ? and exists (select 1 from labels o where o.path_hash = ? and o.value_hash = ? and o.row_id = l.row_id)
              order by l.created_at desc limit 10`,
          )
        : db.prepare(
            `select * from threads where json_extract(metadata, '$.place.team') = ? order by created_at desc limit 10`,
          );
    const calls = name === "nothing" ? 3 : 200;
    const byOwner = await cost(calls, (i) =>
      search.all(...(label ? createIndexEntries(searched(i)[0])[0] : [`user-${i % 1000}`])),
    );
    const two = await cost(calls, (i) => {
      if (!label) return nested.all(`t${i % 50}`);
      const [secondLabel, firstLabel] = createIndexEntries(searched(i)[1]);
      return nested.all(...firstLabel, secondLabel[0], secondLabel[1]);
    });
    db.exec("pragma wal_checkpoint(truncate)");
    const [{ bytes }] = db
      .prepare("select page_count * page_size as bytes from pragma_page_count, pragma_page_size")
      .all();
    console.log(
      `${threads} threads on SQLite with ${name}: ${(bytes / 1e6).toFixed(0)} MB; write ${write.toFixed(1)}, search by owner ${byOwner.toFixed(0)}, by another member ${two.toFixed(0)}`,
    );
    db.close();
  }
}

/** Compares index entries on Postgres (PGlite) with a GIN index on the metadata. */
async function gin() {
  const { PGlite } = await import("@electric-sql/pglite");
  for (const name of ["labels", "GIN"]) {
    const db = new PGlite();
    await db.exec("create table threads (id text primary key, created_at bigint, metadata text)");
    await db.exec(
      name === "GIN"
        ? "create index threads_metadata on threads using gin ((metadata::jsonb) jsonb_path_ops)"
        : `create table labels (path_hash bigint, value_hash bigint, exact text, created_at bigint, row_id text,
            primary key (row_id, path_hash, value_hash));
          create index labels_value on labels (path_hash, value_hash, exact, created_at, row_id)`,
    );
    const size = 500;
    const write = await cost(threads / size, async (page) => {
      const rows = Array.from({ length: size }, (_, i) => page * size + i);
      const list = rows.map((i) => [`t${i}`, i, JSON.stringify(createMetadata(i))]);
      await db.query(
        "insert into threads select r->>0, (r->>1)::bigint, r->>2 from jsonb_array_elements($1::jsonb) r",
        [JSON.stringify(list)],
      );
      if (name === "GIN") return;
      const all = rows.flatMap((i) => createIndexEntries(createMetadata(i)).map((label) => [...label, i, `t${i}`]));
      await db.query(
        `insert into labels select (r->>0)::bigint, (r->>1)::bigint, r->>2, (r->>3)::bigint, r->>4
          from jsonb_array_elements($1::jsonb) r`,
        [JSON.stringify(all)],
      );
    });
    await db.exec("analyze");
    const search = (metadata) => {
      const page = "order by created_at desc limit 10";
      if (name === "GIN") return db.query(`select * from threads where metadata::jsonb @> $1 ${page}`, [metadata]);
      const [firstLabel, secondLabel] = createIndexEntries(metadata).toReversed();
      const also = secondLabel
        ? "and exists (select 1 from labels o where o.path_hash = $4 and o.value_hash = $5 and o.row_id = l.row_id)"
        : "";
      return db.query(
        `select t.* from labels l join threads t on t.id = l.row_id where l.path_hash = $1 and l.value_hash = $2
          and l.exact = $3 ${also} order by l.created_at desc limit 10`,
        [...firstLabel, ...(secondLabel ? secondLabel.slice(0, 2) : [])],
      );
    };
    const byOwner = await cost(200, (i) => search({ owner: `user-${i % 1000}` }));
    const many = await cost(50, (i) => search({ place: { team: `t${i % 50}` } }));
    const two = await cost(200, (i) => search(searched(i)[1]));
    const { rows } = await db.query("select pg_database_size(current_database()) as bytes");
    console.log(
      `${threads} threads on Postgres with ${name}: ${(Number(rows[0].bytes) / 1e6).toFixed(0)} MB; write ${(write / size).toFixed(1)}, search by owner ${byOwner.toFixed(0)}, by team ${many.toFixed(0)}, by both ${two.toFixed(0)}`,
    );
    await db.close();
  }
}

try {
  const parts = { file, pending, body, labels, gin };
  for (const name of values.only.split(",")) await parts[name]();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
