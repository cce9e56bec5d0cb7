/** The service that cases are run against, in memory, and requests to it. */
import type { StaticIdentityOptions } from "../../lib/auth/static-keys.ts";
import type { AgentFunction } from "../../lib/functions/mod.ts";
import type { ServiceOptions } from "../../lib/service.ts";
import type { Permission } from "../../lib/storage/identity.ts";
import { PERMISSIONS } from "../../lib/storage/identity.ts";
import { type TestService, testAccounts, testService } from "../suite/kit.ts";
import { UnsupportedCaseError } from "./case.ts";
import type { Answer } from "./expect.ts";

/** Where feedback URLs point; not where requests are sent. */
export const BASE_URL = "https://feedback.example.com/agents";
const ORIGIN = "http://greenroom.test";

/** The permissions of a reader's key (platform-api.md D.2). */
const READER: readonly Permission[] = [
  "organization:read",
  "workspaces:read",
  "runs:read",
  "feedback:read",
  "feedback:create",
];

export type Accounts = Pick<StaticIdentityOptions, "workspaces" | "projects" | "users">;

export interface RequestOptions {
  /** The name of the caller; absent: no key. */
  readonly auth?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is. */
  readonly raw?: string;
}

/** A running service. */
export interface Host extends AsyncDisposable {
  readonly test: TestService;
  ask(method: string, path: string, options?: RequestOptions): Promise<Answer>;
}

export interface HostOptions extends Partial<Omit<ServiceOptions, "auth" | "identity">> {
  readonly accounts?: Accounts;
  /** Ids of the workspaces that the key `reader` reaches. Default: all. */
  readonly readable?: readonly string[];
  readonly agent?: AgentFunction;
}

/**
 * Starts a service in mode `api_key`. Who may ask: `reader`, `no_org_read`, `bad` (a key that is unknown), `none`, and `owner`,
 * which may do everything and is no name of the case files.
 */
export async function startHost(options: HostOptions): Promise<Host> {
  const { accounts = {}, readable, agent = () => "done", ...serviceOptions } = options;
  const workspaces = readable === undefined ? {} : { workspaces: readable };
  const { identity, keys } = testAccounts({
    ...accounts,
    keys: {
      owner: { permissions: PERMISSIONS },
      reader: { permissions: READER, ...workspaces },
      no_org_read: { permissions: READER.filter((name) => name !== "organization:read"), ...workspaces },
    },
  });
  const allKeys: Readonly<Record<string, string>> = { ...keys, bad: "test_nobody_has_this_key_0000000000000000" };
  const test = await testService({
    agents: { agent },
    public_base_url: BASE_URL,
    ...serviceOptions,
    identity,
    auth: { mode: "api_key" },
  });

  function createKeyHeader(auth: unknown): Readonly<Record<string, string>> {
    if (auth === undefined || auth === "none") return {};
    if (typeof auth !== "string" || !Object.hasOwn(allKeys, auth))
      throw new UnsupportedCaseError(`unknown auth ${String(auth)}`);
    return { "x-api-key": allKeys[auth] as string };
  }

  return {
    test,
    async ask(method, path, { auth, headers, body, raw } = {}) {
      const content = raw ?? (body === undefined ? undefined : JSON.stringify(body));
      const response = await test.fetch(`${ORIGIN}${path}`, {
        method,
        headers: {
          // As every client says it of a text.
          ...(content === undefined ? {} : { "content-length": String(new TextEncoder().encode(content).length) }),
          ...(content === undefined ? {} : { "content-type": "application/json" }),
          ...createKeyHeader(auth),
          ...headers,
        },
        ...(content === undefined ? {} : { body: content }),
      });
      // To the byte: a byte order mark would be taken off, what is no UTF-8 replaced.
      const text = new TextDecoder("utf-8", { ignoreBOM: true, fatal: true }).decode(await response.arrayBuffer());
      return { status: response.status, headers: response.headers, text };
    },
    [Symbol.asyncDispose]: () => test[Symbol.asyncDispose](),
  };
}
