/**
 * The script of the page: it searches operations, shows one at a time, writes commands from the fields, and sends requests to this
 * server. Its functions run in the browser: the page contains their text, so they use nothing but each other and the browser's globals.
 * The key is read from its field when a request is sent. It is in no URL, in no storage and in no command.
 */

const find = (root: ParentNode, role: string): HTMLElement =>
  root.querySelector(`[data-role="${role}"]`) as HTMLElement;

/** The request that the fields of an operation say. */
interface FieldRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: string | undefined;
}

/**
 * Returns the name and text of each field of one kind (`path`, `query` or `header`), and whether the text is a list, in
 * the order of the page.
 */
function readFields(section: HTMLElement, location: string): [name: string, text: string, isList: boolean][] {
  const fields = [...section.querySelectorAll<HTMLInputElement>(`input[data-in="${location}"]`)];
  return fields.map((field) => [field.dataset.name ?? "", field.value, field.dataset.list !== undefined]);
}

/**
 * Returns the query of the fields of an operation. A list becomes several parameters, separated at commas. Empty fields
 * and elements are left out.
 */
function readQuery(section: HTMLElement): URLSearchParams {
  const parts = readFields(section, "query").flatMap(([name, text, isList]) =>
    (isList ? text.split(",") : [text]).map((part) => [name, part]),
  );
  return new URLSearchParams(parts.filter(([, part]) => part !== ""));
}

/**
 * Returns the request of the fields of an operation. Empty headers are left out, empty parts of the path stay empty. An
 * operation with a body gets a JSON content type; the text is not checked.
 */
function readRequest(section: HTMLElement): FieldRequest {
  let path = section.dataset.path ?? "";
  for (const [name, text] of readFields(section, "path")) path = path.replace(`{${name}}`, encodeURIComponent(text));
  const query = readQuery(section);
  const headers: Record<string, string> = {};
  for (const [name, text] of readFields(section, "header")) if (text !== "") headers[name] = text;
  const body = (find(section, "body") as HTMLTextAreaElement | null)?.value;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (path.endsWith("/mcp")) headers.Accept = "application/json, text/event-stream";
  const url = `${location.origin}${path}${query.size > 0 ? `?${query}` : ""}`;
  return { method: (section.dataset.method ?? "get").toUpperCase(), url, headers, body };
}

/**
 * Writes the curl command of an operation, and its call of `fetch` if it has one, from its fields. With `hasKey`, the
 * command names a variable in place of the key.
 */
function writeSamples(section: HTMLElement, hasKey: boolean): void {
  const { method, url, headers, body } = readRequest(section);
  const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const allHeaders = hasKey ? { ...headers, "X-API-Key": "$GREENROOM_API_KEY" } : headers;
  const lines = [
    `curl -X ${method} ${quote(url)}`,
    ...Object.entries(allHeaders).map(([name, text]) =>
      name === "X-API-Key" ? `-H "${name}: ${text}"` : `-H ${quote(`${name}: ${text}`)}`,
    ),
    ...(body === undefined ? [] : [`-d ${quote(body)}`]),
  ];
  find(section, "curl").textContent = lines.join(" \\\n  ");
  const call = find(section, "fetch") as HTMLElement | null;
  if (!call) return;
  const init = JSON.stringify({ method, headers, ...(body === undefined ? {} : { body }) }, null, 2);
  call.textContent = `const response = await fetch(${JSON.stringify(url)}, ${init});`;
}

/**
 * Returns the text of a response for people: JSON with line breaks, if its type is JSON and it parses; else the same
 * text.
 */
function formatAnswer(text: string, type: string): string {
  if (!type.includes("json")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Opens a dialog that names the request. Resolves when it closes, with true only if the person chose to delete. */
function confirmDeletion(method: string, url: string): Promise<boolean> {
  const dialog = document.querySelector("dialog") as HTMLDialogElement;
  find(dialog, "question").textContent = `${method} ${decodeURIComponent(new URL(url).pathname)}`;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "delete"), { once: true });
  });
}

/** Reads the body of a response and shows it while it arrives. Returns all of it. */
async function readAnswer(response: Response, show: (text: string) => void): Promise<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = "";
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    text += decoder.decode(part.value, { stream: true });
    show(text);
  }
  return text;
}

