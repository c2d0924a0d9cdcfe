/** The server's diagnostics of a playbook as a list. */
import type { Finding } from "../../api/problem";
import { Button } from "../../design/Button";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { fixLabel } from "../code/marks";

interface FindingsProps {
  findings: Finding[];
  /** Do what a finding suggests, where the text can be changed. */
  fix?: (finding: Finding) => void;
}

export function Findings({ findings, fix }: FindingsProps) {
  if (findings.length === 0) return null;
  return (
    <section className="card card-flush" role="status">
      <Table
        label="Problems of the text"
        rows={findings}
        rowKey={(finding) => `${finding.location} ${finding.code} ${finding.message}`}
        columns={[
          { title: "Severity", cell: (finding) => <Status of={finding.severity} /> },
          { title: "Place", cell: (finding) => `${finding.line}:${finding.column}` },
          { title: "Problem", cell: (finding) => finding.message },
          { title: "Fix", cell: (finding) => <Fix finding={finding} fix={fix} /> },
          { title: "Code", cell: (finding) => <span className="mono">{finding.code}</span> },
        ]}
      />
    </section>
  );
}

function Fix({ finding, fix }: { finding: Finding } & Pick<FindingsProps, "fix">) {
  const label = fixLabel(finding);
  if (!label || !fix) return finding.fix ?? "–";
  return (
    <Button onPress={() => fix(finding)} label={`${label} in line ${finding.line}`}>
      {label}
    </Button>
  );
}
