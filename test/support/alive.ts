import { after, before } from "node:test";

/** For a group of tests that wait for nothing but timers of a service: these keep no process alive, and Deno would end it. */
export function keepAlive(): void {
  let alive: ReturnType<typeof setInterval> | undefined;
  before(() => {
    alive = setInterval(() => {}, 1_000);
  });
  after(() => clearInterval(alive));
}
