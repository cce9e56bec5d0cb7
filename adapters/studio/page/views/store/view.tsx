/** The store: namespaces as a tree, their items, search, and editing. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { StoreItem } from "../../api/types.ts";
import { attempt, deletedIds, notify, removeWithUndo } from "../../frame/notices.tsx";
import { go, pageAddress, setQuery, toListHref } from "../../frame/router.ts";
import { Empty, Facts, Id, Ready, Time } from "../../parts/components.tsx";
import { Discard, JsonField } from "../../parts/form.tsx";
import { Json } from "../../parts/json.tsx";
import { List } from "../../parts/list.tsx";
import { DetailHead, Head, Panes } from "../../parts/panes.tsx";
import { DraftScope, discardDrafts, readDraft, saveDraft } from "../../store/drafts.ts";
import { refresh, useResource } from "../../store/resource.ts";
import { parseFilter, SearchBox } from "../threads/list.tsx";

interface Branch {
  readonly path: readonly string[];
  readonly children: readonly Branch[];
}

/**
 * Returns the namespaces below `path` as a tree of their labels, each level sorted. A label without a namespace of its
 * own gets a branch, too.
 */
export function toNamespaceTree(
  namespaces: readonly (readonly string[])[],
  path: readonly string[] = [],
): readonly Branch[] {
  const inside = namespaces.filter(
    (namespace) => namespace.length > path.length && path.every((part, index) => namespace[index] === part),
  );
  const names = [...new Set(inside.map((namespace) => namespace[path.length] as string))].sort();
  return names.map((name) => ({ path: [...path, name], children: toNamespaceTree(inside, [...path, name]) }));
}

/**
 * Returns the labels of a namespace; empty for null, an empty text and a text that is no JSON. Other JSON is returned unchecked.
 */
const parseNamespace = (text: string | null): readonly string[] => {
  try {
    return text ? (JSON.parse(text) as string[]) : [];
  } catch {
    return [];
  }
};

/** Shows the namespaces as nested lists of links. A press shows the items below the namespace. */
function Tree({ branches, chosen }: { readonly branches: readonly Branch[]; readonly chosen: string }): VNode {
  return (
    <ul class="namespace-tree">
      {branches.map(({ path, children }) => {
        const text = JSON.stringify(path);
        return (
          <li key={text}>
            <a href={toListHref(["store"], { namespace: text })} aria-current={text === chosen ? "true" : undefined}>
              {path.at(-1)}
            </a>
            {children.length > 0 ? <Tree branches={children} chosen={chosen} /> : null}
          </li>
        );
      })}
    </ul>
  );
}

const getItemKey = ({ namespace, key }: Pick<StoreItem, "namespace" | "key">): string =>
  JSON.stringify([namespace, key]);

interface ItemDraft {
  readonly labels: string;
  readonly key: string;
  readonly value: unknown;
}

interface EditorProps {
  readonly item: StoreItem | null;
  readonly namespace: readonly string[];
}

/**
 * Shows the form of an item's value; for a new one also of its namespace and key. What is typed is a draft. Saving stores and
 * opens the item.
 */
function ItemEditor({ item, namespace }: EditorProps): VNode {
  const draftKey = `item ${item ? getItemKey(item) : "new"}`;
  const typed = readDraft<ItemDraft>(draftKey, {
    labels: JSON.stringify(item?.namespace ?? namespace),
    key: item?.key ?? "",
    value: item?.value ?? {},
  });
  const set = (change: Partial<ItemDraft>): void => saveDraft(draftKey, { ...typed, ...change });
  const { labels: labelsText, key, value } = typed;
  /** Stores the item, discards the draft unless it was changed meanwhile, and opens the item. */
  const save = (): void =>
    attempt("Save", async () => {
      const labels = parseNamespace(labelsText);
      await call("PUT", "/store/items", { body: { namespace: labels, key, value } });
      notify("Saved");
      await refresh("store/");
      discardDrafts(draftKey, typed);
      go(toListHref(["store", key], { of: JSON.stringify(labels) }));
    });
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      {item ? null : (
        <>
          <div class="field">
            <label for="namespace">Namespace</label>
            <input
              id="namespace"
              class="mono"
              value={labelsText}
              onInput={(event) => set({ labels: event.currentTarget.value })}
            />
            <p class="field-hint">A JSON list of texts, such as ["users", "ada"].</p>
          </div>
          <div class="field">
            <label for="item-key">Key</label>
            <input id="item-key" value={key} onInput={(event) => set({ key: event.currentTarget.value })} />
          </div>
        </>
      )}
      <div class="field">
        <label for="item-value">Value</label>
        <DraftScope.Provider value={draftKey}>
          <JsonField id="item-value" label="Value" value={value} change={(next) => set({ value: next })} rows={12} />
        </DraftScope.Provider>
      </div>
      <div class="buttons">
        <button type="submit" class="primary" disabled={!key || parseNamespace(labelsText).length === 0}>
          Save
        </button>
        <Discard draftKey={draftKey} />
      </div>
    </form>
  );
}

/**
 * Shows an item, or that it does not exist. A button shows the form to edit it in place of its value, another one deletes it
 * after 5 s.
 */
