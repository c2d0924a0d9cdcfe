/** Something said about a place of a text, as the server says it: lines and columns begin at 1. */
export interface Mark {
  line: number;
  column: number;
  severity: "error" | "warning";
  message: string;
  fix?: string | null;
  /** What the page of diagnostics calls it. */
  code?: string;
  /** The change of the text that `fix` suggests: a part of one line, and what to write there. */
  edit?: { line: number; column: number; end_column: number; text: string } | null;
}

const LONGEST = 40;

/** What the button of a fix says. */
export function fixLabel(mark: Mark): string | null {
  if (!mark.edit) return null;
  const { text } = mark.edit;
  return `Write ${text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text}`;
}
