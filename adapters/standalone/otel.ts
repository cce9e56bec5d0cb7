/** The OTLP exporter of the stand-alone server: the OpenTelemetry SDK that the project has installed, with the sink that feeds it. */
import { createRequire } from "node:module";
import process from "node:process";
import { pathToFileURL } from "node:url";
import type { ServiceOptions } from "../../lib/mod.ts";
import type { Log } from "./log.ts";

type Sink = NonNullable<NonNullable<ServiceOptions["traces"]>["sinks"]>[number];

/** The members of `NodeSDK` that the server uses. */
interface NodeSdk {
  start(): void;
  shutdown(): Promise<void>;
}
interface SdkModule {
  readonly NodeSDK: new (configuration: { readonly serviceName?: string; readonly idGenerator: object }) => NodeSdk;
}

/** A running exporter. */
interface Exporter {
  readonly sdk: NodeSdk;
  readonly createSink: (options: { readonly content: boolean }) => Sink;
}

/** The option `traces.otel` of the configuration file. */
export type OtelSetting = boolean | { readonly content: boolean };

/** The exporter of this process. It outlives reloads, because an SDK can be registered once. */
let exporter: Exporter | undefined;

const SDK_PACKAGE = "@opentelemetry/sdk-node";
const API_PACKAGE = "@opentelemetry/api";
const DEFAULT_ENDPOINT = "http://localhost:4318";
/** The time that the last spans have to leave at shutdown. */
const SHUTDOWN_MS = 5_000;

/** Returns the value of `traces.otel`; undefined without one. Adds to `problems` what is wrong with it. */
export function readOtelSetting(value: unknown, problems: string[]): OtelSetting | undefined {
  if (value === undefined || typeof value === "boolean") return value;
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    const { content = false, ...rest } = value as { readonly content?: unknown };
    if (typeof content === "boolean" && Object.keys(rest).length === 0) return { content };
  }
  problems.push('traces.otel: must be true, false or { "content": true }');
  return undefined;
}

/** Returns the URL that spans go to, without a user and password. */
function readEndpoint(): string {
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT } = process.env;
  const endpoint = OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || OTEL_EXPORTER_OTLP_ENDPOINT || DEFAULT_ENDPOINT;
  return endpoint.replace(/\/\/[^/@]*@/, "//");
}

/** Starts the SDK of the project. Rejects if its packages are not installed. */
async function startExporter(config: string): Promise<Exporter> {
  const path = createRequire(config).resolve(SDK_PACKAGE);
  const { NodeSDK } = (await import(pathToFileURL(path).href)) as SdkModule;
  const { otel, traceIds } = await import("../otel/mod.ts");
  const { OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES = "" } = process.env;
  const isNamed = Boolean(OTEL_SERVICE_NAME) || /(?:^|,)\s*service\.name=/.test(OTEL_RESOURCE_ATTRIBUTES);
  const sdk = new NodeSDK({ ...(isNamed ? {} : { serviceName: "greenroom" }), idGenerator: traceIds() });
  sdk.start();
  return { sdk, createSink: otel };
}

/** The result of `loadExporter`. */
export interface LoadedExporter {
  /** The sink for the service; none without an exporter. */
  readonly sinks: readonly Sink[];
  /** The URL that spans go to, for the line at the start; null without an exporter. */
  readonly endpoint: string | null;
  readonly problems: readonly string[];
}

/**
 * Starts the exporter, at the first call, if `setting` asks for one, or if it is undefined and `OTEL_EXPORTER_OTLP_ENDPOINT` is
 * set; never with `OTEL_SDK_DISABLED=true`. Returns a sink and the endpoint; no sinks and a null endpoint without an exporter.
 * Does not reject: a failed start is in `problems` if `setting` asks for it, else a warning to `write`. `config` is the file
 * beside which the packages are looked up. Prompts and other content are exported only with `content: true`.
 */
export async function loadExporter(
  setting: OtelSetting | undefined,
  config: string,
  write: Log["write"],
): Promise<LoadedExporter> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SDK_DISABLED = "" } = process.env;
  const isWanted = Boolean(setting ?? OTEL_EXPORTER_OTLP_ENDPOINT) && OTEL_SDK_DISABLED.toLowerCase() !== "true";
  const content = typeof setting === "object" && setting.content;
  const none = { sinks: [], endpoint: null, problems: [] };
  if (!isWanted) return none;
  try {
    exporter ??= await startExporter(config);
    return { sinks: [exporter.createSink({ content })], endpoint: readEndpoint(), problems: [] };
  } catch (error) {
    const isMissing = /^(?:ERR_)?MODULE_NOT_FOUND$/.test(String((error as { readonly code?: unknown }).code));
    const reason = isMissing
      ? `needs ${SDK_PACKAGE} and ${API_PACKAGE}: npm install ${SDK_PACKAGE} ${API_PACKAGE}`
      : `the exporter did not start: ${error instanceof Error ? error.message : String(error)}`;
    if (setting) return { ...none, problems: [`traces.otel: ${reason}`] };
    write({ level: "warn", message: `OTEL_EXPORTER_OTLP_ENDPOINT: ${reason}` });
    return none;
  }
}

/** Sends what is left and stops the exporter, if there is one. Resolves after 5 s at the latest. Never rejects. */
export async function stopExporter(): Promise<void> {
  if (!exporter) return;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, SHUTDOWN_MS);
  });
  await Promise.race([exporter.sdk.shutdown().catch(() => {}), timeout]);
  clearTimeout(timer);
}
