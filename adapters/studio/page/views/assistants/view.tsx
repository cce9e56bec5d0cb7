/** Assistants: their settings, versions, graph and schemas. */
import type { Assistant } from "@langchain/langgraph-sdk";
import type { VNode } from "preact";
import { client } from "../../api/client.ts";
import { attempt, deletedIds, notify, removeWithUndo } from "../../frame/notices.tsx";
import { go, pageAddress, setQuery, toCurrentHref, toHref, toListHref } from "../../frame/router.ts";
import { Empty, Id, Ready, Skeleton, Time } from "../../parts/components.tsx";
import { Discard, Editor, JsonField, type Schema } from "../../parts/form.tsx";
import { Json } from "../../parts/json.tsx";
import { List } from "../../parts/list.tsx";
import { DetailHead, Head, Panes, Tabs } from "../../parts/panes.tsx";
import { useAssistants, useSchemas } from "../../store/assistants.ts";
import { DraftScope, discardDrafts, readDraft, saveDraft } from "../../store/drafts.ts";
import { refresh, useResource } from "../../store/resource.ts";
import { SearchBox } from "../threads/list.tsx";
import { GraphTab } from "./graph.tsx";
import { VersionsTab } from "./versions.tsx";

type VersionedAssistant = Assistant & {
  readonly version: number;
  readonly description?: string;
  readonly context?: unknown;
};

interface AssistantDraft {
  readonly name: string;
  readonly description: string;
  readonly context: unknown;
  readonly config: unknown;
  readonly metadata: unknown;
}

/** Shows the form of an assistant's settings. What is typed is a draft; saving adds a version. */
function Settings({ assistant }: { readonly assistant: VersionedAssistant }): VNode {
  const { assistant_id } = assistant;
  const schemas = useSchemas(assistant_id);
  const initial: AssistantDraft = {
    name: assistant.name ?? "",
    description: assistant.description ?? "",
    context: assistant.context ?? {},
    config: assistant.config ?? {},
    metadata: assistant.metadata ?? {},
  };
  const draftKey = `assistant ${assistant_id}`;
  const typed = readDraft(draftKey, initial);
  const set = (change: Partial<AssistantDraft>): void => saveDraft(draftKey, { ...typed, ...change });
  /** Saves the draft as a new version, reads the assistants again and discards the draft, unless it was changed meanwhile. */
  const save = (): void =>
    attempt("Save", async () => {
      const { version } = (await client.assistants.update(assistant_id, typed as never)) as VersionedAssistant;
      notify(`Saved as version ${version}`);
      await refresh("assistants/");
      discardDrafts(draftKey, typed);
    });
  const schema = schemas.data as unknown as { readonly context_schema?: Schema | null } | undefined;
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <div class="field">
        <label for="name">Name</label>
        <input id="name" value={typed.name} onInput={(event) => set({ name: event.currentTarget.value })} />
      </div>
      <div class="field">
        <label for="description">Description</label>
        <input
          id="description"
          value={typed.description}
          onInput={(event) => set({ description: event.currentTarget.value })}
        />
      </div>
      <h3>Context</h3>
      {schemas.data || schemas.error ? (
        <Editor
          schema={schema?.context_schema ?? null}
          label="Context"
          value={typed.context}
          change={(context) => set({ context: context ?? {} })}
        />
      ) : (
        <Skeleton rows={2} />
      )}
      <details>
        <summary>Config and metadata</summary>
        <h3>Config</h3>
        <JsonField label="Config" value={typed.config} change={(config) => set({ config: config ?? {} })} rows={5} />
        <h3>Metadata</h3>
        <JsonField
          label="Metadata"
          value={typed.metadata}
          change={(metadata) => set({ metadata: metadata ?? {} })}
          rows={5}
        />
      </details>
      <div class="buttons">
        <button type="submit" class="primary">
          Save a new version
        </button>
        <Discard draftKey={draftKey} />
      </div>
    </form>
  );
}

const TABS = [
  ["settings", "Settings"],
  ["versions", "Versions"],
  ["graph", "Graph"],
  ["schemas", "Schemas"],
] as const;

/** Shows the JSON Schemas of an assistant's graph as a tree, which can be copied and downloaded. */
function Schemas({ assistant_id }: { readonly assistant_id: string }): VNode {
  const schemas = useSchemas(assistant_id);
  return <Ready of={schemas}>{(loaded) => <Json value={loaded} name={`schemas-${assistant_id}`} open={3} />}</Ready>;
}

