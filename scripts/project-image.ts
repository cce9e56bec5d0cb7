/** Builds the image of docs/operations/deployment.md from a project as a folder, and starts its server with the project's `.env`. */
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build, outside } from "../test/e2e/docker/image.ts";
import { Program } from "./program.ts";

const KEY = "a-key-of-the-check-with-more-than-32-characters";

/** A file of variables as `docker run --env-file` reads it: values with quotes keep them. */
function readEnvFile(file: string): Record<string, string> {
  const lines = readFileSync(file, "utf8").split("\n");
  const settings = lines.filter((line) => line !== "" && !line.startsWith("#"));
  return Object.fromEntries(settings.map((line) => [line.replace(/=.*/, ""), line.replace(/^[^=]*=/, "")]));
}

/** Throws if the image starts without a key, or serves without one, or does not stop. `project` has a `package-lock.json`. */
export async function runProjectImage(page: string, project: string, folder: string): Promise<void> {
  const dockerfile = /```dockerfile\n(.*?)```/s.exec(page)?.[1];
  if (dockerfile === undefined) throw new Error("docs/operations/deployment.md has no Dockerfile");
  // The machine has no user `node`.
  const programs = join(folder, "bin");
  mkdirSync(programs, { recursive: true });
  writeFileSync(join(programs, "chown"), "#!/bin/sh\n");
  chmodSync(join(programs, "chown"), 0o755);
  const image = build(dockerfile, { context: project, folder, programs });
  const command = image.cmd.join(" ");
  const envFile = join(project, ".env");
  const start = (): Program => {
    const env = { ...outside(), ...image.env, ...readEnvFile(envFile), GREENROOM_PORT: "0" };
    return new Program(command, image.workdir, env);
  };
  {
    await using keyless = start();
    const output = await keyless.failure();
    if (!output.includes("has no authentication")) throw new Error(`Without a key the image said:\n${output}`);
  }
  writeFileSync(envFile, `${readFileSync(envFile, "utf8")}GREENROOM_API_KEYS=${KEY}\n`);
  await using program = start();
  const url = await program.url();
  const statuses: number[] = [];
  for (const headers of [undefined, { "x-api-key": KEY }]) {
    const { status } = await fetch(`${url}/assistants/search`, { method: "POST", body: "{}", headers });
    statuses.push(status);
  }
  if (statuses.join() !== "401,200") throw new Error(`The image answered ${statuses.join()} instead of 401,200`);
  if (!/\benv\b.* \.env\b/.test(program.output())) throw new Error("The image has the .env of the project");
  await program.terminate();
}
