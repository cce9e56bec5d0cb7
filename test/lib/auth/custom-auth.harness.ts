/** A service with custom authentication: `Bearer ann` is Ann. It records the contexts of authorization handlers. */
import type { Auth, AuthClaims } from "../../../lib/auth/custom.ts";
import type { AuthContext, AuthPattern } from "../../../lib/auth/events.ts";
import { type Environment, systemEnvironment } from "../../../lib/environment.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { type TestService, type TestServiceOptions, testService } from "../../suite/kit.ts";

export interface Asked {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The body, if it is JSON. */
  readonly body: JsonObject;
}

export interface World extends AsyncDisposable {
  readonly it: TestService;
  /** Returns the contexts that handlers received since the last call. */
  takeContexts(): AuthContext[];
  /** Sends a request as this user. With `as` null it has no credential. */
  ask(as: string | null, method: string, path: string, body?: unknown, headers?: HeadersInit): Promise<Asked>;
  /** Lets the timeout of handlers fire at once. */
  late(): void;
}

/** The timeout of handlers. */
const PATIENCE_MS = 10_000;

export interface WorldOptions extends Omit<TestServiceOptions, "auth"> {
  readonly on?: { readonly [Pattern in AuthPattern]?: (context: AuthContext<Pattern>) => unknown };
  readonly claims?: (name: string) => Omit<AuthClaims, "identity">;
  readonly authenticate?: Auth["authenticate"];
  readonly auth?: TestServiceOptions["auth"];
}

/** A handler as in the SDK's documentation: users see only what they created. */
export function owning({ value, user }: AuthContext): JsonObject {
  if ("metadata" in value) value.metadata = { ...(value.metadata as JsonObject | null), owner: user.identity };
  return { owner: user.identity };
}

export async function customWorld(options: WorldOptions = {}): Promise<World> {
  const { on = {}, claims = () => ({}), authenticate, auth, environment, ...serviceOptions } = options;
  const contexts: AuthContext[] = [];
  const waiting = new Set<() => void>();
  const real = systemEnvironment();
  const timer: Environment["timer"] = (ms, fn) => {
    if (ms !== PATIENCE_MS) return real.timer(ms, fn);
    const cancel = real.timer(ms, () => over());
    const over = (): void => {
      cancel();
      if (waiting.delete(over)) fn();
    };
    waiting.add(over);
    return () => {
      waiting.delete(over);
      cancel();
    };
  };
  const authenticateBearer: Auth["authenticate"] = ({ headers }) => {
    const name = /^Bearer (.+)$/.exec(headers.get("authorization") ?? "")?.[1];
    if (name === undefined) {
      throw Object.assign(new Error("Who are you?"), { status: 401, headers: { "www-authenticate": "Bearer" } });
    }
    return { ...claims(name), identity: name };
  };
  const noted = Object.entries(on).map(([name, handler]) => [
    name,
    (context: AuthContext) => {
      contexts.push(structuredClone(context));
      return (handler as (context: AuthContext) => unknown)(context);
    },
  ]);
  const custom = { authenticate: authenticate ?? authenticateBearer, on: Object.fromEntries(noted) } as Auth;
  const agents: WorldOptions["agents"] = {
    async *agent({ input }) {
      yield { messages: [], said: input };
    },
  };
  const it = await testService({
    ...(serviceOptions.executor ? {} : { agents }),
    ...serviceOptions,
    environment: { timer, ...environment },
    auth: { custom, ...auth },
  });
  return {
    it,
    takeContexts: () => contexts.splice(0),
    async ask(as, method, path, body, headers) {
      const response = await it.fetch(`http://greenroom${path}`, {
        method,
        headers: { ...(as === null ? {} : { authorization: `Bearer ${as}` }), ...headers },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      const isJson = response.headers.get("content-type") === "application/json" && text !== "";
      return { status: response.status, headers: response.headers, text, body: isJson ? JSON.parse(text) : {} };
    },
    late() {
      for (const over of waiting) over();
    },
    [Symbol.asyncDispose]: () => it[Symbol.asyncDispose](),
  };
}
