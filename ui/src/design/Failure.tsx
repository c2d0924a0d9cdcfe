/** Why something could not be shown or done, with the server's hint and a way to try again. */
import { Problem, Unreachable } from "../api/problem";
import { Button } from "./Button";
import { Note } from "./Note";

export function Failure({ error, retry }: { error: unknown; retry?: () => void }) {
  const problem = error instanceof Problem ? error : null;
  return (
    <Note tone="bad" role="alert">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {problem?.body.hint ? <p>{problem.body.hint}</p> : null}
      {problem && problem.findings.length > 0 ? (
        <ul>
          {problem.findings.map((finding) => (
            <li key={`${finding.location} ${finding.code}`}>
              {finding.location}: {finding.message}
              {finding.fix ? ` (${finding.fix})` : ""}
            </li>
          ))}
        </ul>
      ) : null}
      {problem ? (
        <p className="small mono">
          {problem.code}
          {problem.body.request_id ? ` · request ${problem.body.request_id}` : ""}
        </p>
      ) : null}
      {error instanceof Unreachable ? <p className="small">What is shown stays; it is read again when the server answers.</p> : null}
      {retry ? (
        <div>
          <Button onPress={retry}>Try again</Button>
        </div>
      ) : null}
    </Note>
  );
}
