/** One sentence on why an execution is where it is, out of its summary; the page of findings says more. */
import type { Tone } from "../../design/Status";
import type { Execution } from "./queries";

export interface Why {
  tone: Tone;
  text: string;
  hint?: string;
  /** Where in the playbook, as line and column. */
  line?: number;
  column?: number;
}

interface ErrorBody {
  message?: string;
  hint?: string;
  position?: string;
  step?: string;
  code?: string;
}

export function whyOf(execution: Execution): Why | null {
  const error = execution.error as ErrorBody | null;
  if (error) {
    const step = error.step ? `Step ${error.step} failed: ` : "";
    return { tone: "bad", text: step + (error.message ?? error.code ?? "it failed"), hint: error.hint, ...placeOf(error.position) };
  }
  if (execution.status === "cancelled") return { tone: "idle", text: withReason("Cancelled", execution.reason) };
  if (execution.status === "paused") return { tone: "held", text: withReason("Paused", execution.reason) };
  const awaiting = execution.awaiting?.[0];
  if (awaiting) return { tone: "warn", text: `Step ${awaiting.step} waits for an answer${awaiting.message ? `: ${awaiting.message}` : "."}` };
  const wait = execution.waits?.[0];
  if (wait) return { tone: "warn", text: wait.step ? `Step ${wait.step} ${wait.reason}` : wait.reason };
  const parked = execution.parked[0];
  if (parked) return { tone: "warn", text: `Step ${parked.step} is admitted when ${parked.guard}` };
  return null;
}

function withReason(word: string, reason: string): string {
  return reason ? `${word}: ${reason}` : `${word}.`;
}

/** `playbook.yaml:30:13` as line and column. */
export function placeOf(position: string | undefined): { line?: number; column?: number } {
  const [, line, column] = /:(\d+):(\d+)$/.exec(position ?? "") ?? [];
  return line === undefined ? {} : { line: Number(line), column: Number(column) };
}
