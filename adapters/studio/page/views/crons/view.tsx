/** Crons: schedules, their next and last times, pause and run now. */
import type { VNode } from "preact";
import { call } from "../../api/client.ts";
import type { Cron, CronDetail } from "../../api/types.ts";
import { attempt, deletedIds, notify, removeWithUndo } from "../../frame/notices.tsx";
import { go, pageAddress, toHref } from "../../frame/router.ts";
import { AssistantSelect } from "../../parts/assistant-select.tsx";
import {
  Empty,
  Facts,
  formatTime,
  Id,
  Problem,
  Ready,
  Skeleton,
  Status,
  shortId,
  TableBox,
  Time,
} from "../../parts/components.tsx";
import { Discard, Editor, type Schema } from "../../parts/form.tsx";
import { Json } from "../../parts/json.tsx";
import { List } from "../../parts/list.tsx";
import { DetailHead, Head, Panes } from "../../parts/panes.tsx";
import { formatAssistantName, useAssistants, useSchemas } from "../../store/assistants.ts";
import { DraftScope, discardDrafts, readDraft, saveDraft } from "../../store/drafts.ts";
import { refresh, useResource } from "../../store/resource.ts";
import { createExampleInput } from "../chat/composer.tsx";
import { describeSchedule } from "./schedule.ts";

/** Returns up to 1,000 crons, read every five seconds while they are shown. */
const useCrons = () =>
  useResource<Cron[]>(
    "crons/list",
    (signal) => call("POST", "/runs/crons/search", { body: { limit: 1000 }, signal }),
    5000,
  );

/** Shows a schedule in words and its next three times, or what is wrong with it; nothing for an empty one. */
function Preview({ schedule, timezone }: { readonly schedule: string; readonly timezone: string }): VNode | null {
  const preview = useResource<{ readonly next: readonly string[] }>(
    schedule.trim() ? `cron-preview/${schedule}/${timezone}` : null,
    (signal) => call("GET", "/greenroom/crons/preview", { query: { schedule, timezone }, signal }),
  );
  if (!schedule.trim()) return null;
  if (preview.error) return <p class="field-problem">{(preview.error as Error).message}</p>;
  return (
    <p class="faint">
      {describeSchedule(schedule)}. Next:{" "}
      {preview.data?.next
        .slice(0, 3)
        .map((time) => formatTimeInZone(time, timezone))
        .join(" · ") ?? "…"}
    </p>
  );
}

/**
 * Formats a time in the time zone of a cron (UTC without one), with the name of the zone; in the zone of the browser if
 * that does not know it.
 */
function formatTimeInZone(time: string, timezone: string | null | undefined): string {
  const parts = { weekday: "short", day: "numeric", month: "short", year: "numeric" } as const;
  const options = { ...parts, hour: "numeric", minute: "2-digit", timeZoneName: "short" } as const;
  try {
    return new Date(time).toLocaleString(undefined, { ...options, timeZone: timezone || "UTC" });
  } catch {
    // The browser does not know this zone.
    return formatTime(time);
  }
}

/** Returns the time zones that the browser supports. */
const listZones = (): readonly string[] => Intl.supportedValuesOf?.("timeZone") ?? [];

interface CronDraft {
  readonly assistant?: string;
  readonly schedule: string;
  readonly timezone: string;
  readonly input?: unknown;
}

const NEW_CRON_DRAFT = "new cron";

/**
 * Shows the form of a new cron. What is typed is a draft; the input is an example at first, also after a change of the assistant.
 * Creating opens the cron.
 */
