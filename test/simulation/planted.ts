// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are pieces of code.
/** Faults that are planted in a copy of the code: the simulation is worth what it finds of them. */
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { LOGS } from "./planted-logs.ts";
import { PLATFORM, type PlantedFault } from "./planted-platform.ts";
import { SPANS } from "./planted-spans.ts";
import { STEPS } from "./planted-steps.ts";
import { WRITER } from "./planted-writer.ts";

export type { PlantedFault } from "./planted-platform.ts";

export const PLANTED: readonly PlantedFault[] = [
  {
    name: "a claim does not ask whether the slot is free",
    file: "adapters/sql/statements/runs-claim.ts",
    find: "and (t.slot_token is null or t.slot_until <= ${p.now}) ${rowByRow})",
    replace: "${rowByRow})",
  },
  {
    name: "a rolled-back run's slot is freed with its rows",
    file: "adapters/sql/runs/create-statements.ts",
    find: "\n    ],\n    lock_keys: [\n",
    replace: `
      ...(eviction ? [{ compileFor: () => ({ sql: \`update threads set slot_token = null, slot_until = null where thread_id = ?
      and not exists (select 1 from runs r where r.thread_id = threads.thread_id and r.status = 'running')\`, args: [thread_id] }) }] : []),
    ],\n    lock_keys: [\n`,
  },
  {
    name: "saving asks for no token",
    file: "adapters/sql/statements/checkpoints.ts",
    find: "and run_id = ${p.run_id} and lease_token = ${p.token} and status = 'running'`;",
    replace: "and run_id = ${p.run_id} and ${p.token} is not null and status = 'running'`;",
  },
  {
    name: "a shut-down charges the attempt",
    file: "adapters/sql/statements/runs-lease.ts",
    find: "attempt: sql`attempt - counts_as_attempt`,",
    replace: "attempt: sql`attempt`,",
  },
  {
    name: "the slot is freed when the executor is told to stop, not when it has settled",
    file: "lib/engine/attempt.ts",
    find: "    this.#abort.abort(reason);\n",
    replace: `    this.#abort.abort(reason);
    const { options, claimed } = this.#parts;
    if (!this.#state.mayWrite) void options.storage.releaseThreadLock(options.scope, claimed.lease).catch(() => {});\n`,
  },
  {
    name: "a worker has one token for all its claims",
    file: "lib/engine/claims.ts",
    find: "    token: environment.uuid(),\n    lease_until",
    replace: "    token: ((environment as { token?: string }).token ??= environment.uuid()),\n    lease_until",
  },
  {
    name: "eviction misses pending runs",
    file: "adapters/sql/statements/runs-stop.ts",
    find: '${selectActive(p, selection, "pending")} union all ${selectActive(p, selection, "running")}`',
    replace: '${selectActive(p, selection, "running")}`',
  },
  {
    name: "no heartbeat",
    file: "lib/engine/leases.ts",
    find: "this.#schedule(until - environment.now() - (2 * lease_ms) / 3);",
    replace: "",
  },
  {
    name: "thread events are stored without a lease",
    file: "adapters/sql/statements/runs-events.ts",
    find: "      whileLeased(p),\n",
    replace: "      sql`${p.token} is not null`,\n",
  },
  {
    name: "a retried run begins again in the events of its thread",
    file: "lib/engine/event-recorder.ts",
    find: "if (!this.#hasStarted) this.#recordRoot(",
    replace: "this.#recordRoot(",
  },
  {
    name: "an answer is not compared with what is open when its run starts",
    file: "lib/executor/state-recorder.ts",
    find: "    if (missing.length > 0) throw createInterruptGoneError(missing, pending);\n",
    replace: "",
  },
  {
    name: "two runs answer one interrupt",
    file: "adapters/sql/statements/runs-create.ts",
    find: "(p) => sql<boolean>`not exists (select 1 from ${answeringRuns(p)})`",
    replace: "() => sql<boolean>`true`",
  },
  {
    name: "a run that is deleted while it waits has no end",
    file: "adapters/sql/runs/mod.ts",
    find: "        ...deleteRunEvents(pending, args),\n",
    replace: "",
  },
  {
    name: "a run that is deleted takes its end along",
    file: "adapters/sql/statements/runs-events.ts",
    find: '\n    .where(positionInClaim("first_seq"), "<", sql.lit(4294967295))',
    replace: "",
  },
  {
    name: "a thread that is made again begins with the first turn",
    file: "adapters/sql/statements/runs-create.ts",
    find: "${firstClaimCount(p)} + case when",
    replace: "case when",
  },
  {
    name: "an end is told twice",
    file: "lib/streams/run-subscription.ts",
    find: 'publishValue(runLog, "end", { run_id: runLog.run_id, status });',
    replace: 'for (const _ of [1, 2]) publishValue(runLog, "end", { run_id: runLog.run_id, status });',
  },
  {
    name: "a state of a simple agent is shown before its checkpoint is put",
    file: "lib/executor/state-recorder.ts",
    find: "    await this.#job.checkpoints.put(checkpoint);\n",
    replace:
      "    void this.#environment.timer(100, () => void this.#job.checkpoints.put(checkpoint).catch(() => {}));\n",
  },
  {
    name: "frames are shown before they are stored",
    file: "lib/engine/output-buffer.ts",
    find: "      this.#frames.add(output, barrier.positionForOutput);\n",
    replace:
      "      this.#frames.add(output, barrier.positionForOutput);\n      runLog.publish(output.event, output.data);\n",
  },
  {
    name: "frame ids start again in a later attempt",
    file: "lib/engine/output-buffer.ts",
    find: "resumable ? last_frame + 1 :",
    replace: "resumable ? 1 :",
  },
  {
    name: "frame ids of a later attempt leave a gap",
    file: "lib/engine/output-buffer.ts",
    find: "resumable ? last_frame + 1 :",
    replace: "resumable ? last_frame + 2 :",
  },
  {
    name: "the idempotency key is not kept",
    file: "adapters/sql/runs/create-statements.ts",
    find: "...(idempotency ? [insertKey(",
    replace: "...(idempotency && run_id === thread_id ? [insertKey(",
  },
  {
    name: "the idempotency key goes with its run",
    file: "adapters/sql/statements/runs-create.ts",
    find: "from idempotency_keys k\n    left join runs",
    replace: "from idempotency_keys k\n    join runs",
  },
  {
    name: "a run that was cancelled is executed by the worker that claims it next",
    file: "lib/engine/worker.ts",
    find: '    if (claimed.cancelled) return "cancelled";\n',
    replace: "",
  },
  {
    name: "a rollback leaves pending writes",
    file: "adapters/sql/statements/runs-stop.ts",
    find: 'PROGRESS_TABLES = ["checkpoints", "checkpoint_writes", "channel_values"] as const;',
    replace: 'PROGRESS_TABLES = ["checkpoints", "channel_values"] as const;',
  },
  {
    name: "attempts are never exhausted",
    file: "adapters/sql/statements/runs-claim.ts",
    find: "or ${countStarts(p)} >= ${jsonInteger(",
    replace: "or ${countStarts(p)} >= 1000 + ${jsonInteger(",
  },
  {
    name: "whatever is stored counts as progress",
    file: "adapters/sql/runs/lease.ts",
    find: "hasRoot ? setHasCheckpoint(fence) : isLeased(fence),",
    replace: "setHasCheckpoint(fence),",
  },
  {
    name: "progress counts for ever",
    file: "adapters/sql/statements/runs-claim.ts",
    find: "started_at + ${jsonInteger(p.progress_ms, sql`graph_id`)} > ${p.now}",
    replace: "started_at + 1000000 + ${jsonInteger(p.progress_ms, sql`graph_id`)} > ${p.now}",
  },
  {
    name: "a worker adopts the leases of the living",
    file: "adapters/sql/statements/runs-claim.ts",
    find: "status = 'running' and lease_until <= ${p.now}`;",
    replace: "status = 'running' and lease_until <= ${p.now} + 600`;",
  },
  {
    name: "a claim leases the run that it has seen, whatever has become of it",
    file: "adapters/sql/runs/claim.ts",
    find: "leaseNext({ ...args, thread_id })",
    replace: `((lease: Statement<LeasedRun>): Statement<LeasedRun> => ({
      compileFor(dialect) {
        const { sql, args: values } = lease.compileFor(dialect);
        const start = sql.slice(0, sql.indexOf("where run_id = ("));
        return {
          sql: \`\${start} where run_id = '\${chosen.run_id}' \${sql.slice(sql.indexOf("returning *"))}\`,
          args: values.slice(0, start.split("?").length - 1),
        };
      },
    }))(leaseNext({ ...args, thread_id }))`,
  },
  {
    name: "a lease that was seen to be over is taken up, though it was renewed meanwhile",
    file: "adapters/sql/statements/runs-claim.ts",
    find: ".where(isExpired(p))",
    replace: '.where("status", "=", sql.lit("running"))',
  },
  {
    name: "the end of a run claims the next one, though it ended nothing",
    file: "adapters/sql/statements/runs-claim.ts",
    find: "sql<boolean>`exists (${selectEnd(p)})`",
    replace: "sql<boolean>`true`",
  },
  {
    name: "no wake-up and no poll",
    file: "lib/engine/claims.ts",
    find: "    if (!this.#isClaiming && this.#parts.slots.countFree() > 0) this.#claim();\n",
    replace: "    if (!this.#isClaiming && this.#parts.slots.countFree() > 0 && this.#wakeUps < 5) this.#claim();\n",
  },
  {
    name: "a run resumes from the start",
    file: "adapters/sql/runs/row.ts",
    find: "resumed: stored.has_checkpoint === 1",
    replace: "resumed: false",
  },
  {
    name: "reject does not look whether the thread is busy",
    file: "adapters/sql/statements/runs-create.ts",
    find: "isWithinLimits: () => sql<boolean>`not ${busy}`",
    replace: "isWithinLimits: () => sql<boolean>`true`",
  },
  {
    name: "the newest run of a thread goes first",
    file: "adapters/sql/statements/runs-claim.ts",
    find: "e.seq < n.seq and ${isDue(",
    replace: "e.seq > n.seq and ${isDue(",
  },
  {
    name: "a run is made from an assistant that has changed since",
    file: "adapters/sql/statements/runs-create.ts",
    find: "and a.revision = ${p.assistant_revision})",
    replace: "and ${p.assistant_revision} is not null)",
  },
  {
    name: "an executor that ignores its signal is never given up",
    file: "lib/engine/execution.ts",
    find: "    this.#abandonWait?.();\n",
    replace: "",
  },
  {
    name: "a run may take for ever",
    file: "lib/engine/attempt.ts",
    find: '() => this.stop("timed_out"));',
    replace: "() => {});",
  },
  {
    name: "a resumed stream begins with the last frame again",
    file: "lib/streams/run-subscription.ts",
    find: "runLog.read(await findPosition(runLog, after), onLeave)",
    replace: "runLog.read((await findPosition(runLog, after)) - 1, onLeave)",
  },
  {
    name: "what an interrupted run has done is not its thread's state",
    file: "lib/engine/run-end.ts",
    find: "const head = (error ? null : last?.checkpoint?.checkpoint_id) ?? (await findNewestRunCheckpoint(parts));",
    replace:
      'const head = result.status === "interrupted" ? null : (error ? null : last?.checkpoint?.checkpoint_id) ?? (await findNewestRunCheckpoint(parts));',
  },
  {
    name: "the end of a run that nobody executed has the id of its feedback links",
    file: "adapters/sql/statements/runs-stop.ts",
    find: "cast(1 as bigint) + ${featureEndFrames}",
    replace: "cast(1 as bigint)",
  },
  {
    name: "a shut-down leaves its runs to their leases",
    file: "lib/engine/run-end.ts",
    find: "() => storage.requeueRun(scope, claimed.lease, environment.now(), trace)",
    replace: "async () => claimed.run.run_id !== claimed.run.thread_id",
  },
  {
    name: "who waits for a cancelled run is answered at once",
    file: "lib/runs/run-stopper.ts",
    find: "if (wait) await Promise.all(runs.map(waitUntilEnded));",
    replace: "",
  },
  {
    name: "a process that stood still does not know it",
    file: "lib/engine/leases.ts",
    find: "  function hasExpiredLease(now: number): boolean {\n",
    replace: "  function hasExpiredLease(now: number): boolean {\n    if (now > 0) return false;\n",
  },
  {
    name: "a reader that has seen a later attempt gets the frames of one that has lost its lease",
    file: "lib/streams/run-subscription.ts",
    find: "return !runLog.hasStoredFrames && isFrameOfLaterClaim(id, runLog.lastId, row);",
    replace: "return false;",
    test: "test/lib/engine/leases.lost.test.ts",
  },
  {
    name: "an executor begins when its lease is almost over",
    test: "test/lib/engine/leases.lost.test.ts",
    file: "lib/engine/leases.ts",
    find: "environment.now() >= this.#until - lease_ms / 4",
    replace: "environment.now() >= this.#until",
  },
  {
    name: "a process that stood still before it starts an executor does not know it",
    file: "lib/engine/attempt.ts",
    find: "    // The process may have stalled during these ticks.\n    await this.ensureLease();\n",
    replace: "",
  },
  {
    name: "a process that stood still looks only once at what it holds",
    file: "lib/engine/leases.ts",
    find: "      while (hasExpiredLease(now)) {\n",
    replace: "      if (hasExpiredLease(now)) {\n",
  },
  {
    name: "the end of a run claims the next one, whatever else is overdue",
    test: "test/lib/engine/leases.lost.test.ts",
    file: "lib/engine/claims.ts",
    find: "!this.hasWaitingRuns() || leases.hasExpiredLease(now) || isDue",
    replace: "!this.hasWaitingRuns() || isDue",
  },
  {
    name: "the end of a run always claims the next one",
    file: "lib/engine/claims.ts",
    find: " || isDue) return null;",
    replace: ") return null;",
  },
  ...LOGS,
  ...PLATFORM,
  ...WRITER,
  ...STEPS,
  ...SPANS,
];

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

