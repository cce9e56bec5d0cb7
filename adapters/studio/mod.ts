/**
 * The studio: a page for developers and operators, which `createHandler` serves below `/studio`.
 * @module
 */
import type { Studio } from "../../lib/http/handler.ts";

export type { Studio } from "../../lib/http/handler.ts";

/**
 * The content security policy. The page connects to its own server only, and no inline script or style runs. Images must be data: a
 * message may name any address of this server, and loading it would be a request with the rights of the reader.
 */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src data: blob:",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
};

/** Returns the entry document. `root` is the relative path to the folder of the assets, so that it works under every prefix. */
const renderHtml = (root: string, script: string, style: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Greenroom Studio</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${root}${style}">
<script type="module" src="${root}${script}"></script>
</head>
<body><div id="app"></div><noscript>The studio needs JavaScript.</noscript></body>
</html>
`;

const isGzipAccepted = (request: Request): boolean => /\bgzip\b/.test(request.headers.get("accept-encoding") ?? "");

function decodeBase64(body: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(body), (char) => char.charCodeAt(0));
}

/**
 * Redirects with status 302 to the studio, without the query. The location is relative to the address of the request: the mount of
 * the handler, with or without its last slash, or `…/studio`.
 */
function redirectToStudio(request: Request): Response {
  const { pathname } = new URL(request.url);
  const last = pathname.split("/").at(-1) ?? "";
  const location = last === "studio" || last === "" ? "studio/" : `${last}/studio/`;
  return new Response("The studio is at /studio/\n", { status: 302, headers: { ...SECURITY_HEADERS, location } });
}

/**
 * Returns the studio page for `createHandler`.
 *
 * @example
 * ```ts
 * import { createHandler } from "greenroom/server";
 * import { studio } from "greenroom/studio";
 *
 * const handler = createHandler(service, { prefix: "/agents", studio: studio() });
 * ```
 */
export function studio(): Studio {
  const bytes = new Map<string, Uint8Array<ArrayBuffer>>();
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: the page and its files, each whole, unchanged or packed
  return async (request, path) => {
    const subPath = /^\/studio(\/.*)$/.exec(path)?.[1];
    if (subPath === undefined) return redirectToStudio(request);
    // Loaded with the first request: a program that never shows the page does not hold it in memory.
    const { assets, page } = await import("./assets.ts");
    const name = subPath.slice(1);
    const asset = Object.hasOwn(assets, name) ? assets[name] : undefined;
    if (!asset) {
      // An address of the page. A file that is gone belongs to an earlier build; files are in no folder.
      if (/^[^/]+\.(?:js|css|map)$/.test(name))
        return new Response("Not found", { status: 404, headers: SECURITY_HEADERS });
      const depth = subPath.split("/").length - 2;
      const etag = `"${page.etag}-${depth}"`;
      const headers = {
        ...SECURITY_HEADERS,
        "content-type": "text/html; charset=utf-8",
        "cache-control": "no-cache",
        etag,
      };
      if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
      return new Response(renderHtml("../".repeat(depth) || "./", page.script, page.style), { headers });
    }
    const packed = bytes.get(name) ?? decodeBase64(asset.body);
    bytes.set(name, packed);
    const etag = `"${name}"`;
    const headers: Record<string, string> = {
      ...SECURITY_HEADERS,
      "content-type": asset.type,
      "cache-control": "public, max-age=31536000, immutable",
      vary: "accept-encoding",
      etag,
    };
    if (request.headers.get("if-none-match") === etag) return new Response(null, { status: 304, headers });
    if (isGzipAccepted(request)) return new Response(packed, { headers: { ...headers, "content-encoding": "gzip" } });
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")), { headers });
  };
}
