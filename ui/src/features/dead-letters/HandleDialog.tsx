/** Send back or delete: the server says first which letters are meant, then it is done. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import type { Schemas } from "../../api/client";
import { notify } from "../../app/notices";
import { ActionButton, Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Failure } from "../../design/Failure";
import { Loaded } from "../../design/Loaded";
import { Modal } from "../../design/Modal";
import { Note } from "../../design/Note";
import { handle } from "./queries";
import { lettersText, plannedText, outcomeText, type Verb, VERBS } from "./wording";

export function HandleDialog({
  verb,
  wish,
  title,
  close,
  done,
}: {
  verb: Verb;
  wish: Schemas["DeadLetterRequest"];
  title: string;
  close: () => void;
  done: () => void;
}) {
  const client = useQueryClient();
  const preview = useQuery({
    queryKey: ["dead-letters of", verb, wish],
    queryFn: () => handle(verb, { ...wish, dry_run: true }),
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  const act = useMutation({
    mutationFn: () => handle(verb, wish),
    onSuccess: (answer) => {
      notify(outcomeText(verb, answer));
      void client.invalidateQueries({ queryKey: ["dead-letters"] });
      void client.invalidateQueries({ queryKey: ["queues"] });
      done();
    },
  });
  const { title: action } = VERBS[verb];
  const count = preview.data?.ids.length ?? 0;
  return (
    <Modal title={`${action}: ${title}`} close={close}>
      <Loaded query={preview}>
        {(answer) => (
          <>
            <p>
              {plannedText(verb, answer.ids.length, answer.left)}
            </p>
            {answer.missing.length > 0 ? (
              <Note tone="warn">
                <p>{lettersText(answer.missing.length)} were not found: handled before, or held by another reader.</p>
              </Note>
            ) : null}
            {answer.ids.length > 0 ? (
              <details>
                <summary>Which</summary>
                <ul className="mono small">
                  {answer.ids.map((id) => (
                    <li key={id}>{id}</li>
                  ))}
                </ul>
              </details>
            ) : null}
          </>
        )}
      </Loaded>
      {act.error ? <Failure error={act.error} /> : null}
      <div className="dialog-actions">
        <Button onPress={close}>Close</Button>
        <CopyAs of={() => COPIES.letters(verb, wish)} />
        <ActionButton
          scope={verb === "retry" ? "execute" : "admin"}
          look={verb === "retry" ? "main" : "risky"}
          disabled={count === 0 || act.isPending}
          onPress={() => act.mutate()}
        >
          {action} {count}
        </ActionButton>
      </div>
    </Modal>
  );
}
