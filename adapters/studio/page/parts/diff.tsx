/** Shows the changes between two JSON values, path by path. */
import type { VNode } from "preact";

export interface Change {
  readonly path: string;
  readonly before?: unknown;
  readonly after?: unknown;
}

const isBranch = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;

/** Returns the changed paths in order, with whole members where one side lacks them. */
function findChanges(before: unknown, after: unknown, path = ""): Change[] {
  if (Object.is(before, after)) return [];
  if (!isBranch(before) || !isBranch(after) || Array.isArray(before) !== Array.isArray(after)) {
    return [{ path: path || "(all)", before, after }];
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names.flatMap((name) => {
    const inner = path === "" ? name : Array.isArray(after) ? `${path}[${name}]` : `${path}.${name}`;
    if (!Object.hasOwn(before, name)) return [{ path: inner, after: after[name] }];
    if (!Object.hasOwn(after, name)) return [{ path: inner, before: before[name] }];
    return findChanges(before[name], after[name], inner);
  });
}

const MAX_SHOWN_CHANGES = 200;
/** Returns the text of one side of a change, cut after 4,000 characters. */
const formatSide = (value: unknown): string => {
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  return text.length > 4000 ? `${text.slice(0, 4000)}… (${text.length.toLocaleString()} characters)` : text;
};

/** Shows the members that differ between two values, up to a limit, or that nothing changed. */
export function Diff({ before, after }: { readonly before: unknown; readonly after: unknown }): VNode {
  const changes = findChanges(before, after);
  if (changes.length === 0) return <p class="faint">Nothing changed.</p>;
  return (
    <div class="diff">
      {changes.slice(0, MAX_SHOWN_CHANGES).map((change) => (
        <div key={change.path} class="change">
          <code class="path">{change.path}</code>
          {"before" in change ? (
            <pre class="removed">
              <span class="mark">− </span>
              {formatSide(change.before)}
            </pre>
          ) : null}
          {"after" in change ? (
            <pre class="added">
              <span class="mark">+ </span>
              {formatSide(change.after)}
            </pre>
          ) : null}
        </div>
      ))}
      {changes.length > MAX_SHOWN_CHANGES ? (
        <p class="faint">{changes.length - MAX_SHOWN_CHANGES} more changes</p>
      ) : null}
    </div>
  );
}
