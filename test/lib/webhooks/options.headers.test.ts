// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the templates of the configuration look like this
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { InputIssue } from "../../../lib/errors.ts";
import { signPayload } from "../../../lib/webhooks/delivery-attempt.ts";
import { type ResolvedHeaders, readPrefixes, resolveHeaders, validateWebhooks } from "../../../lib/webhooks/options.ts";

type Environment = Readonly<Record<string, string>>;
const env: Environment = { SERVICE_WEBHOOK_A: "one", SERVICE_WEBHOOK_B: "two", SERVICE_WEBHOOK_EMPTY: "", SECRET: "s" };
const secrets = ["0123456789abcdef0123456789abcdef", "another secret of 24 byt"].map((key) =>
  new TextEncoder().encode(key),
);

/** Resolves headers, and collects all problems of them and of the prefix. */
function resolved(
  input: unknown,
  env_prefix: unknown,
  variables: Environment,
): { readonly headers: ResolvedHeaders; readonly problems: readonly InputIssue[] } {
  const problems: InputIssue[] = [];
  const report = (loc: InputIssue["loc"], type: string, msg: string): void => void problems.push({ loc, msg, type });
  const headers = resolveHeaders(input, readPrefixes(env_prefix, report), variables, report);
  return { headers, problems };
}

const filled = (value: unknown, variables: Environment = env): string | undefined => {
  const { headers, problems } = resolved({ "X-T": value }, undefined, variables);
  return headers[0]?.[1] ?? problems.map(({ type }) => type).join();
};

