import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { api, read } from "../../api/client";
import { leaveSession } from "../../api/session";
import { Page } from "../../app/Page";
import { setTheme, setZone, type Theme, useTheme, useZone } from "../../app/preferences";
import { useSession } from "../../app/SessionContext";
import { Button } from "../../design/Button";
import { Facts } from "../../design/Facts";
import { Failure } from "../../design/Failure";
import { SelectField } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { type Zone, zoneName } from "../../design/time";
import { Sessions } from "./Sessions";

export default function SettingsPage() {
  const theme = useTheme();
  const zone = useZone();
  const session = useSession();
  const client = useQueryClient();
  const health = useQuery({ queryKey: ["health"], queryFn: () => read(api.GET("/health")) });
  const leave = useMutation({
    mutationFn: leaveSession,
    onSuccess: (address) => {
      if (address) {
        location.assign(address);
        return;
      }
      client.setQueryData(["session"], null);
      client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== "session" });
    },
  });
  return (
    <Page title="Settings">
      <section className="card stack run-form" aria-label="This browser">
        <h2>This browser</h2>
        <SelectField
          label="Theme"
          value={theme}
          choices={[
            { value: "system", label: "as the system" },
            { value: "light", label: "light" },
            { value: "dark", label: "dark" },
          ]}
          onChange={(value) => setTheme(value as Theme)}
        />
        <SelectField
          label="Time zone"
          value={zone}
          choices={[
            { value: "local", label: zoneName("local") },
            { value: "UTC", label: "UTC" },
          ]}
          onChange={(value) => setZone(value as Zone)}
        />
      </section>
      <section className="card stack run-form" aria-label="Session">
        <h2>Session</h2>
        <Facts
          of={[
            ["Principal", session.principal],
            ["Scopes", session.scopes.join(", ")],
            ["Ends", session.expires_at === null ? null : <Moment at={session.expires_at} />],
          ]}
        />
        {leave.error ? <Failure error={leave.error} /> : null}
        {session.csrf === "" && !session.signed_in ? (
          <p className="muted">This server asks for no session.</p>
        ) : (
          <div>
            <Button look="risky" disabled={leave.isPending} onPress={() => leave.mutate()}>
              {session.signed_in ? "Sign out" : "End the session"}
            </Button>
          </div>
        )}
      </section>
      <section className="card stack run-form" aria-label="Server">
        <h2>Server</h2>
        <Loaded query={health}>
          {({ deployment }) => <Facts of={Object.entries(deployment).map(([name, value]) => [capital(name), value])} />}
        </Loaded>
      </section>
      <Sessions />
    </Page>
  );
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