function NewCron(): VNode {
  const assistants = useAssistants();
  const typed = readDraft<CronDraft>(NEW_CRON_DRAFT, {
    schedule: "0 8 * * 1-5",
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
  });
  const set = (change: Partial<CronDraft>): void => saveDraft(NEW_CRON_DRAFT, { ...typed, ...change });
  const { assistant, schedule, timezone, input } = typed;
  const assistant_id = assistant ?? assistants.data?.[0]?.assistant_id ?? null;
  const schemas = useSchemas(assistant_id);
  const schema = (schemas.data?.input_schema ?? null) as Schema | null;
  const initialInput = createExampleInput(schema);
  /** Creates the cron, discards the draft and opens the cron. */
  const create = (): void =>
    attempt("Create", async () => {
      const created = await call<Cron>("POST", "/runs/crons", {
        body: { assistant_id, schedule, timezone, input: input === undefined ? initialInput : input },
      });
      discardDrafts(NEW_CRON_DRAFT);
      notify("Cron created");
      void refresh("crons/");
      go(toHref(["crons", created.cron_id]));
    });
  return (
    <>
      <DetailHead title="New cron" />
      <form
        class="scroll form"
        onSubmit={(event) => {
          event.preventDefault();
          create();
        }}
      >
        <div class="field">
          <label for="cron-assistant">Assistant</label>
          <AssistantSelect
            id="cron-assistant"
            value={assistant_id ?? ""}
            change={(chosen) => set({ assistant: chosen, input: undefined })}
          />
        </div>
        <div class="field">
          <label for="schedule">Schedule</label>
          <input
            id="schedule"
            class="mono"
            value={schedule}
            onInput={(event) => set({ schedule: event.currentTarget.value })}
          />
          <Preview schedule={schedule} timezone={timezone} />
        </div>
        <div class="field">
          <label for="timezone">Time zone</label>
          <input
            id="timezone"
            list="zones"
            value={timezone}
            onInput={(event) => set({ timezone: event.currentTarget.value })}
          />
          <datalist id="zones">
            {listZones().map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </div>
        <h3>Input</h3>
        {schemas.data || schemas.error ? (
          <DraftScope.Provider value={`${NEW_CRON_DRAFT} ${assistant_id}`}>
            <Editor
              key={assistant_id}
              schema={schema}
              label="Input"
              value={input ?? initialInput}
              change={(value) => set({ input: value })}
            />
          </DraftScope.Provider>
        ) : (
          <Skeleton rows={2} />
        )}
        <div class="buttons">
          <button type="submit" class="primary" disabled={!assistant_id}>
            Create
          </button>
          <Discard draftKey={NEW_CRON_DRAFT} />
        </div>
      </form>
    </>
  );
}

interface FiringsProps {
  readonly cron: CronDetail;
  readonly timezone: string | null | undefined;
}

/**
 * Shows the past firings of a cron in a table: the scheduled time, the reason of a skip or the status of the run, and a
 * link to the run. Shows a text if it has not fired yet.
 */
function Firings({ cron, timezone }: FiringsProps): VNode {
  if (cron.firings.length === 0) return <p class="faint">It has not fired yet.</p>;
  return (
    <TableBox label="Last times">
      <table>
        <thead>
          <tr>
            <th>scheduled</th>
            <th>result</th>
            <th>run</th>
          </tr>
        </thead>
        <tbody>
          {cron.firings.map((firing) => (
            <tr key={`${firing.scheduled_at}${firing.fired_at}`}>
              <td>
                {formatTimeInZone(firing.scheduled_at, timezone)}{" "}
                {firing.manual ? <span class="faint">by hand</span> : null}
              </td>
              <td>
                {firing.skipped ? (
                  <span class="status paused">skipped: {firing.skipped.replaceAll("_", " ")}</span>
                ) : firing.run_status ? (
                  <Status value={firing.run_status} />
                ) : (
                  <span class="faint">deleted</span>
                )}
              </td>
              <td>
                {firing.run_id && firing.run_status ? (
                  <a href={toHref(["runs", firing.run_id])}>{shortId(firing.run_id)}</a>
                ) : (
                  "–"
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableBox>
  );
}

/** Shows a cron, read every five seconds, with its next and last times. It can be run, paused and deleted. */
function CronPane({ cron_id, row }: { readonly cron_id: string; readonly row: Cron | undefined }): VNode {
  const assistants = useAssistants();
  const detail = useResource<CronDetail>(
    `crons/one/${cron_id}`,
    (signal) => call("GET", `/greenroom/crons/${encodeURIComponent(cron_id)}`, { signal }),
    5000,
  );
  const path = `/runs/crons/${encodeURIComponent(cron_id)}`;
  /** Pauses or resumes the cron and reads the crons again. */
  const pause = (enabled: boolean): void =>
    attempt(enabled ? "Resume" : "Pause", async () => {
      await call("PATCH", path, { body: { enabled } });
      notify(enabled ? "Resumed" : "Paused");
      await refresh("crons/");
    });
  /** Starts a run of the cron now, shows a notice, reads the crons again and opens the run. A failure shows a notice. */
  const runNow = (): void =>
    attempt("Run now", async () => {
      const run = await call<{ readonly run_id: string }>(
        "POST",
        `/greenroom/crons/${encodeURIComponent(cron_id)}/run`,
      );
      notify("Started");
      void refresh("crons/");
      go(toHref(["runs", run.run_id]));
    });
  /** Leaves the cron, hides it and deletes it after 5 s, unless that is undone, which opens it again. */
  const remove = (): void => {
    go(toHref(["crons"]));
    removeWithUndo(
      "Cron deleted",
      cron_id,
      async () => {
        await call("DELETE", path);
        await refresh("crons/");
      },
      () => go(toHref(["crons", cron_id])),
    );
  };
  return (
    <>
      <DetailHead title={row ? describeSchedule(row.schedule) : "Cron"}>
        <Id value={cron_id} label="cron id" />
      </DetailHead>
      <div class="scroll form">
        <Ready of={detail}>
          {(cron) => (
            <>
              <div class="buttons">
                <button type="button" class="primary" onClick={runNow}>
                  Run now
                </button>
                <button type="button" onClick={() => pause(!cron.enabled)}>
                  {cron.enabled ? "Pause" : "Resume"}
                </button>
                <a class="button" href={toHref(["runs"], { cron: cron_id })}>
                  Runs
                </a>
                <button type="button" class="danger" onClick={remove}>
                  Delete
                </button>
              </div>
              {cron.disabled_reason ? <Problem error={`Paused by the server: ${cron.disabled_reason}`} /> : null}
              <Facts
                items={[
                  ["schedule", <code>{row?.schedule}</code>],
                  ["time zone", row?.timezone ?? "UTC"],
                  ["assistant", formatAssistantName(assistants.data, row?.assistant_id ?? null)],
                  [
                    "thread",
                    row?.thread_id ? (
                      <a href={toHref(["threads", row.thread_id])}>{shortId(row.thread_id)}</a>
                    ) : (
                      "a new one each time"
                    ),
                  ],
                  ["state", <Status value={cron.enabled ? "active" : "paused"} />],
                  ["failures in a row", String(cron.failures)],
                  ["ends", row?.end_time ? formatTime(row.end_time) : "never"],
                ]}
              />
              <h3>Next times{cron.enabled ? "" : ", if it were resumed"}</h3>
              <ol class="plain-list">
                {cron.next.map((time) => (
                  <li key={time}>
                    {formatTimeInZone(time, row?.timezone)}{" "}
                    <span class="faint">
                      <Time at={time} />
                    </span>
                  </li>
                ))}
              </ol>
              <h3>Last times</h3>
              <Firings cron={cron} timezone={row?.timezone} />
              <h3>Input</h3>
              <Json value={row?.payload ?? {}} name={`cron-${cron_id}`} />
            </>
          )}
        </Ready>
      </div>
    </>
  );
}

/**
 * Shows the crons, read every five seconds, and beside them the cron that the address names, or the form of a new one.
 */
export default function Crons(): VNode {
  const crons = useCrons();
  const assistants = useAssistants();
  const [cron_id] = pageAddress.value.ids;
  return (
    <Panes
      name="crons"
      list={
        <>
          <Head title="Crons">
            <a class="button primary" href={toHref(["crons", "new"])}>
              New
            </a>
          </Head>
          <Ready of={crons}>
            {(all) => {
              const loaded = all.filter((cron) => !deletedIds.value.has(cron.cron_id));
              return loaded.length === 0 ? (
                <Empty title="No crons yet">
                  <p class="faint">A cron starts runs by a schedule.</p>
                </Empty>
              ) : (
                <List
                  label="Crons"
                  items={loaded}
                  rowHeight={56}
                  getKey={(cron) => cron.cron_id}
                  toHref={(cron) => toHref(["crons", cron.cron_id])}
                  current={cron_id}
                  row={(cron) => (
                    <>
                      <Status value={cron.enabled ? "active" : "paused"} short />
                      <span class="text">
                        <span>{describeSchedule(cron.schedule)}</span>
                        <span class="faint">
                          {formatAssistantName(assistants.data, cron.assistant_id)} · {cron.timezone ?? "UTC"}
                        </span>
                      </span>
                      {cron.enabled ? <Time at={cron.next_run_date} /> : <span class="faint">paused</span>}
                    </>
                  )}
                />
              );
            }}
          </Ready>
        </>
      }
      detail={
        cron_id === undefined ? null : cron_id === "new" ? (
          <NewCron />
        ) : (
          <CronPane key={cron_id} cron_id={cron_id} row={crons.data?.find((cron) => cron.cron_id === cron_id)} />
        )
      }
      hint={<Empty title="Choose a cron" />}
    />
  );
}
