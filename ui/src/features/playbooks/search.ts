/** What the pages of playbooks show, as their links have it. */
import { numberOf, oneOf, type RawSearch, textOf } from "../../app/search";

export interface PlaybooksSearch {
  text?: string;
  /** Days whose runs are shown; one unless it says more. */
  days?: 7;
}

export function playbooksSearch(search: RawSearch): PlaybooksSearch {
  return { text: textOf(search, "text"), days: textOf(search, "days") === "7" ? 7 : undefined };
}

export const VIEWS = ["text", "graph", "versions", "diff", "edit", "tests", "relations", "run"] as const;

export interface PlaybookSearch {
  view?: (typeof VIEWS)[number];
  version?: number;
  /** The line of the text that is marked. */
  line?: number;
  /** The version that a diff begins with. */
  base?: number;
  /** The execution whose input a run form begins with. */
  like?: string;
  /** The execution that a test is made from. */
  from?: string;
}

export function playbookSearch(search: RawSearch): PlaybookSearch {
  return {
    view: oneOf(search, "view", VIEWS),
    version: numberOf(search, "version"),
    line: numberOf(search, "line"),
    base: numberOf(search, "base"),
    like: textOf(search, "like"),
    from: textOf(search, "from"),
  };
}
