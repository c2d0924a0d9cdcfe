/** Pages are shown inside of a session; without one, how to get it. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Outlet, useNavigate, useRouterState } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { enterSession, readSession } from "../api/session";
import { Failure } from "../design/Failure";
import { Skeleton } from "../design/Skeleton";
import { SessionContext } from "./SessionContext";

export function Gate() {
  const entering = useRouterState({ select: (state) => state.location.pathname === "/enter" });
  return entering ? <Enter /> : <Inside />;
}

function Inside() {
  const session = useQuery({ queryKey: ["session"], queryFn: readSession, staleTime: Infinity });
  if (session.data) {
    return (
      <SessionContext value={session.data}>
        <Outlet />
      </SessionContext>
    );
  }
  return (
    <main className="gate">
      <h1>NoETL</h1>
      {session.isPending ? <Skeleton lines={3} /> : null}
      {session.error ? <Failure error={session.error} retry={() => void session.refetch()} /> : null}
      {session.data === null ? <HowToEnter /> : null}
    </main>
  );
}

function HowToEnter() {
  return (
    <>
      <p>This browser has no session, or it has ended. On the machine whose token you use, run</p>
      <pre className="sample">noetl ui</pre>
      <p className="muted">The command opens this page with a code that works once, for a minute.</p>
    </>
  );
}

/** `/enter#<code>`: the part after # never reaches a server log. */
function Enter() {
  const [error, setError] = useState<unknown>(null);
  const client = useQueryClient();
  const navigate = useNavigate();
  useEffect(() => {
    const code = decodeURIComponent(location.hash.slice(1));
    history.replaceState(null, "", location.pathname);
    if (!code) {
      void navigate({ to: "/", replace: true });
      return;
    }
    enterSession(code).then(
      (session) => {
        client.setQueryData(["session"], session);
        void navigate({ to: "/", replace: true });
      },
      (failure: unknown) => setError(failure),
    );
  }, [client, navigate]);
  return (
    <main className="gate">
      <h1>NoETL</h1>
      {error ? (
        <>
          <Failure error={error} />
          <HowToEnter />
        </>
      ) : (
        <Skeleton lines={3} />
      )}
    </main>
  );
}
