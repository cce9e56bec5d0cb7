/** The server whose app the guides import as a type. */
export * from "../../api/server.ts";
