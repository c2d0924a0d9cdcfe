/** The server's analysis: findings, the most serious first, and what to try next. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";

import { ActionButton, Button } from "../../design/Button";
import { copyText } from "../../design/clipboard";
import { Empty } from "../../design/Empty";
import { Icon } from "../../design/Icon";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Note } from "../../design/Note";
import { Table } from "../../design/Table";
import { ActionDialog, type Asked } from "./actions/ActionDialog";
import { CHANGES, remedyOf } from "./actions/advice";
import type { TabProps } from "./ExecutionPage";
import { analysisOf } from "./queries";

const TONES = { error: "bad", warning: "warn", info: "idle" } as const;

export default function WhyTab({ execution }: TabProps) {
  const analysis = useQuery(analysisOf(execution.execution_id));
  const [asked, setAsked] = useState<Asked | null>(null);
  return (
    <Loaded query={analysis}>
      {(answer) => (
        <div className="stack">
          {answer.stuck ? <p>It does not progress without help.</p> : null}
          {answer.findings.length === 0 ? (
            <Note tone="idle">
              <p>{answer.verdict}</p>
            </Note>
          ) : null}
          {answer.findings.map((finding) => (
            <section className="card stack" key={`${finding.kind} ${finding.run} ${finding.message}`} aria-label={finding.kind}>
              <Note tone={TONES[finding.severity]}>
                <p>{finding.message}</p>
                <p className="small mono">{finding.kind}</p>
              </Note>
              <ul className="advice">
                {finding.next?.map((advice) => (
                  <li key={advice}>
                    <Advice text={advice} executionId={execution.execution_id} ask={setAsked} />
                  </li>
                ))}
              </ul>
            </section>
          ))}
          <h2>Changes from outside</h2>
          <section className="card card-flush" aria-label="Changes from outside">
            {answer.changes.length === 0 ? (
              <Empty title="Nothing was changed from outside." />
            ) : (
              <Table
                label="Changes from outside"
                rows={answer.changes}
                rowKey={(change) => change.event_id}
                columns={[
                  { title: "At", cell: (change) => <Moment at={change.at} /> },
                  { title: "Change", cell: (change) => change.name },
                  { title: "By", cell: (change) => change.principal },
                  { title: "Reason", cell: (change) => change.reason || "–" },
                  { title: "Refused", cell: (change) => change.refused || "–" },
                ]}
              />
            )}
          </section>
          {asked ? <ActionDialog execution={execution} asked={asked} close={() => setAsked(null)} /> : null}
        </div>
      )}
    </Loaded>
  );
}

interface AdviceProps {
  executionId: string;
  ask: (asked: Asked) => void;
}

/** Commands between backquotes can be copied; what pages do as well has a button or a link. */
function Advice({ text, ...rest }: AdviceProps & { text: string }): ReactNode {
  return text.split(/(`[^`]+`)/).map((part, index) => {
    if (!part.startsWith("`")) return part;
    const command = part.slice(1, -1);
    return (
      <span key={index} className="row-inline">
        <code>{command}</code>
        <Button look="plain" label={`Copy ${command}`} onPress={() => void copyText(command, "the command")}>
          <Icon name="copy" />
        </Button>
        <Remedy command={command} {...rest} />
      </span>
    );
  });
}

function Remedy({ command, executionId, ask }: AdviceProps & { command: string }) {
  const remedy = remedyOf(command, executionId);
  switch (remedy?.kind) {
    case undefined:
      return null;
    case "change":
      return (
        <ActionButton scope="execute" onPress={() => ask(remedy)}>
          {CHANGES[remedy.change]}
        </ActionButton>
      );
    case "execution":
      return (
        <Link to="/executions/$id" params={{ id: remedy.id }} search={{ view: "why" }}>
          Open {remedy.id}
        </Link>
      );
    case "page":
      return <Link to={remedy.to}>{remedy.title}</Link>;
  }
}
