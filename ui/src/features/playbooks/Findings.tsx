/** The server's diagnostics of a playbook as a list. */
import type { Finding } from "../../api/problem";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";

export function Findings({ findings }: { findings: Finding[] }) {
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
          { title: "Fix", cell: (finding) => finding.fix ?? "–" },
          { title: "Code", cell: (finding) => <span className="mono">{finding.code}</span> },
        ]}
      />
    </section>
  );
}
