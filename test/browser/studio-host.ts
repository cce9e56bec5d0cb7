/** A server with the studio and the agents of the tests, and visits to it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before } from "node:test";
import type { Locator, Page, Request } from "playwright-core";
import { serve } from "../../adapters/node/mod.ts";
import { studio } from "../../adapters/studio/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import type { Service } from "../../lib/mod.ts";
import { type TestServiceOptions, testService } from "../suite/kit.ts";
import { createGates, type Gates } from "../support/graphs.ts";
import { until } from "../support/until.ts";
import { openBrowser, type Principal } from "./browser.ts";
import { notePresses, withMarks } from "./presses.ts";
import { studioExecutor } from "./studio-agents.ts";

const AXE = readFileSync(new URL("../../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

export interface StudioHost extends AsyncDisposable {
  readonly service: Service;
  readonly gates: Gates;
  readonly origin: string;
  /** The address of the page, with a slash at its end. */
  readonly studio: string;
}

interface StudioOptions extends TestServiceOptions {
  readonly prefix?: string;
  /** The port of a server before this one; a free one by default. */
  readonly port?: number;
  readonly gates?: Gates;
}

export async function openStudio({
  prefix = "",
  port = 0,
  gates = createGates(),
  ...options
}: StudioOptions = {}): Promise<StudioHost> {
  let origin = "";
  const greenroom = await testService({
    executor: studioExecutor(gates),
    public_base_url: () => origin || undefined,
    // A view may be looked at again after longer than a stateless run is usually kept.
    retention: { stateless_ms: 3_600_000 },
    ...options,
  });
  const handler = createHandler(greenroom.service, { prefix, studio: withMarks(studio()) });
  const server = await serve(handler, { hostname: "127.0.0.1", port });
  origin = `http://127.0.0.1:${server.port}`;
  return {
    service: greenroom.service,
    gates,
    origin,
    studio: `${origin}${prefix}/studio/`,
    async [Symbol.asyncDispose]() {
      // Streams end with the service.
      await Promise.all([server.close(), greenroom[Symbol.asyncDispose]()]);
    },
  };
}

/** One page of a browser, with what tests do in it. */
export class StudioVisit {
  readonly page: Page;
  readonly host: StudioHost;
  readonly problems: string[] = [];
  /** Requests that got a response with an error status. */
  readonly refused: string[] = [];
  /** Requests without a response, except streams. */
  readonly #open = new Set<Request>();
  /** The number of requests so far. */
  #requestCount = 0;

  constructor(page: Page, host: StudioHost) {
    this.page = page;
    this.host = host;
    page.on("pageerror", (error) => this.problems.push(error.message));
    page.on("console", (message) => {
      // The policy refuses some, for example. Responses with an error status are part of some tests.
      if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
        this.problems.push(message.text());
    });
    page.on("response", (response) => {
      if (response.status() >= 400)
        this.refused.push(`${response.status()} ${response.request().method()} ${response.url()}`);
    });
    // Browsers do not always report the end of requests of a page that was left.
    page.on("framenavigated", () => this.#open.clear());
    for (const end of ["requestfinished", "requestfailed"] as const)
      page.on(end as "requestfinished", (request) => this.#open.delete(request));
    page.on("request", (request) => {
      this.#requestCount += 1;
      const { origin, protocol, pathname } = new URL(request.url());
      if (!pathname.includes("/stream")) this.#open.add(request);
      if (origin !== host.origin && !/^(?:data|blob):$/.test(protocol)) this.problems.push(`calls ${request.url()}`);
    });
  }

  async open(path: string): Promise<void> {
    await this.page.goto(this.host.studio + path);
    await this.page.locator("main :is(h1, h2)").first().waitFor({ state: "attached" });
  }

  /** Waits until the page has read what it shows. */
  async atRest(): Promise<void> {
    for (let countBefore = -1; countBefore !== this.#requestCount; ) {
      countBefore = this.#requestCount;
      await until(() => this.#open.size === 0);
      await this.page.waitForFunction(() => !document.querySelector(".skeleton"));
      // A response may cause more requests.
      await this.page.evaluate(
        () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))),
      );
    }
  }