/**
 * Sends the request of an operation and shows the response while it arrives, with status and duration. Asks first
 * before a deletion, and sends nothing without consent. A button stops the request. Never rejects for a failed request:
 * its error is shown as the status.
 */
async function sendRequest(section: HTMLElement, key: string): Promise<void> {
  const { method, url, headers, body } = readRequest(section);
  if (method === "DELETE" && !(await confirmDeletion(method, url))) return;
  const [status, output] = [find(section, "status"), find(section, "answer-body")];
  const stop = find(section, "stop") as HTMLButtonElement;
  const abort = new AbortController();
  const show = (text: string): void => {
    output.textContent = text;
  };
  find(section, "answer").hidden = false;
  status.textContent = "Sending …";
  show("");
  stop.hidden = false;
  stop.onclick = () => abort.abort();
  const began = performance.now();
  try {
    const response = await fetch(url, {
      ...{ method, signal: abort.signal, credentials: "same-origin", cache: "no-store" },
      headers: key === "" ? headers : { ...headers, "X-API-Key": key },
      ...(body === undefined ? {} : { body }),
    });
    const type = response.headers.get("content-type") ?? "";
    const hint = response.status === 401 ? ": write an API key into the field above" : "";
    const duration = Math.round(performance.now() - began);
    status.textContent = `${response.status} ${response.statusText}${hint} · ${duration} ms · ${type}`;
    const text = await readAnswer(response, show);
    show(formatAnswer(text, type) || "(no body)");
  } catch (error) {
    if (abort.signal.aborted) status.textContent += " · stopped";
    else status.textContent = `The request failed: ${error instanceof Error ? error.message : error}`;
  } finally {
    stop.hidden = true;
  }
}

/**
 * Ranks the operation of a link for a search, ignoring case: 4 if its title begins with it, 3 if it contains it, 2 if it
 * contains all words, 1 if all words are in its title, route, description and group, else 0.
 */
function rankOperation(link: HTMLElement, search: string): number {
  const section = document.getElementById((link.getAttribute("href") ?? "").slice(1));
  const title = (section?.querySelector("h2")?.textContent ?? "").toLowerCase();
  const description = section?.querySelector(".text > p")?.textContent ?? "";
  const group = link.closest("details")?.querySelector("summary")?.textContent ?? "";
  const text = `${link.textContent} ${description} ${group}`.toLowerCase();
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  if (title.startsWith(search.toLowerCase())) return 4;
  if (title.includes(search.toLowerCase())) return 3;
  if (words.every((word) => title.includes(word))) return 2;
  return words.every((word) => text.includes(word)) ? 1 : 0;
}

/**
 * Shows the operations that match a search, best first, in place of the sections, and their number. Shows the sections
 * again for an empty search.
 */
function showResults(search: string): void {
  const results = find(document, "results");
  const links = [...find(document, "groups").querySelectorAll<HTMLElement>("li > a")];
  const ranked = links
    .map((link) => ({ link, rank: rankOperation(link, search) }))
    .filter(({ rank }) => rank > 0)
    .sort((a, b) => b.rank - a.rank);
  const isSearching = search !== "";
  find(document, "groups").hidden = isSearching;
  results.hidden = !isSearching;
  results.replaceChildren(
    ...ranked.map(({ link }) => {
      const item = document.createElement("li");
      item.append(link.cloneNode(true));
      return item;
    }),
  );
  find(document, "count").textContent = isSearching ? `${ranked.length} operations` : "";
}

/**
 * Copies into an operation what the page has once for all of them: the members of named schemas and the failures, in place of the
 * links to them, and the element for its answer. Does nothing to an operation that has them.
 */
function completeOperation(section: HTMLElement): void {
  const copyChildren = (link: Element | null): Iterable<Node> => {
    const target = document.getElementById((link?.getAttribute("href") ?? "").slice(1));
    return (target?.matches("h3") ? target.nextElementSibling : target)?.cloneNode(true).childNodes ?? [];
  };
  for (const element of section.querySelectorAll<HTMLElement>('[data-role="members"]')) {
    element.replaceChildren(...copyChildren(element.querySelector("a")));
    delete element.dataset.role;
  }
  for (const link of section.querySelectorAll('.failure > a[href^="#failure-"]'))
    link.replaceWith(...copyChildren(link));
  const actions = section.querySelector(".actions");
  const template = find(document, "answer-template") as HTMLTemplateElement;
  if (actions && !find(section, "answer")) actions.after(template.content.cloneNode(true));
}

