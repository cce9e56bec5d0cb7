// What the disk takes: an fsync of 4 KiB, and one insert per transaction, as durable as Greenroom's. Prints JSON.
//   bun|node bench/commits.mjs FOLDER
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { quantiles } from "./load.mjs";

const TIMES = 300;
const folder = process.argv[2];

function p50(operation) {
  const times = [];
  for (let i = 0; i < TIMES; i += 1) {
    const from = performance.now();
    operation();
    times.push(performance.now() - from);
  }
  return quantiles(times).p50;
}

const file = openSync(join(folder, "fsync.bin"), "w");
const page = Buffer.alloc(4096, 1);
const fsync_ms = p50(() => {
  writeSync(file, page);
  fsyncSync(file);
});
closeSync(file);

const { Database, DatabaseSync = Database } = await import(globalThis.Bun ? "bun:sqlite" : "node:sqlite");
const db = new DatabaseSync(join(folder, "commits.db"));
for (const sql of ["pragma journal_mode = wal", "pragma synchronous = full"]) db.exec(sql);
db.exec("create table if not exists runs (id text primary key, input text)");
const insert = db.prepare("insert into runs values (?, ?)");
const commit_ms = p50(() => insert.run(crypto.randomUUID(), "x".repeat(100)));
db.close();
console.log(JSON.stringify({ fsync_ms, commit_ms }));
