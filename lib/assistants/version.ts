/** Reads a version of an assistant that is not the active one. Loaded with the first run that names one. */
import { ServiceError } from "../errors.ts";
import type { AssistantRow, Scope, Storage } from "../storage/mod.ts";

/** A version of an assistant, and its active row. `id` is the UUID or graph id of the request. */
interface VersionChoice {
  readonly id: string;
  readonly active: AssistantRow;
  readonly version: number;
}

/**
 * Returns the row with the content of a version and with its number. It keeps the revision of the active row, which a write
 * compares: versions never change. Throws `not_found` for an unknown version, and for one that the scope excludes.
 */
export async function readVersion(
  storage: Storage,
  scope: Scope,
  { id, active, version }: VersionChoice,
): Promise<AssistantRow> {
  const stored = await storage.getAssistantVersion(scope, active.assistant_id, version);
  if (!stored) throw new ServiceError("not_found", `Assistant ${id} has no version ${version}`);
  return { ...active, ...stored, created_at: active.created_at };
}
