/** Values that are kept beside a result, read through the link that the API gives to each. */
import { sizeText } from "../design/size";
import type { Schemas } from "./client";
import { type Json, parseJson } from "./json";
import { Unreachable } from "./problem";

/** Bytes of a value that the page reads: more than that would hold the tab for seconds, and a gigabyte would end it. */
export const READ_BYTES = 10_000_000;

/** Read the value behind a link; stop where it is longer than `most` bytes. */
export async function readReference(download: Schemas["Download"], most = READ_BYTES): Promise<Json> {
  const answer = await fetch(download.url).catch(() => {
    throw new Unreachable();
  });
  if (!answer.ok) throw new Error(`The link answered ${answer.status}; read the page again for a new one.`);
  const bytes = await readAtMost(unpacked(answer.body, download.compression), most);
  if (bytes === undefined) throw new Error(`It is longer than ${sizeText(most)}; download it instead.`);
  try {
    return parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Error("It is no JSON, but a file; download it instead.");
  }
}

function unpacked(body: ReadableStream<BufferSource> | null, compression: string | null | undefined): ReadableStream<Uint8Array> {
  const bytes = body ?? new Blob([]).stream();
  if (!compression) return bytes as ReadableStream<Uint8Array>;
  return bytes.pipeThrough(new DecompressionStream(compression as CompressionFormat));
}

/** All bytes of a stream, or nothing where there are more than `most`: then the rest is not read. */
async function readAtMost(stream: ReadableStream<Uint8Array>, most: number): Promise<Uint8Array | undefined> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      return undefined;
    }
    pieces.push(value);
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}
