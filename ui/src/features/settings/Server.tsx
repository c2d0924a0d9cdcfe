/** Which versions run here, and a document about the state of the server to pass on. */
import { useMutation, useQuery } from "@tanstack/react-query";

import { api, read } from "../../api/client";
import { printJson } from "../../api/json";
import { notify } from "../../app/notices";
import { ActionButton } from "../../design/Button";
import { Facts } from "../../design/Facts";
import { Failure } from "../../design/Failure";
import { Loaded } from "../../design/Loaded";
import { saveFile } from "../../design/saveFile";
import { diagnosticsName } from "./diagnosticsName";

export function Server() {
  const health = useQuery({ queryKey: ["health"], queryFn: () => read(api.GET("/health")) });
  const version = useQuery({ queryKey: ["version"], queryFn: () => read(api.GET("/api/version")) });
  const save = useMutation({
    mutationFn: () => read(api.GET("/api/diagnostics")),
    onSuccess: (found) => {
      saveFile(diagnosticsName(found.made_at), `${printJson(found, 2)}\n`, "application/json");
      notify("The diagnostics are saved.");
    },
  });
  return (
    <section className="card stack run-form" aria-label="Server">
      <h2>Server</h2>
      <Loaded query={version}>
        {({ server, api: ofApi, python, system }) => (
          <Facts
            of={[
              ["NoETL", server || null],
              ["API", ofApi],
              ["Python", python],
              ["System", system],
            ]}
          />
        )}
      </Loaded>
      <Loaded query={health}>
        {({ deployment }) => <Facts of={Object.entries(deployment).map(([name, value]) => [capital(name), value])} />}
      </Loaded>
      {save.error ? <Failure error={save.error} /> : null}
      <div>
        <ActionButton scope="admin" disabled={save.isPending} onPress={() => save.mutate()}>
          Save diagnostics
        </ActionButton>
      </div>
      <p className="muted small">Versions, checks, settings and counts in one file to pass on, without secrets and data of executions.</p>
    </section>
  );
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
