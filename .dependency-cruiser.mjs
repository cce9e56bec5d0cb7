/** What each folder may import. `npm run check` runs it; docs/architecture.md explains it under "Import rules". */

/**
 * The layers of lib, from top to bottom. A file imports from its own folder and from lower layers: never upward, and from no other
 * folder of its layer.
 */
export const LAYERS = [
  ["mod"],
  ["http"],
  ["types"],
  ["service"],
  ["crons", "functions", "protocol"],
  ["options", "runs"],
  ["threads", "traces"],
  ["store", "assistants", "engine", "usage", "feedback", "webhooks", "steps"],
  ["auth"],
  ["streams"],
  ["features", "a2a", "handles"],
  ["executor"],
  ["storage"],
  ["validation"],
  ["errors", "json", "environment", "rfc3339"],
];

/** Matches a folder of lib, or a file directly in it. */
const inLib = (...names) => `^lib/(?:${names.join("|")})(?:/|\\.ts$)`;
const npm = (...names) => `^node_modules/(?:${names.join("|")})/`;
/** Modules of Node. Those that exist only with the prefix keep it. */
const node = (...names) => `^(?:node:)?(?:${names.join("|")})$`;
const ANY_NODE = "^node:|^[a-z_]+$|^[a-z]+/(?:promises|strict)$";

const layerRules = LAYERS.flatMap((layer, index) =>
  layer.map((name) => ({
    name: `layer-of-${name}`,
    comment: "A file of lib imports from its own folder and from lower layers.",
    severity: "error",
    from: { path: inLib(name) },
    to: { path: "^lib/", pathNot: inLib(name, ...LAYERS.slice(index + 1).flat()) },
  })),
);

const DRIVER_CONTRACT = ["^adapters/sql/", "^lib/storage/", inLib("environment", "errors")];

/**
 * What the files of a path may import. The first entry whose path matches a file decides. `types`: beside that, imports of types
 * alone. Within lib, the layers decide.
 */
const ALLOWED = [
  {
    name: "pinned-sender",
    path: "^lib/webhooks/system-transport\\.ts$",
    may: ["^lib/", node("http", "https", "dns/promises")],
  },
  { name: "durable-context", path: "^lib/functions/step-attempt\\.ts$", may: ["^lib/", node("async_hooks")] },
  { name: "crons", path: "^lib/crons/", may: ["^lib/", npm("croner")] },
  { name: "addresses", path: "^lib/webhooks/addresses\\.ts$", may: ["^lib/", npm("ipaddr\\.js")] },
  {
    name: "readers-of-input",
    path: [
      "^lib/(?:validation|options|http/parse|http/findings|http/run-request|http/endpoints/fields)\\.ts$",
      "^lib/[a-z]+/options\\.ts$",
      "^lib/http/routes/",
      "^lib/http/endpoints/[^/]+/requests\\.ts$",
    ],
    may: ["^lib/", npm("valibot")],
  },
  { name: "route-table", path: "^lib/http/route-table\\.ts$", may: ["^lib/", npm("itty-router")] },
  { name: "lib", path: "^lib/", may: ["^lib/"], types: [npm("@standard-schema/spec")] },
  {
    name: "sql",
    path: "^adapters/sql/",
    may: [
      "^adapters/sql/",
      "^lib/storage/",
      "^lib/executor/contract\\.ts$",
      inLib("environment", "errors", "json"),
      npm("kysely"),
    ],
  },
  {
    name: "sqlite-on-bun",
    path: "^adapters/sqlite/bun\\.ts$",
    may: [...DRIVER_CONTRACT, "^adapters/sqlite/", "^bun:sqlite$", node("fs", "path", "process")],
  },
  {
    name: "sqlite-on-node",
    path: "^adapters/sqlite/node\\.ts$",
    may: [...DRIVER_CONTRACT, "^adapters/sqlite/", node("sqlite", "fs", "path")],
  },
  {
    name: "sqlite-connections",
    path: "^adapters/sqlite/(?:connections|writer-thread)\\.ts$",
    may: ["^adapters/sql/", "^adapters/sqlite/", "^bun:sqlite$", node("sqlite", "worker_threads")],
  },
  { name: "sqlite", path: "^adapters/sqlite/", may: [...DRIVER_CONTRACT, "^adapters/sqlite/", node("fs", "path")] },
  {
    name: "libsql",
    path: "^adapters/libsql/",
    may: [...DRIVER_CONTRACT, "^adapters/(?:sqlite|libsql)/", npm("@libsql/client"), node("fs", "path")],
  },
  {
    name: "postgres",
    path: "^adapters/postgres/",
    may: [...DRIVER_CONTRACT, "^adapters/postgres/", npm("pg", "@types/pg")],
  },
  {
    name: "kysely",
    path: "^adapters/kysely/",
    may: [...DRIVER_CONTRACT, "^adapters/(?:sqlite|kysely)/", npm("kysely", "kysely-bun-sqlite"), "^bun:sqlite$"],
  },
  {
    name: "node",
    path: "^adapters/node/",
    may: ["^adapters/node/", npm("ws", "@types/ws"), node("http", "net", "stream")],
  },
  // For browsers: it stands alone.
  { name: "ai-client", path: "^adapters/ai-client\\.ts$", may: ["^$"] },
  // For browsers too: of lib it takes the calls of agents alone, and of the server its types.
  {
    name: "client",
    path: "^adapters/client\\.ts$",
    may: ["^lib/handles/", "^lib/executor/agent-types\\.ts$", inLib("json"), npm("@langchain/langgraph-sdk")],
    types: ["^adapters/app\\.ts$"],
  },
  {
    name: "docs-page",
    path: "^adapters/docs-page(?:/|\\.ts$)",
    may: ["^adapters/docs-page/", "^lib/http/handler\\.ts$"],
  },
  {
    name: "agents",
    path: "^adapters/agents\\.ts$",
    may: [
      "^adapters/langgraph/mod\\.ts$",
      "^lib/(?:mod|validation|storage/types|executor/contract|functions/agent)\\.ts$",
    ],
  },
  {
    name: "app",
    path: "^adapters/(?:app|app-options|database|define-config)\\.ts$",
    may: [
      "^adapters/(?:agents|app-options|database|define-config)\\.ts$",
      "^adapters/(?:sql|sqlite|libsql|postgres)/",
      "^lib/(?:mod|validation|storage/types|executor/contract|http/(?:handler|options))\\.ts$",
    ],
  },
  {
    name: "langgraph",
    path: "^adapters/langgraph/",
    may: [
      "^adapters/langgraph/",
      "^lib/executor/(?:mod|agent-schemas|agent-types|contract|content-blocks|job-checkpoints|job-request|journal|json-schemas|model-params|option-names|schema-check|schema-problems|step-names)\\.ts$",
      "^lib/functions/(?:function-job|open-streams|operations|span-context|span-method|span-storage)\\.ts$",
      inLib("environment", "errors", "json"),
      npm("@langchain/[^/]+"),
      node("module"),
    ],
  },
  // Its peer is optional: nothing else imports it, except the server, lazily.
  {
    name: "otel",
    path: "^adapters/otel/",
    may: ["^adapters/otel/", "^lib/traces/(?:histograms|ids)\\.ts$", inLib("json"), npm("@opentelemetry/api")],
    types: ["^lib/(?:storage|traces)/"],
  },
  {
    name: "studio-page",
    path: "^adapters/studio/page/",
    may: [
      "^adapters/studio/page/",
      "^lib/executor/schema-check\\.ts$",
      npm(
        "preact",
        "uplot",
        "marked",
        "dompurify",
        "cronstrue",
        "@preact/signals",
        "@dagrejs/dagre",
        "@langchain/langgraph-sdk",
      ),
    ],
    types: ["^lib/"],
  },
  { name: "studio", path: "^adapters/studio/", may: ["^adapters/studio/", "^lib/http/handler\\.ts$"] },
  { name: "loader", path: "^adapters/standalone/loader\\.ts$", may: [ANY_NODE, npm("jiti")] },
  {
    name: "standalone",
    path: "^adapters/standalone/",
    may: [
      "^adapters/",
      "^lib/(?:mod|environment|json|validation|storage/types)\\.ts$",
      "^lib/executor/(?:contract|json-schemas)\\.ts$",
      "^lib/http/(?:handler|route-table|routes/mod)\\.ts$",
      "^lib/http/openapi\\.json$",
      "^package\\.json$",
      ANY_NODE,
    ],
  },
  { name: "server", path: "^server\\.ts$", may: ["^adapters/standalone/main\\.ts$"] },
  {
    name: "test-suite",
    path: "^test/suite/",
    may: [
      "^test/suite/",
      "^lib/",
      "^adapters/(?:sql|sqlite)/",
      "^adapters/(?:app|app-options|database)\\.ts$",
      ANY_NODE,
    ],
  },
];

