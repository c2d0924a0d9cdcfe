/** JSON without loss: integers beyond 2^53 become BigInt, and BigInt becomes digits again. */

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

// Strings are matched first, so that digits inside of them are left alone; a number is matched as a whole.
const STRINGS_AND_NUMBERS = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
const LONG_INTEGER = /^-?\d{16,}$/;

/** Parse JSON; keep every integer exactly. */
export function parseJson(text: string): Json {
  const mark = uniqueMark();
  let marked = false;
  const prepared = text.replace(STRINGS_AND_NUMBERS, (token) => {
    if (!LONG_INTEGER.test(token) || Number.isSafeInteger(Number(token))) return token;
    marked = true;
    return `"${mark}${token}"`;
  });
  if (!marked) return JSON.parse(text) as Json;
  return JSON.parse(prepared, (_name, value: Json) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  ) as Json;
}

/** Print a value as JSON; BigInt as its digits. */
export function printJson(value: unknown, indent?: number): string {
  const mark = uniqueMark();
  const text = JSON.stringify(
    value,
    (_name, part: unknown) => (typeof part === "bigint" ? `${mark}${part}` : part),
    indent,
  );
  return text === undefined ? "null" : text.replaceAll(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1");
}

/** A prefix that no text of the value can hold by intent. */
function uniqueMark(): string {
  return `int-${crypto.randomUUID()}:`;
}
