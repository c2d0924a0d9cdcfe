/** The query of the page, as its link has it: a link runs nothing by itself. */
import { type RawSearch, textOf } from "../../app/search";

export interface SqlSearch {
  q?: string;
}

export function sqlSearch(search: RawSearch): SqlSearch {
  return { q: textOf(search, "q") };
}
