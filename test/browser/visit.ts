/** One visit to a chat page, with what tests do and see there. */
import assert from "node:assert/strict";
import type { Page } from "playwright-core";

export class Visit {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }

  async open(url: string): Promise<void> {
    await this.page.goto(url);
    await this.idle();
  }

  async say(text: string): Promise<void> {
    await this.page.fill("#text", text);
    await this.page.click("#send");
  }

  /** Waits until the shown messages are these, in this order, and no others. */
  async shows(...texts: string[]): Promise<void> {
    const lines = this.page.locator("li .text");
    await lines.nth(Math.max(0, texts.length - 1)).waitFor();
    await this.page
      .waitForFunction((expected) => {
        const texts = Array.from(document.querySelectorAll("li .text"), (line) => line.textContent);
        return JSON.stringify(texts) === expected;
      }, JSON.stringify(texts))
      .catch(async () => assert.deepEqual(await lines.allTextContents(), texts));
  }

  get thread(): string {
    return new URL(this.page.url()).searchParams.get("thread") ?? "";
  }

  async idle(): Promise<void> {
    await this.page.locator("main.idle").waitFor();
  }
}
