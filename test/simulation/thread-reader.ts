/** Records what one reader has received of a thread's stream, over all its connections. */
import type { JsonObject } from "../../lib/json.ts";
import type { Frame } from "../../lib/streams/frames.ts";
import type { ThreadPosition } from "../../lib/streams/thread-subscription.ts";
import type { ThreadNote } from "./oracle/notes.ts";
import type { World } from "./world.ts";

/** One reader of a thread's runs, which reconnects at the place where it was. */
export class ThreadReader {
  readonly name: string;
  readonly thread_id: string;
  /** The last frame that has a place. */
  at: ThreadPosition = { seq: 0, frame: 0, at: 0 };
  /** Frames seen by run. */
  readonly framesByRun: Map<number, number[]> = new Map();
  readonly done: Set<string> = new Set();
  readonly #world: World;
  readonly #life: ThreadNote | undefined;
  #run: string | null = null;

  constructor(world: World, name: string, thread_id: string) {
    this.#world = world;
    this.#life = world.oracle.threads.get(thread_id);
    this.name = name;
    this.thread_id = thread_id;
  }

  see(frame: Frame): void {
    const world = this.#world;
    const refuse = (text: string): void =>
      world.violation("I6", `${this.name}: frame ${frame.id} ${frame.event} ${frame.data.slice(0, 200)}: ${text}`);
    const payload = JSON.parse(frame.data) as JsonObject;
    // Of a thread that was deleted and made again the places mean something else.
    if (world.oracle.threads.get(this.thread_id) !== this.#life) return;
    if (frame.event === "error" || frame.event === "end") refuse("a thread's stream has none");
    if (typeof payload?.["run_id"] === "string") this.#run = payload["run_id"];
    const run = this.#run === null ? undefined : world.oracle.runs.byId.get(this.#run);
    if (frame.event === "run_done") {
      const run_id = String(payload["run_id"]);
      if (this.done.has(run_id)) refuse("it is told twice");
      this.done.add(run_id);
      if (run?.fate === "present" && run.state.status !== payload["status"]) refuse(`the run is ${run.state.status}`);
    }
    if (frame.id === null) return;
    const [seq = Number.NaN, id = Number.NaN, at = Number.NaN] = String(frame.id).split("-").map(Number);
    if (![seq, id, at].every(Number.isSafeInteger)) {
      if (payload?.["status"] !== "rollback") refuse("its id names no place");
      return;
    }
    this.at = { seq, frame: id, at };
    // What is told late has the place of what was told before it.
    if (frame.event === "run_done" && run?.state.seq !== seq) return;
    const ids = this.framesByRun.get(seq) ?? [];
    this.framesByRun.set(seq, ids);
    const last = ids.at(-1) ?? 0;
    const present = run?.fate === "present" && run.state.seq === seq;
    if (id <= last && present) refuse(`it comes after frame ${last} of that run`);
    ids.push(id);
    if (!present || frame.event === "run_done") return;
    if (run.framed && id !== last + 1) refuse(`it comes after frame ${last} of that run`);
    world.frames.see(run.run_id, id, `${frame.event} ${frame.data}`);
  }
}
