/** The browsers that are signed in at this server, and a way to end each. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, read } from "../../api/client";
import { notify } from "../../app/notices";
import { useScope, useSession } from "../../app/SessionContext";
import { ActionButton } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Table } from "../../design/Table";

export function Sessions() {
  const session = useSession();
  const allowed = useScope("admin");
  // A deployment, whose people sign in at an issuer, and a server without tokens have none.
  const kept = session.csrf !== "" && !session.signed_in;
  const client = useQueryClient();
  const query = useQuery({
    queryKey: ["sessions"],
    queryFn: async () => (await read(api.GET("/api/sessions"))).sessions,
    enabled: allowed && kept,
  });
  const end = useMutation({
    mutationFn: (session_id: string) => read(api.DELETE("/api/sessions/{session_id}", { params: { path: { session_id } } })),
    onSuccess: () => {
      notify("The session is ended.");
      void client.invalidateQueries({ queryKey: ["sessions"] });
    },
  });
  if (!allowed || !kept) return null;
  return (
    <>
      <h2>Sessions</h2>
      {end.error ? <Failure error={end.error} /> : null}
      <Loaded query={query}>
        {(rows) => (
          <section className="card card-flush">
            <Table
              label="Sessions of this server"
              rows={rows}
              rowKey={(row) => row.id}
              columns={[
                { title: "Began", cell: (row) => <Moment at={row.began_at} /> },
                { title: "Token", cell: (row) => row.account },
                { title: "Scopes", cell: (row) => row.scopes.join(", ") },
                { title: "Last seen", cell: (row) => <Moment at={row.seen_at} relative /> },
                { title: "Ends", cell: (row) => <Moment at={row.expires_at} /> },
                {
                  title: "Actions",
                  cell: (row) =>
                    row.current ? (
                      "this one"
                    ) : (
                      <ActionButton scope="admin" label={`End session ${row.id}`} disabled={end.isPending} onPress={() => end.mutate(row.id)}>
                        End
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
