/** What a person typed and has not sent yet. It stays in this tab: over a reload, another view, and a refusal. */
import { signal } from "@preact/signals";
import { createContext } from "preact";

const KEY_PREFIX = "greenroom.typed.";

function readStoredDrafts(): Map<string, unknown> {
  const stored = new Map<string, unknown>();
  for (const itemName of Object.keys(sessionStorage).filter((name) => name.startsWith(KEY_PREFIX))) {
    try {
      stored.set(itemName.slice(KEY_PREFIX.length), JSON.parse(sessionStorage.getItem(itemName) ?? "null"));
    } catch {
      // Not of this page.
    }
  }
  return stored;
}

const drafts = signal<ReadonlyMap<string, unknown>>(readStoredDrafts());

/** The place of the form around a field, under which the field keeps what it cannot hand on. */
export const DraftScope = createContext("");

export const hasDraft = (draftKey: string): boolean =>
  [...drafts.value.keys()].some((key) => key === draftKey || key.startsWith(`${draftKey} `));

/** What was typed at a place; `first` where nothing was. */
export const readDraft = <T>(draftKey: string, initialValue: T): T =>
  drafts.value.has(draftKey) ? (drafts.value.get(draftKey) as T) : initialValue;

/** Keeps what was typed; undefined forgets it. */
export function saveDraft(draftKey: string, value: unknown): void {
  const next = new Map(drafts.value);
  if (value === undefined) next.delete(draftKey);
  else next.set(draftKey, value);
  drafts.value = next;
  try {
    if (value === undefined) sessionStorage.removeItem(KEY_PREFIX + draftKey);
    else sessionStorage.setItem(KEY_PREFIX + draftKey, JSON.stringify(value));
  } catch {
    // No room: it stays until the page is left.
  }
}

/** Forgets what was typed at a place and within it: it is not wanted, or was `saved` and nothing was typed meanwhile. */
export function discardDrafts(draftKey: string, savedValue?: unknown): void {
  if (savedValue !== undefined && readDraft(draftKey, savedValue) !== savedValue) return;
  for (const key of drafts.value.keys())
    if (key === draftKey || key.startsWith(`${draftKey} `)) saveDraft(key, undefined);
}
