/** The checks after the tries of the answers soak. */
import type { Client } from "../client.ts";
import type { Report } from "../report.ts";
import type { Consumed } from "./questions.ts";
import type { Sent, Try } from "./tries.ts";

export interface Evidence {
  readonly tries: readonly Try[];
  readonly consumed: readonly Consumed[];
  readonly client: Client;
}

/** The refusals of a client that came second. */
const REFUSALS: Readonly<Record<Sent["way"], readonly string[]>> = {
  create: ["409 interrupt_already_answered"],
  stream: ["409 interrupt_already_answered"],
  command: ["200 no_such_interrupt"],
  // It compares the answers with the open interrupts first, and the answering run may have got on meanwhile.
  "ag-ui": ["409 interrupt_already_answered", "409 no_open_interrupt"],
};

const describe = ({ thread_id, agent, question }: Try): string => `${agent} ${thread_id} question ${question}`;

export async function checkTries(report: Report, name: string, { tries, consumed, client }: Evidence): Promise<void> {
  const byQuestion = new Map<string, Set<string>>();
  const strange: string[] = [];
  for (const { thread_id, question, answer } of consumed) {
    const at = `${thread_id} ${question}`;
    byQuestion.set(at, (byQuestion.get(at) ?? new Set()).add(String(answer)));
    if (!String(answer).startsWith(`${at} `)) strange.push(`${at} consumed ${JSON.stringify(answer)}`);
  }
  const doubled = [...byQuestion].filter(([, answers]) => answers.size > 1);
  const both: string[] = [];
  const refusals: string[] = [];
  const lost: string[] = [];
  let unknown = 0;
  for (const attempt of tries) {
    const accepted = attempt.answers.filter(({ outcome }) => outcome.kind === "accepted");
    unknown += attempt.answers.filter(({ outcome }) => outcome.kind === "unknown").length;
    if (accepted.length > 1) both.push(`${describe(attempt)}: ${accepted.map(({ way }) => way).join(" and ")}`);
    refusals.push(...findWrongRefusals(attempt));
    // With a broken connection, the server may have accepted the other answer before.
    const [won] = accepted;
    const answers = byQuestion.get(`${attempt.thread_id} ${attempt.question}`) ?? new Set();
    if (won && !answers.has(won.answer))
      lost.push(`${describe(attempt)}: ${won.answer}, but ${[...answers].join(", ") || "none"}`);
  }
  const failed = await findFailedRuns(client, tries);
  report.note(`${name}: answers accepted, of unknown fate`, `${countAccepted(tries)}, ${unknown}`);
  report.none(
    `${name}: questions that consumed two answers`,
    doubled.map(([at, answers]) => `${at}: ${[...answers].join(", ")}`),
  );
  report.none(`${name}: answers consumed by another question`, strange);
  report.none(`${name}: questions for which two answers were accepted`, both);
  report.none(`${name}: refusals with another code, or with another run`, refusals);
  report.none(`${name}: accepted answers that no question consumed`, lost);
  report.none(`${name}: runs that did not succeed`, failed);
}

const countAccepted = (tries: readonly Try[]): number =>
  tries.flatMap(({ answers }) => answers).filter(({ outcome }) => outcome.kind === "accepted").length;

/** Finds refusals without the run that answered the interrupt. */
function findWrongRefusals(attempt: Try): string[] {
  const winner = attempt.answers.find(({ outcome }) => outcome.kind === "accepted")?.outcome;
  const winner_id = winner?.kind === "accepted" ? winner.run_id : null;
  return attempt.answers.flatMap(({ way, outcome }) => {
    if (outcome.kind !== "refused") return [];
    if (!REFUSALS[way].includes(outcome.code))
      return [`${describe(attempt)}: ${way} was refused with ${outcome.code} ${outcome.text}`];
    const names = way === "create" || way === "stream";
    if (!names || winner_id === null || outcome.run_id === winner_id) return [];
    return [`${describe(attempt)}: ${way} was refused because of run ${outcome.run_id}, but run ${winner_id} answers`];
  });
}

async function findFailedRuns(client: Client, tries: readonly Try[]): Promise<string[]> {
  const failed: string[] = [];
  for (const thread_id of new Set(tries.map((attempt) => attempt.thread_id))) {
    const runs = (await client.get("GET", `/threads/${thread_id}/runs?limit=1000`)) as {
      run_id: string;
      status: string;
    }[];
    for (const { run_id, status } of runs) {
      if (status !== "success" && status !== "interrupted")
        failed.push(`run ${run_id} of thread ${thread_id}: ${status}`);
    }
  }
  return failed;
}
