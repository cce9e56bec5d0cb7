/** What a person typed and has not sent yet. It stays in this tab: over a reload, another view, and a refusal. */
import { signal } from "@preact/signals";
import { createContext } from "preact";

const PREFIX = "greenroom.typed.";

function stored(): Map<string, unknown> {
  const found = new Map<string, unknown>();
  for (const name of Object.keys(sessionStorage).filter((one) => one.startsWith(PREFIX))) {
    try {
      found.set(name.slice(PREFIX.length), JSON.parse(sessionStorage.getItem(name) ?? "null"));
    } catch {
      // Not of this page.
    }
  }
  return found;
}

const drafts = signal<ReadonlyMap<string, unknown>>(stored());

/** The place of the form around a field, under which the field keeps what it cannot hand on. */
export const DraftScope = createContext("");

export const hasDraft = (place: string): boolean =>
  [...drafts.value.keys()].some((one) => one === place || one.startsWith(`${place} `));

/** What was typed at a place; `first` where nothing was. */
export const draft = <T>(place: string, first: T): T =>
  drafts.value.has(place) ? (drafts.value.get(place) as T) : first;

/** Keeps what was typed; undefined forgets it. */
export function keep(place: string, value: unknown): void {
  const next = new Map(drafts.value);
  if (value === undefined) next.delete(place);
  else next.set(place, value);
  drafts.value = next;
  try {
    if (value === undefined) sessionStorage.removeItem(PREFIX + place);
    else sessionStorage.setItem(PREFIX + place, JSON.stringify(value));
  } catch {
    // No room: it stays until the page is left.
  }
}

/** Forgets what was typed at a place and within it: it is not wanted, or was `saved` and nothing was typed meanwhile. */
export function drop(place: string, saved?: unknown): void {
  if (saved !== undefined && draft(place, saved) !== saved) return;
  for (const one of drafts.value.keys()) if (one === place || one.startsWith(`${place} `)) keep(one, undefined);
}
