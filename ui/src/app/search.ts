/** Reading search parameters: what is not as expected is left out, so that a bent link still opens. */
export type RawSearch = Record<string, unknown>;

/** An id as a text of JSON, as links of other programs may have it; other quotes belong to what is searched for. */
const QUOTED_ID = /^"(\d+)"$/;

/** Read the parameters of an address as text: an id has more digits than a JavaScript number keeps. */
export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries([...new URLSearchParams(text)].map(([name, value]) => [name, value.replace(QUOTED_ID, "$1")]));
}

/** Write parameters as they are read; what is undefined is left out. */
export function stringifySearch(search: RawSearch): string {
  const written = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== "") written.set(name, String(value));
  }
  const text = written.toString();
  return text ? `?${text}` : "";
}

/** A parameter as text; undefined when it is missing or empty. */
export function textOf(search: RawSearch, name: string): string | undefined {
  const value = search[name];
  if (typeof value === "string" && value !== "") return value;
  return typeof value === "number" ? String(value) : undefined;
}

export function oneOf<Value extends string>(search: RawSearch, name: string, values: readonly Value[]): Value | undefined {
  return values.find((value) => value === search[name]);
}

export function numberOf(search: RawSearch, name: string): number | undefined {
  const value = Number(search[name] ?? Number.NaN);
  return Number.isSafeInteger(value) ? value : undefined;
}
