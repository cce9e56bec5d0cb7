/**
 * A receiver of OTLP over HTTP that checks the protocol: path, media type, compression and the messages of opentelemetry-proto. It has a
 * decoder of its own, so that nothing of the SDK is on both sides.
 */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";

export type AttributeValue = string | number | boolean | readonly AttributeValue[];

export interface ReceivedLink {
  readonly trace_id: string;
  readonly span_id: string;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
}

/** A span as it was received. Ids are hexadecimal; the parent of a root is empty. */
export interface ReceivedSpan {
  readonly name: string;
  readonly trace_id: string;
  readonly span_id: string;
  readonly parent_id: string;
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  /** Nanoseconds since 1970. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Readonly<Record<string, AttributeValue>>;
  readonly links: readonly ReceivedLink[];
  /** `code`: 0 unset, 1 ok, 2 error. */
  readonly status: { readonly code: number; readonly message: string };
  readonly scope: string;
  readonly resource: Readonly<Record<string, AttributeValue>>;
}

/** The value of a field in the wire format of Protocol Buffers: a number, or bytes. */
type FieldValue = bigint | Uint8Array;
type Fields = ReadonlyMap<number, readonly FieldValue[]>;

function readVarint(bytes: Uint8Array, at: number): readonly [value: bigint, next: number] {
  let value = 0n;
  for (let index = at, shift = 0n; ; index++, shift += 7n) {
    const byte = bytes[index];
    assert.ok(byte !== undefined && shift < 70n, "a varint ends");
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return [value, index + 1];
  }
}

/** Reads the fields of a message by their numbers. */
function readFields(bytes: Uint8Array): Fields {
  const fields = new Map<number, FieldValue[]>();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const [tag, start] = readVarint(bytes, at);
    const [number, type] = [Number(tag >> 3n), Number(tag & 7n)];
    let value: FieldValue;
    if (type === 0) [value, at] = readVarint(bytes, start);
    else if (type === 1) [value, at] = [view.getBigUint64(start, true), start + 8];
    else if (type === 5) [value, at] = [BigInt(view.getUint32(start, true)), start + 4];
    else {
      assert.equal(type, 2, `wire type ${type} of field ${number}`);
      const [length, content] = readVarint(bytes, start);
      at = content + Number(length);
      assert.ok(at <= bytes.length, "a field ends within its message");
      value = bytes.subarray(content, at);
    }
    fields.set(number, [...(fields.get(number) ?? []), value]);
  }
  return fields;
}

const listMessages = (fields: Fields, number: number): readonly Fields[] =>
  (fields.get(number) ?? []).map((value) => readFields(value as Uint8Array));
const getBytes = (fields: Fields, number: number): Uint8Array =>
  (fields.get(number)?.at(-1) as Uint8Array | undefined) ?? new Uint8Array();
const getText = (fields: Fields, number: number): string =>
  new TextDecoder("utf-8", { fatal: true }).decode(getBytes(fields, number));
const getHex = (fields: Fields, number: number): string => Buffer.from(getBytes(fields, number)).toString("hex");
const getNumber = (fields: Fields, number: number): bigint => (fields.get(number)?.at(-1) as bigint | undefined) ?? 0n;

/** Reads an AnyValue. */
function readAnyValue(fields: Fields): AttributeValue {
  const [entry] = fields;
  assert.ok(entry && fields.size === 1, "an attribute has one value");
  const [number] = entry;
  if (number === 1) return getText(fields, 1);
  if (number === 2) return getNumber(fields, 2) !== 0n;
  if (number === 3) return Number(BigInt.asIntN(64, getNumber(fields, 3)));
  if (number === 5) return listMessages(listMessages(fields, 5)[0] as Fields, 1).map(readAnyValue);
  assert.equal(number, 4, `an attribute of kind ${number}`);
  return new Float64Array(new BigUint64Array([getNumber(fields, 4)]).buffer)[0] as number;
}

