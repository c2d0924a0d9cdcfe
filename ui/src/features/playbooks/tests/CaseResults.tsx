/** What each case found: passed, or where its outcome differs from what it expects. */
import type { Schemas } from "../../../api/client";
import { Button } from "../../../design/Button";
import { copyText } from "../../../design/clipboard";
import { Icon } from "../../../design/Icon";
import { Note } from "../../../design/Note";
import { Status } from "../../../design/Status";
import { realRunOf } from "./realRun";

type Case = Schemas["TestedCase"];

export function CaseResults({ answer, playbook }: { answer: Schemas["TestsAnswer"]; playbook: string }) {
  const left = answer.total - answer.cases.length;
  return (
    <>
      <p role="status">
        <strong>
          {answer.passed} passed, {answer.failed} failed
        </strong>
        {left > 0 ? `, ${left} not run` : ""} · {answer.covered} % of the branches reached
      </p>
      {answer.stopped ? (
        <Note tone="bad">
          <p>Not every case was run: {answer.stopped}.</p>
        </Note>
      ) : null}
      <ul className="tests-cases">
        {answer.cases.map((one) => (
          <li key={one.name} className="card stack">
            <div className="row spread">
              <span className="tests-name">{one.name}</span>
              <Status of={one.passed ? "done" : "failed"} word={one.passed ? "passed" : "failed"} />
            </div>
            {one.findings.map((finding) => (
              <FindingText key={`${finding.where} ${finding.message}`} finding={finding} playbook={playbook} />
            ))}
            <p className="muted small">
              line {one.line} · {one.status || "not started"} · {one.duration_ms} ms
              {one.path.length > 0 ? ` · ${one.path.join(" → ")}` : ""}
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}

function FindingText({ finding, playbook }: { finding: Case["findings"][number]; playbook: string }) {
  const { says, command } = realRunOf(finding.message ?? "", playbook);
  return (
    <div className="tests-finding">
      <strong className="mono">{finding.where}</strong>
      {finding.expected || finding.got ? (
        <dl>
          <dt>expected</dt>
          <dd className="mono">{finding.expected}</dd>
          <dt>got</dt>
          <dd className="mono">{finding.got}</dd>
        </dl>
      ) : null}
      {says ? <p className="tests-message">{says}</p> : null}
      {command ? (
        <div className="row">
          <span>
            or run it for real, with both files in one folder: <code>{command}</code>
          </span>
          <Button look="plain" label="Copy the command" onPress={() => void copyText(command, "the command")}>
            <Icon name="copy" />
            Copy
          </Button>
        </div>
      ) : null}
    </div>
  );
}
