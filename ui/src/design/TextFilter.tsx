/** Text that is applied with Enter or when the field is left. */
import { useState } from "react";

import { TextField } from "./Field";

export function TextFilter({
  label,
  placeholder,
  value,
  apply,
}: {
  label: string;
  placeholder?: string;
  value: string | undefined;
  apply: (text: string | undefined) => void;
}) {
  const [text, setText] = useState(value ?? "");
  const [applied, setApplied] = useState(value);
  if (applied !== value) {
    setApplied(value);
    setText(value ?? "");
  }
  const submit = () => {
    if (text.trim() !== (value ?? "")) apply(text.trim() || undefined);
  };
  return (
    <form
      className="filters-text"
      onBlur={submit}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <TextField label={label} type="search" value={text} onChange={setText} placeholder={placeholder} />
    </form>
  );
}
