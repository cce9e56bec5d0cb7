/** Chooses an assistant, or any. */
import type { VNode } from "preact";
import { formatAssistantName, useAssistants } from "../store/assistants.ts";

interface AssistantSelectProps {
  readonly id?: string;
  readonly value: string;
  readonly change: (assistant_id: string) => void;
  /** Offers to choose none. */
  readonly any?: boolean;
}

/**
 * Shows a select with the assistants by name. `change` gets the id of the chosen one, or an empty text for "any
 * assistant", which is offered if `any` is set.
 */
export function AssistantSelect({ id, value, change, any = false }: AssistantSelectProps): VNode {
  const { data = [] } = useAssistants();
  return (
    <select
      id={id}
      aria-label={id ? undefined : "Assistant"}
      value={value}
      onChange={(event) => change(event.currentTarget.value)}
    >
      {any ? <option value="">any assistant</option> : null}
      {data.map(({ assistant_id }) => (
        <option key={assistant_id} value={assistant_id}>
          {formatAssistantName(data, assistant_id)}
        </option>
      ))}
    </select>
  );
}
