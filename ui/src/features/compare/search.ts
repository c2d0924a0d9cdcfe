/** Which executions the page compares, as its link has them. */
import { type RawSearch, textOf } from "../../app/search";

export interface CompareSearch {
  a?: string;
  b?: string;
}

export function compareSearch(search: RawSearch): CompareSearch {
  return { a: textOf(search, "a"), b: textOf(search, "b") };
}
