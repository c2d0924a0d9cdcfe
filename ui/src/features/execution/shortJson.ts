/** JSON in one line. */
import { type Json, printJson } from "../../api/json";

const MOST = 200;

export function shortJson(value: Json): string {
  const text = printJson(value);
  return text.length > MOST ? `${text.slice(0, MOST - 1)}…` : text;
}
