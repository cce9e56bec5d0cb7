/** The span that is active in code of an agent, where LangChain does not say when a tool begins and ends to run. */
import type {
  Attributes,
  AttributeValue,
  Exception,
  Link,
  Span,
  SpanContext,
  SpanStatus,
  TimeInput,
} from "@opentelemetry/api";

/** A span that stands for the innermost one where it is used. It cannot be ended: the sink does that. */
export class CurrentSpan implements Span {
  readonly #find: () => Span;

  /** Creates the span. `find` returns the innermost span of its caller. */
  constructor(find: () => Span) {
    this.#find = find;
  }

  spanContext(): SpanContext {
    return this.#find().spanContext();
  }

  setAttribute(key: string, value: AttributeValue): this {
    this.#find().setAttribute(key, value);
    return this;
  }

  setAttributes(attributes: Attributes): this {
    this.#find().setAttributes(attributes);
    return this;
  }

  addEvent(name: string, attributesOrStartTime?: Attributes | TimeInput, startTime?: TimeInput): this {
    this.#find().addEvent(name, attributesOrStartTime, startTime);
    return this;
  }

  addLink(link: Link): this {
    this.#find().addLink(link);
    return this;
  }

  addLinks(links: Link[]): this {
    this.#find().addLinks(links);
    return this;
  }

  setStatus(status: SpanStatus): this {
    this.#find().setStatus(status);
    return this;
  }

  updateName(name: string): this {
    this.#find().updateName(name);
    return this;
  }

  end(): void {}

  isRecording(): boolean {
    return this.#find().isRecording();
  }

  recordException(exception: Exception, time?: TimeInput): void {
    this.#find().recordException(exception, time);
  }
}
