/** Webhooks: deliveries, their attempts and answers, and sending again. */
import type { VNode } from "preact";
import { call } from "../../api/client.ts";
import type { DeliveryDetail, DeliverySummary } from "../../api/types.ts";
import { attempt, notify } from "../../frame/notices.tsx";
import { hrefOf, listHref, place, setQuery } from "../../frame/router.ts";
import { duration, Empty, exact, Facts, Ready, Status, Time } from "../../parts/basics.tsx";
import { List } from "../../parts/list.tsx";
import { DetailHead, Head, Panes } from "../../parts/panes.tsx";
import { usePages } from "../../store/pages.ts";
import { refresh, useResource } from "../../store/resource.ts";

const STATES = ["", "pending", "delivered", "failed"] as const;

function Attempts({ delivery }: { readonly delivery: DeliveryDetail }): VNode {
  if (delivery.attempt_list.length === 0) return <p class="faint">Not tried yet.</p>;
  return (
    <ol class="attempts">
      {delivery.attempt_list.map((one) => (
        <li key={one.number}>
          <p>
            <strong>{one.number}.</strong>{" "}
            <span class={`status ${one.status !== null && one.status < 300 ? "success" : "failed"}`}>
              {one.status ?? one.error}
            </span>{" "}
            {exact(one.at)} · {duration(one.duration_ms)} <span class="faint">{one.address}</span>
          </p>
          {one.error && one.status !== null ? <p class="faint">{one.error.replaceAll("_", " ")}</p> : null}
          {one.answer ? <pre class="answer">{one.answer}</pre> : null}
        </li>
      ))}
    </ol>
  );
}

function DeliveryPane({ id }: { readonly id: string }): VNode {
  const delivery = useResource<DeliveryDetail>(
    `webhooks/one/${id}`,
    (signal) => call("GET", `/greenroom/webhooks/${encodeURIComponent(id)}`, { signal }),
    3000,
  );
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
                <a class="button" href={hrefOf(["runs", loaded.run_id])}>
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

export default function Webhooks(): VNode {
  const { ids, query } = place.value;
  const [id] = ids;
  const state = query.get("state") ?? "";
  const deliveries = usePages<DeliverySummary>({
    ...{ path: "webhooks", query: { state }, every: 4000 },
    idOf: (one) => one.delivery_id,
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
              {STATES.map((one) => (
                <option key={one} value={one}>
                  {one || "any state"}
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
                  keyOf={(one) => one.delivery_id}
                  hrefOf={(one) => listHref(["webhooks", one.delivery_id])}
                  current={id}
                  more={deliveries.more}
                  row={(one) => (
                    <>
                      <Status value={one.state} short />
                      <span class="text">
                        <span>{one.host}</span>
                        <span class="faint">
                          {one.attempts} {one.attempts === 1 ? "attempt" : "attempts"} · run {one.run_status}
                        </span>
                      </span>
                      <Time at={one.created_at} />
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
