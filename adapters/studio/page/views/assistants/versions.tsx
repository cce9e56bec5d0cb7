/** The versions of an assistant and what changed between any two. */
import type { Assistant } from "@langchain/langgraph-sdk";
import type { VNode } from "preact";
import { client } from "../../api/client.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { pageAddress, setQuery } from "../../frame/router.ts";
import { Ready, TableBox, Time } from "../../parts/components.tsx";
import { Diff } from "../../parts/diff.tsx";
import { refresh, useResource } from "../../store/resource.ts";

type Version = Assistant & { readonly version: number; readonly description?: string };

const toComparedFields = ({ name, description, config, context, metadata, graph_id }: Version): object => ({
  ...{ name, description, graph_id, config, context, metadata },
});

const getCreator = (assistant: Version | undefined): unknown =>
  (assistant?.metadata as Record<string, unknown>)?.["created_by"];

/**
 * Returns the creator in the metadata of a version; an empty text if unknown. Also if the version before has the same
 * creator, because a version inherits metadata.
 */
function findAuthor(assistant: Version, all: readonly Version[]): string {
  const creator = getCreator(assistant);
  const isOwn =
    assistant.version === 1 || creator !== getCreator(all.find(({ version }) => version === assistant.version - 1));
  return isOwn && typeof creator === "string" ? creator : "";
}

/** Shows the versions of an assistant and the differences between two of them; another version can be made active. */
export function VersionsTab({ assistant }: { readonly assistant: Version }): VNode {
  const { assistant_id, version: latest } = assistant;
  const versions = useResource<Version[]>(
    `assistants/versions/${assistant_id}/${latest}`,
    () => client.assistants.getVersions(assistant_id, { limit: 100 }) as unknown as Promise<Version[]>,
  );
  const { query } = pageAddress.value;
  /** Makes a version active, shows a notice and reads the assistants again. */
  const setLatest = (version: number): void =>
    attempt("Set latest", async () => {
      await client.assistants.setLatest(assistant_id, version);
      notify(`Version ${version} is active`);
      await refresh("assistants/");
    });
  return (
    <Ready of={versions}>
      {(loaded) => {
        const to = Number(query.get("to") ?? loaded[0]?.version ?? 1);
        const from = Number(query.get("from") ?? loaded.find(({ version }) => version < to)?.version ?? to);
        const findVersion = (version: number): Version | undefined =>
          loaded.find((candidate) => candidate.version === version);
        const [before, after] = [findVersion(from), findVersion(to)];
        return (
          <>
            <TableBox label="Versions">
              <table>
                <thead>
                  <tr>
                    <th class="number">version</th>
                    <th>created</th>
                    <th>by</th>
                    <th>name</th>
                    <th>
                      <span class="hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {loaded.map((row) => (
                    <tr key={row.version}>
                      <td class="number">{row.version}</td>
                      <td>
                        <Time at={row.created_at} />
                      </td>
                      <td>{findAuthor(row, loaded)}</td>
                      <td>{row.name}</td>
                      <td>
                        {row.version === latest ? (
                          <span class="status success">✓ active</span>
                        ) : (
                          <button type="button" onClick={() => setLatest(row.version)}>
                            Set latest
                          </button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </TableBox>
            <div class="buttons">
              <label>
                From{" "}
                <select value={from} onChange={(event) => setQuery({ from: event.currentTarget.value })}>
                  {loaded.map(({ version }) => (
                    <option key={version}>{version}</option>
                  ))}
                </select>
              </label>
              <label>
                to{" "}
                <select value={to} onChange={(event) => setQuery({ to: event.currentTarget.value })}>
                  {loaded.map(({ version }) => (
                    <option key={version}>{version}</option>
                  ))}
                </select>
              </label>
            </div>
            {before && after ? <Diff before={toComparedFields(before)} after={toComparedFields(after)} /> : null}
          </>
        );
      }}
    </Ready>
  );
}
