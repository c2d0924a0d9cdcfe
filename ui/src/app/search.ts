/** Reading search parameters: what is not as expected is left out, so that a bent link still opens. */
export type RawSearch = Record<string, unknown>;

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
