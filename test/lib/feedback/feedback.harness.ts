/** The feedback routes on a storage in memory, with callers, a manual clock and tokens of every kind. */

import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { createRequestAuthorizer, withFixedScope } from "../../../lib/auth/authorizer.ts";
import type { Access } from "../../../lib/auth/principal.ts";
import type { Environment } from "../../../lib/environment.ts";
import { createFeedback, type Feedback, type FeedbackOptions, type FeedbackTokens } from "../../../lib/feedback/mod.ts";
import { createHandler, type Handler } from "../../../lib/http/handler.ts";
import type { InternalResources, RequestResources } from "../../../lib/service/resources.ts";
import { type Service, type ServiceOptions, withInternals } from "../../../lib/service.ts";
import type { Caller, Permission } from "../../../lib/storage/identity.ts";
import type { FeedbackConfig, Storage } from "../../../lib/storage/mod.ts";
import { NO_FILTER } from "../../../lib/storage/visibility.ts";
import { testClock, testIds } from "../../suite/kit.ts";
import { addTraces } from "../../suite/traces.ts";
import { createIdleGuards } from "../../support/guards.ts";

export const NOW: number = Date.parse("2026-11-20T12:00:00Z");
export const BASE = "https://agents.example.com/mount";
export const RUN = "0f0f0f0f-1111-4222-8333-444444444444";
export const RUN2 = "0f0f0f0f-1111-4222-8333-555555555555";
/** A run in a workspace that no caller can access. */
export const FOREIGN_RUN = "0f0f0f0f-1111-4222-8333-666666666666";
export const UNKNOWN = "99999999-9999-4999-8999-999999999999";
export const W1 = "11111111-0000-4000-8000-000000000001";
export const W2 = "11111111-0000-4000-8000-000000000002";
export const P1 = "22222222-0000-4000-8000-000000000001";
export const P2 = "22222222-0000-4000-8000-000000000002";
export const THREAD = "33333333-0000-4000-8000-000000000001";

export function caller(...permissions: readonly Permission[]): Caller {
  return {
    organization_id: "o",
    user_id: null,
    api_key: "gr_sk_...0000",
    key_id: "key",
    permissions: new Set(["organization:read"]),
    workspaces: new Map([[W1, new Set(permissions)]]),
    projects: new Map([[W1, P1]]),
  };
}

/** A caller with the permissions of the reader in the specification. */
export const reader: Caller = caller("workspaces:read", "runs:read", "feedback:read", "feedback:create");
export const editor: Caller = caller("feedback:read", "feedback:create", "feedback:delete");

const CONFIGS: Readonly<Record<string, FeedbackConfig | null>> = {
  plain: null,
  plain2: null,
  liked: null,
  disliked: null,
  cont: { type: "continuous", min: 0, max: 1 },
  cat: {
    type: "categorical",
    categories: [
      { value: 1, label: "good" },
      { value: 0, label: "bad" },
    ],
  },
  free: { type: "freeform" },
  expired: null,
  rolled_back: null,
};
const KEYS: Readonly<Record<string, string>> = { liked: "user_liked", disliked: "user_disliked" };

export interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly raw?: string | Uint8Array<ArrayBuffer>;
  readonly by?: Caller;
}

export interface FeedbackKit extends AsyncDisposable {
  readonly storage: Storage;
  readonly feedback: Feedback & FeedbackTokens;
  readonly handler: Handler;
  readonly clock: ReturnType<typeof testClock>;
  readonly log: readonly Parameters<Environment["log"]>[0][];
  /** Returns the path of a token by its name. */
  token(name: string): string;
  /** Sends a request to a path such as `/api/v1/feedback?run=…`, where `{name}` stands for a token's id. */
  send(method: string, path: string, request?: Sent): Promise<Response>;
}

