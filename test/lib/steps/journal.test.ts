/** The event address of a wait while saves drain the journal. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { type OpenJournalOptions, openJournal, type UnsavedJournal } from "../../../lib/steps/journal.ts";
import { hashToken } from "../../../lib/steps/tokens.ts";

it("the journal stores an event address also if a save drains its entries meanwhile", async () => {
  const saved: string[] = [];
  let unsaved: UnsavedJournal = { entries: [], tokens: [] };
  /** Saves the journal. Entries that are added to the old object later are lost. */
  const save = (): void => {
    saved.push(...unsaved.tokens.map(({ token_hash }) => token_hash));
    unsaved = { entries: [], tokens: [] };
  };
  const run = { thread_id: "t", graph_id: "g", run_id: "r", claims: 1, resumable: true };
  const journal = await openJournal({
    environment: { uuid: () => crypto.randomUUID(), now: () => 0 },
    attempt: { claimed: { run, thread: { interrupts: {} } }, retry: <Value>(ask: () => Promise<Value>) => ask() },
    call: null,
    assignedCallId: null,
    origin: () => ({ input: null, values: {}, context: {}, config: {}, metadata: {} }),
    limits: { entries: 10, result_bytes: 1_000, journal_bytes: 1_000, linger_ms: 0 },
    base_url: () => "http://127.0.0.1",
    unsaved: () => unsaved,
  } as unknown as OpenJournalOptions);
  assert.ok(journal);
  const { subtle } = crypto;
  const { digest } = subtle;
  subtle.digest = async (...args) => {
    const hash = await digest.apply(subtle, args);
    save();
    return hash;
  };
  try {
    const { token } = await journal.createEventAddress("parcel", 1);
    save();
    assert.deepEqual(saved, [await hashToken(token)]);
  } finally {
    subtle.digest = digest;
  }
});
