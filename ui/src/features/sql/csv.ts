/** Rows as CSV (RFC 4180): values of JSON as their text, null as nothing. */
import { printJson } from "../../api/json";

/** A cell that begins so is read as a formula by spreadsheets; a quote before it keeps it text. */
const FORMULA = /^[=+\-@\t\r]/;
/** Postgres answers numerics as text; they begin with a minus and are no formulas. */
const NUMBER = /^-\d+(\.\d+)?(e[+-]?\d+)?$/i;

export function csvOf(columns: string[], rows: unknown[][]): string {
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function textOfCell(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : printJson(value);
}

function cell(value: unknown): string {
  const plain = textOfCell(value);
  const text = typeof value === "string" && FORMULA.test(plain) && !NUMBER.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
