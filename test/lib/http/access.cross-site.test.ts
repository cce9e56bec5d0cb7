/** Pages of other origins cannot use the cookies and the network of their user. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type FakeOptions, fake, RUN, THREAD } from "./fake-service.ts";

type Headers = Readonly<Record<string, string>>;

const cookie: Headers = { cookie: "session=1" };
/** Headers that browsers send by themselves to a server where their user is logged in. */
const AMBIENT: readonly Headers[] = [
  cookie,
  ...["Basic YW5uOng=", "digest username=ann", "Negotiate YII=", "NTLM TlRM"].map((authorization) => ({
    authorization,
  })),
];
const HOST = "agents.example";
const OTHER = "https://evil.example";
const BROWSER: Headers = { "user-agent": "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0.0.0" };

const site = (value: string): Headers => ({ "sec-fetch-site": value });

/** Requests of pages with the cookies of their user, and whether they are accepted. Browsers name the site on https and localhost. */
const SENT: readonly (readonly [what: string, headers: Headers, passes: boolean, options?: FakeOptions])[] = [
  ["another site", { host: HOST, origin: OTHER, ...site("cross-site") }, false],
  ["another site over plain HTTP", { host: HOST, origin: "http://evil.example" }, false],
  ["a sibling subdomain", { host: HOST, origin: "https://blog.example", ...site("same-site") }, false],
  ["a sibling subdomain over plain HTTP", { host: HOST, origin: "http://blog.example" }, false],
  ["another port", { host: "localhost:2024", origin: "http://localhost:5173", ...site("same-site") }, false],
  ["another port, in an old browser", { host: "localhost:2024", origin: "http://localhost:5173" }, false],
  [
    "another port of a server with hosts",
    { host: "localhost:2024", origin: "http://localhost:5173" },
    false,
    { hosts: ["localhost"] },
  ],
  ["a page that hides its origin", { host: HOST, origin: "null" }, false],
  ["a page that hides its origin, over https", { host: HOST, origin: "null", ...site("cross-site") }, false],
  ["the server", { host: HOST, origin: `https://${HOST}` }, true],
  ["the server behind a proxy", { host: "backend:2024", "x-forwarded-host": HOST, origin: `https://${HOST}` }, true],
  [
    "the server behind a proxy that says nothing",
    { host: "backend:2024", origin: `https://${HOST}`, ...site("same-origin") },
    true,
  ],
  ["a client that is no browser", { host: HOST }, true],
  [
    "an allowed origin",
    { host: HOST, origin: OTHER },
    true,
    { http: { cors: { allow_origins: [OTHER], allow_credentials: true } } },
  ],
  [
    "an allowed sibling",
    { host: HOST, origin: "https://a.example", ...site("same-site") },
    true,
    { http: { cors: { allow_origins: ["https://a.example"], allow_credentials: true } } },
  ],
  [
    "an origin that may send no cookies",
    { host: HOST, origin: OTHER },
    false,
    { http: { cors: { allow_origins: [OTHER] } } },
  ],
  [
    "an origin that is not allowed",
    { host: HOST, origin: OTHER },
    false,
    { http: { cors: { allow_origins: ["https://a.example"], allow_credentials: true } } },
  ],
];

describe("cookies and other credentials that a browser adds to requests of a page", () => {
  for (const [what, headers, passes, options = {}] of SENT) {
    it(`${passes ? "are accepted" : "are refused"}: ${what}`, async () => {
      for (const credential of AMBIENT) {
        const { send, calls } = fake(options);
        const requestHeaders = { ...headers, ...credential };
        const form = { ...requestHeaders, "content-type": "text/plain" };
        assert.equal((await send("POST", "/threads", "{}", form)).status, passes ? 200 : 403);
        assert.equal(calls.length, passes ? 1 : 0);
        const leaves = `/threads/${THREAD}/runs/${RUN}/join?cancel_on_disconnect=1`;
        const leaveResponse = await send("GET", leaves, undefined, requestHeaders);
        await leaveResponse.body?.cancel();
        assert.equal(leaveResponse.status, passes ? 200 : 403);
        assert.equal((await send("GET", `/threads/${THREAD}`, undefined, requestHeaders)).status, 200);
        const socket = { ...requestHeaders, connection: "upgrade", upgrade: "websocket" };
        const upgraded = await send("GET", `/threads/${THREAD}/stream/events`, undefined, socket);
        assert.equal(upgraded.status, passes ? 501 : 403, "501: this host opens none");
      }
    });
  }

  it("are checked, and keys and tokens of scripts are not", async () => {
    const credentials: readonly Headers[] = [{ authorization: "Bearer 1" }, { "x-api-key": "1" }];
    for (const credential of credentials) {
      const { send } = fake();
      assert.equal((await send("POST", "/threads", "{}", { host: HOST, origin: OTHER, ...credential })).status, 200);
    }
  });

  it("are checked on the host's own routes if these require authentication", async () => {
    const app = (): Response => new Response("mine");
    const headers = { host: HOST, origin: OTHER, ...cookie };
    for (const [enable_custom_route_auth, status] of [
      [true, 403],
      [false, 200],
    ] as const) {
      const { send } = fake({ app, http: { enable_custom_route_auth } });
      assert.equal((await send("POST", "/own", "{}", headers)).status, status);
    }
  });
});

