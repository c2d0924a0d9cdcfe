/** A text in an editor: what was typed, and what the editor was given. */
import { type RefObject, useRef, useState } from "react";

interface Edited {
  /** What the editor began with, and how often it was given a text: another number makes it begin again. */
  given: { text: string; edition: number };
  typed: string;
  /** What is typed when an answer comes, rather than when it was asked for. */
  latest: RefObject<string>;
  setTyped: (text: string) => void;
  /** Replace what is in the editor, also by the text that it began with. */
  put: (text: string) => void;
}

export function useEditedText(first: string): Edited {
  const [given, setGiven] = useState({ text: first, edition: 0 });
  const [typed, setTyped] = useState(first);
  const latest = useRef(typed);
  latest.current = typed;
  const put = (text: string) => {
    setGiven(({ edition }) => ({ text, edition: edition + 1 }));
    setTyped(text);
  };
  return { given, typed, latest, setTyped, put };
}
