/** Writes parts of the page as HTML, and names the parts of an OpenAPI document that it shows. */

export type DocumentSchema = Readonly<Record<string, unknown>>;

/** The content of a body by media type. */
export type Contents = Readonly<
  Record<
    string,
    {
      readonly schema: DocumentSchema;
      readonly example?: unknown;
      readonly examples?: Readonly<Record<string, unknown>>;
    }
  >
>;

/** A response, or a reference to one. */
export interface ResponseObject {
  readonly $ref?: string;
  readonly description: string;
  readonly content?: Contents;
}

export interface OperationParameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly example?: unknown;
  readonly schema: DocumentSchema;
}

/** The call of an SDK. */
export interface CodeSample {
  readonly label: string;
  readonly source: string;
}

/** An operation, with its method and path. */
export interface DocumentOperation {
  readonly method: string;
  readonly path: string;
  readonly operationId?: string;
  readonly tags?: readonly string[];
  readonly summary?: string;
  readonly description?: string;
  readonly parameters?: readonly OperationParameter[];
  readonly requestBody?: { readonly required?: boolean; readonly content: Contents };
  readonly responses: Readonly<Record<string, ResponseObject>>;
  readonly "x-codeSamples"?: readonly CodeSample[];
}

/** Returns a text as HTML, for the content of elements. In an attribute it could end the value. */
export const escapeText = (text: unknown): string => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
/** Returns a text as the value of an attribute in double quotes. */
export const escapeAttribute = (text: unknown): string =>
  escapeText(text).replaceAll(">", "&gt;").replaceAll('"', "&quot;");
/** Returns HTML in which backquotes became code. */
export const renderProse = (text = ""): string => escapeText(text).replace(/`([^`]+)`/g, "<code>$1</code>");
/** Returns the id of the element of an operation. */
export const toElementId = ({ method, path }: Pick<DocumentOperation, "method" | "path">): string =>
  `${method}${path}`.replace(/[^A-Za-z0-9]+/g, "-").replace(/-$/, "");
export const renderMethod = (method: string): string =>
  `<span class="method ${escapeAttribute(method)}">${escapeText(method.toUpperCase())}</span>`;
/** Returns a text that scrolls, and that people reach by the keyboard. */
export const renderCode = (text: string, label: string, role = ""): string =>
  `<pre tabindex="0" role="region" aria-label="${escapeAttribute(label)}"${role === "" ? "" : ` data-role="${role}"`}>${escapeText(text)}</pre>`;
/** Returns HTML without its links, for an element that opens by a click. */
export const withoutLinks = (html: string): string => html.replace(/<\/?a\b[^>]*>/g, "");
