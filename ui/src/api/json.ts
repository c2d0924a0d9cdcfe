/** JSON without loss: integers beyond 2^53 become BigInt, and BigInt becomes digits again. */

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

// A number is matched as a whole.
const NUMBERS = /-?\d[\d.eE+-]*/g;
const LONG_INTEGER = /^-?\d{16,}$/;

/** Parse JSON; keep every integer exactly. */
export function parseJson(text: string): Json {
  const mark = uniqueMark();
  let marked = false;
  const prepared = outsideOfStrings(text, (part) =>
    part.replace(NUMBERS, (token) => {
      if (!LONG_INTEGER.test(token) || Number.isSafeInteger(Number(token))) return token;
      marked = true;
      return `"${mark}${token}"`;
    }),
  );
  if (!marked) return JSON.parse(text) as Json;
  return JSON.parse(prepared, (_name, value: Json) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  ) as Json;
}

/** Change what of a JSON text is in no string. A regular expression for strings has no room for one of ten megabytes. */
function outsideOfStrings(text: string, change: (part: string) => string): string {
  const parts: string[] = [];
  let from = 0;
  for (let open = text.indexOf('"'); open >= 0; open = text.indexOf('"', from)) {
    const end = endOfString(text, open);
    parts.push(change(text.slice(from, open)), text.slice(open, end));
    from = end;
  }
  return parts.join("") + change(text.slice(from));
}

/** The place behind the string that begins at `open`. */
function endOfString(text: string, open: number): number {
  for (let at = text.indexOf('"', open + 1); at >= 0; at = text.indexOf('"', at + 1)) {
    let escapes = 0;
    while (text[at - 1 - escapes] === "\\") escapes += 1;
    if (escapes % 2 === 0) return at + 1;
  }
  return text.length;
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
