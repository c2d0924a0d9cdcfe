/** Filters that this browser keeps by name. A view is its link, so that it can be sent to others as well. */
import { type ExecutionsSearch, executionsSearch } from "./search";

const KEY = "noetl-views";
const MOST = 50;

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

export function readViews(): View[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    if (!Array.isArray(found)) return [];
    return found
      .filter((one): one is View => typeof one?.name === "string" && typeof one?.search === "object" && one.search !== null)
      .map(({ name, search }) => ({ name, search: executionsSearch({ ...search }) }))
      .slice(0, MOST);
  } catch {
    return [];
  }
}

/** Keep a view under its name, which replaces one of this name. */
export function withView(views: View[], view: View): View[] {
  return [...views.filter(({ name }) => name !== view.name), view].slice(-MOST);
}

export function writeViews(views: View[]): void {
  localStorage.setItem(KEY, JSON.stringify(views));
}

/** The view whose filter is this one. */
export function viewOf(views: View[], search: ExecutionsSearch): View | undefined {
  const wanted = textOf(search);
  return views.find((view) => textOf(view.search) === wanted);
}

function textOf(search: ExecutionsSearch): string {
  const entries = Object.entries(search).filter(([, value]) => value !== undefined);
  return JSON.stringify(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}
