/** The states of a thread: the tree of its checkpoints, the values of one, and what changed. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, client } from "../../api/client.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { go, pageAddress, setQuery, toCurrentHref, toHref, toListHref } from "../../frame/router.ts";
import { Empty, Id, Ready, Time } from "../../parts/components.tsx";
import { Diff } from "../../parts/diff.tsx";
import { Discard, JsonField } from "../../parts/form.tsx";
import { Json } from "../../parts/json.tsx";
import { Sheet } from "../../parts/sheet.tsx";
import { DraftScope, discardDrafts, readDraft, saveDraft } from "../../store/drafts.ts";
import { refresh, useResource } from "../../store/resource.ts";
import type { GraphResponse } from "../assistants/graph.tsx";
import { type Checkpoint, type History, useHistory } from "../chat/history.ts";
import type { ChatSource } from "../chat/source.ts";

interface StateTabProps {
  readonly thread_id: string;
  readonly source: ChatSource;
  readonly assistant_id: string | null;
}

export interface FullState {
  readonly values: unknown;
  readonly next: readonly string[];
  readonly tasks: readonly {
    readonly id: string;
    readonly name: string;
    readonly error: unknown;
    readonly interrupts: readonly unknown[];
    readonly result: unknown;
  }[];
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly created_at: string;
  readonly checkpoint: { readonly checkpoint_id: string };
  readonly parent_checkpoint: { readonly checkpoint_id: string } | null;
}

/** Returns the state at a checkpoint while it is shown. A null id reads nothing. */
const useCheckpoint = (thread_id: string, checkpoint_id: string | null) =>
  useResource<FullState>(
    checkpoint_id === null ? null : `state/${thread_id}/${checkpoint_id}`,
    (signal) =>
      client.threads.getState(thread_id, checkpoint_id as string, { signal }) as unknown as Promise<FullState>,
  );

interface Row {
  readonly checkpoint: Checkpoint;
  readonly depth: number;
}

/**
 * Returns the checkpoints in the order of `all`, newest first, each with its depth. The oldest child of a checkpoint
 * has the depth of its parent, so a line without forks stays straight; the second child is one deeper, the third two,
 * and so on.
 */
export function toTreeRows({ all, children }: History): readonly Row[] {
  const depths = new Map<string, number>();
  for (const checkpoint of [...all].reverse()) {
    const siblings = children.get(checkpoint.parent_id ?? "") ?? [];
    const inherited = checkpoint.parent_id === null ? 0 : (depths.get(checkpoint.parent_id) ?? 0);
    depths.set(checkpoint.checkpoint_id, inherited + siblings.indexOf(checkpoint));
  }
  return all.map((checkpoint) => ({ checkpoint, depth: depths.get(checkpoint.checkpoint_id) ?? 0 }));
}

/**
 * Returns what created a checkpoint: the nodes that wrote, else, in a loop, those that were next before it; without such nodes
 * its source `input`, `update` or `fork`; else an arrow and the nodes that are next, or `end`.
 */
const formatOrigin = ({ metadata, next, parent_id }: Checkpoint, { byId }: History): string => {
  const { source, writes } = metadata as { readonly source?: string; readonly writes?: Record<string, unknown> };
  const before = source === "loop" ? byId.get(parent_id ?? "")?.next : undefined;
  const writers = (writes ? Object.keys(writes) : (before ?? [])).filter((name) => name !== "__start__");
  if (writers.length > 0) return writers.join(", ");
  if (source === "input" || source === "update" || source === "fork") return source;
  return next.length > 0 ? `→ ${next.join(", ")}` : "end";
};

/**
 * Shows the checkpoints as a tree, newest first, and scrolls to the current one. A press shows a checkpoint. Says if older ones
 * are missing.
 */
function Tree({ history, current }: { readonly history: History; readonly current: string | null }): VNode {
  const box = useRef<HTMLElement>(null);
  useEffect(() => box.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), [current]);
  return (
    <nav ref={box} class="checkpoints" aria-label="Checkpoints">
      {toTreeRows(history).map(({ checkpoint, depth }) => (
        <a
          key={checkpoint.checkpoint_id}
          href={toCurrentHref({ checkpoint: checkpoint.checkpoint_id })}
          aria-current={checkpoint.checkpoint_id === current ? "true" : undefined}
          style={{ paddingLeft: `${8 + 14 * Math.min(depth, 8)}px` }}
        >
          <span class="faint step">
            {depth > 0 ? "⎇" : ""} {String(checkpoint.metadata["step"] ?? "")}
          </span>
          <span class="node">{formatOrigin(checkpoint, history)}</span>
          <Time at={checkpoint.created_at} />
        </a>
      ))}
      {history.isWhole ? null : <p class="faint">Older checkpoints are not shown.</p>}
    </nav>
  );
}