/** Returns attributes as an object. Their keys must differ. */
function toAttributes(pairs: readonly (readonly [key: string, value: AttributeValue])[]) {
  const attributes = Object.fromEntries(pairs);
  assert.equal(Object.keys(attributes).length, pairs.length, `keys differ: ${pairs.map(([key]) => key).join()}`);
  assert.ok(!("" in attributes), "no key is empty");
  return attributes;
}

const readAttributes = (fields: Fields, number: number): Readonly<Record<string, AttributeValue>> =>
  toAttributes(
    listMessages(fields, number).map((pair) => [getText(pair, 1), readAnyValue(listMessages(pair, 2)[0] as Fields)]),
  );

/** Reads an ExportTraceServiceRequest in the binary encoding. */
function readBinary(bytes: Uint8Array): ReceivedSpan[] {
  return listMessages(readFields(bytes), 1).flatMap((group) => {
    const [resource] = listMessages(group, 1);
    return listMessages(group, 2).flatMap((scoped) =>
      listMessages(scoped, 2).map((span): ReceivedSpan => {
        const [status] = listMessages(span, 15);
        return {
          ...{
            name: getText(span, 5),
            trace_id: getHex(span, 1),
            span_id: getHex(span, 2),
            parent_id: getHex(span, 4),
          },
          ...{ kind: Number(getNumber(span, 6)), start: getNumber(span, 7), end: getNumber(span, 8) },
          attributes: readAttributes(span, 9),
          links: listMessages(span, 13).map((link) => ({
            ...{ trace_id: getHex(link, 1), span_id: getHex(link, 2), attributes: readAttributes(link, 4) },
          })),
          status: status
            ? { code: Number(getNumber(status, 3)), message: getText(status, 2) }
            : { code: 0, message: "" },
          scope: getText(listMessages(scoped, 1)[0] as Fields, 1),
          resource: resource ? readAttributes(resource, 1) : {},
        };
      }),
    );
  });
}

/** A value of the JSON encoding. Integers of 64 bits are texts or numbers. */
interface JsonAnyValue {
  readonly stringValue?: string;
  readonly boolValue?: boolean;
  readonly intValue?: string | number;
  readonly doubleValue?: number;
  readonly arrayValue?: { readonly values?: readonly JsonAnyValue[] };
}
interface JsonAttribute {
  readonly key: string;
  readonly value: JsonAnyValue;
}
interface JsonSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly JsonAttribute[];
  readonly links?: readonly {
    readonly traceId: string;
    readonly spanId: string;
    readonly attributes?: readonly JsonAttribute[];
  }[];
  readonly status?: { readonly code?: number; readonly message?: string };
}
interface JsonRequest {
  readonly resourceSpans: readonly {
    readonly resource?: { readonly attributes?: readonly JsonAttribute[] };
    readonly scopeSpans: readonly { readonly scope: { readonly name: string }; readonly spans: readonly JsonSpan[] }[];
  }[];
}

function readJsonValue(value: JsonAnyValue): AttributeValue {
  assert.equal(Object.keys(value).length, 1, JSON.stringify(value));
  const { stringValue, boolValue, intValue, doubleValue, arrayValue } = value;
  if (intValue !== undefined) return Number(intValue);
  if (arrayValue) return (arrayValue.values ?? []).map(readJsonValue);
  return (stringValue ?? boolValue ?? doubleValue) as AttributeValue;
}

const readJsonAttributes = (attributes: readonly JsonAttribute[] = []) =>
  toAttributes(attributes.map(({ key, value }) => [key, readJsonValue(value)]));

/** Reads an ExportTraceServiceRequest in the JSON encoding. */
function readJson(bytes: Uint8Array): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(new TextDecoder().decode(bytes)) as JsonRequest;
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map(
        ({ name, traceId, spanId, parentSpanId = "", kind, links = [], status = {}, ...span }): ReceivedSpan => ({
          ...{ name, trace_id: traceId, span_id: spanId, parent_id: parentSpanId, kind },
          ...{ start: BigInt(span.startTimeUnixNano), end: BigInt(span.endTimeUnixNano) },
          attributes: readJsonAttributes(span.attributes),
          links: links.map((link) => ({
            ...{ trace_id: link.traceId, span_id: link.spanId, attributes: readJsonAttributes(link.attributes) },
          })),
          status: { code: status.code ?? 0, message: status.message ?? "" },
          scope: scope.name,
          resource: readJsonAttributes(resource?.attributes),
        }),
      ),
    ),
  );
}

