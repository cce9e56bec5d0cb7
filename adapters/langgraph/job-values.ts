/** How the values of one job are stored and shown: of a long list of messages, only what has changed is converted again. */
import type { Payload } from "../../lib/executor/contract.ts";
import { type Json, type JsonObject, knowText } from "../../lib/json.ts";
import { type Inner, isMessage, type Message, messageJson } from "./json.ts";
import { copiesOf, isUnchanged, type Kept, type KeptList, keep, keptOf, setKept } from "./kept-messages.ts";
import type { Values } from "./saver.ts";
import { messageText, type Serde } from "./serde.ts";
import { toWire } from "./wire.ts";

/** How many lists a job knows: the longest, each for a channel of most graphs. */
const MOST_LISTS = 4;
/** Shorter lists are shown message by message. */
const SHOWN_FROM = 16;

/** How a list goes on behind another one. */
interface Growth {
  /** The text without its last bracket. */
  readonly stem: string;
  readonly grown?: Payload["grown"];
}

export class JobValues implements Values {
  private readonly serde: Serde;
  private lists: readonly KeptList[] = [];
  private readonly growths: WeakMap<KeptList, Growth> = new WeakMap();
  /** A list of the state, as it was compared after the last node. */
  private compared: { readonly list: readonly unknown[]; readonly items: Kept[] } | null = null;

  constructor(serde: Serde) {
    this.serde = serde;
  }

  write(value: unknown, where: string, inState = false): Payload {
    const items = Array.isArray(value) ? (inState ? this.stateItemsOf(value) : this.itemsOf(value)) : null;
    if (!items) return this.serde.write(value, where);
    const list = this.listOf(items);
    const { grown } = this.growths.get(list) ?? {};
    return { type: "json", data: list.text, ...(grown ? { grown } : {}) };
  }

  /** Each call returns new messages, because a node may change them. */
  read(payload: Payload): unknown {
    const known = payload.type === "json" ? this.serde.lists.find(payload.data as string) : undefined;
    const items: Kept[] = [];
    const keep = (message: Message, kept: Kept): void => {
      setKept(message, kept);
      items.push(kept);
    };
    const value = known ? this.serde.messages(known.items, keep) : this.serde.read(payload, keep);
    if (Array.isArray(value) && value.length > 0 && this.areItems(value, items)) {
      this.remember({ text: payload.data as string, items, shown: known?.shown });
    }
    return value;
  }

  /** A node may have changed any message. */
  onNodeEnd(): void {
    this.compared = null;
  }

  /** A state, whose parts are shared with its other answers where they have not changed. */
  toWire(value: unknown): Json {
    return toWire(
      value,
      (message, inner) => this.shown(message, inner),
      (list) => this.shownList(list),
    );
  }

  private shownList(list: readonly unknown[]): Json[] | undefined {
    const items = list.length < SHOWN_FROM ? null : this.stateItemsOf(list);
    if (!items) return undefined;
    const known = this.listOf(items);
    const from = known.shown?.items.length ?? 0;
    if (!known.shown || from < items.length) {
      const added = items.slice(from).map(wireOf);
      const texts = added.map((message) => JSON.stringify(message));
      known.shown = {
        items: [...(known.shown?.items ?? []), ...added],
        // One flat text: a text that is put together again and again is slow to read.
        text: [...(known.shown ? [known.shown.text] : []), ...texts].join(","),
      };
    }
    const shown: Json[] = [...known.shown.items];
    knowText(shown, `[${known.shown.text}]`);
    return shown;
  }

  private shown(message: Message, inner: Inner): JsonObject {
    const kept = this.currentOf(message);
    return kept ? wireOf(kept) : messageJson(message, inner);
  }

  private currentOf(message: Message): Kept | null {
    const known = keptOf(message);
    if (known && isUnchanged(message, known)) return known;
    const kept = keep(message);
    if (kept || known) setKept(message, kept ?? undefined);
    return kept;
  }

  /** No node runs between the uses of a state: the checkpoint and the answers with it compare its messages once. */
  private stateItemsOf(list: readonly unknown[]): Kept[] | null {
    const { compared } = this;
    if (compared && compared.list === list && compared.items.length === list.length) return compared.items;
    const items = this.itemsOf(list);
    if (items) this.compared = { list, items };
    return items;
  }

  /** Null unless they are messages with plain data only. */
  private itemsOf(list: readonly unknown[]): Kept[] | null {
    const items: Kept[] = [];
    for (const item of list) {
      const kept = typeof item === "object" && item !== null && isMessage(item) ? this.currentOf(item) : null;
      if (!kept) return null;
      items.push(kept);
    }
    return items.length > 0 ? items : null;
  }

  private areItems(list: readonly unknown[], items: readonly Kept[]): boolean {
    return list.length === items.length && list.every((item, i) => keptOf(item as Message) === items[i]);
  }

  /** The list of these items, with its text: that of the longest list that it begins with, and what follows. */
  private listOf(items: readonly Kept[]): KeptList {
    const known = this.lists.find((list) => startsWith(items, list.items));
    if (known?.items.length === items.length) return known;
    const tail = items
      .slice(known?.items.length ?? 0)
      .map(textOf)
      .join(",");
    const before = known ? (this.growths.get(known)?.stem ?? known.text.slice(0, -1)) : null;
    const stem = before === null ? `[${tail}` : `${before},${tail}`;
    const list: KeptList = { text: `${stem}]`, items, shown: known?.shown };
    this.growths.set(list, { stem, ...(known ? { grown: { from: known.text, tail: `[${tail}]` } } : {}) });
    this.remember(list, known);
    return list;
  }

  private remember(list: KeptList, instead?: KeptList): void {
    this.serde.lists.add(list, instead);
    const others = this.lists.filter((one) => one !== instead);
    this.lists = [list, ...others].sort((a, b) => b.text.length - a.text.length).slice(0, MOST_LISTS);
  }
}

function textOf(kept: Kept): string {
  kept.text ??= messageText(kept);
  return kept.text;
}

function wireOf(kept: Kept): JsonObject {
  kept.wire ??= toWire({ type: kept.type, ...copiesOf(kept) }) as JsonObject;
  return kept.wire;
}

function startsWith(items: readonly Kept[], first: readonly Kept[]): boolean {
  if (first.length > items.length) return false;
  // Where two lists differ, they mostly differ at the end of the shorter one.
  for (let i = first.length - 1; i >= 0; i--) if (items[i] !== first[i]) return false;
  return true;
}
