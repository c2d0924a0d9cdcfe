/** The fields of a schema's form. */
import { printJson } from "../../api/json";
import { SelectField, TextField } from "../../design/Field";
import { type FormField, own } from "./schema";

export function SchemaForm({
  fields,
  texts,
  wrong,
  onChange,
}: {
  fields: FormField[];
  texts: Record<string, string>;
  wrong: Record<string, string>;
  onChange: (name: string, text: string) => void;
}) {
  return (
    <>
      {fields.map((field) => (
        <SchemaField
          key={field.name}
          field={field}
          text={own(texts, field.name) ?? field.start}
          wrong={own(wrong, field.name)}
          onChange={(text) => onChange(field.name, text)}
        />
      ))}
    </>
  );
}

function SchemaField({
  field,
  text,
  wrong,
  onChange,
}: {
  field: FormField;
  text: string;
  wrong: string | undefined;
  onChange: (text: string) => void;
}) {
  const shared = {
    label: field.required ? `${field.name} (required)` : field.name,
    hint: field.hint,
    wrong,
    value: text,
    onChange,
  };
  if (field.kind === "choice" || field.kind === "boolean") {
    const values = field.kind === "boolean" ? [true, false] : field.choices;
    const choices = values.map((value) => ({ value: printJson(value), label: String(value) }));
    return <SelectField {...shared} choices={[{ value: "", label: field.otherwise || "–" }, ...choices]} />;
  }
  if (field.kind === "json") return <TextField {...shared} placeholder={field.otherwise} rows={Math.min(12, Math.max(2, text.split("\n").length))} />;
  return <TextField {...shared} placeholder={field.otherwise} />;
}
