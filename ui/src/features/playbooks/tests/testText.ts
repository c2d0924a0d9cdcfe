/** The text of a test file: what a new one begins with, and cases of another one added to it. */

export const FIRST_TESTS = `cases:
  - name: it completes
    tools: {}
    expect:
      status: completed
`;

const CASES = /^cases:[^\S\n]*\n/m;

/** The cases of a test file that was made by the server. */
export function casesOf(text: string): string {
  return text.replace(CASES, "");
}

/** `text` with the cases of `made` at its end; a text whose last key is another one gets them behind `cases:`. */
export function withCases(text: string, made: string): string {
  if (text === FIRST_TESTS || text.trim() === "") return made;
  const more = casesOf(made);
  if (!CASES.test(text)) return `${text.trimEnd()}\n${made}`;
  return text.replace(CASES, (line) => `${line}${more}`);
}
