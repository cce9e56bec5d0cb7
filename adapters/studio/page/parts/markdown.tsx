/** Markdown of models: sanitized, with code that can be copied. Blocks that do not change while tokens stream are not rendered again. */
import DOMPurify from "dompurify";
import { marked, type Token } from "marked";
import type { VNode } from "preact";
import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { copy } from "./basics.tsx";

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

export const sanitized = (html: string): string => DOMPurify.sanitize(html, ALLOWED);

// The sanitizer lets no form elements pass.
marked.use({ renderer: { checkbox: ({ checked }) => (checked ? "☑ " : "☐ ") } });

interface BlockProps {
  readonly raw: string;
  readonly token: Token;
}

function Html({ raw, token }: BlockProps): VNode {
  const html = useMemo(() => sanitized(marked.parser([token])), [raw]);
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

/** The parser takes seconds for some lines of this length. */
const LONG_LINE = /[^\n]{10000}/;

/** Null for text that nests too deep for the parser, or has a line that is too long for it. */
function tokensOf(text: string): Token[] | null {
  if (LONG_LINE.test(text)) return null;
  try {
    return marked.lexer(text, { gfm: true, breaks: true });
  } catch {
    return null;
  }
}

export const Markdown = memo(function Markdown({ text }: { readonly text: string }): VNode {
  const tokens = useMemo(() => tokensOf(text), [text]);
  if (!tokens) return <div class="plain">{text}</div>;
  return (
    <div class="markdown">
      {tokens
        .filter(({ type }) => type !== "space")
        .map((token, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no names and stay in order
          <Block key={index} raw={token.raw} token={token} />
        ))}
    </div>
  );
});
