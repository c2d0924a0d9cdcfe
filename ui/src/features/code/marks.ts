/** Something said about a place of a text, as the server says it: lines and columns begin at 1. */
export interface Mark {
  line: number;
  column: number;
  severity: "error" | "warning";
  message: string;
  fix?: string | null;
}
