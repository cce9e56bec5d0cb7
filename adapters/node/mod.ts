/**
 * Serves a fetch handler on a port, or as a request listener of `node:http`, Express and Connect.
 * @module
 */
export { type FetchHandler, type NodeHandler, toNodeHandler } from "./handler.ts";
export { type Listener, PortTaken, type ServeOptions, serve } from "./serve.ts";
export { toUpgradeListener, type UpgradeListener } from "./upgrade.ts";
