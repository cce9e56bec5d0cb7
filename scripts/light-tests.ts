/**
 * Node's test runner without its hook on every promise, which takes a third of the time of the storage suite. The hook finds the test
 * that an unawaited error belongs to; without it such an error fails the process. Import this before `node:test`.
 */
import hooks, { type HookCallbacks } from "node:async_hooks";

type Init = NonNullable<HookCallbacks["init"]>;
const { AsyncResource, createHook } = hooks;
let register: Init = () => {};

/** The runner's tests and suites are such resources: it has to know them, to put those that a suite declares into it. */
class Resource extends AsyncResource {
  constructor(...args: ConstructorParameters<typeof AsyncResource>) {
    super(...args);
    register(this.asyncId(), args[0], this.triggerAsyncId(), this);
  }
}

function createNoHook({ init }: HookCallbacks): ReturnType<typeof createHook> {
  if (init) register = init;
  const hook = { enable: () => hook, disable: () => hook };
  return hook;
}

Object.assign(hooks, { AsyncResource: Resource, createHook: createNoHook });
await import("node:test");
Object.assign(hooks, { AsyncResource, createHook });
