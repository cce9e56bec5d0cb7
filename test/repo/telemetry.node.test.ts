/** The configuration files of examples/monitoring: they parse, have only documented keys, fit together, and the guide names each. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { parseEnv } from "node:util";
import { parse } from "yaml";

const FOLDER = "examples/monitoring";
const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

// biome-ignore lint/suspicious/noExplicitAny: a file is read by its members
const readYaml = (name: string): any => parse(read(`${FOLDER}/${name}`));

const files = readdirSync(new URL(`../../${FOLDER}`, import.meta.url));
const guide = read("docs/guides/telemetry.md");

/** Returns the paths of all keys, with `*` for names that the file chooses. */
function listKeys(value: unknown, chosen: readonly string[], path = ""): readonly string[] {
  if (Array.isArray(value)) return value.flatMap((item) => listKeys(item, chosen, path));
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const name = chosen.includes(path) ? "*" : key;
    const own = path === "" ? name : `${path}.${name}`;
    return [own, ...listKeys(inner, chosen, own)];
  });
}

/** Fails for a key that is not among the documented ones. */
function checkKeys(name: string, chosen: readonly string[], documented: string): void {
  const known = new Set(documented.trim().split(/\s+/));
  for (const key of listKeys(readYaml(name), chosen)) assert.ok(known.has(key), `${key} in ${name}`);
}

/** The keys of the Collector, by the pages of its receiver, processors and exporter. */
const COLLECTOR_KEYS = `receivers receivers.otlp receivers.otlp.protocols receivers.otlp.protocols.http receivers.otlp.protocols.http.endpoint
  processors processors.memory_limiter processors.memory_limiter.check_interval processors.memory_limiter.limit_percentage
  processors.memory_limiter.spike_limit_percentage processors.batch
  exporters exporters.* exporters.*.endpoint exporters.*.headers exporters.*.headers.*
  service service.pipelines service.pipelines.* service.pipelines.*.receivers service.pipelines.*.processors service.pipelines.*.exporters`;

