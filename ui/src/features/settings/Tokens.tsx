/** The tokens of this server, without their text; a new one is shown once. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { notify } from "../../app/notices";
import { useScope } from "../../app/SessionContext";
import { ActionButton } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Table } from "../../design/Table";
import { RemoveTokenDialog } from "./RemoveTokenDialog";
import { TokenDialog } from "./TokenDialog";

export function Tokens() {
  const allowed = useScope("admin");
  const client = useQueryClient();
  const [making, setMaking] = useState(false);
  const [removing, setRemoving] = useState<string | null>(null);
  const query = useQuery({ queryKey: ["tokens"], queryFn: () => read(api.GET("/api/tokens")), enabled: allowed });
  const remove = useMutation({
    mutationFn: (name: string) => read(api.DELETE("/api/tokens/{name}", { params: { path: { name } } })),
    onSuccess: ({ name }) => {
      notify(`The token ${name} is removed.`);
      setRemoving(null);
      void client.invalidateQueries({ queryKey: ["tokens"] });
      void client.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
  // A deployment admits callers by other means, and a server without tokens admits everybody.
  if (!allowed || query.data?.kept === false) return null;
  return (
    <>
      <div className="row spread">
        <h2>Tokens</h2>
        <ActionButton scope="admin" onPress={() => setMaking(true)}>
          Make a token…
        </ActionButton>
      </div>
      {making ? <TokenDialog close={() => setMaking(false)} /> : null}
      {removing === null ? null : (
        <RemoveTokenDialog
          name={removing}
          busy={remove.isPending}
          error={remove.error}
          remove={() => remove.mutate(removing)}
          close={() => {
            remove.reset();
            setRemoving(null);
          }}
        />
      )}
      {query.error ? <Failure error={query.error} /> : null}
      <Loaded query={query}>
        {({ tokens }) => (
          <section className="card card-flush">
            <Table
              label="Tokens of this server"
              rows={tokens}
              rowKey={(row) => row.name}
              columns={[
                { title: "Token", cell: (row) => row.name },
                { title: "Scopes", cell: (row) => row.scopes.join(", ") },
                { title: "Made", cell: (row) => (row.made_at ? <Moment at={row.made_at} /> : "–") },
                { title: "Made by", cell: (row) => row.made_by || "–" },
                { title: "Expires", cell: (row) => <Expiry token={row} /> },
                {
                  title: "Actions",
                  cell: (row) =>
                    row.current ? (
                      "this session’s"
                    ) : (
                      <ActionButton scope="admin" label={`Remove the token ${row.name}…`} onPress={() => setRemoving(row.name)}>
                        Remove…
                      </ActionButton>
                    ),
                },
              ]}
            />
          </section>
        )}
      </Loaded>
    </>
  );
}

function Expiry({ token }: { token: Schemas["TokenView"] }) {
  if (!token.expires_at) return <>never</>;
  return (
    <>
      {token.expired ? "expired " : ""}
      <Moment at={token.expires_at} />
    </>
  );
}