/** Requests to join a run with cancel_on_disconnect, and whether it takes effect. */
const JOINED: readonly (readonly [what: string, headers: Headers, cancels: boolean])[] = [
  ["a client that is no browser", {}, true],
  ["a script in Node", { "sec-fetch-mode": "cors", "user-agent": "node" }, true],
  [
    "a script of a page",
    { "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", ...site("same-origin"), ...BROWSER },
    true,
  ],
  ["a script of an allowed page, over plain HTTP", { origin: "http://app.example", ...BROWSER }, true],
  ["a script with a key, over plain HTTP", { "x-api-key": "gr_sk_1", ...BROWSER }, true],
  [
    "an image of a page of the server",
    { "sec-fetch-dest": "image", "sec-fetch-mode": "no-cors", ...site("same-origin") },
    false,
  ],
  [
    "an image of another page",
    { "sec-fetch-dest": "image", "sec-fetch-mode": "no-cors", ...site("cross-site") },
    false,
  ],
  ["an image that may be read", { "sec-fetch-dest": "image", "sec-fetch-mode": "cors", ...site("same-origin") }, false],
  ["a link", { "sec-fetch-dest": "document", "sec-fetch-mode": "navigate", ...site("none") }, false],
  ["a frame", { "sec-fetch-dest": "iframe", "sec-fetch-mode": "navigate", ...site("cross-site") }, false],
  [
    "a script that reads nothing",
    { "sec-fetch-dest": "empty", "sec-fetch-mode": "no-cors", ...site("cross-site") },
    false,
  ],
  ["a prefetch", { "sec-purpose": "prefetch" }, false],
  ["an image over plain HTTP", { accept: "image/avif,image/webp,*/*;q=0.8", ...BROWSER }, false],
  ["an image with a login of the browser, over plain HTTP", { authorization: "Basic YW5uOng=", ...BROWSER }, false],
  ["a script with a token, over plain HTTP", { authorization: "Bearer 1", ...BROWSER }, true],
  ["a script element over plain HTTP", { accept: "*/*", ...BROWSER }, false],
];

describe("cancel_on_disconnect", () => {
  for (const [what, headers, cancels] of JOINED) {
    it(`${cancels ? "takes effect" : "is ignored"}: ${what}`, async () => {
      const uses: unknown[] = [];
      for (const verb of ["join", "stream"]) {
        const { send, calls } = fake({ open_metrics: true });
        const path = `/threads/${THREAD}/runs/${RUN}/${verb}?cancel_on_disconnect=true`;
        const response = await send("GET", path, undefined, headers);
        await response.body?.cancel();
        assert.equal(response.status, 200);
        uses.push((calls[0]?.at(-1) as { cancel_on_disconnect: boolean } | undefined)?.cancel_on_disconnect);
      }
      assert.deepEqual(uses, [cancels, cancels]);
    });
  }

  it("is refused to a page that may not call", async () => {
    const { send, calls } = fake({ hosts: ["127.0.0.1"] });
    const page = { origin: OTHER, "sec-fetch-mode": "cors", "sec-fetch-dest": "empty" };
    const path = `/threads/${THREAD}/runs/${RUN}/join`;
    assert.equal((await send("GET", `${path}?cancel_on_disconnect=1`, undefined, page)).status, 403);
    assert.equal(calls.length, 0);
    const read = await send("GET", path, undefined, page);
    await read.body?.cancel();
    assert.equal(read.status, 200, "its answer is hidden from the page");
  });
});