describe("the configurations of the Collector", () => {
  for (const name of ["collector.yaml", "collector.langfuse.yaml"]) {
    it(`${name} has documented keys, and a pipeline of components that it defines`, () => {
      checkKeys(name, ["exporters", "exporters.*.headers", "service.pipelines"], COLLECTOR_KEYS);
      const { receivers, processors, exporters, service } = readYaml(name);
      assert.equal(receivers.otlp.protocols.http.endpoint, "0.0.0.0:4318");
      for (const [kind, defined] of Object.entries({ receivers, processors, exporters })) {
        const used = service.pipelines.traces[kind] as readonly string[];
        assert.deepEqual(used.toSorted(), Object.keys(defined as object).toSorted(), kind);
      }
      // The limiter must be the first, so that the receiver gets its refusals.
      assert.equal(service.pipelines.traces.processors[0], "memory_limiter");
      for (const [exporter, { endpoint }] of Object.entries(exporters as Record<string, { endpoint: string }>)) {
        assert.match(exporter, /^otlp_http\/[a-z]+$/);
        assert.match(endpoint, /^(?:http:\/\/|\$\{env:)/);
        assert.doesNotMatch(endpoint, /\/v1\/traces/, "the exporter adds it");
      }
    });
  }
});

describe("tempo.yaml", () => {
  it("has documented keys, takes OTLP over HTTP, and keeps traces as long as Greenroom by default", () => {
    checkKeys(
      "tempo.yaml",
      [],
      `server server.http_listen_port distributor distributor.receivers distributor.receivers.otlp distributor.receivers.otlp.protocols
        distributor.receivers.otlp.protocols.http distributor.receivers.otlp.protocols.http.endpoint
        backend_scheduler backend_scheduler.provider backend_scheduler.provider.compaction backend_scheduler.provider.compaction.compaction
        backend_scheduler.provider.compaction.compaction.block_retention
        backend_worker backend_worker.compaction backend_worker.compaction.block_retention
        storage storage.trace storage.trace.backend storage.trace.wal storage.trace.wal.path storage.trace.local storage.trace.local.path
        usage_report usage_report.reporting_enabled`,
    );
    const { backend_worker, backend_scheduler } = readYaml("tempo.yaml");
    assert.equal(backend_worker.compaction.block_retention, "168h");
    assert.equal(backend_scheduler.provider.compaction.compaction.block_retention, "168h");
  });
});

describe("prometheus.yml", () => {
  it("has documented keys, and loads the alerts", () => {
    checkKeys(
      "prometheus.yml",
      [],
      `global global.scrape_interval global.evaluation_interval rule_files scrape_configs scrape_configs.job_name
        scrape_configs.static_configs scrape_configs.static_configs.targets`,
    );
    assert.deepEqual(readYaml("prometheus.yml").rule_files, ["alerts.yml"]);
  });
});

describe("the files of Grafana", () => {
  it("name data sources and folders as compose.yaml has them", () => {
    const { datasources } = readYaml("grafana-datasources.yaml") as {
      datasources: { type: string; url: string; uid: string }[];
    };
    const { services } = readYaml("compose.yaml");
    for (const { url } of datasources) assert.ok(new URL(url).hostname in services, url);
    assert.deepEqual(datasources.map(({ type }) => type).sort(), ["prometheus", "tempo"]);
    assert.equal(
      new URL(datasources.find(({ type }) => type === "tempo")?.url ?? "").port,
      `${readYaml("tempo.yaml").server.http_listen_port}`,
    );
    const [{ options }] = readYaml("grafana-dashboards.yaml").providers;
    const mounted = (services.grafana.volumes as readonly string[]).map((volume) => volume.split(":")[1] ?? "");
    assert.ok(mounted.some((path) => path.startsWith(`${options.path}/`)));
  });
});

describe("compose.yaml", () => {
  const { services, volumes } = readYaml("compose.yaml");

  it("mounts files that exist, and volumes that it defines", () => {
    for (const [name, { volumes: mounts = [] }] of Object.entries(services as Record<string, { volumes?: string[] }>))
      for (const mount of mounts) {
        const [source = ""] = mount.split(":");
        if (source.startsWith("./")) assert.ok(files.includes(source.slice(2)), `${name}: ${mount}`);
        else assert.ok(source in volumes, `${name}: ${mount}`);
      }
  });

  it("publishes ports on this machine alone, because nothing in it asks for a password", () => {
    const ports = Object.values(services as Record<string, { ports?: string[] }>).flatMap(({ ports = [] }) => ports);
    assert.ok(ports.length >= 3);
    for (const port of ports) assert.match(port, /^127\.0\.0\.1:\d+:\d+$/);
  });

  it("passes options and files to its programs under the names that it mounts", () => {
    for (const { command = [], volumes: mounts = [] } of Object.values(
      services as Record<string, { command?: string[]; volumes?: string[] }>,
    ))
      for (const option of command.filter((text) => text.includes("/"))) {
        const path = option.split("=")[1];
        assert.ok(
          mounts.some((mount) => mount.split(":")[1] === path),
          option,
        );
      }
  });
});

describe("the variables of the exporter", () => {
  const names = ["collector.env", "langfuse.env", "phoenix.env"];
  /** The variables of the OTLP exporter and the SDK. */
  const KNOWN =
    "OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_EXPORTER_OTLP_HEADERS OTEL_METRICS_EXPORTER OTEL_LOGS_EXPORTER OTEL_SERVICE_NAME".split(
      " ",
    );

  it("are those of the specification, and start the exporter of the stand-alone server", () => {
    for (const name of names) {
      const variables = parseEnv(read(`${FOLDER}/${name}`));
      assert.deepEqual(
        Object.keys(variables).filter((key) => !KNOWN.includes(key)),
        [],
        name,
      );
      const { OTEL_EXPORTER_OTLP_ENDPOINT = "", OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_METRICS_EXPORTER } = variables;
      assert.match(OTEL_EXPORTER_OTLP_ENDPOINT, /^https?:\/\//, name);
      assert.doesNotMatch(OTEL_EXPORTER_OTLP_ENDPOINT, /\/v1\/traces/, "the SDK adds it");
      assert.deepEqual([OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_METRICS_EXPORTER], ["http/protobuf", "none"], name);
    }
  });

  it("have headers whose values are encoded as in a URL", () => {
    for (const name of names) {
      const { OTEL_EXPORTER_OTLP_HEADERS } = parseEnv(read(`${FOLDER}/${name}`));
      for (const pair of OTEL_EXPORTER_OTLP_HEADERS?.split(",") ?? []) assert.match(pair, /^[\w-]+=[\w%.~-]+$/, name);
    }
    const headers = parseEnv(read(`${FOLDER}/langfuse.env`)).OTEL_EXPORTER_OTLP_HEADERS ?? "";
    assert.equal(decodeURIComponent(headers.split(",")[0] ?? ""), "Authorization=Basic KEYS");
  });
});

describe("docs/guides/telemetry.md", () => {
  it("links each file of the folder, and only files that exist", () => {
    const linked = [...guide.matchAll(/\(\.\.\/\.\.\/(examples\/monitoring\/[\w.-]+)\)/g)].map(([, path = ""]) => path);
    for (const path of linked) assert.ok(existsSync(new URL(`../../${path}`, import.meta.url)), path);
    assert.deepEqual([...new Set(linked)].toSorted(), files.map((file) => `${FOLDER}/${file}`).toSorted());
  });

  it("says that prompts need both options", () => {
    assert.match(guide, /By default no prompt leaves the process/);
    assert.ok(guide.includes('`traces.content: "all"`') && guide.includes("`otel({ content: true })`"));
  });
});