const folderRules = ALLOWED.flatMap(({ name, path, may, types }, index) => {
  const pathNot = ALLOWED.slice(0, index).flatMap((earlier) => earlier.path);
  const from = { path, ...(pathNot.length > 0 ? { pathNot } : {}) };
  const rule = { name, comment: "See the table ALLOWED in .dependency-cruiser.mjs.", severity: "error", from };
  if (!types) return [{ ...rule, to: { pathNot: may } }];
  return [
    { ...rule, to: { pathNot: may, dependencyTypesNot: ["type-only"] } },
    { ...rule, name: `${name}-types`, to: { pathNot: [...may, ...types], dependencyTypes: ["type-only"] } },
  ];
});

/** @type {import("dependency-cruiser").IConfiguration} */
export default {
  forbidden: [
    {
      name: "no-circles",
      comment: "Files may not import each other, by types neither.",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    {
      name: "not-found",
      comment: "The module does not exist.",
      severity: "error",
      from: {},
      to: { couldNotResolve: true, pathNot: "^bun:" },
    },
    ...layerRules,
    {
      name: "narrow-functions",
      comment: "Functions run on any executor: they use nothing else of lib.",
      severity: "error",
      from: { path: inLib("functions") },
      to: { path: "^lib/", pathNot: inLib("functions", "executor", "errors", "json", "environment") },
    },
    ...folderRules,
    {
      name: "packages-of-the-core",
      comment: "A program that embeds the core loads these packages and no others.",
      severity: "error",
      from: { path: "^lib/mod\\.ts$" },
      to: {
        path: "^node_modules/",
        pathNot: npm("valibot", "croner", "ipaddr\\.js", "@standard-schema/spec"),
        reachable: true,
      },
    },
  ],
  options: {
    // TypeScript 7 has no API yet.
    parser: "swc",
    tsPreCompilationDeps: true,
    exclude: { path: "^adapters/studio/assets\\.ts$" },
    doNotFollow: { path: "^node_modules/" },
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "node", "default", "types"] },
  },
};
