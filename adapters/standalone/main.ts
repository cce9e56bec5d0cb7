/** The command `greenroom`: the library, a configuration file and a port. */
import process from "node:process";
import { ConfigError, VERSION } from "../../lib/mod.ts";
import { suggestName } from "../../lib/validation.ts";
import { PortTaken } from "../node/mod.ts";
import { COMMANDS, readCommand, readDatabaseOptions, usage } from "./command-options.ts";
import { describeError } from "./describe-error.ts";
import { openStorage, type Server, serve } from "./server.ts";

const COMMAND_WORDS = ["dev", "init", "openapi", ...COMMANDS, "help", "version"];

/**
 * Runs the command that the arguments name; without one, serves until SIGTERM or SIGINT. Resolves with the server once
 * it listens; undefined after `init`, help and version. Every other command ends the process itself. Does not reject:
 * an error is printed and ends the process with code 1.
 */
export async function main(args: readonly string[] = process.argv.slice(2)): Promise<Server | undefined> {
  try {
    const [word = "", ...commandArgs] = args;
    if (COMMANDS.has(word)) {
      const { database, ...keys } = await readDatabaseOptions(args, process.env);
      const { runCommand } = await import("./commands.ts");
      process.exit(await runCommand(args, () => openStorage(database), keys));
    }
    if (word === "init") {
      (await import("./init.ts")).init(commandArgs);
      return undefined;
    }
    if (word === "openapi") {
      await (await import("./openapi.ts")).runOpenapi(commandArgs);
      // Modules of the project may hold timers and connections.
      process.exit(0);
    }
    return await runServer(word, args);
  } catch (error) {
    console.error(`greenroom: ${describeError(error, [ConfigError, PortTaken])}`);
    process.exit(1);
  }
}

/**
 * Prints the help or the version, or serves the project; with `dev`, reloads it after changes. Resolves with the server
 * once it listens; undefined for help and version. Rejects for invalid options.
 */
async function runServer(word: string, args: readonly string[]): Promise<Server | undefined> {
  const dev = word === "dev";
  const options = readCommand(toFlags(word, args), process.env, { commands: dev ? [] : COMMAND_WORDS, dev });
  if (options.help) console.log(await loadHelp(findHelpTopic(word, args)));
  else if (options.version) console.log(VERSION);
  else if (dev) await (await import("./dev.ts")).develop(options);
  else return await serve(options);
  return undefined;
}

/**
 * Returns the arguments without the command: `help` and `version` become the flags of these names, and the topic of
 * `help` is left out.
 */
function toFlags(word: string, args: readonly string[]): readonly string[] {
  if (word === "help") return ["--help", ...args.slice(2)];
  if (word === "version") return ["--version"];
  return word === "dev" ? args.slice(1) : args;
}

/** Returns the command whose help is requested: `dev`, or the word after `help`. Undefined for the general help. */
function findHelpTopic(word: string, args: readonly string[]): string | undefined {
  if (word === "dev") return word;
  return word === "help" ? args[1] : undefined;
}

/**
 * Resolves with the help of a command; with the general one without a word, for an option, and for `help` and
 * `version`. Rejects with a ConfigError for an unknown command.
 */
async function loadHelp(word: string | undefined): Promise<string> {
  if (word === undefined || word.startsWith("-") || word === "help" || word === "version") return usage;
  if (COMMANDS.has(word)) return (await import("./commands.ts")).formatUsage(word);
  if (word === "dev") return (await import("./dev.ts")).devUsage;
  if (word === "init") return (await import("./init.ts")).initUsage;
  if (word === "openapi") return (await import("./openapi.ts")).openapiUsage;
  throw new ConfigError([`help: no such command ${word}${suggestName(word, COMMAND_WORDS)}`]);
}
