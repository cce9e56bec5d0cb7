/** JSON as a foldable tree. Large values are shown in part and can be downloaded whole. */
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import { copy } from "./basics.tsx";

/** Members, and characters of a text, that are shown at first. */
const MEMBERS = 100;
const CHARACTERS = 2000;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isBranch = (value: unknown): value is object => typeof value === "object" && value !== null;

function summary(value: object): string {
  if (Array.isArray(value)) return value.length === 0 ? "[]" : `[${value.length}]`;
  const names = Object.keys(value);
  if (names.length === 0) return "{}";
  const shown = names.slice(0, 4).join(", ");
  return `{ ${shown}${names.length > 4 ? ", …" : ""} }`;
}

function Leaf({ value }: { readonly value: unknown }): VNode {
  const [shown, setShown] = useState(CHARACTERS);
  if (typeof value !== "string") return <span class={`leaf ${typeof value}`}>{String(value)}</span>;
  return (
    <span class="leaf string">
      "{value.slice(0, shown)}"
      {value.length > shown ? (
        <button type="button" class="quiet" onClick={() => setShown(10 * shown)}>
          … {(value.length - shown).toLocaleString()} more characters
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

function Branch({ name, value, depth, open }: BranchProps): VNode {
  const [isOpen, setOpen] = useState(depth < open);
  const [shown, setShown] = useState(MEMBERS);
  const label = name === undefined ? null : <span class="name">{name}: </span>;
  if (!isBranch(value) || Object.keys(value).length === 0) {
    return (
      <div class="line">
        {label}
        {isBranch(value) ? <span class="leaf">{summary(value)}</span> : <Leaf value={value} />}
      </div>
    );
  }
  const members = isOpen ? Object.entries(value) : [];
  return (
    <div class="branch">
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span aria-hidden="true">{isOpen ? "▾" : "▸"}</span> {label}
        <span class="faint">{summary(value)}</span>
      </button>
      {isOpen ? (
        <div class="members">
          {members.slice(0, shown).map(([key, member]) => (
            <Branch key={key} name={key} value={member} depth={depth + 1} open={open} />
          ))}
          {members.length > shown ? (
            <button type="button" class="quiet" onClick={() => setShown(shown + 10 * MEMBERS)}>
              {members.length - shown} more
            </button>
          ) : null}
        </div>
      ) : null}
    </div>
  );
}

export function download(name: string, text: string, type = "application/json"): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Characters of a message or a result that a page can lay out without a pause. */
const MOST = 50_000;

interface InPartProps {
  readonly text: string;
  /** File name of the whole. */
  readonly name: string;
  readonly children: (shown: string) => ComponentChildren;
}

/** A text, the beginning of one that is too long. Thousands of accents on one letter would take the browser seconds. */
export function InPart({ text, name, children }: InPartProps): VNode {
  const shown = text.slice(0, MOST).replace(/(\p{M}{20})\p{M}+/gu, "$1");
  if (text.length <= MOST) return <>{children(shown)}</>;
  return (
    <>
      {children(shown)}
      <button type="button" class="quiet" onClick={() => download(name, text, "text/plain")}>
        … {(text.length - MOST).toLocaleString()} more characters: download all
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
