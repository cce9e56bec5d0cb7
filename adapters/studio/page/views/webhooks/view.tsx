/** Webhooks: deliveries, their attempts and answers, and sending again. */
import type { VNode } from "preact";
import { call } from "../../api/client.ts";
import type { DeliveryDetail, DeliverySummary } from "../../api/types.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { pageAddress, setQuery, toHref, toListHref } from "../../frame/router.ts";
import { Empty, Facts, formatDuration, formatTime, Ready, Status, Time } from "../../parts/components.tsx";
import { List } from "../../parts/list.tsx";
import { DetailHead, Head, Panes } from "../../parts/panes.tsx";
import { usePages } from "../../store/pages.ts";
import { refresh, useResource } from "../../store/resource.ts";

const STATES = ["", "pending", "delivered", "failed"] as const;

/**
 * Shows each attempt of a delivery with its status or error, time, duration, address and the beginning of the response,
 * or that there was none yet.
 */
function Attempts({ delivery }: { readonly delivery: DeliveryDetail }): VNode {
  if (delivery.attempt_list.length === 0) return <p class="faint">Not tried yet.</p>;
  return (
    <ol class="attempts">
      {delivery.attempt_list.map((attempt) => (
        <li key={attempt.number}>
          <p>
            <strong>{attempt.number}.</strong>{" "}
            <span class={`status ${attempt.status !== null && attempt.status < 300 ? "success" : "failed"}`}>
              {attempt.status ?? attempt.error}
            </span>{" "}
            {formatTime(attempt.at)} · {formatDuration(attempt.duration_ms)}{" "}
            <span class="faint">{attempt.address}</span>
          </p>
          {attempt.error && attempt.status !== null ? <p class="faint">{attempt.error.replaceAll("_", " ")}</p> : null}
          {attempt.answer ? <pre class="answer">{attempt.answer}</pre> : null}
        </li>
      ))}
    </ol>
  );
}

/** Shows a delivery with its attempts, read every three seconds. It can be sent again. */
function DeliveryPane({ id }: { readonly id: string }): VNode {
  const delivery = useResource<DeliveryDetail>(
    `webhooks/one/${id}`,
    (signal) => call("GET", `/greenroom/webhooks/${encodeURIComponent(id)}`, { signal }),
    3000,
  );
  /** Makes the delivery due now and reads the deliveries again. */
  const send = (): void =>
    attempt("Send again", async () => {
      await call("POST", `/greenroom/webhooks/${encodeURIComponent(id)}/send`);
      notify("Sent again");
      await refresh("webhooks/");
    });
  return (
    <>
      <DetailHead title={delivery.data?.host ?? "Webhook"}>
        {delivery.data ? <Status value={delivery.data.state} /> : null}
      </DetailHead>
      <div class="scroll form">
        <Ready of={delivery}>
          {(loaded) => (
            <>
              <div class="buttons">
                <button type="button" class="primary" onClick={send}>
                  Send again
                </button>
                <a class="button" href={toHref(["runs", loaded.run_id])}>
                  Run
                </a>
              </div>
              <Facts
                items={[
                  ["URL", <code>{loaded.url}</code>],
                  ["run", <Status value={loaded.run_status} />],
                  ["attempts", String(loaded.attempts)],
                  ["created", <Time at={loaded.created_at} />],
                  ["next try", <Time at={loaded.next_attempt_at} />],
                ]}
              />
              <h3>Attempts</h3>
              <Attempts delivery={loaded} />
            </>
          )}
        </Ready>
      </div>
    </>
  );
}

/**
 * Shows the webhook deliveries of the chosen state, read every four seconds, and beside them the delivery that the
 * address names.
 */
export default function Webhooks(): VNode {
  const { ids, query } = pageAddress.value;
  const [id] = ids;
  const state = query.get("state") ?? "";
  const deliveries = usePages<DeliverySummary>({
    ...{ path: "webhooks", query: { state }, pollIntervalMs: 4000 },
    getId: (delivery) => delivery.delivery_id,
  });
  return (
    <Panes
      name="webhooks"
      list={
        <>
          <Head title="Webhooks" />
          <div class="filters">
            <select
              aria-label="State"
              value={state}
              onChange={(event) => setQuery({ state: event.currentTarget.value })}
            >
              {STATES.map((choice) => (
                <option key={choice} value={choice}>
                  {choice || "any state"}
                </option>
              ))}
            </select>
          </div>
          <Ready of={deliveries}>
            {() =>
              deliveries.items.length === 0 ? (
                <Empty title={state ? "No delivery matches" : "No deliveries yet"}>
                  <p class="faint">A run with a webhook makes one when it ends.</p>
                </Empty>
              ) : (
                <List
                  label="Deliveries"
                  items={deliveries.items}
                  rowHeight={56}
                  getKey={(delivery) => delivery.delivery_id}
                  toHref={(delivery) => toListHref(["webhooks", delivery.delivery_id])}
                  current={id}
                  loadMore={deliveries.loadMore}
                  row={(delivery) => (
                    <>
                      <Status value={delivery.state} short />
                      <span class="text">
                        <span>{delivery.host}</span>
                        <span class="faint">
                          {delivery.attempts} {delivery.attempts === 1 ? "attempt" : "attempts"} · run{" "}
                          {delivery.run_status}
                        </span>
                      </span>
                      <Time at={delivery.created_at} />
                    </>
                  )}
                />
              )
            }
          </Ready>
        </>
      }
      detail={id === undefined ? null : <DeliveryPane key={id} id={id} />}
      hint={<Empty title="Choose a delivery" />}
    />
  );
}
