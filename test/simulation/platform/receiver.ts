/** The receivers of webhooks: part of the world, reached over a network, and no better than others are. */
import type { JsonObject } from "../../../lib/json.ts";
import { type OutboundRequest, type OutboundResponse, SendError } from "../../../lib/webhooks/http-client.ts";
import type { WebhookTransport } from "../../../lib/webhooks/options.ts";
import { createMessages, stripPadding } from "../agent.ts";
import { type Process, waitForever } from "../node.ts";
import { isActiveStatus, type RunNote } from "../oracle/notes.ts";
import type { Fault } from "../plan.ts";
import { Dice } from "../random.ts";
import type { World } from "../world.ts";

/** Public, each host's own. */
const ADDRESSES: Readonly<Record<string, string>> = {
  "one.hooks.example": "203.0.114.10",
  "two.hooks.example": "2606:4700:20::1",
};
const PER_HOST = 2;

/** Returns the URL that is notified of a run's end. The query makes each run's URL different. */
export function createWebhookUrl(dice: Dice, tag: string): string {
  return `https://${dice.pick(Object.keys(ADDRESSES))}/take?run=${tag}`;
}

type Manner = "takes" | "refuses" | "hangs" | "fails" | "lies";

export class Receivers {
  /** What came first of each run; every later attempt must be equal to it. */
  readonly bodies: Map<string, string> = new Map();
  /** The runs whose delivery a receiver has accepted. */
  readonly acceptedRunIds: Set<string> = new Set();
  /** The time of the last request or response. */
  progressAt = 0;
  readonly #world: World;
  readonly #dice: Dice;
  readonly #underWay = new Map<object, { readonly process: Process; readonly host: string }>();

  constructor(world: World) {
    this.#world = world;
    this.#dice = new Dice(world.plan.seed, "receivers");
  }

  /** Returns the transport by which one process reaches the receivers. */
  transport(process: Process): WebhookTransport {
    return {
      resolve: (host) => this.#resolve(process, host),
      send: (request, addresses, signal) => this.#send(process, request, addresses, signal),
    };
  }

