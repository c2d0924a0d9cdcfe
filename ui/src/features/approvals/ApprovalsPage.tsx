import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";

import { isTyping } from "../../app/keys";
import { Page } from "../../app/Page";
import { Empty } from "../../design/Empty";
import { Loaded } from "../../design/Loaded";
import { Note } from "../../design/Note";
import { ExecutionLink } from "../execution/Header";
import { AnswerForm } from "./AnswerForm";
import { type Approvals, approvals } from "./queries";

export default function ApprovalsPage() {
  useRowKeys();
  const query = useQuery({ ...approvals(), refetchInterval: 10_000 });
  return (
    <Page title="Approvals">
      <Loaded query={query}>{(answer) => <List answer={answer} />}</Loaded>
    </Page>
  );
}

function List({ answer }: { answer: Approvals }) {
  if (answer.open.length === 0) {
    return (
      <Empty title="Nothing waits for an answer.">
        <p>A playbook waits with a task of the kind wait; its question then appears here.</p>
      </Empty>
    );
  }
  return (
    <>
      {answer.more ? (
        <Note tone="idle">
          <p>Only the newest executions that wait are shown.</p>
        </Note>
      ) : null}
      {answer.open.map(({ executionId, path, callback }) => (
        <article key={callback.token} className="card stack" data-triage tabIndex={-1} aria-label={callback.message || callback.step}>
          <div className="row spread">
            <Link to="/playbooks/$" params={{ _splat: path }}>
              {path}
            </Link>
            <ExecutionLink id={executionId} />
          </div>
          <AnswerForm executionId={executionId} callback={callback} />
        </article>
      ))}
    </>
  );
}

/** j and k move from question to question. */
function useRowKeys(): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const step = { j: 1, k: -1 }[event.key];
      if (step === undefined || isTyping(event) || document.querySelector(".overlay")) return;
      const cards = [...document.querySelectorAll<HTMLElement>("[data-triage]")];
      const at = cards.findIndex((card) => card.contains(document.activeElement));
      cards[Math.max(0, Math.min(cards.length - 1, at + step))]?.focus();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