describe("resolveHeaders", () => {
  it("fills templates in once and keeps the rest", () => {
    const values: Readonly<Record<string, string>> = {
      "${{env.SERVICE_WEBHOOK_A}}": "one",
      "${{\t env.SERVICE_WEBHOOK_A \t}}": "one",
      "$${{ env.SERVICE_WEBHOOK_A }}}": "$one}",
      "${{ env.SERVICE_WEBHOOK_A }}${{ env.SERVICE_WEBHOOK_B }}": "onetwo",
      "${${{ env.SERVICE_WEBHOOK_A }}": "${one",
      "{{ env.SERVICE_WEBHOOK_A }}": "{{ env.SERVICE_WEBHOOK_A }}",
      "${ env.SERVICE_WEBHOOK_A }": "${ env.SERVICE_WEBHOOK_A }",
      "$ {{ x }} }}": "$ {{ x }} }}",
      "": "",
      " \t\r\n x\ty \n": "x\ty",
      "\u0080\u00a0é\u00ff": "\u0080\u00a0é\u00ff",
    };
    for (const [value, expected] of Object.entries(values)) assert.equal(filled(value), expected, value);
    assert.equal(filled("a ${{ env.SERVICE_WEBHOOK_A }}", { SERVICE_WEBHOOK_A: "$&$1 x\n" }), "a $&$1 x");
    assert.equal(filled("${{ env.SERVICE_WEBHOOK_A }}", { SERVICE_WEBHOOK_A: "${{" }), "${{");
  });

  it("refuses every other template", () => {
    const bodies = [
      "",
      " ",
      "env.",
      " env. ",
      " ENV.SERVICE_WEBHOOK_A ",
      " SERVICE_WEBHOOK_A ",
      " env .SERVICE_WEBHOOK_A ",
    ];
    const templates = [
      " env.1A ",
      " env.SERVICE-WEBHOOK ",
      " env.SERVICE_WEBHOOK_A.x ",
      "\nenv.SERVICE_WEBHOOK_A ",
      "\u00a0env.A ",
      "{ env.A }",
    ];
    for (const body of [
      ...bodies,
      ...templates,
      " env.SERVICE_WEBHOOK_Ä ",
      ' env["A"] ',
      " env.A, env.B ",
      " env.A } ",
    ]) {
      assert.equal(filled(`\${{${body}}}`), "invalid_template", body);
    }
    for (const value of [
      "${{",
      "x ${{ env.SERVICE_WEBHOOK_A }",
      "${{ env.SERVICE_WEBHOOK_A } }",
      "${{ env.SERVICE_WEBHOOK_A",
    ]) {
      assert.equal(filled(value), "invalid_template", value);
    }
    assert.equal(filled("${{ env.SERVICE_WEBHOOK_A }} ${{ x }}"), "invalid_template");
    assert.equal(filled("${{ x ${{ env.SERVICE_WEBHOOK_A }}"), "invalid_template");
  });

  it("reads only variables with the prefix", () => {
    assert.equal(filled("${{ env.SECRET }}"), "env_not_allowed");
    assert.equal(filled("${{ env.service_webhook_A }}"), "env_not_allowed");
    assert.equal(filled("${{ env.X_SERVICE_WEBHOOK_A }}"), "env_not_allowed");
    assert.equal(filled("${{ env.SERVICE_WEBHOOK }}"), "env_not_allowed");
    assert.equal(filled("${{ env.SERVICE_WEBHOOK_ }}"), "missing_env");
    assert.equal(filled("${{ env.SERVICE_WEBHOOK_EMPTY }}"), "missing_env");
    assert.equal(filled("${{ env.SERVICE_WEBHOOK_C }}"), "missing_env");
    const inherited = resolved({ "X-T": "${{ env.toString }}", "X-U": "${{ env.__proto__ }}" }, "to", {});
    assert.deepEqual(
      inherited.problems.map(({ type }) => type),
      ["missing_env", "env_not_allowed"],
    );
    assert.deepEqual(resolved({ "X-T": "${{ env.__proto__ }}" }, "_", {}).problems[0]?.type, "missing_env");
    assert.deepEqual(resolved({ "X-T": "${{ env.A }}" }, "A", { A: "x" }).headers, [["X-T", "x"]]);
    const several = resolved({ "X-T": "${{ env.A }}${{ env.B }}", "X-U": "${{ env.C }}" }, ["A", "B"], {
      A: "x",
      B: "y",
      C: "z",
    });
    assert.deepEqual(several.headers, [["X-T", "xy"]]);
    assert.deepEqual(
      several.problems.map(({ type }) => type),
      ["env_not_allowed"],
    );
  });

  it("refuses invalid prefixes, and then reads no variable", () => {
    for (const prefix of ["", "1A", "A-", "A B", "Ä", "A.", " A", "A\n", null, 5, [], ["A", ""], [5]]) {
      const { headers, problems } = resolved({ "X-T": "${{ env.SERVICE_WEBHOOK_A }}", "X-U": "u" }, prefix, env);
      assert.deepEqual(
        problems.map(({ loc, type }) => [loc.join("."), type]),
        [["webhooks.env_prefix", "invalid_prefix"]],
      );
      assert.deepEqual(headers, [["X-U", "u"]]);
    }
  });

  it("refuses invalid header values", () => {
    for (const value of [
      "a\nb",
      "a\rb",
      "a\0b",
      "\0",
      "\u0100",
      "😀",
      "a\u2028",
      "a\u007fb",
      "a\u0001",
      5,
      null,
      true,
      {},
      ["x"],
      undefined,
    ]) {
      assert.equal(filled(value), "invalid_header_value", JSON.stringify(value));
    }
    assert.equal(
      filled("x${{ env.SERVICE_WEBHOOK_A }}", { SERVICE_WEBHOOK_A: "a\r\nX-Evil: 1" }),
      "invalid_header_value",
    );
  });

  it("refuses invalid, reserved and repeated names", () => {
    for (const name of [
      "",
      " ",
      "X T",
      "X:T",
      "X-T ",
      "X\n",
      "X(",
      "Ä",
      "${{ env.SERVICE_WEBHOOK_A }}",
      "X/",
      '"X"',
      "X@",
      "X\u007f",
    ]) {
      assert.deepEqual(
        resolved({ [name]: "x" }, undefined, env).problems.map(({ type }) => type),
        ["invalid_header_name"],
      );
    }
    const ownHeaders =
      "Host Content-Length Content-Type Transfer-Encoding Connection Keep-Alive Upgrade TE Trailer Expect Idempotency-Key";
    for (const name of [
      ...ownHeaders.split(" "),
      "Proxy-Authorization",
      "proxy-x",
      "Proxy-",
      "Webhook-Id",
      "webhook-timestamp",
      "webhook-signature",
    ]) {
      for (const spelt of [name, name.toLowerCase(), name.toUpperCase()]) {
        assert.deepEqual(
          resolved({ [spelt]: "x" }, undefined, env).problems.map(({ type }) => type),
          ["reserved_header"],
        );
      }
    }
    for (const name of [
      "X-Host",
      "Hosts",
      "Content-Types",
      "Proxy",
      "Webhook-Ids",
      "X-Proxy-A",
      "Authorization",
      "User-Agent",
      "!#$%&'*+-.^_`|~",
      "__proto__",
    ]) {
      assert.deepEqual(resolved(JSON.parse(`{${JSON.stringify(name)}:"x"}`), undefined, env).headers, [[name, "x"]]);
    }
    const twice = resolved({ "X-T": "1", "x-t": "2", "X-t": "3", "X-U": "4" }, undefined, env);
    assert.deepEqual(
      twice.problems.map(({ loc, type }) => [loc.join("."), type]),
      [
        ["webhooks.headers.x-t", "duplicate_header"],
        ["webhooks.headers.X-t", "duplicate_header"],
      ],
    );
  });

  it("never returns a value of the environment in a problem", () => {
    const loud = { SERVICE_WEBHOOK_A: "hunter2\n!", SERVICE_WEBHOOK_B: "whsec_hunter2", OTHER: "hunter2" };
    const headers = {
      "X-A": "${{ env.SERVICE_WEBHOOK_A }}x",
      "X-B": "${{ env.OTHER }}",
      "X-C": "${{ env.SERVICE_WEBHOOK_A }}${{",
    };
    const { problems } = validateWebhooks({ headers, signing_secret: "${{ env.SERVICE_WEBHOOK_B }}" }, undefined, loud);
    assert.equal(problems.length, 4);
    assert.ok(!JSON.stringify(problems).includes("hunter2"));
  });
});

