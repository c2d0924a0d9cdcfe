/** Labelled inputs with a hint and what is wrong with them. */
import { type ReactNode, useId } from "react";

interface FieldProps {
  label: string;
  hint?: string;
  wrong?: string;
}

interface Wiring {
  id: string;
  "aria-describedby"?: string;
  "aria-invalid"?: boolean;
}

/** The frame around any input: label above, hint and error below, tied to it for screen readers. */
export function Field({ label, hint, wrong, children }: FieldProps & { children: (wiring: Wiring) => ReactNode }) {
  const id = useId();
  const described = [hint ? `${id}-hint` : "", wrong ? `${id}-wrong` : ""].filter(Boolean).join(" ");
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({ id, "aria-describedby": described || undefined, "aria-invalid": wrong ? true : undefined })}
      {hint ? (
        <span className="hint" id={`${id}-hint`}>
          {hint}
        </span>
      ) : null}
      {wrong ? (
        <span className="wrong" id={`${id}-wrong`}>
          {wrong}
        </span>
      ) : null}
    </div>
  );
}

export function TextField({
  value,
  onChange,
  type = "text",
  placeholder,
  rows,
  ...field
}: FieldProps & {
  value: string;
  onChange: (value: string) => void;
  type?: "text" | "search" | "number" | "datetime-local";
  placeholder?: string;
  rows?: number;
}) {
  return (
    <Field {...field}>
      {(wiring) =>
        rows ? (
          <textarea {...wiring} className="input" rows={rows} value={value} placeholder={placeholder} onChange={(event) => onChange(event.target.value)} />
        ) : (
          <input
            {...wiring}
            className="input"
            type={type}
            value={value}
            placeholder={placeholder}
            onChange={(event) => onChange(event.target.value)}
          />
        )
      }
    </Field>
  );
}

export interface Choice {
  value: string;
  label: string;
}

export function SelectField({
  value,
  choices,
  onChange,
  ...field
}: FieldProps & { value: string; choices: Choice[]; onChange: (value: string) => void }) {
  return (
    <Field {...field}>
      {(wiring) => (
        <select {...wiring} className="input" value={value} onChange={(event) => onChange(event.target.value)}>
          {choices.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.label}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Check({ label, value, onChange }: { label: string; value: boolean; onChange: (value: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={value} onChange={(event) => onChange(event.target.checked)} />
      {label}
    </label>
  );
}