interface EditProps {
  readonly thread_id: string;
  readonly state: FullState;
  readonly nodes: readonly string[];
  readonly close: () => void;
  readonly onSaved: () => void;
}

/**
 * Shows a sheet with a form for values to write as a node, which is `{}` at first and a draft from then on, and the values now
 * below it. Saving stores them as a new checkpoint below this one, discards the draft, and calls `close` and then `onSaved`.
 */
function EditState({ thread_id, state, nodes, close, onSaved }: EditProps): VNode {
  const { checkpoint_id } = state.checkpoint;
  const draftKey = `state ${thread_id} ${checkpoint_id}`;
  const typed = readDraft<{ readonly values: unknown; readonly node: string }>(draftKey, { values: {}, node: "" });
  const { values, node } = typed;
  /**
   * Stores the typed values as a new checkpoint after this one, discards the draft, and calls `close` and `onSaved`. A failure
   * shows a notice.
   */
  const save = (): void =>
    attempt("Edit", async () => {
      await client.threads.updateState(thread_id, {
        values: values as Record<string, unknown>,
        checkpointId: checkpoint_id,
        ...(node ? { asNode: node } : {}),
      });
      discardDrafts(draftKey);
      close();
      onSaved();
    });
  return (
    <Sheet title="Edit the state" side close={close}>
      <p class="faint">
        What you give is written as the chosen node would write it: lists of messages grow, other values are replaced.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <div class="field">
          <label for="as-node">As node</label>
          <select
            id="as-node"
            value={node}
            onChange={(event) => saveDraft(draftKey, { ...typed, node: event.currentTarget.value })}
          >
            <option value="">the last one</option>
            {nodes.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </div>
        <DraftScope.Provider value={draftKey}>
          <JsonField
            label="Values"
            value={values}
            change={(next) => saveDraft(draftKey, { ...typed, values: next })}
            rows={12}
          />
        </DraftScope.Provider>
        <div class="buttons">
          <button type="submit" class="primary">
            Save as a new checkpoint
          </button>
          <Discard draftKey={draftKey} />
        </div>
      </form>
      <h3>Values now</h3>
      <Json value={state.values} open={1} />
    </Sheet>
  );
}

interface DetailProps extends StateTabProps {
  readonly history: History;
  readonly checkpoint_id: string;
}

/**
 * Shows the differences of the shown checkpoint to its parent, or to the one that the person chooses; to an empty state
 * without either.
 */
function Compare({
  thread_id,
  history,
  state,
}: {
  readonly thread_id: string;
  readonly history: History;
  readonly state: FullState;
}): VNode {
  const parent = state.parent_checkpoint?.checkpoint_id ?? null;
  const against = pageAddress.value.query.get("against") ?? parent;
  const comparedState = useCheckpoint(thread_id, against);
  return (
    <>
      <div class="field inline">
        <label for="against">Compared with</label>
        <select
          id="against"
          value={against ?? ""}
          onChange={(event) => setQuery({ against: event.currentTarget.value })}
        >
          <option value="">nothing</option>
          {history.all.map((checkpoint) => (
            <option key={checkpoint.checkpoint_id} value={checkpoint.checkpoint_id}>
              {checkpoint.checkpoint_id === parent ? "the one before: " : ""}
              step {String(checkpoint.metadata["step"] ?? "?")} {formatOrigin(checkpoint, history)}
            </option>
          ))}
        </select>
      </div>
      {against === null ? (
        <Diff before={{}} after={state.values} />
      ) : (
        <Ready of={comparedState} rows={3}>
          {(before) => <Diff before={before.values} after={state.values} />}
        </Ready>
      )}
    </>
  );
}

/** Shows a checkpoint. The thread can be forked from it, its values edited, or its step replayed. */
function Detail({ thread_id, source, assistant_id, history, checkpoint_id }: DetailProps): VNode {
  const state = useCheckpoint(thread_id, checkpoint_id);
  const [isEditing, setEditing] = useState(false);
  const graph = useResource<GraphResponse>(assistant_id === null ? null : `assistants/graph/${assistant_id}`, () =>
    call("GET", `/assistants/${assistant_id}/graph`),
  );
  const nodes = graph.data?.nodes.map(({ id }) => id).filter((id) => !id.startsWith("__")) ?? [];
  const part = pageAddress.value.query.get("show") ?? "values";
  /** Shows the head of the thread, and reads history and threads again. */
  const showNewest = async (): Promise<void> => {
    setQuery({ checkpoint: null, against: null });
    await source.show(null);
    await Promise.all([refresh(`history/${thread_id}`), refresh("threads/")]);
  };
  /** Makes a copy of the checkpoint the head of the thread and shows that. A failure shows a notice. */
  const fork = (): void =>
    attempt("Fork", async () => {
      await client.threads.updateState(thread_id, { values: null as never, checkpointId: checkpoint_id });
      notify("Forked: the thread goes on from here");
      await showNewest();
    });
  /** Opens the chat and starts a run from the checkpoint. Does nothing without an assistant. */
  const replay = (): void =>
    attempt("Replay", async () => {
      if (!assistant_id) return;
      go(toListHref(["threads", thread_id]));
      await source.send({ assistant_id, input: null, checkpoint_id });
    });
  return (
    <div class="scroll">
      <Ready of={state}>
        {(loaded) => (
          <>
            <div class="buttons">
              <Id value={checkpoint_id} label="checkpoint id" />
              <span class="faint">
                <Time at={loaded.created_at} />
              </span>
              <button type="button" onClick={fork}>
                Fork from here
              </button>
              <button
                type="button"
                onClick={() => {
                  // A run that ends meanwhile does not take another checkpoint in its place.
                  setQuery({ checkpoint: checkpoint_id });
                  setEditing(true);
                }}
              >
                Edit values
              </button>
              <button type="button" onClick={replay} disabled={!assistant_id}>
                Replay
              </button>
              {typeof loaded.metadata["run_id"] === "string" ? (
                <a class="button" href={toHref(["runs", loaded.metadata["run_id"]])}>
                  Run
                </a>
              ) : null}
            </div>
            <div class="segments" role="group" aria-label="What is shown">
              {(["values", "changes", "tasks", "metadata"] as const).map((name) => (
                <button key={name} type="button" aria-pressed={part === name} onClick={() => setQuery({ show: name })}>
                  {name}
                </button>
              ))}
            </div>
            {part === "values" ? <Json value={loaded.values} name={`state-${checkpoint_id}`} /> : null}
            {part === "changes" ? <Compare thread_id={thread_id} history={history} state={loaded} /> : null}
            {part === "tasks" ? <Json value={{ next: loaded.next, tasks: loaded.tasks }} open={3} /> : null}
            {part === "metadata" ? <Json value={loaded.metadata} open={3} /> : null}
            {isEditing ? (
              <EditState
                thread_id={thread_id}
                state={loaded}
                nodes={nodes}
                close={() => setEditing(false)}
                onSaved={() => void showNewest()}
              />
            ) : null}
          </>
        )}
      </Ready>
    </div>
  );
}

/** Shows the checkpoints of a thread and the selected one; the newest without a selection. */
export function StateTab(props: StateTabProps): VNode {
  const { thread_id, source } = props;
  const history = useHistory(thread_id, source.state.value);
  // The last one stays until it is read again.
  const last = useRef(history.data);
  last.current = history.data ?? last.current;
  return (
    <Ready of={{ ...history, data: last.current }}>
      {(loaded) => {
        const checkpoint_id = pageAddress.value.query.get("checkpoint") ?? loaded.all[0]?.checkpoint_id ?? null;
        if (checkpoint_id === null) {
          return (
            <Empty title="No checkpoints yet">
              <p class="faint">The first run makes some.</p>
            </Empty>
          );
        }
        return (
          <div class="states">
            <Tree history={loaded} current={checkpoint_id} />
            <Detail key={checkpoint_id} {...props} history={loaded} checkpoint_id={checkpoint_id} />
          </div>
        );
      }}
    </Ready>
  );
}
