/** The checks of durable functions after their calls have ended. */
import { createMessages } from "../../simulation/durable/scripts.ts";
import type { Client, Frame } from "../client.ts";
import type { StepEffect } from "./agent.ts";
import { type Call, EVENT_CHANNELS, type History, QUIET_MS } from "./calls.ts";

export interface Faults {
  readonly repeated: string[];
  readonly models: string[];
  readonly state: string[];
  readonly frames: string[];
  readonly events: string[];
}

/** Checks the outside file: no step begins again once its successor has begun, nor without a kill. Returns how often one began again. */
export function checkEffects(deeds: readonly StepEffect[], calls: readonly Call[], faults: Faults): number {
  const reached = new Map<string, number>();
  const last = new Map<string, StepEffect>();
  const dead = new Set<number>();
  const ends = new Set<string>();
  const fails = new Set(
    calls
      .flatMap(({ script }) => script.chains.flat())
      .flatMap((op) => (op.kind === "step" && op.fails > 0 ? op.name : [])),
  );
  const models = new Set(
    calls
      .flatMap(({ script }) => script.chains.flat())
      .flatMap((op) => (op.kind === "step" && op.tokens > 0 ? op.name : [])),
  );
  let again = 0;
  for (const deed of deeds) {
    const { mark, pid, name, chain, at } = deed;
    if (mark === "killed") dead.add(pid);
    if (mark === "ended") ends.add(name);
    if (mark !== "began") continue;
    const chainName = `${name.split(".")[0]}.${chain}`;
    const before = last.get(name);
    last.set(name, deed);
    if (at < (reached.get(chainName) ?? -1))
      faults.repeated.push(`${name} began after ${chainName}.${reached.get(chainName)}`);
    reached.set(chainName, Math.max(at, reached.get(chainName) ?? -1));
    if (!before) continue;
    again++;
    // A crash between the end of the work and its commit repeats the work.
    if (dead.has(before.pid) || fails.has(name)) continue;
    if (models.has(name) && ends.has(name))
      faults.models.push(`${name} was called again by process ${pid}, and ${before.pid} lives`);
    else faults.repeated.push(`${name} began again in process ${pid}, and ${before.pid} lives`);
  }
  for (const { script } of calls) {
    for (const op of script.chains.flat()) {
      if (op.kind === "step" && !ends.has(op.name)) faults.repeated.push(`${op.name} never ended`);
    }
  }
  return again;
}

interface Message {
  readonly id: string;
  readonly type: string;
  readonly content: string;
}

interface Values {
  readonly messages?: readonly Message[];
  readonly results?: object;
}

const sortWords = (messages: readonly Message[]): string =>
  messages
    .map(({ content }) => content)
    .join("")
    .split(" ")
    .toSorted()
    .join(" ");

const sortMembers = (value: object | undefined): string => JSON.stringify(Object.entries(value ?? {}).toSorted());

export async function checkCall(
  client: Client,
  undisturbed: Client,
  call: Call,
  calm: Call,
  faults: Faults,
): Promise<void> {
  const { script, thread_id, status } = call;
  const { tag } = script;
  const state = async (of: Client, thread: string): Promise<Values> =>
    ((await of.get("GET", `/threads/${thread}/state`)) as { values: Values }).values;
  const values = await state(client, thread_id);
  const calmState = await state(undisturbed, calm.thread_id);
  const messages = values.messages ?? [];
  const calmMessages = calmState.messages ?? [];
  const differ = (what: string, is: string, was: string): void =>
    void faults.state.push(`${tag} on thread ${thread_id}: ${what} ${is} and not ${was}`);
  if (status !== calm.status || status !== "idle") differ("ended as", status, calm.status);
  if (sortMembers(values.results) !== sortMembers(calmState.results))
    differ("results", sortMembers(values.results), sortMembers(calmState.results));
  const expected = createMessages(script);
  const texts = messages.map(({ content }) => content);
  if (expected && JSON.stringify(texts) !== JSON.stringify(calmMessages.map(({ content }) => content)))
    differ("messages", JSON.stringify(texts), JSON.stringify(expected));
  // The order of chains decides where messages end, not what they say.
  if (sortWords(messages) !== sortWords(calmMessages)) differ("words", sortWords(messages), sortWords(calmMessages));

  const receivedFrames: Frame[] = [];
  for (const history of call.v1) {
    const { run_id, frames } = history;
    const replay: Frame[] = [];
    const path = `/threads/${thread_id}/runs/${run_id}/stream`;
    await client.stream("GET", path, undefined, (frame) => void replay.push(frame), {
      headers: { "last-event-id": "-1" },
    });
    faults.frames.push(...compare(`${tag}, run ${run_id}`, frames, replay));
    receivedFrames.push(...frames);
  }
  faults.frames.push(...checkShown(`${tag}, v1`, messages, readChunks(receivedFrames)));
  faults.events.push(...order(`${tag}, v2`, call.v2));
  faults.events.push(...compareEvents(`${tag}, v2`, call.v2.frames, await readStoredEvents(client, thread_id)));
  faults.events.push(...checkShown(`${tag}, v2`, messages, readDeltas(call.v2.frames)));
}

