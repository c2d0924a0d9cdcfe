/** One callback: what is asked, and the form that answers it, once. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { type Json, parseJson } from "../../api/json";
import { notify } from "../../app/notices";
import { ActionButton } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { TextField } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { fieldsOf, valueOf } from "../forms/schema";
import { SchemaForm } from "../forms/SchemaForm";
import { approvals, withoutAnswered } from "./queries";

export function AnswerForm({ executionId, callback }: { executionId: string; callback: Schemas["OpenCallbackView"] }) {
  const { token } = callback;
  const asked = useQuery({
    queryKey: ["execution", executionId, "asked", token],
    queryFn: () => read(api.GET("/api/callbacks/{token}", { params: { path: { token } } })),
  });
  const client = useQueryClient();
  const send = useMutation({
    mutationFn: (body: Json) =>
      // The body of a callback is any JSON, which the description leaves open.
      read(api.POST("/api/callbacks/{token}", { params: { path: { token } }, body: body as never })),
    onSuccess: () => {
      notify("The answer was accepted.");
      void client.invalidateQueries({ queryKey: ["execution", executionId] });
      // The engine applies the answer a moment later: until then the server still lists the question.
      client.setQueryData(approvals().queryKey, (before) => before && withoutAnswered(before, token));
    },
  });
  const place = callback.index === null ? callback.step : `${callback.step}[${callback.index}]`;
  return (
    <section className="answer stack" aria-label={`Answer for ${place}`}>
      <div className="row spread">
        <strong>{callback.message || `Step ${place} waits for an answer`}</strong>
        <span className="muted small">
          since <Moment at={callback.since} />
          {callback.until === null ? null : (
            <>
              , until <Moment at={callback.until} />
            </>
          )}
        </span>
      </div>
      <Loaded query={asked} lines={1}>
        {({ schema }) =>
          callback.approve ? (
            <Decide send={send.mutate} busy={send.isPending} />
          ) : (
            <Fill schema={schema ?? null} send={send.mutate} busy={send.isPending} />
          )
        }
      </Loaded>
      {send.error ? <Failure error={send.error} /> : null}
    </section>
  );
}

interface FormProps {
  send: (body: Json) => void;
  busy: boolean;
}

function Decide({ send, busy }: FormProps) {
  const [comment, setComment] = useState("");
  const decide = (approved: boolean) => send(comment ? { approved, comment } : { approved });
  return (
    <>
      <TextField label="Comment" value={comment} onChange={setComment} />
      <div className="row">
        <ActionButton scope="execute" look="main" disabled={busy} onPress={() => decide(true)}>
          Approve
        </ActionButton>
        <ActionButton scope="execute" look="risky" disabled={busy} onPress={() => decide(false)}>
          Reject
        </ActionButton>
      </div>
    </>
  );
}

/** The form of the callback's schema; any JSON where it has none. */
function Fill({ schema, send, busy }: FormProps & { schema: unknown }) {
  const [texts, setTexts] = useState<Record<string, string>>({});
  const fields = fieldsOf(schema);
  const { payload, wrong } = valueOf(fields, texts);
  const plain = fields.length === 0;
  const any = readAny(texts.body ?? "");
  const blocked = plain ? any.wrong !== undefined : Object.keys(wrong).length > 0;
  return (
    <>
      {plain ? (
        <TextField
          label="Answer (JSON)"
          rows={3}
          wrong={any.wrong}
          value={texts.body ?? ""}
          onChange={(body) => setTexts({ body })}
        />
      ) : (
        <SchemaForm
          fields={fields}
          texts={texts}
          wrong={wrong}
          onChange={(name, text) => setTexts((before) => ({ ...before, [name]: text }))}
        />
      )}
      <div>
        <ActionButton scope="execute" look="main" disabled={busy || blocked} onPress={() => send(plain ? any.value : payload)}>
          Answer
        </ActionButton>
      </div>
    </>
  );
}

function readAny(text: string): { value: Json; wrong?: string } {
  if (text.trim() === "") return { value: null };
  try {
    return { value: parseJson(text) };
  } catch {
    return { value: null, wrong: "This is not JSON." };
  }
}
