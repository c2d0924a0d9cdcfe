import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { Page } from "../../app/Page";
import { useScope } from "../../app/SessionContext";
import { Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Note } from "../../design/Note";
import { Table } from "../../design/Table";
import { ExecutionLink } from "../execution/Header";

type Credential = Schemas["CredentialView"];

export default function CredentialsPage() {
  const query = useQuery({
    queryKey: ["credentials"],
    queryFn: async () => (await read(api.GET("/api/credentials", { params: { query: { limit: 500 } } }))).credentials,
  });
  const [name, setName] = useState<string | null>(null);
  return (
    <Page title="Credentials" actions={<CopyAs of={() => COPIES.credentials(query.data ?? [])} />}>
      <p className="muted">Names and uses. Data is sealed and never shown here.</p>
      <Loaded query={query}>{(rows) => <Credentials rows={rows} pick={setName} />}</Loaded>
      <AccessLog name={name} clear={() => setName(null)} />
    </Page>
  );
}

function Credentials({ rows, pick }: { rows: Credential[]; pick: (name: string) => void }) {
  if (rows.length === 0) {
    return (
      <Empty title="No credential is kept.">
        <p>
          Keep one with <code>noetl credential add</code>.
        </p>
      </Empty>
    );
  }
  return (
    <section className="card card-flush">
      <Table
        label="Credentials"
        rows={rows}
        rowKey={(row) => row.id}
        columns={[
          { title: "Name", cell: (row) => <span className="mono">{row.name}</span> },
          { title: "Type", cell: (row) => row.type },
          { title: "Description", cell: (row) => row.description || "–" },
          { title: "Tags", cell: (row) => row.tags.join(", ") || "–" },
          { title: "Version", numeric: true, cell: (row) => row.version },
          { title: "Changed", cell: (row) => <Moment at={row.updated_at} /> },
          { title: "Kept by", cell: (row) => row.created_by },
          {
            title: "Uses",
            cell: (row) => (
              <Button label={`Uses of ${row.name}`} onPress={() => pick(row.name)}>
                Uses
              </Button>
            ),
          },
        ]}
      />
    </section>
  );
}

function AccessLog({ name, clear }: { name: string | null; clear: () => void }) {
  const allowed = useScope("admin");
  const query = useQuery({
    queryKey: ["credential-uses", name],
    queryFn: async () =>
      (await read(api.GET("/api/access/credentials", { params: { query: { name: name ?? undefined, limit: 200 } } }))).accesses,
    enabled: allowed,
  });
  return (
    <>
      <div className="row spread">
        <h2>{name === null ? "Latest uses" : `Latest uses of ${name}`}</h2>
        {name === null ? null : <Button onPress={clear}>All credentials</Button>}
      </div>
      {allowed ? (
        <Loaded query={query}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No use is recorded." />
            ) : (
              <section className="card card-flush">
                <Table
                  label="Uses of credentials"
                  rows={rows}
                  rowKey={(row) => row.id}
                  columns={[
                    { title: "At", cell: (row) => <Moment at={row.at} /> },
                    { title: "Credential", cell: (row) => <span className="mono">{row.name}</span> },
                    { title: "Action", cell: (row) => row.action },
                    { title: "By", cell: (row) => row.principal },
                    { title: "Execution", cell: (row) => (row.execution_id ? <ExecutionLink id={row.execution_id} /> : "–") },
                    { title: "Step", cell: (row) => row.step || "–" },
                  ]}
                />
              </section>
            )
          }
        </Loaded>
      ) : (
        <Note tone="idle">
          <p>The log of uses needs the scope admin.</p>
        </Note>
      )}
    </>
  );
}
