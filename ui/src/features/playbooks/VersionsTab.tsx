/** Every version of a playbook, newest first. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Table } from "../../design/Table";
import { versionsOf } from "./queries";

export function VersionsTab({ path, shown }: { path: string; shown: number }) {
  const versions = useQuery(versionsOf(path));
  return (
    <Loaded query={versions}>
      {(lines) => (
        <section className="card card-flush">
          <Table
            label="Versions"
            rows={lines}
            rowKey={(line) => String(line.version)}
            columns={[
              {
                title: "Version",
                cell: (line) => (
                  <Link from="/playbooks/$" search={{ version: line.version }}>
                    {line.version}
                    {line.version === shown ? " (shown)" : ""}
                  </Link>
                ),
              },
              { title: "Registered", cell: (line) => <Moment at={line.created_at} /> },
              {
                title: "Compare",
                cell: (line) =>
                  line.version > 1 ? (
                    <Link from="/playbooks/$" search={{ view: "diff", version: line.version, base: line.version - 1 }}>
                      with {line.version - 1}
                    </Link>
                  ) : (
                    "–"
                  ),
              },
              {
                title: "Executions",
                cell: (line) => (
                  <Link to="/executions" search={{ path, version: line.version }}>
                    of this version
                  </Link>
                ),
              },
              { title: "Program", cell: (line) => <span className="mono small">{line.program.slice(0, 12)}</span> },
            ]}
          />
        </section>
      )}
    </Loaded>
  );
}
