/** The program: run this file to start the stand-alone server. `createHandler` is in lib/http/handler.ts. */
import { main } from "./adapters/standalone/main.ts";

await main();
