/** Pages are shown inside of a session; without one, how to get it. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Outlet, useNavigate, useRouter, useRouterState } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { beginSignIn, finishSignIn, hasSignedOut, isAnswer, readSignIn, type SignIn } from "../api/oidc";
import { enterSession, readSession, type Session } from "../api/session";
import { Button } from "../design/Button";
import { Failure } from "../design/Failure";
import { Skeleton } from "../design/Skeleton";
import { SessionContext } from "./SessionContext";

export function Gate() {
  const entering = useRouterState({ select: (state) => state.location.pathname === "/enter" });
  return entering ? <Enter /> : <Inside />;
}

function Inside() {
  // Another tab may begin one: without a session this tab looks again when a person comes back to it.
  const session = useQuery({ queryKey: ["session"], queryFn: readSession, staleTime: ({ state }) => (state.data ? Infinity : 0) });
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

/** `failed`: a way in that was tried; the next one waits for a person, or the page and the issuer would send each other in circles. */
function HowToEnter({ failed = false }: { failed?: boolean }) {
  const signIn = useQuery({ queryKey: ["sign-in"], queryFn: readSignIn, staleTime: Infinity });
  if (signIn.isPending) return <Skeleton lines={3} />;
  if (signIn.data) return <ToIssuer signIn={signIn.data} failed={failed} />;
  return (
    <>
      <p>This browser has no session, or it has ended. On the machine whose token you use, run</p>
      <pre className="sample">noetl ui</pre>
      <p className="muted">The command opens this page with a code that works once, for a minute.</p>
    </>
  );
}

/** Go to the issuer at once, unless this tab has just signed out or failed to sign in. */
function ToIssuer({ signIn, failed }: { signIn: SignIn; failed: boolean }) {
  const [error, setError] = useState<unknown>(null);
  const [waits, setWaits] = useState(failed || hasSignedOut());
  useEffect(() => {
    if (waits) return;
    const { pathname, search, hash } = location;
    beginSignIn(signIn, pathname.endsWith("/enter") ? "" : pathname + search + hash).then(
      (address) => location.assign(address),
      (failure: unknown) => {
        setError(failure);
        setWaits(true);
      },
    );
  }, [signIn, waits]);
  if (!waits) return <Skeleton lines={3} />;
  return (
    <>
      {error ? <Failure error={error} /> : null}
      {error || failed ? null : <p>You have signed out.</p>}
      <div>
        <Button onPress={() => setWaits(false)}>Sign in</Button>
      </div>
    </>
  );
}

/** `/enter#<code>`, whose part after # never reaches a server log, or `/enter?code=…&state=…` from the issuer. */
function Enter() {
  const [error, setError] = useState<unknown>(null);
  const client = useQueryClient();
  const navigate = useNavigate();
  const router = useRouter();
  useEffect(() => {
    const code = codeIn(location.hash);
    const answer = new URLSearchParams(location.search);
    history.replaceState(null, "", location.pathname);
    if (!code && !isAnswer(answer)) {
      void navigate({ to: "/", replace: true });
      return;
    }
    (code ? enterSession(code).then((session) => ({ session, path: "" })) : enterFromIssuer(answer)).then(
      ({ session, path }) => {
        client.setQueryData(["session"], session);
        if (path) router.history.replace(path);
        else void navigate({ to: "/", replace: true });
      },
      (failure: unknown) => setError(failure),
    );
  }, [client, navigate, router]);
  return (
    <main className="gate">
      <h1>NoETL</h1>
      {error ? (
        <>
          <Failure error={error} />
          <HowToEnter failed />
        </>
      ) : (
        <Skeleton lines={3} />
      )}
    </main>
  );
}

/** The code behind #, also where it is written with an escape that is none: the server then refuses it. */
function codeIn(hash: string): string {
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return hash.slice(1);
  }
}

async function enterFromIssuer(answer: URLSearchParams): Promise<{ session: Session; path: string }> {
  const signIn = await readSignIn();
  if (!signIn) throw new Error("This server signs in with a code of `noetl ui`, and not at an issuer.");
  const path = await finishSignIn(signIn, answer);
  const session = await readSession();
  if (session) return { session, path };
  throw new Error("The issuer has signed you in, and the API refuses its token: the deployment expects another audience.");
}
