/**
 * Selects the test files that `npm test` runs on each runtime. What depends on a runtime runs on each: its drivers, and a smoke set of streams,
 * timers, crypto, bodies, sockets, processes, modules and clients. The rest runs once. `npm run test:all` runs every file on every
 * runtime. A file named `x.node.test.ts` runs on Node alone in both.
 */
export type Runtime = "bun" | "deno" | "node";

export const RUNTIMES: readonly Runtime[] = ["bun", "deno", "node"];

export interface Rule {
  readonly files: RegExp;
  readonly on: readonly Runtime[];
}

/** The first rule whose `files` match decides. */
export const RULES: readonly Rule[] = [
  // Further combinations of what other files prove: SDKs with drivers, a second prefix, the storage suite on PGlite, libSQL and the
  // adapter of the docs, the build of a Next.js project, a Postgres that is away or copied while it works, the steps of the Dockerfile.
  { files: /^test\/adapters\/(?:libsql\/mod\.storage|postgres\/mod\.pglite|sql\/mod\.custom-driver)\./, on: [] },
  { files: /^test\/adapters\/standalone\/backup\.postgres\./, on: [] },
  { files: /^test\/compat\/(?:sdk-postgres|sdk-libsql|prefix-slash)\./, on: [] },
  { files: /^test\/e2e\/(?:next-example|postgres-outage|docker)\./, on: [] },
  { files: /\.node\.test\.ts$/, on: ["node"] },
  // They read the tree, and run none of it.
  { files: /^test\/repo\//, on: ["node"] },

  // Drivers, and the clients of database servers over a runtime's sockets.
  { files: /^test\/adapters\/sql\/(?:driver|mod\.storage)\.test/, on: RUNTIMES },
  { files: /^test\/adapters\/(?:sqlite\/file-watch|libsql\/mod|postgres\/mod)\.test/, on: RUNTIMES },
  // Files and locks. Bun has both SQLites; the second starts rivals on every runtime.
  { files: /^test\/adapters\/(?:sql\/driver\.faults|sqlite\/file\.worker-lock)\./, on: ["bun"] },
  // How LangGraph's streams take ticks of the event loop depends on the runtime.
  {
    files: /^test\/adapters\/langgraph\/(?:execute|execute\.stops|frames|backpressure|graph-spans\.stored)\.test/,
    on: RUNTIMES,
  },
  { files: /^test\/adapters\/(?:langgraph|libsql|postgres|sql|sqlite|studio)\//, on: ["node"] },
  { files: /^test\/compat\/thread-streams\./, on: RUNTIMES },
  // On Node prefix.node.test.ts has the same suite, in `npm run test:all`.
  { files: /^test\/compat\/sdk\./, on: ["bun", "deno"] },
  // Node compares what the runtimes do with the first seeds of Bun.
  { files: /^test\/simulation\//, on: ["bun", "node"] },

  // Streams and their readers; timers; keys and signatures; bodies; processes.
  { files: /^test\/lib\/streams\/(?:hub|run-subscription|thread-subscription)\.test/, on: RUNTIMES },
  { files: /^test\/lib\/auth\/(?:accounts|principal|static-keys)\.test/, on: RUNTIMES },
  { files: /^test\/lib\/(?:engine\/database-clock|functions\/execute|runs\/request\.large)\.test/, on: RUNTIMES },
  { files: /^test\/lib\/http\/(?:sse|request\.bodies|routes\/runs|routes\/traces\.sources)\.test/, on: RUNTIMES },
  { files: /^test\/lib\/traces\/attempt-spans\.stored\.test/, on: RUNTIMES },
  { files: /^test\/lib\/webhooks\/(?:sender|options\.headers|http-client)\.test/, on: RUNTIMES },
  // Sockets, hosts, signals, and how a runtime loads the modules of a project.
  { files: /^test\/adapters\/(?:app|node\/handler|node\/serve)\.test/, on: RUNTIMES },
  { files: /^test\/adapters\/standalone\/(?:local|loader|dev|dev\.hints)\.test/, on: RUNTIMES },
  {
    files: /^test\/e2e\/(?:awaited-call|damaged-files|deleted-files|host-frameworks|in-process-guide)\./,
    on: RUNTIMES,
  },

  // Bun takes the least time for the same.
  { files: /^test\//, on: ["bun"] },
];

/** Returns the runtimes on which `npm test` runs a file; none if only `npm run test:all` does. */
export function getRuntimes(file: string): readonly Runtime[] {
  return RULES.find(({ files }) => files.test(file))?.on ?? [];
}

/** Returns true if a runtime can run the file. */
export function canRun(file: string, runtime: Runtime): boolean {
  const only = RUNTIMES.find((name) => file.endsWith(`.${name}.test.ts`));
  return only === undefined || only === runtime;
}
