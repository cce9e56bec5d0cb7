/** Finds or creates the row of the deployment, in its workspace and project. */
import type { Environment } from "../environment.ts";
import { ConfigError } from "../errors.ts";
import type { ServiceOptions } from "../options.ts";
import type { DeploymentRow, IdentityStore } from "../storage/identity.ts";

/** Throws a ConfigError if the workspace, the project or the owner does not exist. */
export async function placeDeployment(
  identity: IdentityStore,
  options: ServiceOptions,
  environment: Environment,
): Promise<DeploymentRow> {
  const { name = "default", project, workspace } = options.deployment ?? {};
  const { mode, owner, shared } = options.auth ?? {};
  await identity.ensureDefaults(environment.now());
  const user = mode === "agent_builder" && owner !== undefined ? await identity.getUser(owner) : null;
  if (mode === "agent_builder" && !user) {
    throw new ConfigError([`auth.owner: there is no user ${owner}; make one with greenroom users create`]);
  }
  const outcome = await identity.placeDeployment(
    {
      name,
      ...(project === undefined ? {} : { project }),
      ...(workspace === undefined ? {} : { workspace }),
      ...(user ? { owner_user_id: user.id } : {}),
      ...(shared === undefined ? {} : { shared }),
    },
    environment.now(),
  );
  if (outcome.kind !== "made") {
    throw new ConfigError([
      `deployment: there is no ${workspace === undefined ? "" : `workspace ${workspace} or `}project ${project ?? ""} with this id`,
    ]);
  }
  const { owner_user_id } = outcome.row;
  if (!user || owner_user_id === user.id) return outcome.row;
  if (owner_user_id !== null) {
    const message = "auth.owner does not own this agent: it was transferred; see greenroom agents list";
    environment.log({ level: "warn", message, deployment: name, owner_user_id });
    return outcome.row;
  }
  // The deployment was created before it had an owner.
  const change = { owner_user_id: user.id, ...(shared === undefined ? {} : { shared }) };
  return (await identity.updateDeployment(name, change)) ?? outcome.row;
}
