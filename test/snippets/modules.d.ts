/** Packages that the documentation names and this checkout does not install. */
declare module "@opentelemetry/api" {
  export const trace: { getTracer(name: string): never };
}
declare module "@opentelemetry/sdk-node" {
  export class NodeSDK {
    constructor(options: { serviceName: string });
    start(): void;
    shutdown(): Promise<void>;
  }
}
