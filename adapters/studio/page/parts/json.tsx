/** JSON as a foldable tree. Large values are shown in part and can be downloaded whole. */
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import { copy } from "./components.tsx";

/** Members, and characters of a text, that are shown at first. */
const INITIAL_MEMBERS = 100;
const INITIAL_CHARS = 2000;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isBranch = (value: unknown): value is object => typeof value === "object" && value !== null;

/** Returns a short text for a list or an object: its length, or its first four names. */
function summarize(value: object): string {
  if (Array.isArray(value)) return value.length === 0 ? "[]" : `[${value.length}]`;
  const names = Object.keys(value);
  if (names.length === 0) return "{}";
  const preview = names.slice(0, 4).join(", ");
  return `{ ${preview}${names.length > 4 ? ", …" : ""} }`;
}

/** Shows a value that has no members. A long text is cut and can be extended. */
function Leaf({ value }: { readonly value: unknown }): VNode {
  const [visibleLength, setVisibleLength] = useState(INITIAL_CHARS);
  if (typeof value !== "string") return <span class={`leaf ${typeof value}`}>{String(value)}</span>;
  return (
    <span class="leaf string">
      "{value.slice(0, visibleLength)}"
      {value.length > visibleLength ? (
        <button type="button" class="quiet" onClick={() => setVisibleLength(10 * visibleLength)}>
          … {(value.length - visibleLength).toLocaleString()} more characters
        </button>
      ) : null}
    </span>
  );
}

interface BranchProps {
  readonly name?: string | undefined;
  readonly value: unknown;
  readonly depth: number;
  readonly open: number;
}

/** Shows a value with its members, which can be folded; open down to depth `open`. Long lists are cut and can be extended. */
function Branch({ name, value, depth, open }: BranchProps): VNode {
  const [isOpen, setOpen] = useState(depth < open);
  const [visibleCount, setVisibleCount] = useState(INITIAL_MEMBERS);
  const label = name === undefined ? null : <span class="name">{name}: </span>;
  if (!isBranch(value) || Object.keys(value).length === 0) {
    return (
      <div class="line">
        {label}
        {isBranch(value) ? <span class="leaf">{summarize(value)}</span> : <Leaf value={value} />}
      </div>
    );
  }
  const members = isOpen ? Object.entries(value) : [];
  return (
    <div class="branch">
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> {label}
        <span class="faint">{summarize(value)}</span>
      </button>
      {isOpen ? (
        <div class="members">
          {members.slice(0, visibleCount).map(([key, member]) => (
            <Branch key={key} name={key} value={member} depth={depth + 1} open={open} />
          ))}
          {members.length > visibleCount ? (
            <button type="button" class="quiet" onClick={() => setVisibleCount(visibleCount + 10 * INITIAL_MEMBERS)}>
              {members.length - visibleCount} more
            </button>
          ) : null}
        </div>
      ) : null}
    </div>
  );
}

/** Lets the browser save a text as a file. */
export function download(name: string, text: string, type = "application/json"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Characters of a message or a result that a page can lay out without a pause. */
const MAX_TEXT_CHARS = 50_000;

interface TruncatedTextProps {
  readonly text: string;
  /** File name of the whole. */
  readonly name: string;
  readonly children: (visibleText: string) => ComponentChildren;
}

/**
 * Renders the first characters of a text by `children`; a longer text gets a button that downloads all of it. Shows at
 * most 20 accents in a row, because thousands on one letter would take the browser seconds.
 */
export function TruncatedText({ text, name, children }: TruncatedTextProps): VNode {
  const visibleText = text.slice(0, MAX_TEXT_CHARS).replace(/(\p{M}{20})\p{M}+/gu, "$1");
  if (text.length <= MAX_TEXT_CHARS) return <>{children(visibleText)}</>;
  return (
    <>
      {children(visibleText)}
      <button type="button" class="quiet" onClick={() => download(name, text, "text/plain")}>
        … {(text.length - MAX_TEXT_CHARS).toLocaleString()} more characters: download all
      </button>
    </>
  );
}

interface JsonProps {
  readonly value: unknown;
  /** Levels that are open at first. */
  readonly open?: number;
  /** File name of the download; without it there are no buttons. */
  readonly name?: string;
}

/** Shows a value as a tree. With a name, it can be copied and downloaded. */
export function Json({ value, open = 2, name }: JsonProps): VNode {
  const text = (): string => JSON.stringify(value, null, 2) ?? "null";
  return (
    <div class="json">
      {name ? (
        <div class="json-actions">
          <button type="button" class="quiet" onClick={() => void copy(text(), "Copied JSON")}>
            Copy JSON
          </button>
          <button type="button" class="quiet" onClick={() => download(`${name}.json`, text())}>
            Download
          </button>
        </div>
      ) : null}
      <Branch value={value} depth={0} open={open} />
    </div>
  );
}