  button(name: string | RegExp, within: Page | Locator = this.page): Locator {
    return within.getByRole("button", { name, exact: typeof name === "string" });
  }

  link(name: string | RegExp, within: Page | Locator = this.page): Locator {
    return within.getByRole("link", { name, exact: typeof name === "string" });
  }

  /** Clicks the button and returns the text that it copies to the clipboard. */
  async copied(button: Locator): Promise<string> {
    await this.page.evaluate(() => navigator.clipboard.writeText(""));
    await button.click();
    let text = "";
    await until(async () => {
      text = await this.page.evaluate(() => navigator.clipboard.readText());
      return text !== "";
    });
    return text;
  }

  async say(text: string): Promise<void> {
    await this.page.getByLabel("Message", { exact: true }).fill(text);
    await this.button("Send").click();
  }

  /** Waits until the conversation has exactly these messages in this order, without leading and trailing spaces. */
  async shows(...texts: string[]): Promise<void> {
    const trimmed = texts.map((text) => text.trim());
    const parts = this.page.locator(".message :is(.plain, .markdown)");
    await this.page
      .waitForFunction((expected) => {
        const messages = document.querySelectorAll(".message .plain, .message .markdown");
        return JSON.stringify(Array.from(messages, (part) => part.textContent?.trim())) === expected;
      }, JSON.stringify(trimmed))
      .catch(async () =>
        assert.deepEqual(
          (await parts.allTextContents()).map((text) => text.trim()),
          trimmed,
        ),
      );
  }

  /** Opens a new thread, which the next message creates. */
  async newThread(assistant: string): Promise<void> {
    await this.open("threads/new");
    await this.choose(assistant);
  }

  async choose(assistant: string): Promise<void> {
    await this.page.locator(".assistant-bar select").selectOption({ label: assistant });
  }

  /** Returns the id of the open thread. */
  get thread_id(): string {
    return /threads\/([0-9a-f-]{36})/.exec(this.page.url())?.[1] ?? assert.fail(this.page.url());
  }

  async status(text: string): Promise<void> {
    await this.page.locator(".detail-pane > .head .status", { hasText: text }).waitFor();
  }

  /** Returns the accessibility problems that axe finds on the page. */
  async accessibility(): Promise<string[]> {
    await this.page.evaluate(AXE);
    return await this.page.evaluate(async () => {
      interface Finding {
        readonly id: string;
        readonly impact: string;
        readonly nodes: readonly { readonly html: string }[];
      }
      const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: readonly Finding[] }> } };
      const { violations } = await axe.run();
      return violations.map(({ id, impact, nodes }) => `${impact} ${id}: ${nodes[0]?.html.slice(0, 160)}`);
    });
  }
}

export interface VisitOptions {
  readonly width?: number;
  readonly dark?: boolean;
}

export type VisitStudio = (
  host: StudioHost,
  test: (visit: StudioVisit) => Promise<void>,
  options?: VisitOptions,
) => Promise<void>;

/** Opens a browser for the tests of a file. Each visit has a new page and fails on each error that the test does not expect. */
export function studioVisits(): VisitStudio {
  let principal: Principal | undefined;
  before(async () => {
    principal = await openBrowser();
  });
  after(() => principal?.[Symbol.asyncDispose]());

  return async (host, test, { width = 1400, dark = false } = {}) => {
    const page = await (principal as Principal).context.newPage();
    await page.setViewportSize({ width, height: 850 });
    await page.emulateMedia({ colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    await notePresses(page);
    const visit = new StudioVisit(page, host);
    try {
      await test(visit);
      assert.deepEqual(visit.problems, []);
    } finally {
      await page.close();
    }
  };
}
