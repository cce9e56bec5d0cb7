// Fills a database with threads and assistants, as clients make them: bun|node bench/search/fill.mjs FILE COUNT
import process from "node:process";
import { createService, fromFunctions } from "../../lib/mod.ts";

const [, , path, countArg] = process.argv;
const open =
  "Bun" in globalThis
    ? (await import("../../adapters/sqlite/bun.ts")).bunSqlite
    : (await import("../../adapters/sqlite/node.ts")).nodeSqlite;
const service = await createService({
  storage: open(path),
  executor: fromFunctions({ echo: ({ input }) => input }),
  worker: { concurrency: 0 },
  environment: { log() {} },
});
const count = Number(countArg);
let createdCount = 0;
const createThreads = async () => {
  while (createdCount < count) {
    const i = createdCount++;
    const metadata = { bucket: `b${i % 1000}` };
    await service.threads.create({ metadata });
    await service.assistants.create({ graph_id: "echo", name: `a${i}`, metadata });
  }
};
await Promise.all(Array.from({ length: 200 }, createThreads));
await service.stop(0);
console.log(JSON.stringify({ count }));
