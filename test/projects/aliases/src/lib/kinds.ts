export enum Kind {
  Ask = "ask",
  Close = "close",
}

export namespace Names {
  export const graph = Kind.Ask as const;
}

export interface Words {
  readonly closing: string;
}