/** Checks that the frames of many connections are the stored ones, frame by frame. */
function compare(name: string, frames: readonly Frame[], replay: readonly Frame[]): string[] {
  for (const [at, frame] of frames.entries()) {
    const replayed = replay[at];
    if (frame.id === replayed?.id && frame.event === replayed.event && frame.data === replayed.data) continue;
    return [`${name}: frame ${at + 1} was ${text(frame)}, and is ${text(replayed)}`];
  }
  return frames.length === replay.length ? [] : [`${name}: ${frames.length} of ${replay.length} frames`];
}

const text = (frame: Frame | undefined): string => `${frame?.id} ${frame?.event} ${frame?.data.slice(0, 200)}`;

type Chunk = readonly [id: string, text: string];

function readChunks(frames: readonly Frame[]): Chunk[] {
  return frames.flatMap(({ event, data }) => {
    if (event !== "messages") return [];
    const [{ id, type, content }] = JSON.parse(data) as [Message];
    return type === "AIMessageChunk" ? [[id, content] as const] : [];
  });
}

function readDeltas(frames: readonly Frame[]): Chunk[] {
  return frames.flatMap(({ data }) => {
    const { method, params } = JSON.parse(data);
    const word = params?.data ?? {};
    if (method !== "messages" || word.event !== "content-block-delta") return [];
    return [[String(word.run_id ?? params.run_id), String(word.delta?.text ?? "")] as const];
  });
}

/** Checks that each message of the state came once, whole, and after the one of its chain before it: chains run at the same time. */
function checkShown(name: string, messages: readonly Message[], chunks: readonly Chunk[]): string[] {
  const whole = new Map<string, string>();
  for (const [id, part] of chunks) whole.set(id, (whole.get(id) ?? "") + part);
  const problems: string[] = [];
  const places = [...whole.keys()];
  const before = new Map<string, number>();
  for (const { id, type, content } of messages) {
    if (type !== "ai") continue;
    const received = whole.get(id);
    if (received !== content) problems.push(`${name}: ${JSON.stringify(content)} came as ${JSON.stringify(received)}`);
    const position = places.indexOf(id);
    const chain = content.split(".")[1] ?? "";
    if (position < (before.get(chain) ?? -1) && position >= 0)
      problems.push(`${name}: ${JSON.stringify(content)} came before its predecessor`);
    before.set(chain, Math.max(before.get(chain) ?? -1, position));
  }
  return problems;
}

/** The events of a thread that has ended, read once more from the first. */
async function readStoredEvents(client: Client, thread_id: string): Promise<Frame[]> {
  const frames: Frame[] = [];
  let quiet: NodeJS.Timeout | undefined;
  const reads = client.stream(
    "POST",
    `/threads/${thread_id}/stream/events`,
    { channels: EVENT_CHANNELS, since: 1 },
    (frame) => {
      frames.push(frame);
      quiet?.refresh();
    },
    {
      onHead(response) {
        quiet = setTimeout(() => response.destroy(), QUIET_MS);
      },
    },
  );
  await reads.catch(() => {});
  return frames;
}

/** Checks that the events of many connections are the stored ones, event by event. */
function compareEvents(name: string, frames: readonly Frame[], replay: readonly Frame[]): string[] {
  const receivedBySeq = new Map(frames.map(({ data }) => [Number(JSON.parse(data).seq), data]));
  const storedBySeq = new Map(replay.map(({ data }) => [Number(JSON.parse(data).seq), data]));
  const line = (data: string | undefined): string => `${data?.slice(0, 300)}`;
  return [
    ...[...storedBySeq].flatMap(([seq, data]) =>
      receivedBySeq.get(seq) === data ? [] : [`${name}: event ${line(data)} came as ${line(receivedBySeq.get(seq))}`],
    ),
    ...[...receivedBySeq].flatMap(([seq, data]) =>
      storedBySeq.has(seq) ? [] : [`${name}: event ${line(data)} is not stored`],
    ),
  ].slice(0, 20);
}

/** Over all connections, `seq` grows. */
function order(name: string, { frames }: History): string[] {
  let last = 0;
  for (const { data } of frames) {
    const seq = Number(JSON.parse(data).seq);
    if (seq <= last) return [`${name}: event ${seq} came after ${last}`];
    last = seq;
  }
  return [];
}
