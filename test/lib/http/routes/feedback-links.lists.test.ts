/** Lists of feedback links contain no usable URL for callers who may not submit feedback. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FeedbackToken } from "../../../../lib/feedback/mod.ts";
import type { FeedbackLink } from "../../../../lib/feedback/overview.ts";
import { ask, BASE, caller, editor, type FeedbackKit, feedbackKit, NOW, RUN } from "../../feedback/feedback.harness.ts";

const TOKENS = "/api/v1/feedback/tokens";
const LINKS = "/greenroom/feedback/links";
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

const viewer = caller("workspaces:read", "runs:read", "feedback:read");

/** Submits feedback to each id in a text. */
async function submitEverywhere(kit: FeedbackKit, text: string): Promise<readonly number[]> {
  const ids = [...new Set(text.match(UUID) ?? [])].filter((id) => id !== RUN);
  assert.ok(ids.length > 0);
  return await Promise.all(
    ids.map(async (id) => (await ask(kit, "POST", `${TOKENS}/${id}`, { body: { score: 1 } })).status),
  );
}

describe("the list of feedback links", () => {
  it("contains no usable URL for a key that may only read feedback", async () => {
    await using kit = await feedbackKit();
    const ofRun = await ask(kit, "GET", `${TOKENS}?run_id={run}`, { by: viewer });
    const ofAll = await ask(kit, "GET", LINKS, { by: viewer });
    const tokens = ofRun.json as readonly FeedbackToken[];
    const links = (ofAll.json as { readonly items: readonly FeedbackLink[] }).items;
    assert.deepEqual([ofRun.status, ofAll.status, tokens.length, links.length], [200, 200, 8, 8]);
    for (const { url } of [...tokens, ...links]) assert.equal(url, "");
    assert.deepEqual(
      links.map(({ id }) => id).sort(),
      tokens.map(({ id }) => id).sort(),
      "the ids tell the links apart",
    );
    const statuses = await submitEverywhere(kit, ofRun.text + ofAll.text);
    assert.deepEqual([...new Set(statuses)], [404]);
    assert.equal(((await ask(kit, "GET", "/api/v1/feedback")).json as unknown[]).length, 0);
  });

  it("contains URLs that accept feedback for a key that may submit it", async () => {
    await using kit = await feedbackKit();
    const { json } = await ask(kit, "GET", `${TOKENS}?run_id={run}`, { by: editor });
    const tokens = json as readonly FeedbackToken[];
    // One token of the run has expired, and tokens of one millisecond have any order.
    const live = tokens.find(({ expires_at }) => Date.parse(expires_at ?? "") > NOW);
    assert.equal(live?.url, `${BASE}${TOKENS}/${live?.id}`);
    const links = (await ask(kit, "GET", LINKS, { by: editor })).json as { readonly items: readonly FeedbackLink[] };
    assert.ok(links.items.every(({ id, url }) => url === `${BASE}${TOKENS}/${id}`));
    assert.equal((await ask(kit, "POST", `${TOKENS}/${live?.id}`, { body: { score: 1 } })).status, 200);
  });

  it("has pages whose cursors reveal no URL", async () => {
    await using kit = await feedbackKit();
    const whole = (await ask(kit, "GET", LINKS, { by: viewer })).json as { readonly items: readonly FeedbackLink[] };
    const pages: FeedbackLink[] = [];
    let cursor = "";
    do {
      const { text, json } = await ask(kit, "GET", `${LINKS}?limit=3${cursor}`, { by: viewer });
      const { items, next } = json as { readonly items: readonly FeedbackLink[]; readonly next: string | null };
      pages.push(...items);
      assert.ok((await submitEverywhere(kit, text)).every((status) => status === 404));
      cursor = next === null ? "" : `&cursor=${next}`;
    } while (cursor !== "");
    assert.deepEqual(pages, whole.items);
  });
});
