/** What a key, a kind or a name of a template is: at the pointer, or at the cursor when Control+I is pressed. */
import type { EditorState } from "@codemirror/state";
import type { Tooltip } from "@codemirror/view";

import { helpOfKey, type Knowledge, stepOf } from "./completion";
import { helpBox } from "./help";
import { isProse, placeOf, templateBefore } from "./place";
import { keysOf, type Schema, schemaAt } from "./schema";
import { aboutName } from "./template";

export function helpAt(known: Knowledge) {
  return async ({ doc }: EditorState, position: number): Promise<Tooltip | null> => {
    const schema = await known.schema();
    const line = doc.lineAt(position);
    const at = position - line.from;
    const before = /[\w-]*$/.exec(line.text.slice(0, at))?.[0] ?? "";
    const after = /^[\w-]*/.exec(line.text.slice(at))?.[0] ?? "";
    if (!schema || before + after === "") return null;
    const [from, to] = [position - before.length, position + after.length];
    const box = boxFor(doc.toString(), from, to, schema, known);
    box?.setAttribute("role", "status");
    return box && { pos: from, end: to, above: true, create: () => ({ dom: box }) };
  };
}

function boxFor(text: string, from: number, to: number, schema: Schema, known: Knowledge): HTMLElement | null {
  const word = text.slice(from, to);
  const template = templateBefore(text, from);
  if (template) {
    const words = schema["x-templates"];
    if (!words || template.before.endsWith(".")) return null;
    const about = aboutName(word, words, known.names(), { step: stepOf(template.place) });
    return about === undefined ? null : helpBox({ title: word, text: about });
  }
  if (isProse(text, from + 1)) return null;
  const place = placeOf(text, from, to);
  if (!place) return null;
  const { parts } = schemaAt(schema, place);
  if (place.role === "key") {
    const key = keysOf(parts).find(({ name }) => name === word);
    return key ? helpOfKey(key) : null;
  }
  const kind = place.levels.at(-1)?.entry === "kind" ? schema.$defs?.[`kind_${word}`] : undefined;
  return kind ? helpBox({ title: word, text: kind.description, docs: kind["x-docs"] }) : null;
}
