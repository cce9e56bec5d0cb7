/** A state that is read after a frame is never older than the frame. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Frame, RunCreate, Service } from "../../lib/mod.ts";
import { missingIn, readBackAgents, toldBy } from "../suite/read-back.ts";
import { testService } from "../suite/kit.ts";

// The services' own timers keep no process alive.
let alive: ReturnType<typeof setInterval>;
before(() => {
  alive = setInterval(() => {}, 1_000);
});
after(() => clearInterval(alive));

const ROUNDS = 30;
const parsed = ({ event, data }: Frame): { readonly event: string; readonly data: unknown } => ({
  event,
  data: JSON.parse(data),
});

/** Every way to read a thread. */
const reads: Readonly<Record<string, (service: Service, thread_id: string) => Promise<unknown>>> = {
  state: ({ threads }, thread_id) => threads.state(thread_id),
  history: ({ threads }, thread_id) => threads.history(thread_id),
  thread: ({ threads }, thread_id) => threads.get(thread_id),
  search: async ({ threads }, thread_id) => (await threads.search({ ids: [thread_id] })).items,
};

/** Streams a run, reads after the frame of this number, and gives what was missing; `last` when there were no more frames. */
async function round(
  service: Service,
  assistant_id: string,
  number: number,
  name: string,
  more: Partial<RunCreate>,
): Promise<{ readonly missing: string[]; readonly last: boolean }> {
  const { thread_id } = await service.threads.create();
  const word = "w".repeat(1 + (number % 4));
  const stream_mode = ["values", "updates"] as const;
  const request: RunCreate = { assistant_id, input: { log: [word] }, stream_mode: [...stream_mode], ...more };
  const { frames } = await service.runs.stream(thread_id, request);
  const read = reads[name] as (typeof reads)[string];
  const missing: string[] = [];
  let count = 0;
  let ended = false;
  for await (const frame of frames) {
    ended = frame.event === "end";
    if (count++ !== number) continue;
    const shown = parsed(frame);
    const told = ended ? ["interrupted", `${word}-question`] : toldBy(shown);
    const answer = await read(service, thread_id);
    // A state says nothing of the thread's status.
    const asked = name === "thread" || name === "search" ? told : told.filter((text) => text !== "interrupted");
    missing.push(...missingIn(asked, answer).map((text) => `${name} after ${frame.event} ${number}: ${text}`));
  }
  return { missing, last: ended && count <= number + 1 };
}

for (const assistant_id of ["graph", "nested", "steps"]) {
  for (const more of [{}, { durability: "sync" }, { stream_resumable: true }] satisfies Partial<RunCreate>[]) {
    describe(`${assistant_id}, read after each frame, ${JSON.stringify(more)}`, () => {
      for (const name of Object.keys(reads)) {
        it(name, async () => {
          await using kit = await testService({ executor: readBackAgents() });
          const behind: string[] = [];
          let number = 0;
          for (let i = 0; i < ROUNDS; i++) {
            const subgraphs = assistant_id === "nested" ? { stream_subgraphs: i % 2 === 0 } : {};
            const { missing, last } = await round(kit.service, assistant_id, number, name, { ...more, ...subgraphs });
            behind.push(...missing);
            number = last ? 0 : number + 1;
          }
          assert.deepEqual(behind, []);
        });
      }
    });
  }
}
