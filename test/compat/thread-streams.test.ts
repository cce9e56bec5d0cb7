/** Runs the suite of `client.threads.stream()` with each release of the SDK, over SSE and WebSockets, in process and over sockets. */
import process from "node:process";
import { describe, it } from "node:test";
import { SDKS, type Subject } from "./thread-streams/bench.ts";
import { threadStreams } from "./thread-streams/mod.ts";

const runtime = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";
const all = (Object.keys(SDKS) as (keyof typeof SDKS)[]).flatMap((sdk): Subject[] => [
  { sdk, transport: "SSE in process" },
  { sdk, transport: "SSE over a socket" },
  { sdk, transport: "WebSocket" },
]);
// `npm test` runs each release, each transport and each runtime once.
const SOME: Readonly<Record<typeof runtime, readonly Subject[]>> = {
  node: [
    { sdk: "1.15.0", transport: "SSE in process" },
    { sdk: "1.11.0", transport: "WebSocket" },
  ],
  bun: [
    { sdk: "1.15.0", transport: "WebSocket" },
    { sdk: "1.12.4", transport: "SSE over a socket" },
  ],
  deno: [{ sdk: "1.9.15", transport: "SSE over a socket" }],
};
const subjects = process.env.GREENROOM_TEST_ALL === "0" ? SOME[runtime] : all;
for (const subject of subjects) threadStreams({ describe, it }, subject);
