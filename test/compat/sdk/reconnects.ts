/** Streams that are joined, left, cut and taken up again: every frame once. */
import assert from "node:assert/strict";
import type { JsonObject } from "../../../lib/json.ts";
import {
  ABSENT,
  assertRefused,
  collect,
  createHumanInput,
  createThread,
  FAMILIES,
  type Frame,
  filterData,
  listEventNames,
  readContents,
  type Suite,
} from "./bench.ts";

const ids = (frames: readonly Frame[]): (string | undefined)[] => frames.map((frame) => frame.id);

export function reconnects({ describe, it, name, bench }: Suite): void {
  for (const { kind, graph, half, wait } of FAMILIES) {
    describe(`${name}: joining ${kind} runs`, () => {
      it("returns a resumable run's frames after any of them, while it runs and after its end", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const { run_id } = await client.runs.create(id, half, {
          input: createHumanInput("a"),
          streamMode: ["values", "messages-tuple", "updates"],
          streamResumable: true,
        });
        await gates.reached("a");
        const join = (lastEventId?: string): Promise<Frame[]> =>
          collect(client.runs.joinStream(id, run_id, lastEventId === undefined ? {} : { lastEventId }));
        const during = [join("-1"), join(), join("999999"), join("-1")];
        gates.open("a");
        const [whole, plain, unknown, otherFrames] = (await Promise.all(during)) as [
          Frame[],
          Frame[],
          Frame[],
          Frame[],
        ];
        assert.deepEqual(listEventNames(whole).slice(0, 2), ["metadata", "values"]);
        assert.deepEqual(listEventNames(whole).slice(-2), ["values", "end"]);
        assert.deepEqual(
          ids(whole),
          whole.map((_, n) => String(n + 1)),
        );
        for (const same of [plain, unknown, otherFrames]) assert.deepEqual(same, whole);
        // After the end the store gives the same, from every place.
        assert.deepEqual(await join("-1"), whole);
        for (const [n, frame] of whole.slice(0, -1).entries()) {
          assert.deepEqual(await join(frame.id), whole.slice(n + 1));
        }
        // A reader that has received the end gets it again, by a frame that moves no cursor.
        const { id: _id, ...end } = whole.at(-1) as Frame;
        assert.deepEqual(await join(whole.at(-1)?.id), [{ ...end, id: undefined }]);
        assert.deepEqual(await join("999999"), whole);
        await assertRefused(join("no id"), 422, /last-event-id/i);
      });

      it("ends the stream of a run without stored frames once its status is known", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const { run_id } = await client.runs.create(id, wait, { input: createHumanInput("a"), streamMode: ["values"] });
        await gates.reached("a");
        const reading = collect(client.runs.joinStream(id, run_id));
        gates.open("a");
        const frames = await reading;
        assert.deepEqual(listEventNames(frames).slice(-1), ["end"]);
        const later = await collect(client.runs.joinStream(id, run_id, { lastEventId: frames.at(-2)?.id ?? "0" }));
        assert.deepEqual(later.at(-1), frames.at(-1));
        assert.deepEqual(listEventNames(await collect(client.runs.joinStream(id, run_id))).slice(-1), ["end"]);
        await assertRefused(collect(client.runs.joinStream(id, ABSENT)), 404, /not found/);
        await assertRefused(collect(client.runs.joinStream(null, ABSENT)), 404, /not found/);
      });

      it("returns the requested modes of those with which the run was created", async () => {
        await using at = await bench();
        const { client } = at;
        const id = await createThread(client);
        const { run_id } = await client.runs.create(id, graph, {
          input: createHumanInput("hi"),
          streamMode: ["values", "updates"],
          streamResumable: true,
        });
        await client.runs.join(id, run_id);
        const some = await collect(client.runs.joinStream(id, run_id, { lastEventId: "-1", streamMode: "updates" }));
        assert.deepEqual(listEventNames(some), ["metadata", "updates", "end"]);
      });

      for (const streamResumable of [true, false]) {
        it(`resumes by itself when its connection breaks (resumable: ${streamResumable})`, async () => {
          await using at = await bench();
          const { client, gates, requests } = at;
          const id = await createThread(client);
          const stream = client.runs.stream(id, half, {
            input: createHumanInput("a"),
            streamMode: ["values", "messages-tuple"],
            streamResumable,
          });
          let cut = false;
          const frames = await collect(stream, async ({ event }) => {
            if (event !== "values" || cut) return;
            await gates.reached("a");
            cut = true;
            at.cut();
            gates.open("a");
          });
          const [{ run_id }] = filterData(frames, "metadata") as [JsonObject];
          assert.equal(requests.at(-1), `GET /threads/${id}/runs/${run_id}/stream`);
          assert.deepEqual(ids(frames), [...new Set(ids(frames))]);
          assert.deepEqual(filterData(frames, "end"), [{ run_id, status: "success" }]);
          const values = filterData(frames, "values");
          assert.deepEqual(readContents(values.at(-1)), ["a", "began a", "waited for a"]);
          if (!streamResumable) return;
          const whole = await collect(client.runs.joinStream(id, run_id as string, { lastEventId: "-1" }));
          assert.deepEqual(frames, whole);
        });
      }

      it("returns a thread's runs one after the other, from any position, until the client disconnects", async () => {
        await using at = await bench();
        const { client, gates } = at;
        const id = await createThread(client);
        const make = async (text: string): Promise<string> => {
          const payload = { input: createHumanInput(text), streamMode: "values", streamResumable: true } as const;
          return (await client.runs.create(id, wait, payload)).run_id;
        };
        /** Reads the thread's frames after an id, up to and with the end of this many runs. */
        const read = async (lastEventId: string, runs: number, each?: (frame: Frame) => void): Promise<Frame[]> => {
          const frames: Frame[] = [];
          for await (const frame of client.threads.joinStream(id, { lastEventId })) {
            frames.push(frame as Frame);
            each?.(frame as Frame);
            if (listEventNames(frames).filter((event) => event === "run_done").length === runs) break;
          }
          return frames;
        };
        const runs = [await make("a"), await make("b"), await make("c")];
        const open = ({ event, data }: Frame): void => {
          // Each run is let go when the one before has been shown to its end.
          if (event === "metadata")
            gates.open(["a", "b", "c"][runs.indexOf((data as JsonObject).run_id as string)] ?? "");
        };
        const whole = await read("-1", 3, open);
        const starts = filterData(whole, "metadata").map(({ run_id }) => run_id);
        assert.deepEqual(starts, runs);
        assert.deepEqual(
          filterData(whole, "run_done").map(({ run_id }) => run_id),
          runs,
        );
        assert.equal(new Set(ids(whole)).size, whole.length);
        for (const [n, frame] of whole.entries()) {
          const remainingFrames = whole.slice(n + 1);
          const done = listEventNames(remainingFrames).filter((event) => event === "run_done").length;
          if (done > 0) assert.deepEqual(await read(frame.id as string, done), remainingFrames);
        }
      });
    });
  }

  describe(`${name}: broken connections`, () => {
    it("lose no frame for any reader, at any position", async () => {
      await using at = await bench();
      const { client, gates, requests } = at;
      const all = [1, 2, 3, 4];
      let ready = 0;
      const readers = all.map(async (frames) => {
        const id = await createThread(client);
        const receivedFrames: Frame[] = [];
        const stream = client.runs.stream(id, frames % 2 ? "half" : "halfway", {
          input: createHumanInput(`text ${frames}`),
          streamMode: ["values", "updates"],
          streamResumable: true,
        });
        for await (const frame of stream) {
          receivedFrames.push(frame as Frame);
          if (receivedFrames.length !== frames) continue;
          // Each has read as many frames, and its run goes on; when all have, their connections break.
          await gates.reached(`text ${frames}`);
          if (++ready < all.length) await gates.pass("broken");
          else {
            at.cut();
            gates.open("broken", ...all.map((n) => `text ${n}`));
          }
        }
        return { id, seen: receivedFrames };
      });
      for (const { id, seen: receivedFrames } of await Promise.all(readers)) {
        const [run] = await client.runs.list(id);
        const stream = `/threads/${id}/runs/${run?.run_id}/stream`;
        assert.equal(requests.filter((request) => request === `GET ${stream}`).length, 1, "it was cut");
        assert.deepEqual(
          receivedFrames,
          await collect(client.runs.joinStream(id, run?.run_id as string, { lastEventId: "-1" })),
        );
        assert.equal(receivedFrames.at(-1)?.event, "end");
      }
    });
  });
}
