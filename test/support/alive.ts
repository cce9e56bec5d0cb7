import { after, before } from "node:test";

/** Keeps the process alive for a group of tests that wait only for timers of a service. Deno would end it otherwise. */
export function keepAlive(): void {
  let alive: ReturnType<typeof setInterval> | undefined;
  before(() => {
    alive = setInterval(() => {}, 1_000);
  });
  after(() => clearInterval(alive));
}
