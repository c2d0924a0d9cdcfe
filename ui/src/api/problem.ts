/** What the server answered instead of what was asked for (RFC 9457), or why no answer came. */
import type { components } from "./schema";

export type Finding = components["schemas"]["PlaybookDiagnostic"];
type ProblemBody = components["schemas"]["ProblemAnswer"];

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly body: Partial<ProblemBody>,
  ) {
    super(body.detail ?? body.title ?? `The server answered ${status}.`);
  }

  get code(): string {
    return this.body.code ?? `http_${this.status}`;
  }

  get findings(): Finding[] {
    return this.body.errors ?? [];
  }
}

/** No answer came: the server is down, or the network is. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached.");
  }
}

/** Make a problem of an answer's error body, of any shape. */
export function problemOf(status: number, body: unknown): Problem {
  return new Problem(status, typeof body === "object" && body !== null ? (body as Partial<ProblemBody>) : {});
}
