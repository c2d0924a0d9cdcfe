/** Views of the list: those that every server has, and those that people saved. A view is its link, too. */
import type { SavedView } from "../../app/savedViews";
import { executionsSearch, type ExecutionsSearch } from "./search";

export interface View {
  name: string;
  search: ExecutionsSearch;
}

/** What everyone has. */
export const BUILT_IN: View[] = [
  { name: "All", search: {} },
  { name: "Failed today", search: { status: "failed", age: "24h" } },
  { name: "Running", search: { status: "running" } },
  { name: "Waiting", search: { status: "waiting" } },
];

/** What people saved; parameters that this version does not know are left out. */
export function viewsOf(saved: SavedView[]): View[] {
  return saved.map(({ name, search }) => ({ name, search: executionsSearch(search) }));
}

/** A filter as the server keeps it: texts. */
export function textsOf(search: ExecutionsSearch): Record<string, string> {
  const set = Object.entries(search).filter(([, value]) => value !== undefined);
  return Object.fromEntries(set.map(([name, value]) => [name, String(value)]));
}

/** The view whose filter is this one. */
export function viewOf(views: View[], search: ExecutionsSearch): View | undefined {
  const wanted = keyOf(search);
  return views.find((view) => keyOf(view.search) === wanted);
}

function keyOf(search: ExecutionsSearch): string {
  return JSON.stringify(Object.entries(textsOf(search)).sort(([a], [b]) => (a < b ? -1 : 1)));
}
