/** The scripts of the simulation's durable functions: durable operations, drawn from the seed. */
import type { AgentFunction, Json } from "../../../lib/mod.ts";
import type { Dice } from "../random.ts";

export type Op =
  | {
      readonly kind: "step";
      readonly name: string;
      readonly ms: number;
      readonly fails: number;
      readonly tokens: number;
    }
  | { readonly kind: "sleep"; readonly name: string; readonly ms: number }
  | { readonly kind: "wait"; readonly name: string; readonly timeout: number | null }
  | { readonly kind: "ask"; readonly name: string }
  | { readonly kind: "yield"; readonly text: string; readonly state: boolean };

/** Chains that run beside each other. The first one alone yields. */
export interface Script {
  readonly tag: string;
  readonly chains: readonly (readonly Op[])[];
}

export function createScript(dice: Dice, tag: string): Script {
  const chain = (at: number): Op[] =>
    Array.from({ length: dice.between(2, at === 0 ? 8 : 3) }, (_, i): Op => {
      const name = `${tag}.${at}.${i}`;
      const kind = dice.pick(["step", "step", "step", "sleep", "wait", "ask", at === 0 ? "yield" : "step"] as const);
      if (kind === "sleep") return { kind, name, ms: dice.pick([10, 1_500, 5_000, 60_000]) };
      if (kind === "wait") return { kind, name, timeout: dice.chance(0.2) ? 20_000 : null };
      if (kind === "ask") return { kind, name };
      // Output before the first durable operation belongs to a plain function, which a retry begins anew.
      if (kind === "yield" && i > 0) return { kind, text: `${name} `, state: dice.chance(0.3) };
      const fails = dice.chance(0.2) ? dice.between(1, 2) : 0;
      return {
        kind: "step",
        name,
        ms: dice.pick([0, 5, 200, 3_000]),
        fails,
        tokens: dice.chance(0.3) ? dice.between(1, 4) : 0,
      };
    });
  return { tag, chains: Array.from({ length: dice.chance(0.3) ? 2 : 1 }, (_, at) => chain(at)) };
}

/** Returns the texts of the messages of an undisturbed run; null where the order of chains decides. */
export function createMessages({ chains }: Script): string[] | null {
  if (
    chains.length > 1 &&
    chains
      .slice(1)
      .flat()
      .some((op) => op.kind === "step" && op.tokens > 0)
  )
    return null;
  const messages: string[] = [];
  let reply = "";
  const end = (): void => {
    if (reply !== "") messages.push(reply);
    reply = "";
  };
  const asks = chains.flat().some(({ kind }) => kind === "ask");
  if (asks && chains.length > 1) return null;
  for (const op of chains[0] ?? []) {
    if (op.kind === "yield") {
      reply += op.text;
      if (op.state) end();
    } else if (op.kind === "ask") end();
    else if (op.kind === "step" && op.tokens > 0) {
      end();
      messages.push(createTokens(op.name, op.tokens).join(""));
    }
  }
  end();
  return messages;
}

const createTokens = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, i) => `${name}#${i} `);

/** What runs in a process, as its world sees it. */
export interface OutsideEffects {
  /** Called when a try of a step or another durable operation begins. */
  began(name: string, at: number, op: number): void;
  ended(name: string): void;
  /** Returns how often a step has failed as its script says. */
  failures(name: string): number;
  /** Resolves after a virtual time; never when the process is dead. */
  work(ms: number): Promise<void>;
}

export function createFunction(outside: OutsideEffects): AgentFunction {
  return async function* ({ input, step, sleep, wait, ask }) {
    const { chains } = input as unknown as Script;
    const results: Record<string, Json> = {};

    async function act(op: Exclude<Op, { kind: "yield" }>, chain: number, at: number): Promise<void> {
      if (op.kind === "sleep") return await sleep(op.name, op.ms);
      if (op.kind === "wait") {
        results[op.name] = await wait(op.name, op.timeout === null ? {} : { timeout: op.timeout });
      } else if (op.kind === "ask") results[op.name] = await ask(op.name, op.name);
      else {
        results[op.name] = await step(
          op.name,
          async () => {
            outside.began(op.name, chain, at);
            await outside.work(op.ms);
            if (outside.failures(op.name) < op.fails) throw new Error("as the script says");
            if (op.tokens === 0) {
              outside.ended(op.name);
              return op.name;
            }
            return (async function* () {
              for (const token of createTokens(op.name, op.tokens)) {
                yield token;
                await outside.work(3);
              }
              outside.ended(op.name);
            })() as never;
          },
          { retries: 5, backoff: "4s" },
        );
      }
    }

    async function runChain(chain: number): Promise<void> {
      for (const [at, op] of (chains[chain] ?? []).entries()) if (op.kind !== "yield") await act(op, chain, at);
    }

    const beside = chains.slice(1).map((_, i) => runChain(i + 1));
    const all = Promise.all(beside);
    all.catch(() => {});
    for (const [at, op] of (chains[0] ?? []).entries()) {
      if (op.kind === "yield") {
        yield op.text;
        if (op.state) yield {};
      } else await act(op, 0, at);
    }
    await all;
    yield { results };
  };
}
