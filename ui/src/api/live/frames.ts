/** Server-sent events out of a stream of bytes. */

export interface Frame {
  id: string;
  event: string;
  data: string;
}

/** Yield the events of a body as they arrive; comments yield null, as a sign of life. */
export async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame | null> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest = (rest + value).replaceAll("\r\n", "\n");
      let end: number;
      while ((end = rest.indexOf("\n\n")) >= 0) {
        yield frameOf(rest.slice(0, end));
        rest = rest.slice(end + 2);
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function frameOf(text: string): Frame | null {
  const frame: Frame = { id: "", event: "message", data: "" };
  const data: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith(":")) continue;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "id") frame.id = value;
    else if (name === "event") frame.event = value;
  }
  frame.data = data.join("\n");
  return frame.data || frame.id ? frame : null;
}
