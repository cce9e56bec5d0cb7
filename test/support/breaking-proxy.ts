/** A proxy between a client and a server that breaks their connections on request. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Proxy {
  readonly port: number;
  /** Breaks every connection that is open, in the middle of whatever it carries. */
  cut(): void;
  close(): Promise<void>;
}

export async function openProxy(target: number): Promise<Proxy> {
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(target, "127.0.0.1");
    for (const [socket, peer] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(socket);
      socket.on("error", () => peer.destroy());
      socket.on("close", () => {
        open.delete(socket);
        peer.destroy();
      });
      socket.pipe(peer);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    async close() {
      cut();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
