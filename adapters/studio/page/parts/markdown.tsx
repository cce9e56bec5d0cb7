/** Markdown of models: sanitized, with code that can be copied. Blocks that do not change while tokens stream are not rendered again. */
import DOMPurify from "dompurify";
import { Lexer, marked, type Token, type TokensList } from "marked";
import type { VNode } from "preact";
import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { copy } from "./components.tsx";
import { TruncatedText } from "./json.tsx";

const ALLOWED = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a", "img"],
    ...["h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "sup", "sub", "span"],
  ],
  ALLOWED_ATTR: ["href", "src", "alt", "title", "align", "start"],
  ALLOWED_URI_REGEXP:
    /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);|blob:|[^a-z]|[a-z+.-]+(?:[^a-z+.\-:]|$))/i,
};

const isInlineImage = (source: string): boolean => /^(?:data:image\/(?:png|jpeg|gif|webp);|blob:)/.test(source);

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer");
  }
  const source = node.tagName === "IMG" ? (node.getAttribute("src") ?? "") : null;
  // A picture of another host would tell that host who reads; an address of this one may do something.
  if (source !== null && !isInlineImage(source)) {
    const link = node.ownerDocument.createElement("span");
    link.textContent = `[image: ${node.getAttribute("alt") || source}]`;
    node.replaceWith(link);
  }
});

const sanitize = (html: string): string => DOMPurify.sanitize(html, ALLOWED);

/** HTML in Markdown: tags without attributes stay, and comments go. Any other tag is shown as text, so nothing has a handler. */
const unsafeTags = new RegExp(`<(?!/?(?:${ALLOWED.ALLOWED_TAGS.join("|")})\\s*/?>)`, "gi");
const stripUnsafeHtml = (html: string): string => html.replace(/<!--[\s\S]*?-->/g, "").replace(unsafeTags, "&lt;");

// The sanitizer lets no form elements pass.
marked.use({
  renderer: { checkbox: ({ checked }) => (checked ? "☑ " : "☐ "), html: ({ text }) => stripUnsafeHtml(text) },
});

interface BlockProps {
  readonly raw: string;
  readonly token: Token;
}

/** Shows a block as sanitized HTML. */
function Html({ raw, token }: BlockProps): VNode {
  const html = useMemo(() => sanitize(marked.parser([token])), [raw]);
  // biome-ignore lint/security/noDangerouslySetInnerHtml: sanitized above
  return <div dangerouslySetInnerHTML={{ __html: html }} />;
}

const Block = memo(
  function Block({ raw, token }: { readonly raw: string; readonly token: Token }): VNode {
    if (token.type === "code") {
      const { lang, text } = token as { readonly lang?: string; readonly text: string } & Token;
      return (
        <div class="code">
          <div class="code-head">
            <span>{lang ?? ""}</span>
            <button type="button" class="quiet" onClick={() => void copy(text, "Copied code")}>
              Copy
            </button>
          </div>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
          <pre tabIndex={0}>
            <code>{text}</code>
          </pre>
        </div>
      );
    }
    return <Html raw={raw} token={token} />;
  },
  (before, after) => before.raw === after.raw,
);

/** The maximum work for one text, in characters that the parser reads: about 50 ms. */
const MAX_WORK = 10_000_000;
/** The work that each inline text counts for at least: a table may have a million empty cells. */
const WORK_PER_INLINE_TEXT = 1000;
const MAX_LEVELS = 50;

/** Throws for a text that would take seconds: the parser reads the remaining text again for each sign, long word and level in it. */
class BoundedLexer extends Lexer {
  #work = 0;
  #level = 0;

  /** Throws if the text takes more work than allowed; the caller then shows it as plain text. */
  #addWork(work: number): void {
    this.#work += work;
    if (this.#work > MAX_WORK) throw new Error("too much work");
  }

  /** Throws if the text is nested too deeply. */
  #nested<T>(read: () => T): T {
    this.#level += 1;
    if (this.#level > MAX_LEVELS) throw new Error("too deep");
    const result = read();
    this.#level -= 1;
    return result;
  }

  override inline(text: string, tokens?: Token[]): Token[] {
    this.#addWork(WORK_PER_INLINE_TEXT);
    return super.inline(text, tokens);
  }

  /** Parses inline text. Throws if that takes more work than allowed, by an estimate before the parse. */
  override inlineTokens(text: string, tokens?: Token[]): Token[] {
    const signs = text.match(/[!-/:-@[-`{-~]/g)?.length ?? 0;
    const longest = (text.match(/\S{64,}|\s{64,}/g) ?? []).reduce((most, { length }) => Math.max(most, length), 0);
    this.#addWork(text.length * (signs + longest / 8));
    return this.#nested(() => super.inlineTokens(text, tokens));
  }

  override blockTokens(text: string, tokens?: Token[], isClipped?: boolean): TokensList {
    return this.#nested(() => super.blockTokens(text, tokens, isClipped)) as TokensList;
  }
}

/** The maximum number of elements of one text. Each block is sanitized by itself, and each tag may nest. */
const MAX_ELEMENTS = 40_000;
const INLINE_TYPES = /^(?:text|strong|em|codespan|link|del|br|escape|image)$/;

/** Returns an estimate of the number of elements that the tokens make on the page. */
function countElements(tokens: Token[]): number {
  let parts = 20 * tokens.length;
  marked.walkTokens(tokens, ({ type, raw }) => {
    parts += type === "html" ? 10 * raw.split("<").length : INLINE_TYPES.test(type) ? 1 : 5;
  });
  return parts;
}

/**
 * Parses a text into blocks, without spaces and link definitions. Returns null for a text that would take the page too
 * long, or that the parser rejects.
 */
function parseWithinLimits(text: string): Token[] | null {
  try {
    const all = new BoundedLexer({ ...marked.defaults, breaks: true }).lex(text);
    const tokens = all.filter(({ type }) => type !== "space" && type !== "def");
    return countElements(tokens) > MAX_ELEMENTS ? null : tokens;
  } catch {
    return null;
  }
}

const Blocks = memo(function Blocks({ text }: { readonly text: string }): VNode {
  const tokens = useMemo(() => parseWithinLimits(text), [text]);
  if (!tokens) return <div class="plain">{text}</div>;
  return (
    <div class="markdown">
      {tokens.map((token, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no names and stay in order
        <Block key={index} raw={token.raw} token={token} />
      ))}
    </div>
  );
});

/** Renders Markdown. `name` is the file name for the download of a text that is too long to be shown whole. */
export function Markdown({ text, name = "text.md" }: { readonly text: string; readonly name?: string }): VNode {
  return (
    <TruncatedText text={text} name={name}>
      {(visibleText) => <Blocks text={visibleText} />}
    </TruncatedText>
  );
}
