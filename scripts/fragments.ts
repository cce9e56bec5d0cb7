/** Finds doc comments that do not begin as sentences. The rules know little grammar: in doubt they find nothing. */

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/));

const SUBORDINATORS = words(
  "what who whom whose which where when how whether why that if while because unless until once since though although wherever whenever",
);
const PREPOSITIONS = words(
  "of from for with without in on as like by at to into under over between within before after among per through during beside despite about not so also more only even likewise therefore except instead relative",
);
const PRONOUNS = words("those these they it one each both all some none many others most another this");
const AUXILIARIES = words(
  "is are was were has have had does do did can may must will would should could cannot shall needs need",
);
/** Words after which a word in -s is a noun in the plural: "of runs", "the calls". */
const BEFORE_NOUNS = words(
  "a an the of for in on at by to from with without its their his all these those no some many and or new each every other own as than into between such",
);
/** Words before which a word in -s is a noun in the plural: "Runs of a thread". */
const AFTER_NOUNS = words("of in that which with whose who where and or");
/** Verbs in the third person that are as often nouns in the plural. */
const NOUNS_LIKE_VERBS = words("runs calls names states results points lists numbers times orders records claims");
const VERBS = words(`
  abort accept accompany acquire act add adopt allocate allow answer appear append apply ask assert assign attach authenticate authorize
  await become begin belong bind block break bring buffer build bundle cache calculate call cancel carry catch change check choose claim
  clear clone close collect combine come compare compile complete compute configure connect consist consume contain continue convert copy
  cost count cover create cut decide declare decode decrypt define delay delete deliver depend derive describe detect determine differ
  disable disconnect dispatch do draw drive drop emit empty enable encode encrypt end enqueue ensure enter escape estimate evaluate execute
  exist expand expect expire explain export extend extract fail fetch fill filter find finish fire fit flatten flush follow forbid force
  format forward free freeze generate get give go group grow guard handle hash have hide hold identify ignore implement import include
  increase index infer inform initialize insert inspect install interrupt invoke issue join keep know lack last lead leave let lie limit
  link list listen load lock log look make map mark match mean measure merge migrate miss move name need normalize note notify number
  observe obtain occur omit open order overwrite own parse pass pause perform persist pick pin place plan point poll post prefer prepare prevent
  print probe proceed process produce prove provide prune publish pull push put query queue quote race raise reach read rebuild receive
  recompute record redact redirect reduce refer refresh refuse register reject release reload remain remove rename render renew repair
  repeat replace replay report represent request require requeue reset resolve respond restart restore restrict result resume retain retry
  return reuse revoke rewrite roll rotate round run sanitize save say scan schedule search see seed select send separate serialize serve set share
  show shrink sign signal simulate skip sleep sort spawn split spread stand start state stay stop store stream strip subscribe suggest
  supply suspend swap take tell terminate test throw time trace track transform translate treat trim truncate try turn unlock unpack
  unsubscribe update upload use validate vary verify visit wait wake walk want warn watch win wrap write yield
`);

/** Returns the base form of a verb in the third person; undefined for a word that cannot be one. */
function toBaseForm(word: string): string | undefined {
  if (!word.endsWith("s") || word.endsWith("ss")) return undefined;
  const stem = word.slice(0, -1);
  return [stem, stem.replace(/e$/, ""), stem.replace(/ie$/, "y")].find((base) => VERBS.has(base));
}

/** Returns true for a finite verb at this index: "runs" in "A worker runs a job", and not in "the runs of a thread". */
function isVerbAt(segment: readonly string[], index: number): boolean {
  const word = segment[index] ?? "";
  const before = segment[index - 1];
  const after = segment[index + 1];
  if (AUXILIARIES.has(word)) return true;
  if (before !== undefined && BEFORE_NOUNS.has(before)) return false;
  if (VERBS.has(word)) return before !== undefined && (before.endsWith("s") || PRONOUNS.has(before));
  return toBaseForm(word) !== undefined && !(index === 0 && after !== undefined && AFTER_NOUNS.has(after));
}

/** Returns true if a segment has more finite verbs than subordinate clauses. */
function hasMainVerb(segment: readonly string[]): boolean {
  const clauses = segment.filter((word, index) => index > 0 && SUBORDINATORS.has(word));
  const verbs = segment.filter((_, index) => isVerbAt(segment, index));
  return verbs.length > clauses.length;
}

/** Returns true for a first word that is the verb of the function: "Returns", "Waits for", "Called when" of a callback. */
function startsWithVerb([first = "", second = ""]: readonly string[]): boolean {
  if (VERBS.has(first) || AUXILIARIES.has(first) || first === "called") return true;
  if (toBaseForm(first)) return !(AFTER_NOUNS.has(second) && NOUNS_LIKE_VERBS.has(first));
  return /[^s]s$/.test(first) && !AFTER_NOUNS.has(second) && !/^(?:for|from|to|on|at|as|by)$/.test(second);
}

/** Splits the first sentence of a comment at commas into words in lower case. Code counts as one noun. */
function readSegments(comment: string): string[][] {
  const plain = comment
    .replace(/^(?:`[^`]*`(?:, )?)+:\s/, "")
    .replaceAll(/`[^`]*`/g, "code")
    .replaceAll(/\{@link ([^}]*)\}/g, "$1")
    .replaceAll(/\([^)]*\)/g, "");
  const sentence = plain.split(/[.!?](?:\s|$)|:\s/, 1)[0] ?? "";
  return sentence
    .toLowerCase()
    .split(/[,;]\s/)
    .map((segment) => segment.match(/[\w'-]+/g) ?? []);
}

export type Fragment = "fragments" | "nounPhrases";

/**
 * Returns `fragments` for a comment that begins without a subject and verb ("Of runs that…", "Whether the…", "One module for each
 * block"), and `nounPhrases` for the comment of a function that has no verb ("The name of a node"). A type, a constant or a field may
 * begin with a noun. Returns null for all others: "For each row, returns…" is a sentence.
 */
export function findFragment(comment: string, isOfFunction: boolean): Fragment | null {
  if (/^(?:The same|Likewise|Ditto)\b/.test(comment)) return "fragments";
  const segments = readSegments(comment);
  const [first = []] = segments;
  const [word] = first;
  if (word === undefined) return null;
  const later = segments.slice(1);
  if (later.some((segment) => startsWithVerb(segment) || hasMainVerb(segment))) return null;
  if (SUBORDINATORS.has(word)) return "fragments";
  if (hasMainVerb(first)) return null;
  if (PREPOSITIONS.has(word) || PRONOUNS.has(word)) return "fragments";
  return isOfFunction && !startsWithVerb(first) ? "nounPhrases" : null;
}
