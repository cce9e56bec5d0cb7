/** Tries of the answers soak: two clients answer the same question at the same time, each in a way of its own. */
import { Broken, type Client } from "../client.ts";
import { sleep } from "../servers.ts";
import type { AGENTS } from "./questions.ts";

/** The ways in which a client answers. `stream`: it reads the run's stream. `command`: the event protocol v2. */
const WAYS = ["create", "stream", "command", "ag-ui"] as const;
type Way = (typeof WAYS)[number];

type Outcome =
  | { readonly kind: "accepted"; readonly run_id: string | null }
  | { readonly kind: "refused"; readonly code: string; readonly text: string; readonly run_id: string | null }
  /** The connection broke, and the client did not ask again. */
  | { readonly kind: "unknown" };

/** One of the two answers. */
export interface Sent {
  readonly answer: string;
  readonly way: Way;
  readonly by_id: boolean;
  readonly key: string | null;
  readonly strategy: string;
  readonly outcome: Outcome;
}

export interface Try {
  readonly thread_id: string;
  readonly agent: (typeof AGENTS)[number];
  readonly question: number;
  readonly answers: readonly Sent[];
}

export interface Question {
  readonly thread_id: string;
  readonly agent: (typeof AGENTS)[number];
  readonly question: number;
  readonly interrupt_id: string;
}

const random = (below: number): number => Math.floor(Math.random() * below);
const RETRY_MS = 50;

/** Repeats a request until it is answered. */
export async function insist<Result>(ask: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      await sleep(RETRY_MS);
    }
  }
}

/** Sends two answers to a question. Resolves once both requests have an outcome. */
export async function tryTwice(client: Client, openQuestion: Question): Promise<Try> {
  const { thread_id, agent, question } = openQuestion;
  const answers = await Promise.all(
    ["A", "B"].map(async (name) => {
      const way = WAYS[random(WAYS.length)] as Way;
      // The protocols beside v1 always name the interrupt.
      const by_id = way === "command" || way === "ag-ui" || random(2) === 0;
      const answer = `${thread_id} ${question} ${name}${random(1e9)}`;
      const key = (way === "create" || way === "stream") && random(2) === 0 ? crypto.randomUUID() : null;
      // A request that is repeated with its key must not differ.
      const strategy = ["enqueue", "reject", "interrupt"][random(3)] as string;
      const request = { answer, way, by_id, key, strategy };
      return { ...request, outcome: await send(client, openQuestion, request) };
    }),
  );
  return { thread_id, agent, question, answers };
}

async function send(client: Client, question: Question, answer: Omit<Sent, "outcome">): Promise<Outcome> {
  for (;;) {
    try {
      return await REQUESTS[answer.way](client, question, answer);
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      if (answer.key === null) return { kind: "unknown" };
      await sleep(RETRY_MS);
    }
  }
}

type Request = (client: Client, question: Question, answer: Omit<Sent, "outcome">) => Promise<Outcome>;

const runBody = ({ agent, interrupt_id }: Question, { answer, by_id, strategy }: Omit<Sent, "outcome">): object => ({
  assistant_id: agent,
  command: { resume: by_id ? { [interrupt_id]: answer } : answer },
  multitask_strategy: strategy,
});

const createHeaders = ({ key }: Omit<Sent, "outcome">): Record<string, string> =>
  key ? { "idempotency-key": key } : {};

const parseRunId = (location: unknown): string | null => /\/runs\/([\w-]+)/.exec(String(location))?.[1] ?? null;

/** Reads the head of a stream, and its body only if it is an error. The run goes on when its reader leaves. */
async function readHead(client: Client, path: string, body: object, headers: Record<string, string>): Promise<Outcome> {
  let outcome: Outcome | undefined;
  let status = 0;
  let text = "";
  const reading = client.stream("POST", path, body, () => {}, {
    headers,
    onHead(response) {
      status = response.statusCode ?? 0;
      if (status < 300) {
        outcome = { kind: "accepted", run_id: parseRunId(response.headers["content-location"]) };
        response.destroy();
      } else response.on("data", (part: string) => (text += part));
    },
  });
  await reading.catch((error: unknown) => {
    if (!outcome) throw error;
  });
  return outcome ?? refusal(status, JSON.parse(text));
}

interface Refused {
  readonly code?: string;
  readonly detail?: unknown;
  readonly run_id?: string;
}

function refusal(status: number, { code, detail, run_id }: Refused): Outcome {
  return { kind: "refused", code: `${status} ${code}`, text: JSON.stringify(detail), run_id: run_id ?? null };
}

const REQUESTS: Readonly<Record<Way, Request>> = {
  async create(client, question, answer) {
    const path = `/threads/${question.thread_id}/runs`;
    const { status, body } = await client.call("POST", path, runBody(question, answer), {
      headers: createHeaders(answer),
    });
    return status < 300 ? { kind: "accepted", run_id: body.run_id } : refusal(status, body);
  },
  stream: (client, question, answer) =>
    readHead(client, `/threads/${question.thread_id}/runs/stream`, runBody(question, answer), createHeaders(answer)),
  async command(client, { thread_id, interrupt_id }, { answer }) {
    const params = { namespace: [], interrupt_id, response: answer };
    const command = { id: 1, method: "input.respond", params };
    const { status, body } = await client.call("POST", `/threads/${thread_id}/commands`, command);
    if (status === 200 && body.type === "success") return { kind: "accepted", run_id: body.result.run_id };
    return { kind: "refused", code: `${status} ${body.error}`, text: String(body.message), run_id: null };
  },
  "ag-ui": (client, { thread_id, agent, interrupt_id }, { answer }) => {
    const resume = [{ interruptId: interrupt_id, status: "resolved", payload: answer }];
    const otherFields = { messages: [], tools: [], context: [], state: {}, forwardedProps: {} };
    const body = { threadId: thread_id, runId: crypto.randomUUID(), resume, ...otherFields };
    return readHead(client, `/ag-ui/${agent}`, body, {});
  },
};
