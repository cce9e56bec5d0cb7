/** Stores the text that a person typed and has not sent. It stays in this tab over a reload, another view, and a refused request. */
import { signal } from "@preact/signals";
import { createContext } from "preact";

const KEY_PREFIX = "greenroom.typed.";

/**
 * Reads the drafts of this tab: each is an item of `sessionStorage`, as JSON. Returns them by their key without the prefix, and
 * leaves out those that are not JSON.
 */
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

/** The draft key of the form around a field. A field stores text under it that does not parse yet. */
export const DraftScope = createContext("");

export const hasDraft = (draftKey: string): boolean =>
  [...drafts.value.keys()].some((key) => key === draftKey || key.startsWith(`${draftKey} `));

/** Returns the draft under a key; `initialValue` if there is none. */
export const readDraft = <T>(draftKey: string, initialValue: T): T =>
  drafts.value.has(draftKey) ? (drafts.value.get(draftKey) as T) : initialValue;

/** Stores a draft; undefined removes it. */
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

/** Removes the drafts under a key and its subkeys. With `savedValue`, does nothing if the draft has changed since. */
export function discardDrafts(draftKey: string, savedValue?: unknown): void {
  if (savedValue !== undefined && readDraft(draftKey, savedValue) !== savedValue) return;
  for (const key of drafts.value.keys())
    if (key === draftKey || key.startsWith(`${draftKey} `)) saveDraft(key, undefined);
}
