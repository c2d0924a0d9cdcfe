/** The query of the page and its chart, as the link has them: a link runs nothing by itself. */
import { oneOf, type RawSearch, textOf } from "../../app/search";

export interface SqlSearch {
  q?: string;
  view?: "chart";
  /** The column that a chart goes along. */
  x?: string;
  /** The columns whose numbers it shows, as `listed` writes them. */
  y?: string;
  /** The column that splits it into series; `-`: none does. */
  by?: string;
}

export function sqlSearch(search: RawSearch): SqlSearch {
  return {
    q: textOf(search, "q"),
    view: oneOf(search, "view", ["chart"]),
    x: textOf(search, "x"),
    y: textOf(search, "y"),
    by: textOf(search, "by"),
  };
}

/** No column is called so by a query that does not quote it. */
export const NO_SPLIT = "-";

/** Names in one parameter: a comma in a name is written as %2C. */
export function listed(names: string[]): string {
  return names.map((name) => name.replaceAll("%", "%25").replaceAll(",", "%2C")).join(",");
}

export function unlisted(text: string | undefined): string[] {
  return text === undefined ? [] : text.split(",").map((name) => name.replaceAll("%2C", ",").replaceAll("%25", "%"));
}
