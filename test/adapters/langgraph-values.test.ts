import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as messageClasses from "@langchain/core/messages";
import { JobValues } from "../../adapters/langgraph/job-values.ts";
import { Serde } from "../../adapters/langgraph/serde.ts";
import { toWire } from "../../adapters/langgraph/wire.ts";
import { type Json, textOf } from "../../lib/json.ts";

const { AIMessage, HumanMessage } = messageClasses;
const serdeOf = (): Serde => new Serde(messageClasses as never);

/** Long enough to be known to the next job. */
const talk = (count: number): unknown[] =>
  Array.from({ length: count }, (_, i) => {
    const content = `message ${i} ${"x".repeat(200)}`;
    return i % 2 === 0
      ? new HumanMessage({ content, id: `h${i}`, additional_kwargs: { given: { at: [i, undefined, Number.NaN] } } })
      : new AIMessage({ content, id: `a${i}`, tool_calls: [{ name: "look", args: { i }, id: `c${i}` }] });
  });

/** Both forms, and their texts, equal those that are made from nothing. */
function check(values: JobValues, list: unknown[], known?: string): string {
  const { data, grown } = values.write(list, "a list");
  assert.equal(data, serdeOf().write(list, "a list").data);
  if (grown) assert.equal(data, `${grown.from.slice(0, -1)},${grown.tail.slice(1)}`);
  if (known !== undefined) assert.equal(grown?.from, known);
  const state = { above: "all", list, lists: [list], below: null };
  const shown = values.toWire(state) as Record<string, Json>;
  assert.deepEqual(shown, toWire(state));
  for (const one of [shown, { ...shown }, shown.list as Json, shown.lists as Json]) {
    assert.equal(textOf(one).json, JSON.stringify(one));
  }
  return data as string;
}

describe("the values of a job", () => {
  it("are stored and shown as they are, whatever a node has changed", () => {
    const values = new JobValues(serdeOf());
    const list = talk(20) as { content: unknown; additional_kwargs: Record<string, unknown>; name?: string }[];
    check(values, list);
    const [first, second, third] = list as [(typeof list)[0], (typeof list)[0], (typeof list)[0]];
    const changes: (() => void)[] = [
      () => {
        first.content = "changed";
      },
      () => {
        (third.additional_kwargs.given as { at: unknown[] }).at.push("more");
      },
      () => {
        third.additional_kwargs.given = new Date(0);
      },
      () => {
        third.additional_kwargs = {};
      },
      () => {
        second.name = "somebody";
      },
      () => {
        second.name = undefined as never;
      },
      () => {
        (second as unknown as { tool_calls: { args: object }[] }).tool_calls[0]!.args = new Map();
      },
      () => {
        Object.assign(second, { later: "added", id: undefined });
      },
      () => {
        delete (second as { later?: unknown }).later;
        Object.assign(second, { other: "added" });
      },
      () => void list.push(...(talk(22).slice(20) as typeof list)),
      () => void list.splice(3, 1),
      () => void list.reverse(),
      () => void list.splice(0),
    ];
    for (const change of changes) {
      change();
      values.onNodeEnd();
      check(values, list);
    }
  });

  it("are compared once between two nodes in the state, and always elsewhere", () => {
    const values = new JobValues(serdeOf());
    const list = talk(20) as { content: unknown }[];
    const written = (inState: boolean): boolean =>
      String(values.write(list, "a list", inState).data).includes("in place");
    const shown = (): boolean => JSON.stringify(values.toWire({ list })).includes("in place");
    assert.deepEqual([written(true), shown()], [false, false]);
    list[3]!.content = "in place";
    assert.deepEqual([written(true), shown()], [false, false]);
    assert.equal(written(false), true, "what a node has returned");
    values.onNodeEnd();
    assert.deepEqual([written(true), shown()], [true, true]);
    list.push(...(talk(24).slice(20) as typeof list));
    list[4]!.content = "a list that has grown";
    assert.ok(String(values.write(list, "a list", true).data).includes("a list that has grown"));
  });

  it("include messages that are frozen, and members of a class of one's own", () => {
    class Rated extends AIMessage {
      rating: unknown = { stars: 1 };
    }
    const values = new JobValues(serdeOf());
    const rated = new Rated({ content: "good", id: "r" });
    const frozen = Object.freeze(new HumanMessage({ content: "stays", id: "f" }));
    const list = [...talk(20), rated, frozen];
    check(values, list);
    for (const rating of [{ stars: 2 }, undefined, { stars: new Map() }, 3]) {
      rated.rating = rating;
      values.onNodeEnd();
      check(values, list);
    }
  });

  it("are new messages in each job, also where the text is known", () => {
    const serde = serdeOf();
    const text = check(new JobValues(serde), talk(20));
    const payload = { type: "json", data: text };
    assert.ok(serde.lists.find(text));
    const read = new JobValues(serde).read(payload) as { content: string; additional_kwargs: { given: object } }[];
    for (const message of read) {
      message.content = "changed";
      message.additional_kwargs.given = {};
    }
    const next = new JobValues(serde);
    const again = next.read(payload) as unknown[];
    assert.deepEqual(again, serdeOf().read(payload));
    assert.ok(again[0] instanceof HumanMessage);
    again.push(new AIMessage({ content: "more", id: "more" }));
    assert.ok(check(next, again, text).startsWith(text.slice(0, -1)));
    // What a reader of an answer does to it is not in the next one.
    (next.toWire(again) as Json[]).push("more");
    check(next, again);
  });

  it("are shown without parts that other messages have, too", () => {
    const list = [new HumanMessage({ content: "one", id: "1" }), new HumanMessage({ content: "two", id: "2" })];
    const values = new JobValues(serdeOf());
    const [one, two] = values.toWire(list) as { additional_kwargs: object; response_metadata: object }[];
    Object.assign(one!.additional_kwargs, { by: "a reader" });
    assert.deepEqual([one!.response_metadata, two!.additional_kwargs], [{}, {}]);
    const [other] = new JobValues(serdeOf()).toWire([new AIMessage({ content: "three" })]) as (typeof one)[];
    assert.deepEqual(other!.additional_kwargs, {});
  });

  it("keep no more lists than their limit, the newest first", () => {
    const serde = serdeOf();
    const texts = ["a", "b", "c"].map((name) => {
      const list = [new AIMessage({ content: name.repeat(900 * 1024), id: name })];
      return new JobValues(serde).write(list, "a list").data as string;
    });
    assert.deepEqual(
      texts.map((text) => serde.lists.find(text) !== undefined),
      [false, true, true],
    );
  });
});
