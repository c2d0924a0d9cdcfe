/** Texts for the clipboard and the shell. */
import { notify } from "../app/notices";

/** Put a text on the clipboard and say so. */
export async function copyText(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    notify(`Copied ${what}.`);
  } catch {
    notify("The browser refused the clipboard.");
  }
}

const PLAIN_WORD = /^[\w@%+:,./-][\w@%+=:,./-]*$/;

/** A terminal acts on control characters even inside of quotes, and shows what bidirectional ones surround in another order. */
const STEERS_TERMINALS = /[\0-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;
/** With what means something between the quotes of `$'…'`, to the shell or to its history. */
const ESCAPED = new RegExp(`${STEERS_TERMINALS.source}|[\\\\'!\\n]`, "g");

/** A word of a shell command, quoted when it has to be. */
export function shellWord(text: string): string {
  if (PLAIN_WORD.test(text)) return text;
  return STEERS_TERMINALS.test(text) ? `$'${text.replace(ESCAPED, escaped)}'` : `'${text.replaceAll("'", "'\\''")}'`;
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
