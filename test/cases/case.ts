/** One case of a case file, and what makes cases of the entries of its groups. */

/** Something that holds or does not: `run` rejects with what is wrong. */
export interface Case {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** An object whose members are not known yet. */
export type Fields = Readonly<Record<string, unknown>>;

/** What a file or an entry asks for and this program does not know: it cannot be told whether it holds. */
export class Unknown extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Unknown";
  }
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members of an object that are not in the list, which is separated by spaces. */
export function strangers(of: Fields, known: string): readonly string[] {
  const names = new Set(known.split(" "));
  return Object.keys(of).filter((name) => !names.has(name));
}

/** Throws when the object has a member that is not in the list. */
export function knows(of: Fields, known: string): void {
  const unknown = strangers(of, known);
  if (unknown.length > 0) throw new Unknown(`unknown field ${unknown.join(", ")}`);
}

/** The member `name`, which must be there. */
export function member(of: Fields, name: string): unknown {
  if (!Object.hasOwn(of, name)) throw new Unknown(`the field ${name} is missing`);
  return of[name];
}

export function text(of: Fields, name: string): string {
  const value = member(of, name);
  if (typeof value !== "string") throw new Unknown(`the field ${name} is no text`);
  return value;
}

export function number(of: Fields, name: string): number {
  const value = member(of, name);
  if (typeof value !== "number") throw new Unknown(`the field ${name} is no number`);
  return value;
}

export function list(of: Fields, name: string): readonly unknown[] {
  const value = member(of, name);
  if (!Array.isArray(value)) throw new Unknown(`the field ${name} is no list`);
  return value;
}

export function fields(of: Fields, name: string): Fields {
  const value = member(of, name);
  if (!isFields(value)) throw new Unknown(`the field ${name} is no object`);
  return value;
}

/** A case that fails. */
export const failing = (name: string, message: string): Case => ({
  name,
  run: () => Promise.reject(new Unknown(message)),
});

/** How the entries of a group are run. */
export interface Group {
  /** Members that entries may have, separated by spaces. */
  readonly known: string;
  run(entry: Fields): Promise<void>;
}

/** The cases of a group, one for each entry; a group of another form is one case that fails. */
export function casesOf(file: string, group: string, entries: unknown, { known, run }: Group): readonly Case[] {
  if (!Array.isArray(entries)) return [failing(`${file} ${group}`, `the group ${group} is no list`)];
  return entries.map((entry: unknown, index): Case => {
    if (!isFields(entry)) return failing(`${file} ${group} ${index}`, "the entry is no object");
    const { id = index, note = "" } = entry;
    return {
      name: `${file} ${group} ${String(id)}${note === "" ? "" : `: ${String(note)}`}`,
      async run() {
        knows(entry, known);
        await run(expanded(entry) as Fields);
      },
    };
  });
}

/** The same with every `{"$repeat": [text, n]}` replaced by the text, n times. */
export function expanded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expanded);
  if (!isFields(value)) return value;
  const { $repeat: repeat } = value;
  if (Array.isArray(repeat) && Object.keys(value).length === 1) {
    const [piece, count] = repeat as readonly unknown[];
    if (repeat.length !== 2 || typeof piece !== "string" || !Number.isInteger(count)) {
      throw new Unknown(`$repeat is not [text, number]: ${JSON.stringify(value).slice(0, 80)}`);
    }
    return piece.repeat(count as number);
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expanded(item)]));
}
