// Greenroom on a disk whose commit takes 5 ms longer: bun|node bench/slow-disk.mjs FILE WORKERS
import process from "node:process";
import { langgraph } from "../adapters/langgraph/mod.ts";
import { serve } from "../adapters/node/mod.ts";
import { createHandler } from "../lib/http/handler.ts";
import { createService } from "../lib/mod.ts";
import { echo, tokens } from "./peers/graphs.mjs";

const COMMIT_MS = 5;
const [, , path, workers] = process.argv;
const never = new Int32Array(new SharedArrayBuffer(4));

const onBun = "Bun" in globalThis;
const { Database, DatabaseSync = Database } = await import(onBun ? "bun:sqlite" : "node:sqlite");
const { prepare } = DatabaseSync.prototype;
DatabaseSync.prototype.prepare = function (sql, ...more) {
  const prepared = prepare.call(this, sql, ...more);
  if (sql !== "commit") return prepared;
  const { all } = prepared;
  prepared.all = function (...args) {
    Atomics.wait(never, 0, 0, COMMIT_MS);
    return all.apply(this, args);
  };
  return prepared;
};
const open = onBun
  ? (await import("../adapters/sqlite/bun.ts")).bunSqlite
  : (await import("../adapters/sqlite/node.ts")).nodeSqlite;

const service = await createService({
  storage: open(path),
  executor: langgraph({ echo, tokens }),
  worker: { concurrency: Number(workers) },
});
const { port } = await serve(createHandler(service), { hostname: "127.0.0.1", port: 0 });
process.on("SIGTERM", () => process.exit(0));
console.log(`listening on http://127.0.0.1:${port}`);
