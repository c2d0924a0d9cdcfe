/** Queries that this browser keeps, by name. */
const KEY = "noetl-queries";

export type Saved = Record<string, string>;

export function readSaved(): Saved {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return typeof found === "object" && found !== null ? (found as Saved) : {};
  } catch {
    return {};
  }
}

export function writeSaved(saved: Saved): void {
  localStorage.setItem(KEY, JSON.stringify(saved));
}
