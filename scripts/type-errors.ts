/** Judges the errors of a compiler in programs that must compile, and in programs that must not. */

export interface TypeError {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** A program of a file `*.wrong.ts`, from its marker to the next one. */
interface WrongProgram {
  readonly name: string;
  /** The text that an error of it must have. */
  readonly expected: string;
  readonly from: number;
  to: number;
}

/** Parses the output of `tsc --pretty false`. Indented lines belong to the error before them. */
export function parseTypeErrors(output: string): readonly TypeError[] {
  const matches = output.matchAll(/^(\S.*?)\((\d+),\d+\): (error TS\d+: .*(?:\n[ \t]+.*)*)/gm);
  const errors = [...matches].map(([, file = "", line, text = ""]) => ({ file, line: Number(line), text }));
  const bare = output.match(/^error TS.*/gm) ?? [];
  return [...errors, ...bare.map((text) => ({ file: "", line: 0, text }))];
}

/** Returns the programs of a file. A marker is `// W1 what is wrong: text of the error`. */
function listWrongPrograms(source: string): readonly WrongProgram[] {
  const lines = source.split("\n");
  const programs: WrongProgram[] = [];
  for (const [index, line] of lines.entries()) {
    const [, name, expected] = line.match(/^\/\/ (W\d+ [^:]+): (.+)$/) ?? [];
    if (name === undefined || expected === undefined) continue;
    const previous = programs.at(-1);
    if (previous) previous.to = index;
    programs.push({ name, expected, from: index + 1, to: lines.length });
  }
  return programs;
}

/** Returns what is wrong with one program and its errors; null if it fails as expected. */
function judgeProgram({ name, expected }: WrongProgram, errors: readonly TypeError[]): string | null {
  const [first] = errors;
  if (!first) return `${name}: compiles`;
  if (errors.some(({ text }) => text.includes(expected))) return null;
  return `${name}: no error has the text ${JSON.stringify(expected)}: ${first.text}`;
}

/**
 * Returns what is wrong: a program that compiles, an error without the expected text, an error outside of the programs.
 * `sources` are the files by name. `ignoresOtherFiles` ignores errors in files that are none of them.
 */
export function judgeTypeErrors(
  sources: ReadonlyMap<string, string>,
  errors: readonly TypeError[],
  { ignoresOtherFiles = false }: { readonly ignoresOtherFiles?: boolean } = {},
): readonly string[] {
  const problems: string[] = [];
  const expectedErrors = new Set<TypeError>();
  for (const [file, source] of [...sources].filter(([name]) => name.endsWith(".wrong.ts"))) {
    const programs = listWrongPrograms(source);
    if (programs.length === 0) problems.push(`${file}: has no marked program`);
    for (const program of programs) {
      const inside = errors.filter(
        ({ file: name, line }) => name === file && line > program.from && line <= program.to,
      );
      for (const error of inside) expectedErrors.add(error);
      const problem = judgeProgram(program, inside);
      if (problem !== null) problems.push(`${file}:${program.from}: ${problem}`);
    }
  }
  const strayErrors = errors.filter(
    (error) => !expectedErrors.has(error) && !(ignoresOtherFiles && error.file !== "" && !sources.has(error.file)),
  );
  return [...problems, ...strayErrors.map(({ file, line, text }) => `${file}:${line}: ${text}`)];
}