/** Returns the code with the fault in it. Throws when the text to replace is not there exactly once. */
export function plant({ name, file, also = [], ...first }: PlantedFault): string {
  let source = readFileSync(join(root, file), "utf8");
  for (const { find, replace } of [first, ...also]) {
    const count = source.split(find).length - 1;
    if (count !== 1) throw new Error(`"${name}": its text stands ${count} times in ${file}; it must be planted anew`);
    source = source.replace(find, () => replace);
  }
  return source;
}

/** Returns the seed that finds the fault, and how; null when none of the first `seeds` does. */
function search(fault: PlantedFault, seeds: number): Promise<string | null> {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-planted-"));
  for (const name of ["lib", "adapters", "package.json", "test/simulation"]) {
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, fault.file), plant(fault));
  const args = process.versions["deno"] ? ["run", "-A", "--no-check"] : [];
  const child = spawn(process.execPath, [
    ...args,
    join(folder, "test/simulation/main.ts"),
    "--stop",
    "--seeds",
    String(seeds),
    ...(fault.durable ? ["--durable"] : []),
    ...(process.env["SIM_IGNORE"] ? ["--ignore", process.env["SIM_IGNORE"]] : []),
  ]);
  let output = "";
  child.stdout.on("data", (bytes: Uint8Array) => {
    output += new TextDecoder().decode(bytes);
  });
  child.stderr.on("data", (bytes: Uint8Array) => {
    output += new TextDecoder().decode(bytes);
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      rmSync(folder, { recursive: true, force: true });
      const failure = /^seed \d+ FAILED.*$/m.exec(output)?.[0] ?? null;
      if (failure === null && code !== 0) reject(new Error(`${fault.name}:\n${output}`));
      else resolve(failure);
    });
  });
}

/** Shows for each planted fault what finds it. False when one that should be found is not. */
export async function showPlanted(seeds: number, jobs: number, only: RegExp): Promise<boolean> {
  const faults = PLANTED.filter(({ name }) => only.test(name));
  // All of them before the first one: a fault that cannot be planted is no survivor.
  for (const fault of faults) plant(fault);
  let missed = 0;
  let at = 0;
  const work = async (): Promise<void> => {
    while (at < faults.length) {
      const fault = faults[at++] as PlantedFault;
      const failure = await search(fault, seeds);
      if (failure === null && !fault.equivalent && !fault.test) missed++;
      const knownReason = fault.equivalent
        ? `as it may: ${fault.equivalent}`
        : fault.test && `but not in ${fault.test}`;
      const survives = knownReason ? `survives, ${knownReason}` : "SURVIVES";
      console.log(`${fault.name}\n    ${failure?.slice(0, 160) ?? survives}`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  console.log(`${faults.length} faults planted, ${missed} not found`);
  return missed === 0;
}
