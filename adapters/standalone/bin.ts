#!/usr/bin/env node
/** The command `greenroom`: the library, a configuration file and a port. */
import { realpathSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { ConfigError, VERSION } from "../../lib/mod.ts";
import { didYouMean } from "../../lib/validation.ts";
import { PortTaken } from "../node/mod.ts";
import { readCommand, readPlace, usage } from "./command-options.ts";
import { COMMANDS, runCommand, usageOf } from "./commands.ts";
import { develop, devUsage } from "./dev.ts";
import { init, initUsage } from "./init.ts";
import { openStorage, serve } from "./server.ts";

/** Commands with options of their own. */
const OWN: ReadonlyMap<string, string> = new Map([
  ["dev", devUsage],
  ["init", initUsage],
]);
const WORDS = [...OWN.keys(), ...COMMANDS, "help", "version"];

/**
 * Serves until SIGTERM or SIGINT. Ends the process itself: 0 after a clean stop, 1 when it cannot start or a second signal
 * comes.
 */
export async function main(args: readonly string[] = process.argv.slice(2)): Promise<void> {
  try {
    const [word = "", ...rest] = args;
    if (COMMANDS.has(word)) {
      const { database, ...keys } = readPlace(args, process.env);
      process.exit(await runCommand(args, () => openStorage(database), keys));
    }
    if (word === "init") return init(rest);
    const dev = word === "dev";
    const asked =
      word === "help" ? ["--help", ...args.slice(2)] : word === "version" ? ["--version"] : dev ? rest : args;
    const options = readCommand(asked, process.env, { commands: dev ? [] : WORDS, dev });
    if (options.help) console.log(dev ? devUsage : helpOn(word === "help" ? args[1] : undefined));
    else if (options.version) console.log(VERSION);
    else if (dev) await develop(options);
    else await serve(options);
  } catch (error) {
    // A problem that the user can fix needs no stack; any other error does.
    const known = error instanceof ConfigError || error instanceof PortTaken;
    console.error(`greenroom: ${known ? error.message : error instanceof Error ? error.stack : String(error)}`);
    process.exit(1);
  }
}

/** What `greenroom help COMMAND` says. */
function helpOn(word: string | undefined): string {
  if (word === undefined || word.startsWith("-") || word === "help" || word === "version") return usage;
  if (COMMANDS.has(word)) return usageOf(word);
  const own = OWN.get(word);
  if (own !== undefined) return own;
  throw new ConfigError([`help: no such command ${word}${didYouMean(word, WORDS)}`]);
}

// `import.meta.main` is missing on Node 22, and npx starts this file through a link.
const started = process.argv[1];
if (started && realpathSync(started) === fileURLToPath(import.meta.url)) await main();
