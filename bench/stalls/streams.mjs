// Requests that stay open: streams, WebSockets, slow bodies, and lists of large rows. `hold` is how long a row is watched after its answer.
import { connect } from "node:net";
import { WebSocket } from "ws";

const MB = 1024 * 1024;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const ok = { status: 200, length: 0, text: "" };

const filled = async (client, size, metadata = {}) => {
  const { thread_id } = await client.json("POST", "/threads", { metadata });
  const input = { a: "x".repeat(size) };
  await client.json("POST", `/threads/${thread_id}/runs/wait`, { assistant_id: "echo", input });
  return thread_id;
};

/** Opens so many at once as a machine's backlog allows. */
const opened = async (count, open) => {
  const all = [];
  while (all.length < count) {
    all.push(...(await Promise.all(Array.from({ length: Math.min(100, count - all.length) }, open))));
  }
  return all;
};

/** A client that sends a request, waits for the first bytes of the answer, and then reads nothing. */
const reader = (port, method, path, body = "") =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      const type = body ? `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` : "";
      socket.write(`${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${type}\r\n${body}`);
    });
    const done = () => {
      socket.pause();
      resolve(socket);
    };
    socket.on("error", () => resolve(socket)).once("data", done);
  });

const webSocket = (port, thread_id) =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/threads/${thread_id}/stream/events`);
    socket.on("error", reject).once("open", () => resolve(socket));
  });

const replays = (count, channels, make) => async (client) => {
  const thread_id = await make(client);
  return async () => {
    const body = JSON.stringify({ channels, since: 1 });
    const open = () => reader(client.port, "POST", `/threads/${thread_id}/stream/events`, body);
    const readers = await opened(count, open);
    await pause(4_000);
    for (const socket of readers) socket.destroy();
    return ok;
  };
};

const large = async (client, size) => {
  const { thread_id } = await client.json("POST", "/threads");
  const params = { assistant_id: "large", input: { size } };
  await client.json("POST", `/threads/${thread_id}/commands`, { id: 1, method: "run.start", params });
  for (;;) {
    const { status } = await client.json("GET", `/threads/${thread_id}`);
    if (status === "idle") return thread_id;
    await pause(50);
  }
};

const paging = (path, body) => async (client) => () => client.ask("POST", path, Buffer.from(JSON.stringify(body)));

const id = () => crypto.randomUUID();
/** Requests that follow one run, however often they are sent. */
const FOLLOWED = {
  "the AI SDK": (chat, message) => [
    "/ai/large/chat",
    {
      ...{ id: chat, trigger: "submit-message" },
      messages: [{ id: message, role: "user", parts: [{ type: "text", text: "hello" }] }],
    },
  ],
  "AG-UI": (threadId, runId) => [
    "/ag-ui/large",
    {
      ...{ threadId, runId, tools: [], context: [], state: {}, forwardedProps: { on_disconnect: "continue" } },
      messages: [{ id: runId, role: "user", content: "hello" }],
    },
  ],
};

const followers = Object.entries(FOLLOWED).map(([name, make]) => ({
  name: `40 clients of ${name} that read nothing of one answer of 5 MB`,
  // Each has the message as far as it has come.
  data: 40 * 5 * MB,
  async prepare(client) {
    return async () => {
      const [path, body] = make(id(), id());
      const sockets = await opened(40, () => reader(client.port, "POST", path, JSON.stringify(body)));
      await pause(6_000);
      for (const socket of sockets) socket.destroy();
      return ok;
    };
  },
}));

export const streams = [
  ...followers,
  {
    name: "two sockets that read nothing, state.get of 7 MB every 40 ms",
    data: 7 * MB,
    async prepare(client) {
      const thread_id = await filled(client, 7 * MB);
      return async () => {
        const sockets = await opened(2, () => webSocket(client.port, thread_id));
        for (const socket of sockets) socket.on("error", () => {})._socket.pause();
        for (let id = 1; id <= 200; id++) {
          for (const socket of sockets) {
            if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ id, method: "state.get" }));
          }
          await pause(40);
        }
        for (const socket of sockets) socket.terminate();
        return ok;
      };
    },
  },
  {
    name: "sockets: 1,000 state.get of 100 KB",
    async prepare(client) {
      const thread_id = await filled(client, 100 * 1024);
      const sockets = await opened(10, () => webSocket(client.port, thread_id));
      return async () => {
        let answers = 0;
        const all = new Promise((resolve) => {
          for (const socket of sockets) {
            socket.on("message", () => ++answers === 1_000 && resolve());
            socket.on("close", resolve);
          }
        });
        for (const socket of sockets) {
          for (let id = 1; id <= 100; id++) socket.send(JSON.stringify({ id, method: "state.get" }));
        }
        await all;
        for (const socket of sockets) socket.terminate();
        return { ...ok, status: answers === 1_000 ? 200 : 500, text: `${answers} answers` };
      };
    },
  },
  {
    name: "2,000 readers of an absent thread that leave at once",
    async prepare(client) {
      const path = `/threads/${crypto.randomUUID()}/stream/events`;
      const open = () => reader(client.port, "POST", path, '{"channels":["values"]}');
      const readers = await opened(2_000, open);
      return async () => {
        for (const socket of readers) socket.destroy();
        await pause(1_500);
        return ok;
      };
    },
  },
  {
    name: "2,000 readers of an absent thread that stay",
    async prepare(client) {
      const path = `/threads/${crypto.randomUUID()}/stream/events`;
      const open = () => reader(client.port, "POST", path, '{"channels":["values"]}');
      const readers = await opened(2_000, open);
      return async () => {
        await pause(3_000);
        for (const socket of readers) socket.destroy();
        return ok;
      };
    },
  },
  {
    name: "200 readers of events that read nothing, states of 5 MB",
    data: 5 * MB,
    prepare: replays(200, ["values"], (client) => filled(client, 5 * MB)),
  },
  {
    name: "400 replays with one message of 10 MB",
    data: 10 * MB,
    prepare: replays(400, ["messages"], (client) => large(client, 10 * MB)),
  },
  {
    name: "200 readers of a run that read nothing, states of 5 MB",
    data: 5 * MB,
    async prepare(client) {
      const { thread_id } = await client.json("POST", "/threads");
      const { run_id } = await client.json("POST", `/threads/${thread_id}/runs`, {
        assistant_id: "echo",
        input: { a: "x".repeat(5 * MB) },
        stream_mode: ["values"],
        stream_resumable: true,
      });
      await client.json("GET", `/threads/${thread_id}/runs/${run_id}/join`);
      return async () => {
        const open = () => reader(client.port, "GET", `/threads/${thread_id}/runs/${run_id}/stream`);
        const readers = await opened(200, open);
        await pause(4_000);
        for (const socket of readers) socket.destroy();
        return ok;
      };
    },
  },
  {
    name: "100 sockets that read nothing, states of 7 MB",
    data: 7 * MB,
    async prepare(client) {
      const thread_id = await filled(client, 7 * MB);
      return async () => {
        const sockets = await opened(100, () => webSocket(client.port, thread_id));
        const params = { channels: ["values"], since: 1 };
        for (const socket of sockets) {
          socket.on("error", () => {})._socket.pause();
          socket.send(JSON.stringify({ id: 1, method: "subscription.subscribe", params }));
        }
        await pause(6_000);
        for (const socket of sockets) socket.terminate();
        return ok;
      };
    },
  },
  {
    name: "100 callers that wait for a result of 5 MB and read nothing",
    data: 10 * MB,
    async prepare(client) {
      const { thread_id } = await client.json("POST", "/threads");
      const input = { size: 5 * MB, ms: 3_000 };
      const { run_id } = await client.json("POST", `/threads/${thread_id}/runs`, { assistant_id: "large", input });
      return async () => {
        const open = () => reader(client.port, "GET", `/threads/${thread_id}/runs/${run_id}/join`);
        const readers = await opened(100, open);
        await pause(6_000);
        for (const socket of readers) socket.destroy();
        return ok;
      };
    },
  },
  {
    name: "cancel of 5,000 runs",
    async prepare(client) {
      const run = Buffer.from(JSON.stringify({ assistant_id: "echo", input: {}, after_seconds: 3_600 }));
      let thread_id = "";
      for (let count = 0; count < 5_000; count += 50) {
        if (count % 500 === 0) ({ thread_id } = await client.json("POST", "/threads"));
        const answers = Array.from({ length: 50 }, () => client.ask("POST", `/threads/${thread_id}/runs`, run));
        for (const { status, text } of await Promise.all(answers)) if (status >= 400) throw new Error(text);
      }
      return () => client.ask("POST", "/runs/cancel", Buffer.from('{"status":"all"}'));
    },
  },
  {
    name: "50 slow bodies, of which all are closed",
    once: true,
    async prepare(client) {
      return async () => {
        const head =
          "POST /threads HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n";
        let closed = 0;
        const sockets = Array.from({ length: 50 }, () => {
          const socket = connect(client.port, "127.0.0.1", () => socket.write(head));
          return socket
            .on("error", () => {})
            .on("data", () => {})
            .on("close", () => closed++);
        });
        const trickle = setInterval(() => {
          for (const socket of sockets) if (socket.writable) socket.write("x");
        }, 1_000);
        // The timeout of a body is 30 s.
        for (let seconds = 0; seconds < 40 && closed < 50; seconds++) await pause(1_000);
        clearInterval(trickle);
        for (const socket of sockets) socket.destroy();
        return { ...ok, status: closed === 50 ? 200 : 500, text: `${closed} closed` };
      };
    },
  },

  {
    name: "search of 60 threads with states of 7 MB",
    data: 420 * MB,
    once: true,
    async prepare(client) {
      for (let count = 0; count < 60; count++) await filled(client, 7 * MB, { kind: "states" });
      return paging("/threads/search", { metadata: { kind: "states" }, limit: 60 })(client);
    },
  },
  {
    name: "search of 1,000 threads",
    async prepare(client) {
      const threadBody = Buffer.from(JSON.stringify({ metadata: { kind: "many" } }));
      for (let count = 0; count < 1_000; count += 50) {
        await Promise.all(Array.from({ length: 50 }, () => client.ask("POST", "/threads", threadBody)));
      }
      return paging("/threads/search", { metadata: { kind: "many" }, limit: 1_000 })(client);
    },
  },
  {
    name: "list of 1,000 runs",
    async prepare(client) {
      const { thread_id } = await client.json("POST", "/threads");
      const run = Buffer.from(
        JSON.stringify({ assistant_id: "echo", input: { a: "x".repeat(4_000) }, after_seconds: 3_600 }),
      );
      for (let count = 0; count < 1_000; count += 50) {
        await Promise.all(Array.from({ length: 50 }, () => client.ask("POST", `/threads/${thread_id}/runs`, run)));
      }
      return () => client.ask("GET", `/threads/${thread_id}/runs?limit=1000`);
    },
  },
];
