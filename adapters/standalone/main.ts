/** The command `greenroom`: the library, a configuration file and a port. */
import process from "node:process";
import { ConfigError, VERSION } from "../../lib/mod.ts";
import { didYouMean } from "../../lib/validation.ts";
import { PortTaken } from "../node/mod.ts";
import { COMMANDS, readCommand, readPlace, usage } from "./command-options.ts";
import { openStorage, type Server, serve } from "./server.ts";

const WORDS = ["dev", "init", ...COMMANDS, "help", "version"];

/**
 * Serves until SIGTERM or SIGINT. Ends the process itself: 0 after a clean stop, 1 when it cannot start or a second signal
 * comes. Returns the server; undefined for other commands.
 */
export async function main(args: readonly string[] = process.argv.slice(2)): Promise<Server | undefined> {
  try {
    const [word = "", ...rest] = args;
    if (COMMANDS.has(word)) {
      const { database, ...keys } = readPlace(args, process.env);
      const { runCommand } = await import("./commands.ts");
      process.exit(await runCommand(args, () => openStorage(database), keys));
    }
    if (word === "init") {
      (await import("./init.ts")).init(rest);
      return undefined;
    }
    const dev = word === "dev";
    const asked =
      word === "help" ? ["--help", ...args.slice(2)] : word === "version" ? ["--version"] : dev ? rest : args;
    const options = readCommand(asked, process.env, { commands: dev ? [] : WORDS, dev });
    if (options.help) console.log(await helpOn(dev ? word : word === "help" ? args[1] : undefined));
    else if (options.version) console.log(VERSION);
    else if (dev) await (await import("./dev.ts")).develop(options);
    else return await serve(options);
    return undefined;
  } catch (error) {
    // A problem that the user can fix needs no stack; any other error does.
    const known = error instanceof ConfigError || error instanceof PortTaken;
    console.error(`greenroom: ${known ? error.message : error instanceof Error ? error.stack : String(error)}`);
    process.exit(1);
  }
}

/** What `greenroom help COMMAND` says. */
async function helpOn(word: string | undefined): Promise<string> {
  if (word === undefined || word.startsWith("-") || word === "help" || word === "version") return usage;
  if (COMMANDS.has(word)) return (await import("./commands.ts")).usageOf(word);
  if (word === "dev") return (await import("./dev.ts")).devUsage;
  if (word === "init") return (await import("./init.ts")).initUsage;
  throw new ConfigError([`help: no such command ${word}${didYouMean(word, WORDS)}`]);
}
