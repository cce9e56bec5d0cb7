/** Records what one reader has received of a run's frames, over all its connections, and checks that all readers of a run agree. */
import type { JsonObject } from "../../lib/json.ts";
import type { Frame } from "../../lib/streams/frames.ts";
import type { Reader as FrameReader } from "../../lib/streams/log.ts";
import { BASE_URL, type Process } from "./node.ts";
import { isActiveStatus, type RunNote } from "./oracle/notes.ts";
import type { World } from "./world.ts";

/** Frames that anybody has seen, by run and id. */
export class Frames {
  readonly #world: World;
  readonly byRun: Map<string, Map<number, string>> = new Map();

  constructor(world: World) {
    this.#world = world;
  }

  /** Checks I6: two readers never receive different frames with one id. */
  see(run_id: string, id: number, text: string): void {
    const knownFrames = this.byRun.get(run_id) ?? new Map<number, string>();
    this.byRun.set(run_id, knownFrames);
    const before = knownFrames.get(id);
    if (before === undefined) knownFrames.set(id, text);
    else if (before !== text) {
      const tag = this.#world.oracle.runs.byId.get(run_id)?.tag;
      this.#world.violation("I6", `frame ${id} of ${tag} was ${before}, and is ${text}`);
    }
  }
}

/** A reader of a run, which reconnects. */
export class Reader {
  readonly run_id: string;
  /** Id of the last frame: where a resumed stream goes on. */
  last = 0;
  ended = false;
  frames = 0;
  readonly #world: World;
  readonly name: string;
  // Where the present connection began to know what comes next.
  #contiguous: boolean;
  // The last frame of this connection, and its event.
  #lastShown = 0;
  #event = "";
  // Where this connection began.
  #from: number;

  constructor(world: World, name: string, run_id: string, after = 0) {
    this.#world = world;
    this.name = name;
    this.run_id = run_id;
    this.last = after;
    this.#from = after;
    this.#contiguous = true;
  }

  /** Begins a new connection. It does not receive again what a run without stored frames has emitted meanwhile. */
  connect(): void {
    this.#contiguous = this.#world.oracle.runs.byId.get(this.run_id)?.framed ?? false;
    this.#lastShown = 0;
    this.#event = "";
    this.#from = this.last;
    this.ended = false;
  }

  see(frame: Frame): void {
    const world = this.#world;
    const run = world.oracle.runs.byId.get(this.run_id);
    const tag = run?.tag ?? this.run_id;
    const refuse = (text: string): void =>
      world.violation(
        "I6",
        `${this.name} reads ${tag}: frame ${frame.id} ${frame.event} ${frame.data.slice(0, 200)}: ${text}`,
      );
    this.frames++;
    if (this.ended) refuse("it comes after the end");
    const payload = JSON.parse(frame.data) as JsonObject | null;
    if (run) this.#checkFeedback(frame, run, refuse);
    this.#event = frame.event;
    if (frame.id === null && frame.event === "end") {
      // Told again to who has seen it.
      this.ended = true;
      if (run?.fate === "present" && this.last !== run.state.end_frame)
        refuse(`the end is frame ${run.state.end_frame}`);
      return;
    }
    // Why there is no frame yet, to who has seen none.
    if (frame.id === null && payload?.["reason"] === "RunStopping" && this.last === 0) return;
    if (frame.id === null) {
      if (frame.event !== "metadata" || typeof payload?.["missing_before"] !== "number") {
        refuse("it has no id");
        return;
      }
      if (run?.framed && run.fate === "present") refuse("frames that are stored are missing");
      this.last = Math.max(this.last, payload["missing_before"] - 1);
      return;
    }
    if (typeof frame.id !== "number" || !Number.isSafeInteger(frame.id)) {
      refuse("its id is no whole number");
      return;
    }
    // A process that never saw the frames of a run counts its own: ids increase within the connection.
    const before = this.#contiguous && !this.#isEnding(frame) ? this.last : this.#lastShown;
    if (frame.id <= before) refuse(`it comes after frame ${before}`);
    this.#lastShown = frame.id;
    const present = run?.fate === "present" && (frame.event !== "end" || payload?.["status"] !== "rollback");
    if (present && run.framed && this.#contiguous && frame.id !== this.last + 1 && !this.#isEnding(frame)) {
      refuse(`it comes after frame ${this.last}`);
    }
    this.last = frame.id;
    if (frame.event === "end") {
      this.ended = true;
      if (present) {
        if (payload?.["status"] !== run.state.status) refuse(`the run is ${run.state.status}`);
        if (frame.id !== run.state.end_frame) refuse(`the end of the run is frame ${run.state.end_frame}`);
      }
    }
    if (present && !this.#isEnding(frame)) world.frames.see(this.run_id, frame.id, `${frame.event} ${frame.data}`);
  }

  /** Checks I10: the links of a run come right before its error and its end, and not at all before that of a rollback. */
  #checkFeedback(frame: Frame, run: RunNote, refuse: (text: string) => void): void {
    const { tokens, fate, state } = run;
    if (frame.event === "feedback") {
      const links = tokens.map(([key, id]) => [key, `${BASE_URL}/api/v1/feedback/tokens/${id}`]);
      if (tokens.length === 0 || fate === "rolled_back" || isActiveStatus(state.status)) {
        refuse(`a run with ${tokens.length} tokens, ${fate}, ${state.status}, has none`);
      } else if (frame.data !== JSON.stringify(Object.fromEntries(links)))
        refuse(`its links are ${JSON.stringify(links)}`);
      return;
    }
    if (this.#event === "feedback" && frame.event !== "error" && frame.event !== "end")
      refuse("it comes after feedback");
    if (this.#event === "error" && frame.event !== "end") refuse("it comes after the error");
    if (fate !== "present" || tokens.length === 0 || frame.id === null || this.#isEnding(frame)) return;
    const failed = state.status === "error" || state.status === "timeout";
    if (frame.event !== (failed ? "error" : "end")) return;
    const feedback = (state.end_frame ?? 0) - (failed ? 2 : 1);
    if (this.#from < feedback && this.#event !== "feedback") refuse("its feedback links are missing");
  }

  /** The run was removed: what is told then is made where it is told. */
  #isEnding(frame: Frame): boolean {
    if (frame.event !== "error" && frame.event !== "end") return false;
    return /RunRolledBack|RunDeleted|"rollback"/.test(frame.data);
  }

  /** Notes that the server closed the stream. */
  closed(process: Process): void {
    if (this.ended || process.stopping) return;
    const tag = this.#world.oracle.runs.byId.get(this.run_id)?.tag;
    this.#world.violation(
      "I6",
      `${this.name} reads ${tag}: ${process.name} closed the stream after frame ${this.last} without an end`,
    );
  }
}

/** Reads a stream as the HTTP layer does. The result leaves it. */
export function pump(
  process: Process,
  frames: FrameReader<Frame>,
  handle: {
    readonly frame: (frame: Frame) => void;
    readonly closed: () => void;
    readonly failed: (error: unknown) => void;
  },
): () => void {
  let hasLeft = false;
  const read = async (): Promise<void> => {
    while (true) {
      const batch = await frames.next();
      if (!process.alive || hasLeft) return;
      if (batch.length === 0) return handle.closed();
      for (const frame of batch) if (!hasLeft) handle.frame(frame);
    }
  };
  read().catch((error: unknown) => {
    if (process.alive && !hasLeft) handle.failed(error);
  });
  return () => {
    hasLeft = true;
    frames.leave();
  };
}
