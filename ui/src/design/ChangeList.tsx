/** Places that differ between two values: the path, the value before, the value after. */
import type { Schemas } from "../api/client";
import { printJson } from "../api/json";

const MOST = 200;

/** `by_nature`: why a place differs between any two executions. */
type Change = Schemas["ChangeView"] & { by_nature?: string | null };

export function ChangeList({ label, changes, leftOut = 0 }: { label: string; changes: Change[]; leftOut?: number }) {
  return (
    <ul className="changes" tabIndex={0} aria-label={label}>
      {changes.map((change, index) => (
        <li key={`${change.path} ${index}`}>
          <span className="mono">{change.path}</span>
          {change.omitted ? (
            <span className="muted">{change.kind}; too large to show here</span>
          ) : (
            <span className="mono changes-values">
              {change.kind === "added" ? null : <del>{shortJson(change.before)}</del>}
              {change.kind === "removed" ? null : <ins>{shortJson(change.after)}</ins>}
            </span>
          )}
          {change.by_nature ? <span className="muted">always differs: {change.by_nature}</span> : null}
        </li>
      ))}
      {leftOut > 0 ? <li className="muted">{leftOut} more</li> : null}
    </ul>
  );
}

function shortJson(value: unknown): string {
  const text = printJson(value);
  return text.length > MOST ? `${text.slice(0, MOST - 1)}…` : text;
}
