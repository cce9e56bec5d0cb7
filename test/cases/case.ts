/** A case of a case file, and the functions that create cases from the entries of its groups. */

/** Something that holds or does not: `run` rejects with what is wrong. */
export interface Case {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** An object whose members are not known yet. */
export type Fields = Readonly<Record<string, unknown>>;

/** A file or an entry requires something that this program does not know, so that it cannot be checked. */
export class UnsupportedCaseError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UnsupportedCaseError";
  }
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members of an object that are not in the list, which is separated by spaces. */
export function listUnknownFields(of: Fields, fieldNames: string): readonly string[] {
  const names = new Set(fieldNames.split(" "));
  return Object.keys(of).filter((name) => !names.has(name));
}

/** Throws when the object has a member that is not in the list. */
export function requireKnownFields(of: Fields, fieldNames: string): void {
  const unknown = listUnknownFields(of, fieldNames);
  if (unknown.length > 0) throw new UnsupportedCaseError(`unknown field ${unknown.join(", ")}`);
}

/** The member `name`, which must be there. */
export function member(of: Fields, name: string): unknown {
  if (!Object.hasOwn(of, name)) throw new UnsupportedCaseError(`the field ${name} is missing`);
  return of[name];
}

export function text(of: Fields, name: string): string {
  const fieldValue = member(of, name);
  if (typeof fieldValue !== "string") throw new UnsupportedCaseError(`the field ${name} is no text`);
  return fieldValue;
}

export function number(of: Fields, name: string): number {
  const fieldValue = member(of, name);
  if (typeof fieldValue !== "number") throw new UnsupportedCaseError(`the field ${name} is no number`);
  return fieldValue;
}

export function list(of: Fields, name: string): readonly unknown[] {
  const fieldValue = member(of, name);
  if (!Array.isArray(fieldValue)) throw new UnsupportedCaseError(`the field ${name} is no list`);
  return fieldValue;
}

export function fields(of: Fields, name: string): Fields {
  const fieldValue = member(of, name);
  if (!isFields(fieldValue)) throw new UnsupportedCaseError(`the field ${name} is no object`);
  return fieldValue;
}

/** Creates a case that fails. */
export const createFailingCase = (name: string, message: string): Case => ({
  name,
  run: () => Promise.reject(new UnsupportedCaseError(message)),
});

/** The fields of a group's entries, and the function that runs one. */
export interface Group {
  /** Members that entries may have, separated by spaces. */
  readonly fieldNames: string;
  run(entry: Fields): Promise<void>;
}

/** The cases of a group, one for each entry; a group of another form is one case that fails. */
export function createCases(
  file: string,
  group: string,
  entries: unknown,
  { fieldNames, run }: Group,
): readonly Case[] {
  if (!Array.isArray(entries)) return [createFailingCase(`${file} ${group}`, `the group ${group} is no list`)];
  return entries.map((entry: unknown, index): Case => {
    if (!isFields(entry)) return createFailingCase(`${file} ${group} ${index}`, "the entry is no object");
    const { id = index, note = "" } = entry;
    return {
      name: `${file} ${group} ${String(id)}${note === "" ? "" : `: ${String(note)}`}`,
      async run() {
        requireKnownFields(entry, fieldNames);
        await run(expandRepeats(entry) as Fields);
      },
    };
  });
}

/** Returns the value with every `{"$repeat": [text, n]}` replaced by the text, n times. */
export function expandRepeats(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expandRepeats);
  if (!isFields(value)) return value;
  const { $repeat: repeat } = value;
  if (Array.isArray(repeat) && Object.keys(value).length === 1) {
    const [piece, count] = repeat as readonly unknown[];
    if (repeat.length !== 2 || typeof piece !== "string" || !Number.isInteger(count)) {
      throw new UnsupportedCaseError(`$repeat is not [text, number]: ${JSON.stringify(value).slice(0, 80)}`);
    }
    return piece.repeat(count as number);
  }
  return Object.fromEntries(Object.entries(value).map(([key, memberValue]) => [key, expandRepeats(memberValue)]));
}