function ItemPane({ namespace, name }: { readonly namespace: readonly string[]; readonly name: string }): VNode {
  const [isEditing, setEditing] = useState(false);
  const item = useResource<StoreItem | null>(`store/item/${JSON.stringify([namespace, name])}`, (signal) =>
    call("GET", "/store/items", { query: { namespace: namespace.join("."), key: name }, signal }),
  );
  /** Leaves the item, hides it and deletes it after 5 s, unless that is undone, which opens it again. */
  const remove = (): void => {
    go(toListHref(["store"]));
    removeWithUndo(
      "Item deleted",
      getItemKey({ namespace, key: name }),
      async () => {
        await call("DELETE", "/store/items", { body: { namespace, key: name } });
        await refresh("store/");
      },
      () => go(toListHref(["store", name], { of: JSON.stringify(namespace) })),
    );
  };
  return (
    <>
      <DetailHead title={name}>
        <Id value={name} label="key" />
      </DetailHead>
      <div class="scroll form">
        <Ready of={item}>
          {(loaded) =>
            loaded === null ? (
              <Empty title="This item does not exist" />
            ) : (
              <>
                <div class="buttons">
                  <button type="button" aria-pressed={isEditing} onClick={() => setEditing(!isEditing)}>
                    {isEditing ? "Show" : "Edit"}
                  </button>
                  <button type="button" class="danger" onClick={remove}>
                    Delete
                  </button>
                </div>
                <Facts
                  items={[
                    ["namespace", <code>{loaded.namespace.join(" / ")}</code>],
                    ["created", <Time at={loaded.created_at} />],
                    ["updated", <Time at={loaded.updated_at} />],
                  ]}
                />
                {isEditing ? (
                  <ItemEditor item={loaded} namespace={namespace} />
                ) : (
                  <Json value={loaded.value} name={`item-${name}`} open={3} />
                )}
              </>
            )
          }
        </Ready>
      </div>
    </>
  );
}

/**
 * Shows the namespaces as a tree, and the items below the chosen one that match the search and the filter. Beside them
 * shows the item that the address names, or the form of a new one.
 */
export default function Store(): VNode {
  const { ids, query } = pageAddress.value;
  const [name] = ids;
  // An item may have this key, too.
  const isNew = name === "new" && !query.has("of");
  const chosen = query.get("namespace") ?? "";
  const namespace = parseNamespace(chosen);
  /** The namespace of the opened item; the list may show several. */
  const itemNamespace = parseNamespace(query.get("of") ?? chosen);
  const text = query.get("text") ?? "";
  const filter = query.get("filter") ?? "";
  const parsedFilter = parseFilter(filter);
  const namespaces = useResource("store/namespaces", (signal) =>
    call<{ readonly namespaces: string[][] }>("POST", "/store/namespaces", {
      body: { limit: 1000 },
      signal,
    }),
  );
  const items = useResource(`store/items/${chosen}/${text}/${filter}`, (signal) =>
    call<{ readonly items: readonly StoreItem[] }>("POST", "/store/items/search", {
      body: {
        namespace_prefix: namespace,
        limit: 1000,
        query: text || undefined,
        filter: parsedFilter.fields,
      },
      signal,
    }),
  );
  return (
    <Panes
      name="store"
      list={
        <>
          <Head title="Store">
            <a class="button primary" href={toListHref(["store", "new"])}>
              Put
            </a>
          </Head>
          <div class="filters">
            <SearchBox label="Search items" value={text} change={(next) => setQuery({ text: next })} />
            <SearchBox
              label="key = value, or text"
              isMain={false}
              value={filter}
              change={(next) => setQuery({ filter: next })}
            />
          </div>
          <nav class="namespaces" aria-label="Namespaces">
            <a href={toListHref(["store"], { namespace: null })} aria-current={chosen === "" ? "true" : undefined}>
              all namespaces
            </a>
            <Tree branches={toNamespaceTree(namespaces.data?.namespaces ?? [])} chosen={chosen} />
          </nav>
          <Ready of={items}>
            {({ items: all }) => {
              const matchesText = ({ key, value }: StoreItem): boolean =>
                `${key} ${JSON.stringify(value)}`.toLowerCase().includes(parsedFilter.text.toLowerCase());
              const visibleItems = all.filter(
                (candidate) => !deletedIds.value.has(getItemKey(candidate)) && matchesText(candidate),
              );
              return visibleItems.length === 0 ? (
                <Empty title={text || filter ? "No item matches" : "No items here"}>
                  <p class="faint">Agents keep what they remember in the store.</p>
                </Empty>
              ) : (
                <List
                  label="Items"
                  items={visibleItems}
                  rowHeight={48}
                  getKey={getItemKey}
                  toHref={(row) => toListHref(["store", row.key], { of: JSON.stringify(row.namespace) })}
                  current={name === undefined ? undefined : JSON.stringify([itemNamespace, name])}
                  row={(row) => (
                    <>
                      <span class="text">
                        <span>{row.key}</span>
                        <span class="faint">{row.namespace.join(" / ")}</span>
                      </span>
                      <Time at={row.updated_at} />
                    </>
                  )}
                />
              );
            }}
          </Ready>
        </>
      }
      detail={
        name === undefined ? null : isNew ? (
          <>
            <DetailHead title="Put an item" />
            <div class="scroll">
              <ItemEditor key={chosen} item={null} namespace={namespace} />
            </div>
          </>
        ) : (
          <ItemPane key={JSON.stringify([itemNamespace, name])} namespace={itemNamespace} name={name} />
        )
      }
      hint={<Empty title="Choose an item" />}
    />
  );
}