export async function feedbackKit(options: Partial<FeedbackOptions> = {}): Promise<FeedbackKit> {
  const storage = nodeSqlite(":memory:");
  await storage.migrate();
  const clock = testClock(NOW);
  const log: Parameters<Environment["log"]>[0][] = [];
  const environment: Environment = {
    ...clock,
    defer: (fn) => void setTimeout(fn, 0),
    random: () => 0.5,
    uuid: testIds(),
    log: (record) => void log.push(record),
  };
  const scope = { deployment: "default" };
  const traceFields = { workspace_id: W1, project_id: P1, user_id: null, api_key: null, counted: true };
  const trace = { ...traceFields, trace_id: RUN, thread_id: THREAD, started_at: NOW - 60_000 };
  await addTraces(storage, [
    trace,
    { ...trace, trace_id: RUN2, thread_id: null },
    { ...trace, trace_id: FOREIGN_RUN, workspace_id: W2, project_id: P2 },
  ]);
  const directory = createFeedback({
    storage,
    scope,
    environment,
    base_url: () => BASE,
    external_runs: false,
    ...options,
  });
  const { token, submit } = directory;
  const feedback = { ...withFixedScope<Feedback>(directory, scope), token, submit };
  let sender = reader;
  // The feedback routes use only this member of a service.
  const service = { feedback } as unknown as Service;
  const access = {
    caller: async () => sender,
    authorize: async (_caller: unknown, _event: unknown, value: object) => ({ value, visibility: NO_FILTER }),
  } as unknown as Access;
  const handler = createHandler(
    withInternals(service, {
      access,
      authorizeRequest: (caller) => ({
        ...createRequestAuthorizer({ access, scope, environment, guards: createIdleGuards(environment) }, caller),
        resources: service as unknown as RequestResources,
      }),
      internalResources: {} as InternalResources,
      options: {} as ServiceOptions,
      environment,
      bus: { subscribe: () => () => {} },
    }),
  );
  const ids = new Map<string, string>();
  for (const [name, config] of Object.entries(CONFIGS)) {
    const token_id = crypto.randomUUID();
    ids.set(name, token_id);
    if (name === "rolled_back") continue;
    const expires_at = NOW + (name === "expired" ? -1000 : 3 * 3_600_000);
    const token = { token_id, run_id: RUN, workspace_id: W1, project_id: P1, config, expires_at, created_at: NOW };
    await storage.createFeedbackTokens(scope, [{ ...token, feedback_key: KEYS[name] ?? "user_score" }]);
  }
  const filled = (path: string): string =>
    path.replace(/\{(\w+)\}/g, (_whole, name: string) => {
      const id = name === "run" ? RUN : name === "run2" ? RUN2 : ids.get(name);
      if (id === undefined) throw new TypeError(`The case names ${name}`);
      return id;
    });

  async function answer(method: string, path: string, { headers, body, raw, by = reader }: Sent): Promise<Response> {
    const text = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    // Every client sends this header with a text body.
    const length: Record<string, string> =
      text === undefined ? {} : { "content-length": String(new Blob([text]).size) };
    const request = new Request(`http://inside${filled(path)}`, {
      method,
      headers: { ...length, ...headers },
      ...(text === undefined ? {} : { body: text }),
    });
    sender = by;
    return await handler(request);
  }

  return {
    storage,
    feedback,
    handler,
    clock,
    log,
    token: (name) => filled(`/api/v1/feedback/tokens/{${name}}`),
    send: (method, path, request = {}) => answer(method, path, request),
    [Symbol.asyncDispose]: () => storage.close(),
  };
}

/** A response that has been read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: unknown;
  /** The location of the first finding. */
  readonly loc: string | undefined;
}

/** Sends a request and reads its response. */
export async function ask(kit: FeedbackKit, method: string, path: string, request: Sent = {}): Promise<Answer> {
  const response = await kit.send(method, path, request);
  const { status, headers } = response;
  const text = await response.text();
  const json: unknown = /json/.test(headers.get("content-type") ?? "") ? JSON.parse(text) : null;
  const { detail } = (json ?? {}) as { detail?: unknown };
  const loc = Array.isArray(detail) ? detail[0].loc.join(".") : undefined;
  return { status, headers, text, json, loc };
}
