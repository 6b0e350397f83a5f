import { joinBase64 } from './base64.js';
import type { MediaPayload } from './types.js';

const MAX_FILES = 16;
const MAX_BYTES = 32 * 1024 * 1024;

interface Unfinished {
  /** What is known of the file; grows with the chunks. */
  about: MediaPayload;
  readonly data: Map<number, string>;
  bytes: number;
}

/** Files that arrive in chunks, placed by `part`; beyond the bounds the oldest is dropped (T6). */
export class Assembly {
  private readonly files = new Map<string, Unfinished>();
  private bytes = 0;

  /** Take one chunk; returns the file when this completes it. */
  add(chunk: MediaPayload): MediaPayload | undefined {
    const { id, part, parts, data } = chunk;
    if (parts === 1 || data === undefined) {
      this.drop(id);
      return { ...chunk, part: parts - 1, final: true };
    }
    if (!Number.isInteger(part) || part < 0 || part >= parts) return undefined;

    const file = this.open(chunk);
    if (file.data.has(part)) return undefined;
    file.data.set(part, data);
    file.about = merge(file.about, chunk);
    const bytes = Math.floor((data.length * 3) / 4);
    file.bytes += bytes;
    this.bytes += bytes;

    if (file.data.size === parts) {
      this.drop(id);
      return whole(file);
    }
    this.keepWithinBounds();
    return undefined;
  }

  /** Forget all of them: after a disconnect they come again from the first chunk. */
  clear(): void {
    this.files.clear();
    this.bytes = 0;
  }

  private open(chunk: MediaPayload): Unfinished {
    const known = this.files.get(chunk.id);
    if (known?.about.parts === chunk.parts) return known;

    this.drop(chunk.id);
    const file = { about: chunk, data: new Map<number, string>(), bytes: 0 };
    this.files.set(chunk.id, file);
    return file;
  }

  private drop(id: string): void {
    this.bytes -= this.files.get(id)?.bytes ?? 0;
    this.files.delete(id);
  }

  private keepWithinBounds(): void {
    for (const oldest of this.files.keys()) {
      if (this.files.size <= MAX_FILES && this.bytes <= MAX_BYTES) return;
      this.drop(oldest);
    }
  }
}

/** Each chunk may carry what the others lack. */
function merge(known: MediaPayload, chunk: MediaPayload): MediaPayload {
  return {
    ...chunk,
    ...known,
    mime: known.mime || chunk.mime,
    filename: known.filename || chunk.filename,
    caption: known.caption || chunk.caption,
  };
}

function whole({ about, data }: Unfinished): MediaPayload {
  const pieces = Array.from({ length: about.parts }, (_, part) => data.get(part) ?? '');
  return { ...about, part: about.parts - 1, final: true, data: joinBase64(pieces) };
}
