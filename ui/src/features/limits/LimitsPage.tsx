import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { notify } from "../../app/notices";
import { Page } from "../../app/Page";
import { ActionButton } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Table } from "../../design/Table";
import { ExecutionLink } from "../execution/Header";
import { LimitDialog } from "./LimitDialog";
import { limitsQuery } from "./queries";
import { numbersText } from "./wording";

type Limit = Schemas["LimitView"];

export default function LimitsPage() {
  const query = useQuery(limitsQuery());
  const [edited, setEdited] = useState<Limit | "new" | null>(null);
  return (
    <Page
      title="Limits"
      actions={
        <>
          <CopyAs of={() => COPIES.limits(query.data ?? [])} />
          <ActionButton scope="admin" onPress={() => setEdited("new")}>
            Set a limit…
          </ActionButton>
        </>
      }
    >
      <Loaded query={query}>
        {(limits) =>
          limits.length === 0 ? (
            <Empty title="No execution shares a key.">
              <p>Playbooks name keys with limits; an operator may set limits too.</p>
            </Empty>
          ) : (
            limits.map((limit) => <LimitCard key={limit.key} limit={limit} edit={() => setEdited(limit)} />)
          )
        }
      </Loaded>
      {edited ? <LimitDialog limit={edited === "new" ? null : edited} close={() => setEdited(null)} /> : null}
    </Page>
  );
}

function LimitCard({ limit, edit }: { limit: Limit; edit: () => void }) {
  const client = useQueryClient();
  const remove = useMutation({
    mutationFn: () => read(api.DELETE("/api/limits/{key}", { params: { path: { key: limit.key } } })),
    onSuccess: () => {
      notify(`The limits of playbooks hold again for ${limit.key}.`);
      void client.invalidateQueries({ queryKey: ["limits"] });
    },
  });
  return (
    <section className="card stack" aria-label={limit.key}>
      <div className="row spread">
        <h2 className="mono">{limit.key}</h2>
        <div className="row">
          <ActionButton scope="admin" onPress={edit}>
            Change…
          </ActionButton>
          {limit.source === "operator" ? (
            <ActionButton scope="admin" look="risky" disabled={remove.isPending} onPress={() => remove.mutate()}>
              Remove the operator's limit
            </ActionButton>
          ) : null}
        </div>
      </div>
      <p>
        {numbersText(limit)}. Set by {limit.source === "operator" ? limit.principal : "a playbook"}. {limit.in_use} in use, {limit.waiting} waiting
        {limit.next_at === null ? "" : <>, free again at <Moment at={limit.next_at} /></>}.
      </p>
      {remove.error ? <Failure error={remove.error} /> : null}
      {limit.holders.length > 0 ? <Uses label={`Holders of ${limit.key}`} uses={limit.holders} title="Holder" /> : null}
      {limit.first.length > 0 ? <Uses label={`Queue of ${limit.key}`} uses={limit.first} title="Waits" /> : null}
    </section>
  );
}

function Uses({ label, title, uses }: { label: string; title: string; uses: Schemas["UseView"][] }) {
  return (
    <Table
      label={label}
      rows={uses}
      rowKey={(use) => `${use.execution_id} ${use.run}`}
      columns={[
        { title, cell: (use) => <ExecutionLink id={use.execution_id} /> },
        { title: "Step", cell: (use) => use.step || "–" },
        { title: "Since", cell: (use) => <Moment at={use.since} /> },
        { title: "Priority", numeric: true, cell: (use) => use.priority },
        { title: "Worker", cell: (use) => (use.alive ? "alive" : "silent") },
      ]}
    />
  );
}