/**
 * Shows the section that the address names or that contains what it names, else the overview, and hides the others. Completes it,
 * and marks its link, and the root element as `reading` except for the overview. Unfolds and scrolls to a target inside the
 * section, else scrolls to the top. If the address names a target, hides the search results and their count on a narrow screen.
 */
function showTarget(): void {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id === "" ? null : document.getElementById(id);
  const page = target?.closest<HTMLElement>("main > section") ?? (document.getElementById("top") as HTMLElement);
  for (const section of document.querySelectorAll<HTMLElement>("main > section")) section.hidden = section !== page;
  completeOperation(page);
  for (const link of document.querySelectorAll("nav a"))
    link.toggleAttribute("aria-current", link.getAttribute("href") === `#${page.id}`);
  document.documentElement.classList.toggle("reading", page.id !== "top");
  const details = target?.closest("details");
  if (details) details.open = true;
  // On a narrow screen the results stand above the operation.
  if (target && matchMedia("(max-width: 47.5rem)").matches) {
    find(document, "results").hidden = true;
    find(document, "count").textContent = "";
  }
  if (target && target !== page) target.scrollIntoView();
  else window.scrollTo(0, 0);
}

/**
 * Connects the fields and buttons of an operation: a change writes its samples anew, a button sends the request or
 * copies the code below its heading. Puts the address of the server into the call of the SDK.
 */
function connectOperation(section: HTMLElement, getKey: () => string): void {
  const sdk = find(section, "sdk") as HTMLElement | null;
  const base = document.body.dataset.base ?? "";
  if (sdk) sdk.textContent = (sdk.textContent ?? "").replace("$URL", location.origin + base);
  section.addEventListener("input", () => writeSamples(section, getKey() !== ""));
  section.addEventListener("click", (event) => {
    const button = (event.target as HTMLElement).closest("button");
    if (button?.dataset.role === "send") void sendRequest(section, getKey());
    if (button?.dataset.role !== "copy") return;
    const text = button.closest("h3")?.nextElementSibling?.textContent ?? "";
    void navigator.clipboard.writeText(text).then(() => {
      button.textContent = "Copied";
    });
  });
}

/**
 * Connects the fields, buttons and keys of the page, writes the code samples, and shows what the address names. Does
 * nothing without the search field.
 */
function startPage(): void {
  const [search, keyField] = [find(document, "search"), find(document, "key")] as HTMLInputElement[];
  if (!search || !keyField) return;
  const getKey = (): string => keyField.value;
  const sections = [...document.querySelectorAll<HTMLElement>("section.operation")];
  for (const section of sections) {
    connectOperation(section, getKey);
    writeSamples(section, false);
  }
  keyField.addEventListener("input", () => {
    for (const section of sections) writeSamples(section, getKey() !== "");
  });
  search.addEventListener("input", () => showResults(search.value.trim()));
  search.addEventListener("keydown", (event) => {
    const first = find(document, "results").querySelector("a");
    if (event.key === "Enter" && first) location.hash = first.getAttribute("href") ?? "";
    if (event.key === "Escape") search.value = "";
    if (event.key === "Escape") showResults("");
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(?:INPUT|TEXTAREA)$/.test((event.target as HTMLElement).tagName)) return;
    event.preventDefault();
    search.focus();
  });
  window.addEventListener("hashchange", showTarget);
  showTarget();
}

const FUNCTIONS: readonly { readonly name: string }[] = [
  readFields,
  readQuery,
  readRequest,
  writeSamples,
  formatAnswer,
  readAnswer,
  confirmDeletion,
  sendRequest,
  rankOperation,
  showResults,
  completeOperation,
  showTarget,
  connectOperation,
  startPage,
];

/** The text of the script. A bundler may rename the functions; it then renames their calls as well. */
export const SCRIPT: string = [`const ${find.name} = ${find};`, ...FUNCTIONS, `${startPage.name}();`].join("\n");
