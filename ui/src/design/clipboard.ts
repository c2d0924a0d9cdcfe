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

/** A word of a shell command, quoted when it has to be. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
