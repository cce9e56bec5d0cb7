/** Defines the texts of operations: what the OpenAPI document says that the route table does not. */
import type { ErrorReason } from "../../../lib/errors.ts";
import type { Json } from "../../../lib/json.ts";

/** The call of an SDK that sends the example of an operation. `client` is the client of the package. */
export interface SdkCall {
  readonly package: "@langchain/langgraph-sdk" | "langsmith";
  readonly code: string;
}

/** The body of an error: the name of its schema, and an example. */
export interface ErrorBody {
  readonly schema: string;
  readonly example: Json;
}

/** The description of an operation, the example of its request, and the codes of its errors. */
export interface OperationText {
  readonly description: string;
  /** The values of path parameters that are not the usual ones of `PATH_VALUES`. */
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Json;
  /** Absent: no SDK has the call, and the example is a `fetch`. */
  readonly call?: SdkCall;
  /** The codes of errors by status, in addition to those that follow from the route. */
  readonly codes?: Readonly<Partial<Record<number, readonly ErrorReason[]>>>;
  /** The errors whose body is not `Error`, by status. */
  readonly error_bodies?: Readonly<Partial<Record<number, ErrorBody>>>;
}

/** The texts of operations by method and path, such as `post /threads/:thread_id/copy`. */
export type OperationTexts = Readonly<Record<string, OperationText>>;

/** Returns the call of the LangGraph SDK. */
export const langgraph = (code: string): SdkCall => ({ package: "@langchain/langgraph-sdk", code });
/** Returns the call of the LangSmith SDK. */
export const langsmith = (code: string): SdkCall => ({ package: "langsmith", code });
