/** Copied values are cut by bytes at character boundaries, and files are replaced by their type and size. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { countBytes, cutText, replaceFiles, truncate } from "../../../lib/traces/truncation.ts";

const encoder = new TextEncoder();
const TEXTS = ["", "plain", "äöü", "漢字", "a😀b", "\ud800 alone \udc00", `${"ä".repeat(50)}😀${"漢".repeat(50)}`];

describe("a text", () => {
  it("has as many bytes as its UTF-8", () => {
    for (const text of TEXTS.filter((candidate) => candidate.isWellFormed()))
      assert.equal(countBytes(text), encoder.encode(text).length, text);
  });

  it("is cut at the last character that fits", () => {
    for (const text of TEXTS.filter((candidate) => candidate.isWellFormed())) {
      const characters = [...text];
      for (let max = 0; max <= countBytes(text) + 1; max++) {
        let expected = "";
        for (const character of characters) {
          if (countBytes(expected + character) > max) break;
          expected += character;
        }
        assert.equal(cutText(text, max), expected, `${max} bytes of ${text}`);
      }
    }
  });
});

const message = (role: string, content: string): JsonObject => ({ role, content });
const countJsonBytes = (value: Json): number => countBytes(JSON.stringify(value));

describe("a value that is too long", () => {
  it("keeps the system message and the newest messages", () => {
    const messages = [
      message("system", "be kind"),
      ...Array.from({ length: 20 }, (_, n) => message("user", `text ${n}`)),
    ];
    const kept = truncate(messages, 200) as JsonObject[];
    assert.deepEqual(kept[0], messages[0]);
    assert.deepEqual(kept.slice(1), messages.slice(messages.length - kept.length + 1));
    assert.ok(kept.length > 3 && countJsonBytes(kept) <= 200);
  });

  it("keeps the start of a message that alone is too long", () => {
    const kept = truncate([message("user", "old"), message("user", "é\n".repeat(500))], 300) as JsonObject[];
    assert.equal(kept.length, 1);
    assert.match(String(kept[0]?.["content"]), /^(é\n)+é?$/);
    assert.ok(countJsonBytes(kept) <= 300);
    const long = truncate([message("system", "s".repeat(900)), message("user", "newest")], 300) as JsonObject[];
    assert.deepEqual(
      long.map(({ role }) => role),
      ["system", "user"],
    );
    assert.ok(countJsonBytes(long) <= 300);
  });

  it("keeps the messages of a state beside its other members", () => {
    const messages = Array.from({ length: 20 }, (_, n) => message("ai", `text ${n}`));
    const kept = truncate({ topic: "x", messages }, 150) as JsonObject;
    assert.equal(kept["topic"], "x");
    assert.deepEqual((kept["messages"] as JsonObject[]).at(-1), messages.at(-1));
    assert.ok(countJsonBytes(kept) <= 150);
  });

  it("is the start of its JSON if it is no text and has no messages", () => {
    const value = { list: Array.from({ length: 100 }, (_, n) => n) };
    assert.equal(truncate(value, 20), JSON.stringify(value).slice(0, 20));
    assert.equal(truncate("x".repeat(100), 20), "x".repeat(20));
  });
});

describe("images and files", () => {
  const base64 = "QUJD".repeat(30);
  const cases: readonly (readonly [string, Json, Json])[] = [
    [
      "OpenAI",
      { type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } },
      { type: "image", mime: "image/png", bytes: 90 },
    ],
    [
      "OpenAI, text",
      { type: "image_url", image_url: `data:image/png;base64,${base64}` },
      { type: "image", mime: "image/png", bytes: 90 },
    ],
    [
      "LangChain",
      { type: "image", source_type: "base64", mime_type: "image/jpeg", data: base64 },
      { type: "image", mime: "image/jpeg", bytes: 90 },
    ],
    [
      "Anthropic",
      { type: "image", source: { type: "base64", media_type: "image/gif", data: base64 } },
      { type: "image", mime: "image/gif", bytes: 90 },
    ],
    [
      "AI SDK",
      { type: "file", mediaType: "application/pdf", data: base64 },
      { type: "file", mime: "application/pdf", bytes: 90 },
    ],
    [
      "sound",
      { type: "input_audio", input_audio: { data: base64, format: "wav" } },
      { type: "audio", mime: null, bytes: 90 },
    ],
    [
      "a bare data URL",
      { icon: `data:image/png;base64,${base64}` },
      { icon: { type: "image", mime: "image/png", bytes: 90 } },
    ],
  ];
  for (const [name, block, described] of cases) {
    it(`are replaced by their type and size: ${name}`, () => {
      const value = [message("user", "look"), { role: "user", content: [{ type: "text", text: "here" }, block] }];
      const replaced = replaceFiles(value as Json);
      assert.deepEqual(replaced, [value[0], { role: "user", content: [{ type: "text", text: "here" }, described] }]);
    });
  }

  it("stay if they are links or texts", () => {
    const value: JsonObject[] = [
      { type: "image_url", image_url: { url: "https://example.com/a.png" } },
      { type: "file", data: "short" },
      { type: "text", text: base64 },
    ];
    assert.deepEqual(replaceFiles(value), value);
  });
});
