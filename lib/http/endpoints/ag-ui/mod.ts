/**
 * AG-UI for hosts with their own routes: maps the frames of a run to events, and creates the run of a request. The handler of
 * `greenroom/server` serves it at `/ag-ui/{assistant_id}`.
 * @module
 */
import type { Frame, Run, RunCreate } from "../../../runs/mod.ts";
import { validateFields } from "../../parse.ts";
import { runCreate } from "../../run-request.ts";
import { incompleteStreamError, RunEventMapper } from "../run-events.ts";
import { type AguiEvent, AguiMapper, type AguiOptions } from "./events.ts";
import { parseAguiRequest } from "./requests.ts";
import { AGUI_RUN_OPTIONS, type AguiResources, type AguiSettings, isLast, startRun } from "./run.ts";

export type * from "../../../types.ts";
export type { AguiEvent, AguiOptions } from "./events.ts";
export type { AguiResources, AguiSettings } from "./run.ts";

/** The members of a run whose frames `toAguiEvents` reads. */
export const AGUI_RUN: Pick<RunCreate, "stream_mode" | "stream_subgraphs" | "stream_resumable"> = AGUI_RUN_OPTIONS;

/**
 * Maps all frames of a run with the members of `AGUI_RUN` to events for AG-UI's clients. Throws if the frames stop before the end of the
 * run: break the connection then, because an end would look complete.
 *
 * @example
 * ```ts
 * import { AGUI_RUN, toAguiEvents } from "greenroom/ag-ui";
 *
 * const input = { messages: [{ role: "user", content: "Hi" }] };
 * const { frames } = await service.runs.stream(thread_id, { assistant_id: "agent", input, ...AGUI_RUN });
 * for await (const event of toAguiEvents(frames, { threadId: thread_id, runId: "r1" })) console.log(event.type);
 * ```
 */
export async function* toAguiEvents(frames: AsyncIterable<Frame>, options: AguiOptions): AsyncGenerator<AguiEvent> {
  const mapper = new AguiMapper(options);
  const events = new RunEventMapper();
  yield mapper.start();
  for await (const frame of frames) {
    for (const event of events.map(frame)) yield* mapper.map(event);
    if (frame.event === "end") return;
  }
  throw incompleteStreamError();
}

/** The run of a request, and its events. */
export interface AguiTurn {
  readonly run: Run;
  /** The last event is `RUN_FINISHED` or `RUN_ERROR`, also when the service stops. */
  readonly events: AsyncIterable<AguiEvent>;
}

/**
 * Creates or finds the run of a request, as `POST /ag-ui/{assistant_id}` does. `resources` is the service, or `service.as` for one user.
 * `input` is the parsed body. Throws `invalid`, `not_found`, `conflict`, and the errors of a new run.
 *
 * @example
 * ```ts
 * import { aguiRequest } from "greenroom/ag-ui";
 *
 * const body = { threadId: "t1", runId: "r1", messages: [{ id: "u1", role: "user", content: "Hi" }] };
 * const { events } = await aguiRequest(service, "agent", body);
 * for await (const event of events) console.log(`data: ${JSON.stringify(event)}\n`);
 * ```
 */
export async function aguiRequest(
  resources: AguiResources,
  assistant_id: string,
  input: unknown,
  settings: AguiSettings = {},
): Promise<AguiTurn> {
  const check = (request: RunCreate): RunCreate => validateFields(request, runCreate);
  const { run, events } = await startRun(resources, parseAguiRequest(input), { ...settings, assistant_id, check });
  /** Yields the events up to the last one of the run. */
  async function* readToEnd(): AsyncGenerator<AguiEvent> {
    for await (const event of events) {
      yield event;
      if (isLast(event)) return;
    }
  }
  return { run, events: readToEnd() };
}