describe("signPayload", () => {
  const id = "msg_0f0f0f0f-1111-4222-8333-444444444444";
  const body = '{"run_id":"0f0f0f0f-1111-4222-8333-444444444444","status":"success"}';
  const expected = "v1,RWSLsXx5av+KelFWsHY2tUCIDC3LN/6+H3S44blerYw=";

  it("equals other implementations", async () => {
    assert.equal(await signPayload(secrets.slice(0, 1), id, 1_795_176_000, body), expected);
  });

  it("signs with each secret in order", async () => {
    const [first, second, ...otherSignatures] = (await signPayload(secrets, id, 1_795_176_000, body)).split(" ");
    assert.equal(first, expected);
    assert.match(`${second}`, /^v1,[A-Za-z0-9+/]{43}=$/);
    assert.notEqual(second, expected);
    assert.deepEqual(otherSignatures, []);
    assert.equal(await signPayload([], id, 1_795_176_000, body), "");
  });

  it("covers id, time and every byte of the body", async () => {
    const firstSecret = secrets.slice(0, 1);
    const otherSignatures = [
      signPayload(firstSecret, `${id}x`, 1_795_176_000, body),
      signPayload(firstSecret, id, 1_795_176_001, body),
    ];
    for (const otherSignature of await Promise.all([
      ...otherSignatures,
      signPayload(firstSecret, id, 1_795_176_000, `${body}ü`),
    ]))
      assert.notEqual(otherSignature, expected);
  });
});
