/** The length of the names and other short texts of spans. */

/** The names and other short texts of spans are cut at so many characters. */
export const MAX_SPAN_TEXT_CHARS = 200;

/** Returns at most so many characters from the start of a text, as a copy: a part of a text can keep all of it in memory. */
export function copyStart(text: string, max_chars: number = MAX_SPAN_TEXT_CHARS): string {
  if (text.length <= max_chars) return text;
  const splitsPair = (text.charCodeAt(max_chars - 1) & 0xfc00) === 0xd800;
  return ` ${text.slice(0, splitsPair ? max_chars - 1 : max_chars)}`.slice(1);
}
