import { type Json, parseJson } from "../../api/json";

/** A JSON object out of typed text, or what is wrong with the text. */
export function readObject(text: string): { value?: { [name: string]: Json }; wrong?: string } {
  try {
    const value = parseJson(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value };
    return { wrong: "An object is needed: { … }" };
  } catch (failure) {
    return { wrong: failure instanceof Error ? failure.message : "This is not JSON." };
  }
}
