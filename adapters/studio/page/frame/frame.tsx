/** The frame around the views: navigation, key prompt, the bar of a server that is away, help. */
import type { ComponentType, VNode } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { call, isAway } from "../api/client.ts";
import { declineCredential, refusal, type Scheme, saveCredential } from "../api/key.ts";
import type { Inbox } from "../api/types.ts";
import { Sheet } from "../parts/sheet.tsx";
import { useResource } from "../store/resource.ts";
import { bindings, useDismiss, useKey } from "./keyboard.ts";
import { Notices } from "./notices.tsx";
import { go, pageAddress, toHref, view } from "./router.ts";
import { VIEWS } from "./views.ts";

/** Shows the links to the views. Reads every ten seconds how many threads wait. */
function Navigation({ isOpen, close }: { readonly isOpen: boolean; readonly close: () => void }): VNode {
  const inbox = useResource(
    "inbox/count",
    (signal) => call<Inbox>("GET", "/greenroom/inbox", { query: { limit: 1 }, signal }),
    10_000,
  );
  const total = inbox.data?.total ?? 0;
  return (
    <nav class={`navigation ${isOpen ? "open" : ""}`} aria-label="Views">
      <a class="brand" href={toHref(["threads"])} onClick={close}>
        <span aria-hidden="true">●</span> <span class="long">Greenroom</span>
      </a>
      {VIEWS.map(({ name, label, key, sign }) => (
        <a
          key={name}
          href={toHref([name])}
          title={`${label} (g ${key})`}
          aria-current={view.value === name ? "page" : undefined}
          onClick={close}
        >
          <span class="sign" aria-hidden="true">
            {sign}
          </span>
          <span class="long">{label}</span>
          {name === "inbox" && total > 0 ? (
            <span class="badge" title={`${total} threads wait for an answer`}>
              {total}
            </span>
          ) : null}
        </a>
      ))}
    </nav>
  );
}

/** Shows the prompt for a key after the server has refused a request; else nothing. It saves the key and the requests go on. */
function KeyPrompt(): VNode | null {
  const [scheme, setScheme] = useState<Scheme>("x-api-key");
  const refused = refusal.value;
  if (!refused) return null;
  return (
    <Sheet title="This server needs a key" close={declineCredential}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const value = String(new FormData(event.currentTarget).get("value") ?? "").trim();
          if (value) saveCredential({ scheme, value });
        }}
      >
        {refused.wrong ? (
          <p class="field-problem" role="alert">
            The server did not accept the key. It may have expired.
          </p>
        ) : null}
        <div class="field">
          <label for="credential">{scheme === "x-api-key" ? "API key" : "Bearer token"}</label>
          <input id="credential" name="value" type="password" autocomplete="off" spellcheck={false} required />
          <p class="field-hint">It stays in this tab and is sent to this server only.</p>
        </div>
        <div class="buttons">
          <button type="submit" class="primary">
            Continue
          </button>
          <button
            type="button"
            class="quiet"
            onClick={() => setScheme(scheme === "x-api-key" ? "authorization" : "x-api-key")}
          >
            {scheme === "x-api-key" ? "Use a bearer token" : "Use an API key"}
          </button>
        </div>
      </form>
    </Sheet>
  );
}

/** Shows a dialog with the keys that are bound now and what they do. */
function Help({ close }: { readonly close: () => void }): VNode {
  const labels = new Map(bindings.value.map(({ keys, label }) => [keys, label]));
  return (
    <Sheet title="Keyboard" close={close}>
      <dl class="keys">
        {[...labels].map(([keys, label]) => (
          <div key={keys}>
            <dt>
              {keys.split(" ").map((key) => (
                <kbd key={key}>{key.replace("mod+", navigator.platform.startsWith("Mac") ? "⌘ " : "Ctrl ")}</kbd>
              ))}
            </dt>
            <dd>{label}</dd>
          </div>
        ))}
      </dl>
    </Sheet>
  );
}

const loaded = new Map<string, ComponentType>();

/**
 * Loads and renders the view of the address, and sets the title of the page. Renders nothing while it loads, because the view before it
 * would take the ids of the new address as its own, and a message if there is no such view or it fails.
 */
function SelectedView(): VNode {
  const name = view.value;
  const [, setLoaded] = useState("");
  const [problem, setProblem] = useState("");
  useErrorBoundary((error) =>
    setProblem(`This view cannot be shown: ${error instanceof Error ? error.message : error}`),
  );
  useEffect(() => {
    const requestedView = VIEWS.find((candidate) => candidate.name === name);
    setProblem(requestedView ? "" : "There is no such view");
    if (!requestedView) return;
    document.title = `${requestedView.label} · Greenroom`;
    if (loaded.has(name)) return;
    requestedView
      .load()
      .then(({ default: component }) => {
        loaded.set(name, component);
        setLoaded(name);
      })
      .catch(() => {
        if (pageAddress.value.view === name)
          setProblem("This part could not be loaded. The server may run a newer version.");
      });
  }, [name]);
  if (problem) {
    return (
      <div class="problem" role="alert">
        <p>{problem}</p>
        <button type="button" onClick={() => location.reload()}>
          Reload the page
        </button>
      </div>
    );
  }
  const View = loaded.get(name);
  return View ? <View key={name} /> : <div />;
}

/** Binds `g` and a letter to a view. Shows nothing. */
function GoKey({
  name,
  letter,
  label,
}: {
  readonly name: string;
  readonly letter: string;
  readonly label: string;
}): null {
  useKey(`g ${letter}`, label, () => go(toHref([name])));
  return null;
}

/**
 * Shows the page: navigation, the selected view, notices, prompts, and a warning while the server does not answer. Binds the keys
 * of the page.
 */
export function Frame(): VNode {
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const closeMenu = (): void => setMenuOpen(false);
  useDismiss(isMenuOpen, closeMenu);
  useKey("?", "Keyboard shortcuts", () => setHelpOpen(true));
  const current = VIEWS.find(({ name }) => name === view.value);
  return (
    <div class="frame">
      {VIEWS.map(({ name, key, label }) => (
        <GoKey key={name} name={name} letter={key} label={label} />
      ))}
      <header class="top-bar">
        <button
          type="button"
          class="quiet"
          aria-expanded={isMenuOpen}
          aria-label="Views"
          onClick={() => setMenuOpen(!isMenuOpen)}
        >
          ☰
        </button>
        <h1>{current?.label ?? "Greenroom"}</h1>
      </header>
      <Navigation isOpen={isMenuOpen} close={closeMenu} />
      <main>
        {isAway.value ? (
          <div class="away" role="alert">
            The server does not answer. The page tries again; what you typed stays.
          </div>
        ) : null}
        <SelectedView />
      </main>
      <Notices />
      <KeyPrompt />
      {isHelpOpen ? <Help close={() => setHelpOpen(false)} /> : null}
    </div>
  );
}