/** Fails for a span that the protocol does not permit. */
function checkSpan({
  name,
  trace_id,
  span_id,
  parent_id,
  kind,
  start,
  end,
  links,
  status,
  scope,
  resource,
}: ReceivedSpan) {
  assert.match(trace_id, /^(?!0+$)[0-9a-f]{32}$/, name);
  assert.match(span_id, /^(?!0+$)[0-9a-f]{16}$/, name);
  assert.match(parent_id, /^$|^(?!0+$)[0-9a-f]{16}$/, name);
  assert.ok(name !== "" && kind >= 1 && kind <= 5, `${name} has the kind ${kind}`);
  assert.ok(start > 0n && end >= start, `${name} ends at ${end} after ${start}`);
  for (const link of links)
    assert.match(`${link.trace_id} ${link.span_id}`, /^(?!0+ )[0-9a-f]{32} (?!0+$)[0-9a-f]{16}$/);
  assert.ok(status.code >= 0 && status.code <= 2, name);
  assert.ok(scope !== "" && typeof resource["service.name"] === "string" && resource["service.name"] !== "", name);
}

async function readBody(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** A receiver that listens. */
export interface OtlpReceiver extends AsyncDisposable {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string;
  readonly spans: readonly ReceivedSpan[];
  /** The media types and encodings of the requests. */
  readonly formats: readonly string[];
  /** The texts of all requests, for searches. Those of the binary encoding have other bytes in between. */
  readonly text: () => string;
  /** What was wrong with requests. */
  readonly problems: readonly string[];
}

/** Starts a receiver on a free port of this machine. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const formats: string[] = [];
  const texts: string[] = [];
  const problems: string[] = [];

  /** Checks and stores a request. */
  async function receive(request: IncomingMessage): Promise<void> {
    const body = await readBody(request);
    const { "content-type": type = "", "content-encoding": encoding = "identity" } = request.headers;
    assert.deepEqual([request.method, request.url], ["POST", "/v1/traces"]);
    assert.ok(encoding === "identity" || encoding === "gzip", encoding);
    const bytes = encoding === "gzip" ? gunzipSync(body) : body;
    assert.ok(type === "application/json" || type === "application/x-protobuf", type);
    const received = type === "application/json" ? readJson(bytes) : readBinary(bytes);
    assert.ok(received.length > 0, "a request has spans");
    for (const span of received) checkSpan(span);
    formats.push(`${type} ${encoding}`);
    texts.push(Buffer.from(bytes).toString("latin1"));
    spans.push(...received);
  }

  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    receive(request)
      .then(() => {
        const isJson = request.headers["content-type"] === "application/json";
        response.setHeader("content-type", request.headers["content-type"] ?? "");
        // An empty ExportTraceServiceResponse: everything was accepted.
        response.end(isJson ? "{}" : "");
      })
      .catch((error: unknown) => {
        problems.push(String(error));
        response.statusCode = 400;
        response.end();
      });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(typeof address === "object" && address);
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    ...{ spans, formats, problems },
    text: () => texts.join("\n"),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Fails unless ids are used once, and the parent of each span is a span of its trace that covers its start. */
export function requireTree(spans: readonly ReceivedSpan[]): void {
  const byId = new Map(spans.map((span) => [`${span.trace_id}/${span.span_id}`, span]));
  assert.equal(byId.size, spans.length, "each span is sent once");
  for (const { name, trace_id, parent_id, start } of spans) {
    if (parent_id === "") continue;
    const parent = byId.get(`${trace_id}/${parent_id}`);
    assert.ok(parent, `the parent of ${name} was sent`);
    assert.ok(start >= parent.start, `${name} starts after its parent ${parent.name}`);
  }
}
