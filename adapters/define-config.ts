/** The configuration of the stand-alone server in code. */
import type { App } from "../lib/http/handler.ts";
import type {
  CheckedAgents,
  Graphs,
  GraphsOf,
  HttpOptions,
  ServiceOptions,
  Untyped,
  WebhookOptions,
} from "../lib/mod.ts";
import type { Agents } from "./agents.ts";

/** The options of the service that `greenroom.json` has under the same names. */
export type ConfigurableOption =
  | "deployment"
  | "public_base_url"
  | "auth"
  | "worker"
  | "limits"
  | "steps"
  | "retention"
  | "feedback"
  | "usage"
  | "store"
  | "checkpointer"
  | "crons";

/** The keys of `greenroom.json`, with `agents` in place of `graphs`, and code where the file names the export of a module. */
export interface ConfigOptions<Hosted = Agents> extends Pick<ServiceOptions, ConfigurableOption> {
  /** The address of a JSON Schema. It has no effect. */
  readonly $schema?: string;
  /** Agents by name. Each name is an assistant that clients can run. */
  readonly agents: CheckedAgents<Hosted>;
  /** The database, as `--database` takes it. The flag and GREENROOM_DATABASE take precedence. Default `.greenroom/greenroom.db`. */
  readonly database?: string;
  /**
   * A file of `NAME=value` lines, relative to the configuration, or the variables themselves. Variables of the shell take precedence.
   * They are set after the configuration and its imports were evaluated.
   */
  readonly env?: string | Readonly<Record<string, string | number | boolean>>;
  /** The HTTP side of the service. `app` are your own routes. */
  readonly http?: HttpOptions & { readonly app?: App };
  /** Where webhooks may be sent, and how. Relative URLs reach this server. */
  readonly webhooks?: Omit<WebhookOptions, "loopback">;
  /** Only LangGraph's own server needs it. */
  readonly dependencies?: readonly string[];
  /** Only LangGraph's own server needs it. */
  readonly node_version?: string;
}

/** A configuration with the types of its agents. `typeof config` is a type argument of the client. */
export interface Config<Types extends Graphs = Record<string, Untyped>> {
  readonly "~graphs"?: Types;
}

/**
 * Returns the configuration unchanged, and checks it at compile time. Export it as the default of `greenroom.config.ts`, which the
 * command `greenroom` loads in place of `greenroom.json`.
 *
 * @example
 * ```ts
 * // greenroom.config.ts
 * import { defineConfig } from "greenroom/app";
 *
 * export default defineConfig({
 *   agents: {
 *     async *echo({ messages }) {
 *       yield `You said ${messages.at(-1)?.content}`;
 *     },
 *   },
 *   limits: { pending: 100 },
 * });
 * ```
 */
export function defineConfig<Hosted extends Agents>(config: ConfigOptions<Hosted>): Config<GraphsOf<Hosted>> {
  return config as Config<GraphsOf<Hosted>>;
}
