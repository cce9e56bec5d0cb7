/** The address of the page: view, id and query. Every state that is worth sending to a colleague is in it. */
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { STUDIO } from "../api/client.ts";

export interface PageAddress {
  readonly view: string;
  /** The decoded path segments after the view. */
  readonly ids: readonly string[];
  readonly query: URLSearchParams;
}

/** Decodes a path segment. Returns it unchanged if it is not valid, as in an address that was cut off. */
function decodeSegment(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Returns the view, the ids and the query of the current URL; the view is `threads` if there is none. */
function readAddress(): PageAddress {
  const [view = "", ...ids] = location.pathname.slice(STUDIO.length).split("/").filter(Boolean).map(decodeSegment);
  return { view: view || "threads", ids, query: new URLSearchParams(location.search) };
}

export const pageAddress = signal<PageAddress>(readAddress());
export const view: ReadonlySignal<string> = computed(() => pageAddress.value.view);

type QueryValues = Readonly<Record<string, string | number | null | undefined>>;

/** Returns the address of a view with its path segments and query. Omits empty query values. */
export function toHref(path: readonly string[], query: QueryValues = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  }
  const text = search.toString();
  return `${STUDIO}${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** The query names that belong to the opened item. All others filter the list and stay. */
const ITEM_QUERY_NAMES: ReadonlySet<string> = new Set([
  "against",
  "checkpoint",
  "from",
  "of",
  "raw",
  "show",
  "span",
  "tab",
  "to",
  "with",
]);

/** Returns the address of a list or of an item in it. Keeps the filters if that list is open. */
export function toListHref(path: readonly string[], changes: QueryValues = {}): string {
  const { view: name, query } = pageAddress.value;
  const filters = path[0] === name ? [...query].filter(([key]) => !ITEM_QUERY_NAMES.has(key)) : [];
  return toHref(path, { ...Object.fromEntries(filters), ...changes });
}

/** Shows another address without a reload. Does nothing if it is the current one. */
export function go(href: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  if (href === location.pathname + location.search) return;
  history[replace ? "replaceState" : "pushState"](null, "", href);
  pageAddress.value = readAddress();
}

/** Returns the current address with changed query values; null removes one. */
export function toCurrentHref(changes: QueryValues): string {
  const { view: name, ids, query } = pageAddress.value;
  return toHref([name, ...ids], { ...Object.fromEntries(query), ...changes });
}

export const setQuery = (changes: QueryValues, options: { readonly replace?: boolean } = {}): void =>
  go(toCurrentHref(changes), { replace: true, ...options });

addEventListener("popstate", () => {
  pageAddress.value = readAddress();
});

/** Links within the page change the address without loading it again. */
addEventListener("click", (event) => {
  const link = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
  if (!link || event.defaultPrevented || event.button !== 0 || link.target || link.hasAttribute("download")) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.origin !== location.origin || !link.pathname.startsWith(STUDIO)) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