/** Shows an assistant with its tabs. It can be copied and, unless the system made it, deleted. */
function Detail({ assistant_id }: { readonly assistant_id: string }): VNode {
  const assistant = useResource<VersionedAssistant>(
    `assistants/one/${assistant_id}`,
    (signal) => client.assistants.get(assistant_id, { signal }) as Promise<VersionedAssistant>,
  );
  const tab = pageAddress.value.query.get("tab") ?? "settings";
  /**
   * Creates a copy of the assistant, named “… copy” and without its creator, reads the list again and opens the copy. A failure
   * shows a notice.
   */
  const duplicate = (from: VersionedAssistant): void =>
    attempt("Copy", async () => {
      const created = await client.assistants.create({
        graphId: from.graph_id,
        name: `${from.name} copy`,
        config: from.config,
        context: from.context,
        metadata: { ...from.metadata, created_by: undefined } as never,
      });
      void refresh("assistants/");
      go(toHref(["assistants", created.assistant_id]));
    });
  /** Leaves the assistant, hides it and deletes it after 5 s, unless that is undone, which opens it again. */
  const remove = (): void => {
    go(toListHref(["assistants"]));
    removeWithUndo(
      "Assistant deleted",
      assistant_id,
      async () => {
        await client.assistants.delete(assistant_id);
        await refresh("assistants/");
      },
      () => go(toListHref(["assistants", assistant_id])),
    );
  };
  return (
    <>
      <DetailHead title={assistant.data?.name ?? "Assistant"}>
        <Id value={assistant_id} label="assistant id" />
        {assistant.data ? (
          <>
            <span class="faint">v{assistant.data.version}</span>
            <a class="button primary" href={toHref(["threads", "new"], { with: assistant_id })}>
              Try
            </a>
            <button type="button" onClick={() => duplicate(assistant.data as VersionedAssistant)}>
              Copy
            </button>
            {(assistant.data.metadata as Record<string, unknown> | undefined)?.["created_by"] === "system" ? null : (
              <button type="button" class="danger" onClick={remove}>
                Delete
              </button>
            )}
          </>
        ) : null}
      </DetailHead>
      <Tabs items={TABS} current={tab} toHref={(id) => toCurrentHref({ tab: id === "settings" ? null : id })} />
      <div class="scroll form">
        <Ready of={assistant}>
          {(loaded) =>
            tab === "versions" ? (
              <VersionsTab assistant={loaded} />
            ) : tab === "graph" ? (
              <GraphTab assistant_id={assistant_id} />
            ) : tab === "schemas" ? (
              <Schemas assistant_id={assistant_id} />
            ) : (
              <DraftScope.Provider value={`assistant ${assistant_id}`}>
                <Settings assistant={loaded} />
              </DraftScope.Provider>
            )
          }
        </Ready>
      </div>
    </>
  );
}

/**
 * Shows the assistants whose name or graph contains the text of the search box, without those being deleted, and beside
 * them the assistant that the address names.
 */
export default function Assistants(): VNode {
  const assistants = useAssistants();
  const { ids, query } = pageAddress.value;
  const [assistant_id] = ids;
  const text = query.get("text") ?? "";
  const items = (assistants.data ?? []).filter(
    ({ assistant_id: id, name, graph_id }) =>
      !deletedIds.value.has(id) && `${name} ${graph_id}`.toLowerCase().includes(text.toLowerCase()),
  );
  return (
    <Panes
      name="assistants"
      list={
        <>
          <Head title="Assistants" />
          <div class="filters">
            <SearchBox label="Search names" value={text} change={(next) => setQuery({ text: next })} />
          </div>
          <Ready of={assistants}>
            {() =>
              items.length === 0 ? (
                <Empty title={text ? "No assistant matches" : "No assistants"} />
              ) : (
                <List
                  label="Assistants"
                  items={items}
                  rowHeight={56}
                  getKey={(assistant) => assistant.assistant_id}
                  toHref={(assistant) => toListHref(["assistants", assistant.assistant_id])}
                  current={assistant_id}
                  row={(assistant) => (
                    <>
                      <span class="text">
                        <span>{assistant.name || assistant.graph_id}</span>
                        <span class="faint">
                          {assistant.graph_id} · v{assistant.version}
                        </span>
                      </span>
                      <Time at={assistant.updated_at} />
                    </>
                  )}
                />
              )
            }
          </Ready>
        </>
      }
      detail={assistant_id === undefined ? null : <Detail key={assistant_id} assistant_id={assistant_id} />}
      hint={<Empty title="Choose an assistant" />}
    />
  );
}
