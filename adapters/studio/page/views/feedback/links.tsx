/** Feedback links: create, copy, revoke. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { call } from "../../api/client.ts";
import type { FeedbackLink } from "../../api/types.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { toHref } from "../../frame/router.ts";
import { copy, Empty, Ready, shortId, TableBox, Time } from "../../parts/components.tsx";
import { usePages } from "../../store/pages.ts";
import { refresh } from "../../store/resource.ts";

/** Shows the form of a feedback link: a run id and a feedback key. It creates the link and copies its address. */
function NewLink(): VNode {
  const [run_id, setRun] = useState("");
  const [feedback_key, setKey] = useState("user_score");
  /**
   * Creates a link, reads the feedback again, and copies the address of the link if the caller may see it. A failure shows a
   * notice.
   */
  const create = (): void =>
    attempt("Create", async () => {
      const link = await call<FeedbackLink>("POST", "/api/v1/feedback/tokens", {
        body: { run_id: run_id.trim(), feedback_key: feedback_key.trim() },
      });
      void refresh("feedback/");
      if (link.url) await copy(link.url, "Link created and copied");
      else notify("Link created");
    });
  return (
    <form
      class="buttons"
      onSubmit={(event) => {
        event.preventDefault();
        create();
      }}
    >
      <input
        aria-label="Run id"
        placeholder="run id"
        class="mono"
        value={run_id}
        onInput={(event) => setRun(event.currentTarget.value)}
      />
      <input
        aria-label="Feedback key"
        placeholder="key"
        value={feedback_key}
        onInput={(event) => setKey(event.currentTarget.value)}
      />
      <button type="submit" disabled={!run_id.trim() || !feedback_key.trim()}>
        Create a link
      </button>
    </form>
  );
}

/**
 * Shows the form of a new feedback link, and below it the links, with buttons to copy one and to revoke it; a text without links.
 */
export function Links(): VNode {
  const links = usePages<FeedbackLink>({ path: "feedback/links", getId: ({ id }) => id });
  /** Deletes a link, which works no longer, shows a notice and reads the links again. A failure shows a notice. */
  const revoke = (id: string): void =>
    attempt("Revoke", async () => {
      await call("DELETE", `/greenroom/feedback/links/${encodeURIComponent(id)}`);
      notify("The link no longer works");
      await refresh("feedback/links");
    });
  return (
    <>
      <NewLink />
      <Ready of={links}>
        {() =>
          links.items.length === 0 ? (
            <Empty title="No links" />
          ) : (
            <TableBox label="Links">
              <table>
                <thead>
                  <tr>
                    <th>key</th>
                    <th>run</th>
                    <th class="number">submitted</th>
                    <th class="minor">created</th>
                    <th>expires</th>
                    <th>
                      <span class="hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {links.items.map((link) => (
                    <tr key={link.id}>
                      <td>{link.feedback_key}</td>
                      <td>
                        <a href={toHref(["runs", link.run_id])}>{shortId(link.run_id)}</a>
                      </td>
                      <td class="number">{link.submissions}</td>
                      <td class="minor">
                        <Time at={link.created_at} />
                      </td>
                      <td>{link.expires_at ? <Time at={link.expires_at} /> : "never"}</td>
                      <td>
                        {link.url ? (
                          <button type="button" class="quiet" onClick={() => void copy(link.url, "Copied link")}>
                            Copy
                          </button>
                        ) : null}
                        <button type="button" class="quiet danger" onClick={() => revoke(link.id)}>
                          Revoke
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {links.loadMore ? (
                <button type="button" onClick={links.loadMore}>
                  More
                </button>
              ) : null}
            </TableBox>
          )
        }
      </Ready>
    </>
  );
}
