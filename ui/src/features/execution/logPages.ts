/** Pages of what tasks have printed: from its start, from its end backwards, or what follows its end. */
import type { Schemas } from "../../api/client";
import type { PARTS } from "./search";
import type { HistoryPage } from "./usePages";

export type Line = Schemas["TaskLine"];
export type Part = (typeof PARTS)[number];

export interface LogQuery {
  after?: string;
  limit: number;
  order: "oldest" | "newest";
}

/** One request for lines that fit. */
export type Ask = (query: LogQuery) => Promise<Schemas["LinesAnswer"]>;

export const PAGE = 1_000;
/** Requests at most for the last lines that fit. */
const MOST_REQUESTS = 10;

export function readLines(part: Part, ask: Ask, after: string | undefined): Promise<HistoryPage<Line>> {
  return part === "end" && after === undefined ? readEnd(ask) : readPage(part === "newest" ? "newest" : "oldest", ask, after);
}

async function readPage(order: LogQuery["order"], ask: Ask, after: string | undefined): Promise<HistoryPage<Line>> {
  const page = await ask({ order, after, limit: PAGE });
  const { lines: items, next, complete, scanned: count = 0, scanned_until: until = null, more = false } = page;
  return { items, next, complete, scan: { count, until, more } };
}

/** The last lines that fit, in their order; the page behind them is what follows. */
async function readEnd(ask: Ask): Promise<HistoryPage<Line>> {
  const items: Line[] = [];
  let page = await ask({ order: "newest", limit: PAGE });
  const next = page.end ?? "";
  let count = page.scanned ?? 0;
  items.push(...page.lines);
  for (let requests = 1; requests < MOST_REQUESTS && !page.complete && items.length < PAGE; requests++) {
    page = await ask({ order: "newest", after: page.next, limit: PAGE - items.length });
    count += page.scanned ?? 0;
    items.push(...page.lines);
  }
  return { items: items.reverse(), next, complete: false, scan: { count, until: null, more: true } };
}
