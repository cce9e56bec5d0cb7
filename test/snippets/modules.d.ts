/** Packages that the documentation names and this checkout does not install. */
declare module "@copilotkit/runtime/v2" {
  type Runner = InMemoryAgentRunner;
  export class InMemoryAgentRunner {
    readonly onConcurrentRun: string;
  }
  export class CopilotRuntime {
    constructor(options: { agents: Record<string, import("@ag-ui/client").HttpAgent>; runner?: Runner });
  }
  export function createCopilotRuntimeHandler(options: {
    runtime: CopilotRuntime;
    basePath?: string;
  }): (request: Request) => Promise<Response>;
}
