import { useMutation, useQueryClient } from "@tanstack/react-query";

import { leaveSession } from "../../api/session";
import { Page } from "../../app/Page";
import { setTheme, setZone, type Theme, useTheme, useZone } from "../../app/preferences";
import { useSession } from "../../app/SessionContext";
import { Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Facts } from "../../design/Facts";
import { Failure } from "../../design/Failure";
import { SelectField } from "../../design/Field";
import { Moment } from "../../design/Moment";
import { type Zone, zoneName } from "../../design/time";
import { Server } from "./Server";
import { Sessions } from "./Sessions";
import { Tokens } from "./Tokens";

export default function SettingsPage() {
  const theme = useTheme();
  const zone = useZone();
  const session = useSession();
  const client = useQueryClient();
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
    <Page title="Settings" actions={<CopyAs of={COPIES.settings} />}>
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
            { value: "local", label: `${zoneName("local")} (this browser)` },
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
      <Server />
      <Tokens />
      <Sessions />
    </Page>
  );
}