  #has(fault: Fault, share: number): boolean {
    return this.#world.plan.faults.has(fault) && this.#dice.chance(share);
  }

  #resolve(process: Process, host: string): Promise<readonly string[]> {
    const dice = this.#dice;
    const wrong = this.#has("hook_fails", 0.05);
    return new Promise((resolve, reject) => {
      this.#world.scheduler.at(dice.below(5), process, () => {
        if (!wrong) resolve([ADDRESSES[host] as string]);
        else if (dice.chance(0.5)) resolve([]);
        else reject(new Error("the name is not known now"));
      });
    });
  }

  #manner(): Manner {
    if (this.#has("hook_hangs", 0.2)) return "hangs";
    if (this.#has("hook_fails", 0.3)) return this.#dice.chance(0.3) ? "refuses" : "fails";
    return this.#has("hook_lies", 0.25) ? "lies" : "takes";
  }

  #send(
    process: Process,
    request: OutboundRequest,
    addresses: readonly string[],
    signal: AbortSignal,
  ): Promise<OutboundResponse> {
    const world = this.#world;
    const { scheduler } = world;
    const dice = this.#dice;
    // The process may have ended a moment ago, with this step of its work still to come.
    if (!process.alive) return waitForever();
    const { host } = new URL(request.url);
    const [address = null] = addresses;
    if (address !== ADDRESSES[host] || addresses.length !== 1) {
      world.violation("I7", `a webhook of ${host} is sent to ${addresses.join()}`);
    }
    this.progressAt = scheduler.now;
    const exchange = {};
    this.#begin(exchange, process, host);
    const manner = this.#manner();
    const run_id = String(header(request, "webhook-id")).slice("msg_".length);
    world.count(`webhook: receiver ${manner}`);
    return new Promise((resolve, reject) => {
      const settle = (act: () => void): void => {
        if (!this.#underWay.delete(exchange)) return;
        this.progressAt = scheduler.now;
        act();
      };
      const fail = (): void => settle(() => reject(new SendError("network_error", address)));
      const answer = (status: number, retry_after: string | null = null): void =>
        settle(() => {
          if (status >= 200 && status < 300) this.acceptedRunIds.add(run_id);
          resolve({ status, retry_after, address });
        });
      signal.addEventListener("abort", () => settle(() => reject(new SendError("aborted", address))));
      if (manner === "refuses") {
        scheduler.at(dice.below(20), process, fail);
        return;
      }
      // On the wire it belongs to nobody: it arrives also when its sender is dead by then.
      scheduler.at(dice.below(20), null, () => {
        if (manner === "hangs" && dice.chance(0.3)) return;
        this.#receive(request, process);
        if (manner === "hangs") return;
        const ms = dice.pick([0, 5, 40, 200]);
        if (manner === "takes") scheduler.at(ms, process, () => answer(dice.pick([200, 202, 204])));
        else if (manner === "fails") {
          const status = dice.pick([500, 503, 429, 404, 307, dice.chance(0.2) ? 410 : 502]);
          scheduler.at(ms, process, () => answer(status, dice.chance(0.4) ? dice.pick(["2", "soon"]) : null));
        } else if (dice.chance(0.5)) scheduler.at(ms, process, fail);
        // It has accepted the request, and responds too late.
        else scheduler.at(world.plan.hooks.timeout_ms + ms, process, () => answer(200));
      });
    });
  }

  #begin(exchange: object, process: Process, host: string): void {
    for (const [ongoing, { process: sender }] of this.#underWay) if (!sender.alive) this.#underWay.delete(ongoing);
    this.#underWay.set(exchange, { process, host });
    const all = [...this.#underWay.values()];
    const ownCount = all.filter((candidate) => candidate.process === process).length;
    const { concurrency } = this.#world.plan.hooks;
    if (ownCount > concurrency) this.#world.violation("I7", `${process.name} sends ${ownCount} webhooks at once`);
    const same = all.filter((candidate) => candidate.host === host).length;
    if (same > PER_HOST) this.#world.violation("I7", `${same} webhooks are sent to ${host} at once`);
  }

  /** Checks I7: the run has ended and was not rolled back, the id is its own, and every attempt has the same body. */
  #receive(request: OutboundRequest, process: Process): void {
    const world = this.#world;
    const payload = JSON.parse(request.body) as JsonObject;
    const run_id = String(payload["run_id"]);
    const run = world.oracle.runs.byId.get(run_id);
    const refuse = (text: string): void =>
      world.violation("I7", `${process.name} tells of ${run?.tag ?? run_id} ${request.body.slice(0, 300)}: ${text}`);
    world.note(`${process.name} tells of the end of ${run?.tag}`);
    if (!run) {
      refuse("there is no such run");
      return;
    }
    for (const name of ["webhook-id", "idempotency-key"]) {
      if (header(request, name) !== `msg_${run_id}`) refuse(`${name} is ${header(request, name)}`);
    }
    if (request.url !== run.webhook) refuse(`it went to ${request.url}, not to ${run.webhook}`);
    const before = this.bodies.get(run_id);
    if (before === undefined) this.bodies.set(run_id, request.body);
    else if (before !== request.body) refuse(`an earlier attempt said ${before.slice(0, 300)}`);
    const { status, attempt } = run.state;
    if (run.fate === "rolled_back" || isActiveStatus(status)) refuse(`it is ${run.fate}, ${status}`);
    if (payload["status"] !== status || payload["attempt"] !== attempt)
      refuse(`it ended as ${status}, attempt ${attempt}`);
    if (request.body.includes("hooks.example")) refuse("it shows where it goes to");
    checkValues(run, payload, refuse);
  }
}

/** Checks that the payload has the state at the run's end; a run without a state has none. */
function checkValues(run: RunNote, payload: JsonObject, refuse: (text: string) => void): void {
  if (run.temporary !== !("values" in payload)) refuse("only a run that leaves no state tells none");
  if (run.temporary || run.state.status !== "success") return;
  const { messages = [] } = (payload["values"] ?? {}) as { messages?: string[] };
  const expected = createMessages(run.script).join();
  const ownMessages = messages.slice(-createMessages(run.script).length).map(stripPadding).join();
  if (ownMessages !== expected) refuse(`its state ends with ${ownMessages}, not with ${expected}`);
}

const header = (request: OutboundRequest, name: string): string | undefined =>
  request.headers.find(([headerName]) => headerName === name)?.[1];
